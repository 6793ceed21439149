import { type ChildProcess, fork } from 'node:child_process';
import type { Agent as HttpAgent } from 'node:http';
import { extname } from 'node:path';
import { type Logger, reasonOf } from '../../log.ts';
import { SMALL_HEAP } from '../../runtime/heap.ts';
import { Agent } from '../../runtime/node-http.ts';
import { endOf, type ProcessEnd } from '../../runtime/process-end.ts';
import type { PagesMessage, PagesSettings } from './settings.ts';

const REST_MS = 15 * 60_000; // as long as failed sign-ins count, which the process has in memory
const START_MS = 30_000; // as long as a request waits for the start
const STEADY_MS = 60_000; // a process that lived longer begins the pauses anew
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 60_000;
const END_MS = 500;

/** There is no process now. Nothing was asked of the pages. */
export class PagesUnavailable extends Error {
  override readonly name = 'PagesUnavailable';
  /** Until it is started again. */
  readonly seconds: number;
  constructor(seconds: number) {
    super(`the administration pages start again in ${seconds} s`);
    this.seconds = seconds;
  }
}

/** Where the process listens, and connections to it. */
export interface PagesAddress {
  readonly port: number;
  readonly agent: HttpAgent;
}

/**
 * The process of the administration pages (pages-main.ts): started when it is first needed, ended
 * after a quarter of an hour without a request, and started again after a crash, with pauses that double.
 * However long a start takes on a busy machine, it is waited for: a process begun anew would take as long.
 * It ends by itself when its channel to this process closes, as after a `kill -9`.
 */
export class PagesProcess {
  readonly #settings: PagesSettings;
  readonly #log: Logger;
  readonly #restMs: number;
  readonly #startMs: number;
  #child: ChildProcess | null = null;
  /** The end of the process started last. */
  #ended: Promise<ProcessEnd> | null = null;
  #address: Promise<PagesAddress> | null = null;
  #rest: NodeJS.Timeout | null = null;
  #crashes = 0;
  #notBefore = 0;
  #closed = false;

  constructor(settings: PagesSettings, log: Logger, restMs = REST_MS, startMs = START_MS) {
    this.#settings = settings;
    this.#log = log;
    this.#restMs = restMs;
    this.#startMs = startMs;
  }

  /** Starts the process if need be. To be called for every request. @throws PagesUnavailable */
  address(): Promise<PagesAddress> {
    this.#rest?.refresh();
    if (this.#address !== null) return this.#address;
    const pause = this.#notBefore - performance.now();
    if (pause > 0 || this.#closed)
      return Promise.reject(new PagesUnavailable(Math.max(1, Math.ceil(pause / 1000))));
    return this.#start();
  }

  /** Ends the process, after half a second by force. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#end();
  }

  #start(): Promise<PagesAddress> {
    const began = performance.now();
    const agent = new Agent({ keepAlive: true });
    let child: ChildProcess;
    try {
      // beside this file, as source and compiled
      child = fork(new URL(`../pages-main${extname(import.meta.filename)}`, import.meta.url), {
        execArgv: [...process.execArgv, ...SMALL_HEAP],
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      });
    } catch (error) {
      // under --permission it needs --allow-child-process
      return Promise.reject(this.#crashed(began, { reason: reasonOf(error) }));
    }
    this.#child = child;
    this.#ended = endOf(child, 'exit');
    let waiting = Promise.withResolvers<PagesAddress>();
    this.#address = waiting.promise;
    const slow = setInterval(() => {
      const seconds = Math.round((performance.now() - began) / 1000);
      this.#log.warn({ seconds }, 'admin: the process of the pages is slow to start; it goes on');
      waiting.reject(new PagesUnavailable(1));
      waiting = Promise.withResolvers();
      waiting.promise.catch(() => {}); // perhaps no request waits
      if (this.#child === child) this.#address = waiting.promise;
    }, this.#startMs);
    child.on('message', (message: PagesMessage) => {
      if ('line' in message) return this.#write(message.line);
      clearInterval(slow);
      waiting.resolve({ port: message.port, agent });
      this.#rest = setTimeout(() => {
        if (Object.keys(agent.sockets).length > 0) this.#rest?.refresh();
        else void this.#end();
      }, this.#restMs).unref();
    });
    void this.#ended.then((end) => {
      clearInterval(slow);
      agent.destroy();
      if (this.#child !== child) return waiting.reject(new PagesUnavailable(1)); // it was ended by this process
      waiting.reject(this.#crashed(began, end));
    });
    if (child.connected) child.send(this.#settings);
    return this.#address;
  }

  #crashed(began: number, why: object): PagesUnavailable {
    const now = performance.now();
    this.#crashes = now - began > STEADY_MS ? 1 : this.#crashes + 1;
    const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#crashes - 1));
    this.#notBefore = now + pause;
    this.#forget();
    this.#log.error(
      { ...why, pause_ms: pause },
      'admin: the process of the pages ended unexpectedly',
    );
    return new PagesUnavailable(Math.ceil(pause / 1000));
  }

  #forget(): ChildProcess | null {
    const child = this.#child;
    if (this.#rest !== null) clearTimeout(this.#rest);
    this.#child = this.#address = this.#rest = null;
    return child;
  }

  async #end(): Promise<void> {
    const child = this.#forget();
    if (child === null) return;
    if (child.connected) child.disconnect();
    const timer = setTimeout(() => child.kill('SIGKILL'), END_MS);
    await this.#ended;
    clearTimeout(timer);
  }

  /** Writes a line of the other process to the log of this one. */
  #write(line: string): void {
    const { level, time: _, msg, ...facts } = JSON.parse(line);
    const name = this.#log.levels.labels[level] as 'error';
    this.#log[name](facts, msg);
  }
}
