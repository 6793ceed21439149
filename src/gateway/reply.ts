import type { ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { GatewayError } from '../domain/errors.ts';
import { BareResponse } from '../http/fast-response.ts';

/** A body of more bytes leaves as they are, for less than making them text would cost. */
export const MOST_TEXT = 65_536;

/** The client's side of one request: every answer leaves through here and carries our own request id. */
export class Reply {
  readonly requestId: string;
  readonly res: ServerResponse;
  /** Who handles the answer; told when the client's side is over, one way or the other. */
  watcher: { onClientClose(): void } | null = null;
  /** The status sent; 0 while nothing was. */
  status = 0;
  /** When the upstream's answer was seen to end, or was given up; monotonic milliseconds, NaN before. */
  endedAt = Number.NaN;
  /** When the first bytes of a stream left, and the last of any answer. */
  streamedAt = Number.NaN;
  leftAt = Number.NaN;

  constructor(res: ServerResponse, requestId: string) {
    this.res = res;
    this.requestId = requestId;
  }

  /**
   * A whole JSON answer in one write.
   * @param body as bytes, or as latin1 text
   */
  json(status: number, body: Buffer | string): void {
    if (this.#taken()) return;
    const { res, requestId } = this;
    this.status = status;
    // as latin1 text head and body leave in one write instead of a writev: 12 % of the whole request
    if (typeof body !== 'string' && body.length <= MOST_TEXT) body = body.latin1Slice();
    if (res instanceof BareResponse && typeof body === 'string' && status === 200) {
      res.sendJson(requestId, body);
      this.leftAt = performance.now();
      res.sent();
    } else {
      const type = 'application/json';
      res.writeHead(status, ['content-type', type, 'content-length', `${body.length}`, 'x-request-id', requestId]);
      if (typeof body === 'string') res.end(body, 'latin1');
      else res.end(body);
      this.leftAt = performance.now();
    }
  }

  /** The one writer of error answers (spec section 7). */
  error(error: GatewayError, closeConnection = false): void {
    if (this.#taken()) return;
    this.status = error.status;
    const body = Buffer.from(error.body);
    const headers = [
      'content-type',
      'application/json',
      'content-length',
      `${body.length}`,
      'x-request-id',
      this.requestId,
    ];
    if (error.retryAfter !== undefined) headers.push('retry-after', error.retryAfter);
    if (error.retry !== undefined) headers.push('x-should-retry', `${error.retry}`);
    if (closeConnection) headers.push('connection', 'close');
    this.res.writeHead(error.status, headers);
    this.res.end(body);
    this.leftAt = performance.now();
  }

  /**
   * Sends the head of an event stream; its bytes follow by way of `res`.
   * @returns whether they have to be framed as HTTP chunks: Node leaves that to the caller
   */
  stream(): boolean {
    this.status = 200;
    this.streamedAt = performance.now();
    const { res } = this;
    res.writeHead(200, [
      'content-type',
      'text/event-stream; charset=utf-8',
      'cache-control',
      'no-cache',
      'x-accel-buffering',
      'no', // nginx in front would hold events back
      'x-request-id',
      this.requestId,
    ]);
    const framed = res.chunkedEncoding; // not for HTTP/1.0
    res.chunkedEncoding = false;
    return framed;
  }

  #taken(): boolean {
    return this.res.headersSent || this.res.destroyed;
  }
}
