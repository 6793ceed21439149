import type { Socket } from 'node:net';

/** Requests up to this size, head and body, leave in one write. */
const DESK_BYTES = 65_536;

/**
 * Where requests are put together. One buffer serves them all, one after the other, as long
 * as the system takes at once what is written; a buffer per request would be garbage outside
 * V8's heap.
 */
export class Desk {
  readonly #encrypted: boolean;
  #buffer = Buffer.allocUnsafeSlow(DESK_BYTES);

  /** @param encrypted connections are TLS: what is written is taken later, so each request has a buffer of its own */
  constructor(encrypted: boolean) {
    this.#encrypted = encrypted;
  }

  /**
   * Sends a request.
   * @param head all of it but the content-length and the empty line
   */
  write(socket: Socket, head: string, body: readonly Buffer[]): void {
    let length = 0;
    for (let k = 0; k < body.length; k++) length += (body[k] as Buffer).length;
    head += `content-length: ${length}\r\n\r\n`;
    if (head.length + length > DESK_BYTES) return writePieces(socket, head, body);
    const buffer = this.#encrypted ? Buffer.allocUnsafe(head.length + length) : this.#buffer;
    let at = buffer.latin1Write(head, 0);
    for (let k = 0; k < body.length; k++) at += (body[k] as Buffer).copy(buffer, at);
    socket.write(buffer.subarray(0, at));
    // it goes with what waits
    if (buffer === this.#buffer && socket.writableLength > 0) this.#buffer = Buffer.allocUnsafeSlow(DESK_BYTES);
  }
}

function writePieces(socket: Socket, head: string, body: readonly Buffer[]): void {
  socket.cork();
  socket.write(head, 'latin1');
  for (const piece of body) socket.write(piece);
  socket.uncork();
}
