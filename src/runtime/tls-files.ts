import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import type { TlsOptions, Server as TlsServer } from 'node:tls';

/** How often the files are checked for a new certificate. */
const CHECK_MS = 10_000;
/** The part of a certificate's time that is left when it is time to renew it: nine days of ninety. */
const SOON = 1 / 10;

/** What is to be told of the files. */
interface TlsEvents {
  /** Changed files cannot be used; the certificate before stays in use. */
  failed(error: Error): void;
  /** The certificate in use ends soon, or has ended and clients refuse it. Called once for each. */
  ends(at: Date, isOver: boolean): void;
}

/** Certificate and key of the listeners: two PEM files, which are read again when they change. */
export class TlsFiles {
  readonly #certPath: string;
  readonly #keyPath: string;
  readonly #servers: TlsServer[] = [];
  readonly #events: TlsEvents;
  readonly #ticketKeys: Buffer | undefined;
  #timer: NodeJS.Timeout | null = null;
  #seen: string;
  #certificate: X509Certificate;
  #told: 'nothing' | 'soon' | 'over' = 'nothing';

  /**
   * @param ticketKeys 48 bytes that encrypt session tickets; Node's own unless given
   * @throws Error when a file cannot be read
   */
  constructor(certPath: string, keyPath: string, events: TlsEvents, ticketKeys?: Buffer) {
    this.#certPath = certPath;
    this.#keyPath = keyPath;
    this.#events = events;
    this.#ticketKeys = ticketKeys;
    this.#seen = this.#stamp();
    this.#certificate = this.#read();
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
    if (this.#timer !== null) return;
    this.#timer = setInterval(() => this.check(), CHECK_MS).unref();
    this.#tellEnd(Date.now());
  }

  /** Takes files that changed, and looks whether the certificate ends. @param now milliseconds since the epoch */
  check(now = Date.now()): void {
    try {
      this.#renew();
    } catch (error) {
      this.#events.failed(error as Error);
    }
    this.#tellEnd(now);
  }

  #renew(): void {
    const stamp = this.#stamp();
    if (stamp === this.#seen) return;
    for (const server of this.#servers) server.setSecureContext(this.options);
    this.#certificate = this.#read();
    this.#told = 'nothing';
    this.#seen = stamp; // not before: a pair that was half written is tried again
  }

  #tellEnd(now: number): void {
    const [begins, ends] = [this.#certificate.validFromDate.getTime(), this.#certificate.validToDate.getTime()];
    const state = now >= ends ? 'over' : ends - now < (ends - begins) * SOON ? 'soon' : 'nothing';
    if (state === this.#told) return;
    this.#told = state;
    if (state !== 'nothing') this.#events.ends(new Date(ends), state === 'over');
  }

  #read(): X509Certificate {
    return new X509Certificate(readFileSync(this.#certPath));
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  #stamp(): string {
    return [this.#certPath, this.#keyPath].map((path) => `${statSync(path).mtimeMs} ${statSync(path).ino}`).join();
  }
}
