import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';

/** First byte of the protocol message that holds a statement's parameters. */
const BIND = 0x42;

/**
 * Sends a large text in place of a token that the driver was given for it. The driver takes only strings and
 * copies each three times, into memory outside V8's heap; so this saves 1.5 µs of each KB.
 *
 *   B length … length token …  ─>  B length … length | text | …
 */
export class LargeParameter {
  /** So long that the driver sends it at once, with nothing else waiting. */
  readonly #token = randomUUID().padEnd(1024, '.');
  #text: Buffer | null = null;

  /** @returns the token to give to the driver */
  set(text: Buffer): string {
    this.#text = text;
    return this.#token;
  }

  /** Forgets a text that was not sent. */
  clear(): void {
    this.#text = null;
  }

  /** Replaces the token in the bytes that are written to a socket. */
  attach(socket: Socket): void {
    const write = socket.write.bind(socket) as (chunk: Buffer, done?: () => void) => boolean;
    const send = (message: Buffer, done?: () => void): boolean => {
      const text = this.#text;
      if (text === null) return write(message, done);
      const at = message.indexOf(this.#token);
      if (at < 0 && message[0] !== BIND) return write(message, done);
      // fail rather than let the server take the token for the text
      if (at < 0 || message[0] !== BIND)
        throw new Error('the driver sends parameters in another way');
      this.#text = null;
      message.writeUInt32BE(message.readUInt32BE(1) + text.length - this.#token.length, 1);
      message.writeUInt32BE(text.length, at - 4);
      socket.cork();
      write(message.subarray(0, at));
      write(text);
      const flows = write(message.subarray(at + this.#token.length), done);
      socket.uncork();
      return flows;
    };
    socket.write = send as Socket['write'];
  }
}
