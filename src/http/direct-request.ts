import type { Socket } from 'node:net';
import type { AnswerBytes } from '../json/splice.ts';
import type { BufferPool } from '../runtime/buffer-pool.ts';
import type {
  AnswerUnderWay,
  BodySink,
  ClientRequest,
  ClientResponse,
  ResponseListener,
  ResponseStream,
} from './exchange.ts';
import { FramedStream, STREAM_BUFFER, type StreamedResponse } from './framed-stream.ts';
import { type ReadHead, rawHeadersOf } from './head-reader.ts';
import { lingerAfterAnswer } from './linger.ts';
import type { RequestHead } from './request-head.ts';
import { answerHead } from './response-head.ts';

const NONE = Buffer.alloc(0);

/** A request whose head was read without Node's parser. Its body is here, or arrives. */
export class DirectRequest implements ClientRequest {
  readonly method: string;
  readonly url: string;
  readonly head: RequestHead;
  readonly httpVersionMinor = 1;
  readonly socket: Socket;
  /** Where the next bytes of the body are to be read to; null: not to memory of its sink. */
  room: Buffer | null = null;
  readonly #read: ReadHead;
  #body: Buffer;
  /** Bytes of the body that are still to come. */
  left: number;
  #sink: BodySink | null = null;

  /** @param body what of it has arrived; only until `keep` is called, where more is to come */
  constructor(socket: Socket, read: ReadHead, body: Buffer) {
    this.socket = socket;
    this.method = read.method;
    this.url = read.url;
    this.head = read.head;
    this.#read = read;
    this.#body = body;
    this.left = Math.max(0, read.head.contentLength) - body.length;
  }

  get rawHeaders(): readonly string[] {
    return rawHeadersOf(this.#read);
  }

  get complete(): boolean {
    return this.left === 0;
  }

  /** Returns the body and keeps no reference: a streamed answer lasts longer than the body is needed. */
  takeBody(): Buffer | null {
    if (this.left > 0) return null;
    const body = this.#body;
    this.#body = NONE;
    return body;
  }

  readBody(sink: BodySink): void {
    this.#sink = sink;
    const body = this.#body;
    this.#body = NONE;
    const goesOn = body.length === 0 || sink.onPiece(body, 'lent');
    this.room = sink.room(this.left);
    if (goesOn) this.readOn();
  }

  readOn(): void {
    if (this.left > 0) this.socket.resume();
  }

  /** Keeps what has arrived until the body is asked for. @returns whether it was asked for already */
  keep(): boolean {
    if (this.#sink !== null) return true;
    this.#body = Buffer.from(this.#body);
    return false;
  }

  /**
   * Takes the next bytes of the body, no more than are still to come. Not before it was asked for.
   * @param isOwn whether they have memory of their own. They may be those of the room
   * @returns false to read nothing more until `readOn`
   */
  take(bytes: Buffer, end: number, isOwn: boolean): boolean {
    const sink = this.#sink as BodySink;
    this.left -= end;
    let goesOn: boolean;
    if (bytes === this.room) goesOn = sink.onFilled(end);
    else
      goesOn = sink.onPiece(
        end === bytes.length ? bytes : bytes.subarray(0, end),
        isOwn ? 'own' : 'lent',
      );
    this.room = this.left > 0 ? sink.room(this.left) : null;
    if (this.left === 0) sink.onWhole();
    return goesOn;
  }
}

/** A connection as its answer sees it. */
export interface AnsweringConnection {
  readonly socket: Socket;
  readonly keepAliveMs: number;
  readonly buffers: BufferPool;
  /** The answer is out. @param last the connection closes */
  onAnswered(last: boolean): void;
}

/** The response to a request that Node's server does not know of. It writes straight to the socket what Node would write. */
export class DirectResponse implements ClientResponse, StreamedResponse, AnswerUnderWay {
  listener: ResponseListener | null = null;
  headersSent = false;
  destroyed = false;
  readonly #connection: AnsweringConnection;
  readonly req: DirectRequest;
  /** The connection closes after this answer. */
  isLast = false;
  /** The whole answer was written. */
  writableEnded = false;
  /** The system has taken the whole answer. */
  #finished = false;
  /** The listener was told that the answer is out, or that the connection closed. */
  #closed = false;

  constructor(connection: AnsweringConnection, req: DirectRequest) {
    this.#connection = connection;
    this.req = req;
  }

  get socket(): Socket {
    return this.#connection.socket;
  }

  get writableLength(): number {
    return this.headersSent && !this.#finished ? this.socket.writableLength : 0;
  }

  get writableFinished(): boolean {
    return this.writableEnded && this.writableLength === 0;
  }

  listen(listener: ResponseListener): void {
    this.listener = listener;
  }

  closeAfter(): void {
    this.isLast = true;
    lingerAfterAnswer(this.req);
  }

  send(status: number, headers: readonly string[], body: AnswerBytes | string): void {
    const { socket } = this;
    const head = this.#head(status, headers, false);
    if (typeof body === 'string') socket.write(head + body, 'latin1');
    else if (Buffer.isBuffer(body) && head.length + body.length <= STREAM_BUFFER)
      this.#write(head, body);
    else {
      socket.cork();
      socket.write(head, 'latin1');
      for (const piece of Buffer.isBuffer(body) ? [body] : body) socket.write(piece);
      socket.uncork();
    }
    this.#end();
  }

  /** Writes both in one piece: as text, they were copied three times more. The bytes that the system did not take keep the buffer. */
  #write(head: string, body: Buffer): void {
    const { socket } = this;
    const { buffers } = this.#connection;
    const buffer = buffers.take();
    const from = buffer.write(head, 0, 'latin1');
    buffer.set(body, from);
    socket.write(buffer.subarray(0, from + body.length));
    if (socket.writableLength === 0) buffers.give(buffer);
  }

  openStream(headers: readonly string[], onDrain: () => void): ResponseStream {
    return new FramedStream(this, headers, this.#connection.buffers, onDrain);
  }

  beginStream(headers: readonly string[]): boolean {
    this.socket.write(this.#head(200, headers, true), 'latin1');
    return true;
  }

  endStream(bytes: Buffer): void {
    this.socket.write(bytes);
    this.#end();
  }

  queue(): boolean {
    return true; // never called: this response has its socket
  }

  writeContinue(): void {} // a request that waits for it is Node's

  destroy(): void {
    this.destroyed = true;
    this.socket.destroy(); // `close` follows
  }

  /** The connection closed, or the answer is out. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.destroyed = true;
    this.listener?.onClose();
  }

  #head(status: number, headers: readonly string[], isChunked: boolean): string {
    if (!this.req.complete) this.closeAfter(); // what is still to come of the body is no request
    const head = answerHead(
      status,
      headers,
      this.isLast ? null : this.#connection.keepAliveMs,
      isChunked,
    );
    this.headersSent = true;
    return head;
  }

  /** Called when the whole answer was written. */
  #end(): void {
    const { socket } = this;
    this.writableEnded = true;
    this.listener?.onSent();
    if (socket.writableLength > 0)
      socket.write('', () => this.#finish()); // called once the answer is out
    else this.#finish();
  }

  #finish(): void {
    this.#finished = true;
    this.close();
    this.#connection.onAnswered(this.isLast);
  }
}
