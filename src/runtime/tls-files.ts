import { X509Certificate } from 'node:crypto';
import { statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Server } from 'node:http';
import { createSecureContext, type TlsOptions, type Server as TlsServer } from 'node:tls';
import { readRegularFile, readRegularFileAside } from './regular-file.ts';

/** How often the files are checked for a new certificate. */
const CHECK_MS = 10_000;
/** How long reading them may take, while the gateway runs. */
const READ_MS = 5000;
/** The part of a certificate's time that is left when it is time to renew it: nine days of ninety. */
const SOON = 1 / 10;

/** Called when the files or the certificate need attention. */
interface TlsEvents {
  /** Changed files cannot be used; the certificate before stays in use. */
  failed(error: Error): void;
  /** The certificate in use ends soon, or has ended and clients refuse it. Called once for each. */
  ends(at: Date, isOver: boolean): void;
}

/** The contents of both files, and a mark of their state. */
interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly stamp: string;
}

/**
 * Certificate and key of the listeners: two PEM files, which are read again when they change. A running gateway reads
 * them aside from its event loop, and regular files alone: a named pipe or a dead network file system stops no request.
 */
export class TlsFiles {
  readonly #certPath: string;
  readonly #keyPath: string;
  readonly #servers: TlsServer[] = [];
  readonly #events: TlsEvents;
  readonly #ticketKeys: Buffer | undefined;
  #timer: NodeJS.Timeout | null = null;
  #pair: Pair;
  #certificate: X509Certificate;
  /** Whether files are being read; a read that never ends is not begun a second time. */
  #isReading = false;
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
    const [cert, key] = this.#paths.map((path) => named(path, () => readRegularFile(path))) as [
      Buffer,
      Buffer,
    ];
    this.#pair = { cert, key, stamp: stampOf(this.#paths.map((path) => statSync(path))) };
    this.#certificate = new X509Certificate(cert);
  }

  /** The options for `https.createServer`. */
  get options(): TlsOptions {
    return this.#optionsOf(this.#pair);
  }

  /** Gives the server each new certificate; connections that are open keep theirs. */
  keepFresh(server: Server): void {
    this.#servers.push(server as unknown as TlsServer);
    if (this.#timer !== null) return;
    this.#timer = setInterval(() => void this.check(), CHECK_MS).unref();
    this.#tellEnd(Date.now());
  }

  /**
   * Takes files that changed, and looks whether the certificate ends. Never rejects.
   * @param now milliseconds since the epoch
   */
  async check(now = Date.now()): Promise<void> {
    if (!this.#isReading) {
      this.#isReading = true;
      const renewed = this.#renew().finally(() => {
        this.#isReading = false;
      });
      await withinReadMs(renewed).catch((error: Error) => this.#events.failed(error));
    }
    this.#tellEnd(now);
  }

  async #renew(): Promise<void> {
    const stamp = stampOf(await Promise.all(this.#paths.map((path) => stat(path))));
    if (stamp === this.#pair.stamp) return;
    const cert = await named(this.#certPath, () => readRegularFileAside(this.#certPath));
    const key = await named(this.#keyPath, () => readRegularFileAside(this.#keyPath));
    const pair = { cert, key, stamp };
    const options = this.#optionsOf(pair);
    createSecureContext(options); // a pair that is half written is tried again, and reaches no server
    for (const server of this.#servers) server.setSecureContext(options);
    this.#certificate = new X509Certificate(cert);
    this.#told = 'nothing';
    this.#pair = pair;
  }

  #optionsOf({ cert, key }: Pair): TlsOptions {
    const options = { cert, key, minVersion: 'TLSv1.2' } as const;
    return this.#ticketKeys === undefined ? options : { ...options, ticketKeys: this.#ticketKeys };
  }

  #tellEnd(now: number): void {
    const [begins, ends] = [
      this.#certificate.validFromDate.getTime(),
      this.#certificate.validToDate.getTime(),
    ];
    const state = now >= ends ? 'over' : ends - now < (ends - begins) * SOON ? 'soon' : 'nothing';
    if (state === this.#told) return;
    this.#told = state;
    if (state !== 'nothing') this.#events.ends(new Date(ends), state === 'over');
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  get #paths(): readonly [string, string] {
    return [this.#certPath, this.#keyPath];
  }
}

function stampOf(files: readonly { readonly mtimeMs: number; readonly ino: number }[]): string {
  return files.map(({ mtimeMs, ino }) => `${mtimeMs} ${ino}`).join();
}

/** Reads, and names the file in the reason for which it cannot be read. */
function named<T>(path: string, read: () => T): T {
  const rethrow = (error: unknown): never => {
    throw new Error(`${JSON.stringify(path)} cannot be read: ${(error as Error).message}`);
  };
  try {
    const value = read();
    return value instanceof Promise ? (value.catch(rethrow) as T) : value;
  } catch (error) {
    return rethrow(error);
  }
}

/** Rejects when reading takes too long; it may still end later. */
async function withinReadMs(reading: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new Error(`not read within ${READ_MS / 1000} s`)),
    READ_MS,
  ).unref();
  try {
    await Promise.race([reading, promise]);
  } finally {
    clearTimeout(timer);
  }
}
