import { performance } from 'node:perf_hooks';
import { type ErrorFormat, GatewayError, REFERENCE_ERRORS } from '../../domain/errors.ts';
import type { ClientResponse, ResponseListener, ResponseStream } from '../../http/exchange.ts';
import { type AnswerBytes, lengthOf } from '../../json/splice.ts';
import { validateHeaderValue } from '../../runtime/node-http.ts';

export interface ReplyListener {
  /** An answer that no relay sent was written, and the client has not read all of it. */
  onReplyWaits(): void;
  /** The client's side of the request is over, by an answer or by a closed connection. */
  onReplyClosed(): void;
  /** The gateway's own code threw while it handled the request. */
  onReplyThrew(error: unknown): void;
}

/** Of a request of which nobody is told anything. */
export const UNHEARD: ReplyListener = { onReplyWaits() {}, onReplyClosed() {}, onReplyThrew() {} };

/** The client's side of one request: every answer is sent here and carries our own request id. */
export class Reply implements ResponseListener {
  readonly requestId: string;
  readonly res: ClientResponse;
  /** How the endpoint's dialect writes errors, and where its SDKs look for the request id. */
  errors: ErrorFormat = REFERENCE_ERRORS;
  /** The relay of the answer. It is told before the listener that the client's side is over. */
  relay: { onClientClose(): void; onThrown?(error: unknown): void } | null = null;
  /** The error that was sent, or that ended a stream. */
  failure: GatewayError | null = null;
  /** The status sent; 0 while nothing was. */
  status = 0;
  /** When the upstream's answer ended or was given up; monotonic milliseconds, NaN before. */
  endedAt = Number.NaN;
  /** When the first bytes of a stream were sent, and the last of any answer. */
  streamedAt = Number.NaN;
  leftAt = Number.NaN;
  readonly #listener: ReplyListener;

  constructor(res: ClientResponse, requestId: string, listener: ReplyListener) {
    this.res = res;
    this.requestId = requestId;
    this.#listener = listener;
    res.listen(this);
  }

  /**
   * Sends a whole JSON answer.
   * @param cost what the call cost in EUR, as decimal text; null where nothing was booked
   */
  json(body: AnswerBytes, cost: string | null = null): void {
    if (this.#isOver()) return;
    this.status = 200;
    const headers = this.headers(lengthOf(body));
    if (cost !== null) headers.push('x-cost-eur', cost);
    this.res.send(200, headers, body);
  }

  /** The one writer of error answers (spec section 7). Never throws. */
  error(error: GatewayError, closeConnection = false): void {
    try {
      if (!this.#isOver()) this.#send(error, closeConnection);
    } catch (thrown) {
      this.#listener.onReplyThrew(thrown);
      this.res.destroy();
    }
  }

  #send(error: GatewayError, closeConnection: boolean): void {
    this.status = error.status;
    this.failure = error;
    const body = Buffer.from(this.errors.body(error, this.requestId));
    const headers = this.headers(body.length);
    if (error.retryAfter !== undefined) headers.push('retry-after', error.retryAfter);
    headers.push(...error.headers);
    // the upstream may have told them
    for (let i = 0; i < headers.length; i += 2)
      validateHeaderValue(headers[i] as string, headers[i + 1] as string);
    if (error.retry !== undefined) headers.push('x-should-retry', `${error.retry}`);
    if (closeConnection) this.res.closeAfter();
    this.res.send(error.status, headers, body);
  }

  /** Begins an event stream; its head is sent with the first bytes. */
  stream(onDrain: () => void): ResponseStream {
    return this.res.openStream(this.streamHeaders(), onDrain);
  }

  protected streamHeaders(): string[] {
    const headers = [
      'content-type',
      'text/event-stream; charset=utf-8',
      'x-accel-buffering',
      'no', // nginx in front would hold events back
      'x-request-id',
      this.requestId,
    ];
    if (this.errors.idHeader !== null) headers.push(this.errors.idHeader, this.requestId);
    return headers;
  }

  onStream(): void {
    this.status = 200;
    this.streamedAt = performance.now();
  }

  onSent(): void {
    this.leftAt = performance.now();
    if (this.relay === null && this.res.writableLength > 0) this.#listener.onReplyWaits();
  }

  onClose(): void {
    try {
      this.relay?.onClientClose();
    } catch (error) {
      this.onThrown(error);
    }
    try {
      this.#listener.onReplyClosed();
    } catch (error) {
      this.#listener.onReplyThrew(error);
    }
  }

  /** Ends the request, and its call where there is one. */
  onThrown(error: unknown): void {
    const { relay } = this;
    if (relay?.onThrown) return relay.onThrown(error);
    this.#listener.onReplyThrew(error);
    if (this.res.headersSent) this.res.destroy();
    else this.error(new GatewayError('internal_error'), true);
  }

  /** The headers of every whole answer. */
  protected headers(length: number): string[] {
    const { requestId } = this;
    const { idHeader } = this.errors;
    const headers = [
      'content-type',
      'application/json',
      'content-length',
      `${length}`,
      'x-request-id',
      requestId,
    ];
    if (idHeader !== null) headers.push(idHeader, requestId);
    return headers;
  }

  /** Whether an answer was begun, or the client is gone. */
  #isOver(): boolean {
    return this.res.headersSent || this.res.destroyed;
  }
}
