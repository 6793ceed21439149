import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { AnswerBytes } from '../json/splice.ts';
import type { RequestHead } from './request-head.ts';

/**
 * Whose memory a piece of a body lies in. `own`: no one else's, so it may be freed once it is copied; `kept`: it stays
 * as it is; `lent`: it is overwritten once the call returns.
 */
export type PieceMemory = 'own' | 'kept' | 'lent';

/** Takes the bytes of a request's body. */
export interface BodySink {
  /** @returns false to read nothing more until `readOn`; a piece that was read already may still come */
  onPiece(bytes: Buffer, memory: PieceMemory): boolean;
  /**
   * Memory of its own into which the next bytes may be read.
   * @param most how many bytes are still to come
   * @returns null: they are to come by `onPiece`
   */
  room(most: number): Buffer | null;
  /** Takes the next bytes, which were read to the beginning of the last room. @returns as `onPiece` does */
  onFilled(bytes: number): boolean;
  onWhole(): void;
  /** One of the other methods threw: a fault of the gateway, which ends this request and no other. */
  onThrown(error: unknown): void;
}

/** A client's request as the gateway reads it, from plain node:http or from the fast path. */
export interface ClientRequest {
  readonly method: string;
  /** The request target as the client sent it (RFC 9112, section 3.2). */
  readonly url: string;
  /** 0 or 1, of HTTP/1.x. */
  readonly httpVersionMinor: number;
  /** Names and values alternate, as the client sent them. */
  readonly rawHeaders: readonly string[];
  readonly head: RequestHead;
  /** Whether the whole request has been received. */
  readonly complete: boolean;
  /** The connection's addresses: of the client, and the one it connected to. Undefined on a Unix socket. */
  readonly socket: {
    /** Over TLS. */
    readonly encrypted?: boolean;
    readonly remoteAddress?: string | undefined;
    readonly localAddress?: string | undefined;
    readonly localPort?: number | undefined;
  };
  /** The body where it came together with the head; null where it has to be read. Called once. */
  takeBody(): Buffer | null;
  /**
   * Reads the body. Called at most once, where `takeBody` returned null.
   * @throws Error where other code has read a part of it already
   */
  readBody(sink: BodySink): void;
  /**
   * Reads on after the sink returned false. Does nothing once the whole body has come: what the connection reads then
   * belongs to the next request.
   */
  readOn(): void;
}

/** Is told how far a response has come. */
export interface ResponseListener {
  /** The head of a streamed answer leaves now. */
  onStream(): void;
  /** The last bytes of the answer were written. */
  onSent(): void;
  /** The answer is out, or the connection closed before that. Called once, last. */
  onClose(): void;
  /** The gateway could not handle the connection any more, which closes once this answer has ended. */
  onThrown(error: unknown): void;
}

/** The response to a client's request. */
export interface ClientResponse {
  readonly headersSent: boolean;
  /** Whether the connection closed, or `destroy` was called. */
  readonly destroyed: boolean;
  /** Whether the system has taken the whole answer. */
  readonly writableFinished: boolean;
  /** Bytes that wait for the client; a write counts until all of it is out. */
  readonly writableLength: number;
  /** null: an earlier answer is still being sent on the same connection, or this one is out. */
  readonly socket: Socket | null;
  listen(listener: ResponseListener): void;
  /** Closes the connection after this answer. A client that still sends its body can read the answer first. */
  closeAfter(): void;
  /** Sends "100 Continue" (RFC 9110, section 10.1.1). */
  writeContinue(): void;
  /**
   * Sends a whole answer.
   * @param headers names and values alternate
   * @param body bytes, or latin1 text: one character for each byte
   */
  send(status: number, headers: readonly string[], body: AnswerBytes | string): void;
  /**
   * Begins an answer of status 200 whose bytes follow; its head leaves with the first of them.
   * @param headers names and values alternate
   * @param onDrain called when the client has caught up after `add` or `flush` returned false
   */
  openStream(headers: readonly string[], onDrain: () => void): ResponseStream;
  /** Closes the connection at once. */
  destroy(): void;
}

/** The body of a streamed answer: bytes gather, and leave together with the next flush. */
export interface ResponseStream {
  /** Whether no gathered bytes wait for a flush. */
  readonly isEmpty: boolean;
  /**
   * Copies the bytes [start, end).
   * @returns false when bytes wait for the client: pause until `onDrain`
   */
  add(buffer: Buffer, start: number, end: number): boolean;
  /**
   * Sends the gathered bytes.
   * @returns false when bytes wait for the client: pause until `onDrain`
   */
  flush(): boolean;
  /** Sends the gathered bytes and the end of the answer. */
  end(): void;
  /** Discards the gathered bytes. */
  drop(): void;
}

/** The connections of a server, and what each is busy with. */
export interface Connections {
  readonly open: ReadonlySet<Socket>;
  /** The answer a connection is busy with; null when it is idle. */
  answering(socket: Duplex): AnswerUnderWay | null;
  /** Takes no more requests from a connection: what it still sends is discarded. */
  stopReading(socket: Socket): void;
}

/** An answer as those see it who look after its connection: one of node:http, or one that is as alike. */
export interface AnswerUnderWay {
  readonly headersSent: boolean;
  /** Whether all of it was written. */
  readonly writableEnded: boolean;
  readonly req: { readonly httpVersionMinor: number; readonly complete: boolean };
  /** Whoever gives this answer; missing with plain node:http, where each event has a boundary of its own. */
  readonly listener?: ResponseListener | null;
  /** Closes the connection after it. */
  closeAfter?(): void;
  /** Calls back when it is out; missing where nothing behind its request was read before. */
  once?(event: 'close', then: () => void): unknown;
}

export type RequestHandler = (req: ClientRequest, res: ClientResponse) => void;
