import { type ChildProcess, fork } from 'node:child_process';
import type { Socket } from 'node:net';
import { extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConfigError } from '../config.ts';
import type { Logger } from '../log.ts';
import type { Family } from '../metrics.ts';
import { endOf, type ProcessEnd } from '../runtime/process-end.ts';
import type { FromWorker, Leave, ToWorker, WorkerQuery, WorkerStart } from './messages.ts';
import type { Taker } from './spread.ts';

const ANSWER_MS = 2000;
/** A connection that has not arrived by then may be lost: a process without free descriptors cannot receive one. */
const ARRIVAL_MS = 2000;
/** The time that a worker may take to end, besides its requests. The engine's close takes 12 s at most. */
const CLOSE_MS = 15_000;

/** The supervisor's side of one worker (worker-main.ts). */
export class WorkerProcess implements Taker<Socket> {
  /** The worker's place, from 1. */
  readonly number: number;
  /** Resolves when it takes connections. @throws ConfigError, Error: it cannot start, and has ended */
  readonly ready: Promise<void>;
  /** Resolves when it has ended, or could not be started. */
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  readonly #log: Logger;
  /** Connections on their way, the first of them being sent: Node sends one at a time. */
  readonly #pending: Socket[] = [];
  #arrival: NodeJS.Timeout | undefined;
  #taken = 0;
  #open = 0;
  readonly #questions = new Map<number, (families: readonly Family[]) => void>();
  #asked = 0;
  /** Its last words; null: it was killed, or has not ended. */
  left: Leave | null = null;
  /** Its metrics when they were last read. */
  families: readonly Family[] = [];
  isReady = false;
  /** It was told to end. */
  leaving = false;

  /** @throws when the system refuses a process at once */
  constructor(start: WorkerStart, log: Logger) {
    this.number = start.worker;
    this.#log = log;
    // beside this file, as source and compiled
    const child = fork(new URL(`./worker-main${extname(import.meta.filename)}`, import.meta.url), {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#child = child;
    this.ended = endOf(child, 'close');
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.ready = promise;
    promise.catch(() => {}); // whoever stops meanwhile does not wait for it
    child.on('message', (message: FromWorker) => {
      if (message === 'ready') {
        this.isReady = true;
        resolve();
      } else if ('taken' in message) this.#onTaken(message);
      else if ('answer' in message) this.#questions.get(message.answer)?.(message.families);
      else if ('left' in message) this.left = message.left;
      else {
        const { mistakes, message: why } = message.failed;
        reject(mistakes.length > 0 ? new ConfigError(mistakes) : new Error(why));
      }
    });
    void this.ended.then((end) => {
      const how =
        'reason' in end ? end.reason : `it ended: ${end.signal ?? `exit code ${end.code}`}`;
      reject(new Error(`worker ${start.worker} could not be started (${how})`));
      for (const resolve of this.#questions.values()) resolve([]);
    });
    this.#send({ start });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get load(): number {
    return this.#open + this.#pending.length;
  }

  /** Connections wait here while one is sent, so that they can go elsewhere when the process dies. */
  give(connection: Socket): void {
    this.#pending.push(connection);
    if (this.#pending.length === 1) this.#sendNext();
  }

  /** To be called once it has ended. @returns connections that it was not sent; the one under way is closed */
  unsent(): Socket[] {
    clearTimeout(this.#arrival);
    const [sent, ...rest] = this.#pending.splice(0);
    sent?.destroy();
    return rest;
  }

  /** Books at once what dead workers left. */
  adopt(): void {
    this.#send('adopt');
  }

  /** @returns null: it does not answer */
  async ask(what: WorkerQuery): Promise<readonly Family[] | null> {
    if (!this.#child.connected) return null;
    const id = ++this.#asked;
    const { promise, resolve } = Promise.withResolvers<readonly Family[] | null>();
    this.#questions.set(id, resolve);
    const timer = setTimeout(() => resolve(null), ANSWER_MS);
    this.#send({ ask: what, id });
    const families = await promise;
    clearTimeout(timer);
    this.#questions.delete(id);
    if (what === 'metrics' && families !== null && families.length > 0) this.families = families;
    return families;
  }

  /**
   * Lets it finish its requests and end; by force when it takes too long. To be called when it gets no more
   * connections: those on their way to it arrive before.
   */
  async leave(seconds: number): Promise<void> {
    this.leaving = true;
    const timer = setTimeout(
      () => {
        this.#log.error({ worker: this.number }, 'a worker did not end in time and was killed');
        this.kill();
      },
      seconds * 1000 + CLOSE_MS,
    );
    await this.ready.catch(() => {});
    await this.#emptied();
    this.#send({ leave: seconds });
    await this.ended;
    clearTimeout(timer);
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  #onTaken({ taken, open }: { taken: number; open: number }): void {
    this.#open = open;
    for (; this.#taken < taken; this.#taken++) this.#arrived();
  }

  /** The connection under way is there, or lost. */
  #arrived(): void {
    clearTimeout(this.#arrival);
    this.#pending.shift()?.destroy(); // this process's copy
    if (this.#pending.length > 0) this.#sendNext();
    else this.#onEmpty();
  }

  #sendNext(): void {
    this.#send('connection', this.#pending[0]);
    this.#arrival = setTimeout(() => void this.#look(), ARRIVAL_MS);
  }

  /** Messages keep their order: when a later one was answered, the connection does not come any more. */
  async #look(): Promise<void> {
    const [connection] = this.#pending;
    while (this.#child.connected && (await this.ask('alive')) === null);
    await sleep(ANSWER_MS);
    if (connection === undefined || this.#pending[0] !== connection) return;
    this.#log.error(
      { worker: this.number },
      'a worker could not receive a connection; it was closed',
    );
    this.#arrived();
  }

  #onEmpty = (): void => {};

  /** Resolves when every connection has arrived, or never will. */
  async #emptied(): Promise<void> {
    if (this.#pending.length === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onEmpty = resolve;
    await Promise.race([promise, this.ended]);
  }

  /** @param connection stays open here too: Node would not close one that a process died before it received */
  #send(message: ToWorker, connection?: Socket): void {
    if (this.#child.connected) this.#child.send(message, connection, { keepOpen: true }, () => {});
  }
}
