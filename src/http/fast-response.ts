import type { AnswerBytes } from '../json/splice.ts';
import type { BufferPool } from '../runtime/buffer-pool.ts';
import { ServerResponse } from '../runtime/node-http.ts';
import type { ClientResponse, ResponseListener, ResponseStream } from './exchange.ts';
import type { FastRequest } from './fast-request.ts';
import { FramedStream, type StreamedResponse } from './framed-stream.ts';
import { lingerAfterAnswer } from './linger.ts';
import { answerHead, endWith } from './response-head.ts';

/** The fields that Node's own `writeHead` leaves set. */
interface Internals {
  _header: string | null;
  /** The connection closes after this answer. */
  _last: boolean;
  readonly _keepAliveTimeout: number;
}

/** A response of Node that makes its heads itself. */
export class FastResponse
  extends ServerResponse<FastRequest>
  implements ClientResponse, StreamedResponse
{
  listener: ResponseListener | null = null;
  /** Set before the response is handed out. */
  buffers!: BufferPool;

  listen(listener: ResponseListener): void {
    this.listener = listener;
    this.on('close', () => listener.onClose());
  }

  closeAfter(): void {
    this.shouldKeepAlive = false;
    lingerAfterAnswer(this.req);
  }

  send(status: number, headers: readonly string[], body: AnswerBytes | string): void {
    this.#setHead(status, headers, false);
    endWith(this, body);
    this.listener?.onSent();
  }

  openStream(headers: readonly string[], onDrain: () => void): ResponseStream {
    return new FramedStream(this, headers, this.buffers, onDrain);
  }

  beginStream(headers: readonly string[]): boolean {
    const isChunked = this.req.httpVersionMinor > 0;
    if (!isChunked) this.shouldKeepAlive = false; // the end of the connection is that of the body
    this.#setHead(200, headers, isChunked);
    this.flushHeaders();
    return isChunked;
  }

  queue(bytes: Buffer, onDrain: (() => void) | null): boolean {
    const flows = this.write(bytes);
    if (!flows && onDrain !== null) this.once('drain', onDrain);
    return flows;
  }

  endStream(bytes: Buffer): void {
    this.end(bytes);
    this.listener?.onSent();
  }

  #setHead(status: number, headers: readonly string[], isChunked: boolean): void {
    const internals = this as unknown as Internals;
    const idleMs = this.shouldKeepAlive && !internals._last ? internals._keepAliveTimeout : null;
    internals._header = answerHead(status, headers, idleMs, isChunked);
    if (idleMs === null) internals._last = true;
  }
}
