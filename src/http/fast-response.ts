import type { BufferPool } from '../runtime/buffer-pool.ts';
import { ServerResponse } from '../runtime/node-http.ts';
import type { ClientResponse, ResponseListener, ResponseStream } from './exchange.ts';
import type { FastRequest } from './fast-request.ts';
import { FramedStream } from './framed-stream.ts';

const JSON_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ';

/** The fields that Node's own `writeHead` leaves set. */
interface Internals {
  _header: string | null;
  /** The connection closes after this answer. */
  _last: boolean;
  readonly _keepAliveTimeout: number;
}

/**
 * A response of Node's that writes the head of the most frequent answer itself: Node takes 2 µs to
 * check each header.
 */
export class FastResponse extends ServerResponse<FastRequest> implements ClientResponse {
  listener: ResponseListener | null = null;
  /** Set before the response is handed out. */
  buffers!: BufferPool;

  listen(listener: ResponseListener): void {
    this.listener = listener;
    this.on('close', () => listener.onClose());
  }

  closeAfter(): void {
    this.shouldKeepAlive = false;
  }

  sendJson(requestId: string, body: string, cost: string | null): void {
    const internals = this as unknown as Internals;
    const idleMs = this.shouldKeepAlive ? internals._keepAliveTimeout : null;
    internals._header = jsonHead(requestId, body.length, cost, idleMs);
    if (idleMs === null) internals._last = true;
    this.end(body, 'latin1');
    this.listener?.onSent();
  }

  send(status: number, headers: readonly string[], body: Buffer | string): void {
    this.writeHead(status, headers as string[]);
    if (typeof body === 'string') this.end(body, 'latin1');
    else this.end(body);
    this.listener?.onSent();
  }

  openStream(headers: readonly string[], onDrain: () => void): ResponseStream {
    return new FramedStream(this, headers, this.buffers, onDrain);
  }
}

/** The head of a JSON answer of status 200. @param idleMs how long the connection stays open; null: it closes */
export function jsonHead(requestId: string, length: number, cost: string | null, idleMs: number | null): string {
  const connection = idleMs === null ? 'close' : `keep-alive\r\nKeep-Alive: timeout=${Math.floor(idleMs / 1000)}`;
  const costLine = cost === null ? '' : `x-cost-eur: ${cost}\r\n`;
  return `${JSON_HEAD}${length}\r\nx-request-id: ${requestId}\r\n${costLine}Date: ${httpDate()}\r\nConnection: ${connection}\r\n\r\n`;
}

let second = Number.NaN;
let date = '';

/** The time of day as HTTP writes it (RFC 9110, section 5.6.7), made once a second. */
function httpDate(): string {
  const now = Date.now();
  if (!(now >= second && now < second + 1000)) {
    second = now - (now % 1000);
    date = new Date(second).toUTCString();
  }
  return date;
}
