import { readFileSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import type { TlsOptions, Server as TlsServer } from 'node:tls';

/** How often the files are checked for a new certificate. */
const CHECK_MS = 10_000;

/** Certificate and key of the listeners: two PEM files, which are read again when they change. */
export class TlsFiles {
  readonly #certPath: string;
  readonly #keyPath: string;
  readonly #servers: TlsServer[] = [];
  readonly #onError: (error: Error) => void;
  readonly #ticketKeys: Buffer | undefined;
  #timer: NodeJS.Timeout | null = null;
  #seen: string;

  /**
   * @param onError called when changed files cannot be used; the certificate before stays in use
   * @param ticketKeys 48 bytes that encrypt session tickets; Node's own unless given
   * @throws Error when a file cannot be read
   */
  constructor(certPath: string, keyPath: string, onError: (error: Error) => void, ticketKeys?: Buffer) {
    this.#certPath = certPath;
    this.#keyPath = keyPath;
    this.#onError = onError;
    this.#ticketKeys = ticketKeys;
    this.#seen = this.#stamp();
  }

  /** What `https.createServer` needs. */
  get options(): TlsOptions {
    const options = {
      cert: readFileSync(this.#certPath),
      key: readFileSync(this.#keyPath),
      minVersion: 'TLSv1.2',
    } as const;
    return this.#ticketKeys === undefined ? options : { ...options, ticketKeys: this.#ticketKeys };
  }

  /** Gives the server each new certificate; connections that are open keep theirs. */
  keepFresh(server: Server): void {
    this.#servers.push(server as unknown as TlsServer);
    this.#timer ??= setInterval(() => this.check(), CHECK_MS).unref();
  }

  check(): void {
    try {
      const stamp = this.#stamp();
      if (stamp === this.#seen) return;
      for (const server of this.#servers) server.setSecureContext(this.options);
      this.#seen = stamp; // not before: a pair that was half written is tried again
    } catch (error) {
      this.#onError(error as Error);
    }
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  #stamp(): string {
    return [this.#certPath, this.#keyPath].map((path) => `${statSync(path).mtimeMs} ${statSync(path).ino}`).join();
  }
}
