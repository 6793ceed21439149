import childProcess, { type ChildProcess, type ForkOptions } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { syncBuiltinESMExports } from 'node:module';
import { pino } from 'pino';
import type { PagesMessage, PagesSettings } from '../../src/admin/process/settings.ts';

/**
 * The pages of gateways in this process run in it too, behind the same listener: a process for those of each gateway
 * takes a second of CPU to start, and compiles every page anew. OWN_PAGES leaves them a process, where that is what is tried.
 */
class PagesHere extends EventEmitter {
  readonly pid = process.pid;
  connected = true;
  #closed: Promise<unknown> = Promise.resolve();
  #close = () => {};

  /** Serves with the settings as the channel brings them: as JSON. */
  send(settings: PagesSettings): void {
    this.#closed = this.#serve(JSON.parse(JSON.stringify(settings)));
  }

  async #serve(settings: PagesSettings): Promise<void> {
    const { promise: isOver, resolve } = Promise.withResolvers<void>();
    this.#close = resolve;
    const { servePages } = await import('../../src/admin/pages-server.ts');
    const tell = (message: PagesMessage) => this.connected && this.emit('message', message);
    const log = pino({ level: settings.logLevel, base: null }, { write: (line) => tell({ line }) });
    const { server, db, port } = await servePages(settings, log);
    tell({ port });
    await isOver;
    server.close();
    server.closeAllConnections();
    await db.close();
  }

  disconnect(): void {
    this.connected = false;
    this.#close();
    void this.#closed.then(() => this.emit('exit', 0, null));
  }

  kill(): void {} // it ends once its database is closed
}

const { fork } = childProcess;
childProcess.fork = ((file: string | URL, options: ForkOptions) =>
  /\/admin\/pages-main\.ts$/.test(`${file}`) && process.env.OWN_PAGES === undefined
    ? (new PagesHere() as unknown as ChildProcess)
    : fork(file, options)) as typeof fork;
syncBuiltinESMExports();
