import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { FULL, FULL_MS } from '../gateway/listener.ts';
import { type Logger, reasonOf } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { ProcessEnd } from '../runtime/process-end.ts';
import { JoinedMetrics } from './joined-metrics.ts';
import type { WorkerStart } from './messages.ts';
import { Spread } from './spread.ts';
import { WorkerProcess } from './worker-process.ts';

const STEADY_MS = 60_000; // a worker that lived longer begins the pauses anew
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 30_000;

interface SupervisorOptions {
  readonly count: number;
  readonly startOf: (worker: number) => WorkerStart;
  readonly drainSeconds: number;
  /** The most connections of all workers together. */
  readonly maxConnections: number;
  /** Workers write their records to disk first. */
  readonly hasSpool: boolean;
  /** The supervisor's own. */
  readonly metrics: Metrics;
  readonly log: Logger;
}

/** The place of a worker. */
interface Place {
  readonly number: number;
  /** The worker that takes connections in this place; null while none does. */
  current: WorkerProcess | null;
  startedAt: number;
  crashes: number;
  /** Another worker is being started for it. */
  starting: boolean;
}

/** Starts workers, gives them connections, and replaces those that end and, when asked to, all of them. */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #places: readonly Place[];
  readonly #spread = new Spread<Socket>();
  readonly #joined = new JoinedMetrics();
  /** Every process that runs, those that start or leave included. */
  readonly #running = new Set<WorkerProcess>();
  readonly #stopping = new AbortController();
  #replacing: Promise<void> | null = null;
  #replaceAgain = false;
  #restarts = 0;
  #toldFullAt = Number.NEGATIVE_INFINITY;
  #cut = 0;
  #lost = 0;
  /** Workers that did not tell what they lost when all were stopped. */
  #untold = 0;

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#places = Array.from({ length: options.count }, (_, k) => {
      return { number: k + 1, current: null, startedAt: 0, crashes: 0, starting: false };
    });
    const { metrics } = options;
    metrics.gauge('tollgate_workers', 'Workers that take connections', () => this.#spread.takers);
    metrics.gauge('tollgate_worker_connections', 'Client connections of each worker', (write) => {
      for (const { number, current } of this.#places)
        if (current !== null) write({ worker: number }, current.load);
    });
    const restarts = 'Workers started after one ended unexpectedly';
    metrics.counter('tollgate_worker_restarts_total', restarts, () => this.#restarts);
  }

  /** Whether any worker takes connections. */
  get isReady(): boolean {
    return this.#spread.takers > 0;
  }

  /** Starts all workers. @throws the first error, when one cannot start */
  async start(): Promise<void> {
    await Promise.all(this.#places.map((place) => this.#fill(place)));
  }

  /** Gives a connection to the worker with the fewest, which gives it a place; closes it while that takes too long. */
  take(connection: Socket): void {
    let connections = this.#spread.waiting;
    for (const { load } of this.#running) connections += load;
    if (connections < 2 * this.#options.maxConnections) return this.#spread.offer(connection);
    connection.destroy();
    const { maxConnections, metrics, log } = this.#options;
    metrics.dropped();
    const now = performance.now();
    if (now - this.#toldFullAt < FULL_MS) return;
    this.#toldFullAt = now;
    log.warn({ connections: maxConnections }, FULL);
  }

  /**
   * Replaces the workers one after the other: each new one takes connections before the old one stops to. When one
   * cannot start, the old one stays, and so do those after it.
   */
  replace(): Promise<void> {
    if (this.#replacing !== null) this.#replaceAgain = true;
    this.#replacing ??= this.#replaceAll().finally(() => {
      this.#replacing = null;
    });
    return this.#replacing;
  }

  /** Lets all workers finish their requests and end. @returns the number of connections cut */
  async drain(seconds: number): Promise<number> {
    this.#stopping.abort();
    const running = [...this.#running];
    for (const worker of running) this.#spread.remove(worker);
    for (const connection of this.#spread.clear()) connection.destroy();
    await Promise.all(running.map((worker) => this.#retire(worker, seconds)));
    return this.#cut;
  }

  /** Ends what still runs. @returns the number of records that could not be written; null: a worker did not tell */
  async close(): Promise<number | null> {
    await this.drain(0);
    return this.#untold > 0 ? null : this.#lost;
  }

  /** Ends all workers at once. Their booked records stay in the spool. */
  kill(): void {
    this.#stopping.abort();
    for (const worker of this.#running) worker.kill();
  }

  /** The metrics of the supervisor and its workers, in the text format. */
  async metrics(): Promise<string> {
    const asked = [...this.#running].filter(({ isReady }) => isReady);
    await Promise.all(asked.map((worker) => worker.ask('metrics')));
    const running = [...this.#running]; // some may have ended meanwhile
    const all = [this.#options.metrics.families(), ...running.map(({ families }) => families)];
    const current = this.#places.flatMap(({ number, current }) =>
      current === null ? [] : ([[number, current.families]] as const),
    );
    return this.#joined.text(all, new Map(current));
  }

  /** Workers whose event loop does not turn, in words. */
  async silent(): Promise<string[]> {
    const current = this.#places.flatMap(({ current }) => current ?? []);
    const answers = await Promise.all(current.map((worker) => worker.ask('alive')));
    return current.filter((_, k) => answers[k] === null).map(({ number }) => `worker ${number}`);
  }

  /** Starts a worker that takes its place when it is ready. @throws when it cannot start */
  async #fill(place: Place): Promise<void> {
    place.starting = true;
    const { log, startOf } = this.#options;
    let worker: WorkerProcess;
    try {
      worker = new WorkerProcess(startOf(place.number), log);
      this.#running.add(worker);
      void worker.ended.then((end) => this.#onEnded(place, worker, end));
      await worker.ready;
    } finally {
      place.starting = false;
    }
    if (this.#stopping.signal.aborted) return;
    const before = place.current;
    place.current = worker;
    place.startedAt = performance.now();
    this.#spread.add(worker);
    if (before !== null) this.#spread.remove(before);
    log.info({ worker: place.number, pid: worker.pid }, 'a worker takes connections');
    if (before !== null) await this.#retire(before, this.#options.drainSeconds);
  }

  async #replaceAll(): Promise<void> {
    const { log } = this.#options;
    let replaced = 0;
    do {
      this.#replaceAgain = false;
      for (const place of this.#places) {
        if (this.#stopping.signal.aborted) return;
        if (place.current === null) continue; // it is started anyway
        try {
          await this.#fill(place);
          replaced++;
        } catch (error) {
          log.error({ worker: place.number, reason: reasonOf(error) }, 'a worker was not replaced');
          if (place.current === null) void this.#restart(place); // it died meanwhile
          return;
        }
      }
    } while (this.#replaceAgain);
    if (replaced > 0) log.info('all workers were replaced');
  }

  async #retire(worker: WorkerProcess, seconds: number): Promise<void> {
    if (!worker.leaving) await worker.leave(seconds);
    else await worker.ended;
  }

  #onEnded(place: Place, worker: WorkerProcess, end: ProcessEnd): void {
    this.#running.delete(worker);
    this.#spread.remove(worker);
    this.#joined.ended(worker.left?.families ?? worker.families);
    this.#cut += worker.left?.cut ?? 0;
    this.#lost += worker.left?.lost ?? 0;
    for (const connection of worker.unsent()) this.#spread.offer(connection);
    const wasCurrent = place.current === worker;
    if (wasCurrent) place.current = null;
    if (worker.left !== null) return;
    if (this.#stopping.signal.aborted) return this.#onUntold(worker, end);
    const [sibling] = [...this.#running].filter(({ leaving }) => !leaving);
    sibling?.adopt();
    if (!wasCurrent) return; // whoever started it knows
    this.#options.log.error({ worker: place.number, ...end }, 'a worker ended unexpectedly');
    if (!place.starting) void this.#restart(place);
  }

  /** A worker was killed, or crashed, while all were stopped. */
  #onUntold({ number, isReady }: WorkerProcess, end: ProcessEnd): void {
    if (!isReady) return; // it had no requests
    this.#untold++;
    const fate = this.#options.hasSpool ? 'those on disk are booked later' : 'they may be lost';
    this.#options.log.error(
      { worker: number, ...end },
      `a worker ended before its last records were written: ${fate}`,
    );
  }

  /** Starts a worker for an empty place, with pauses that double while they die soon. */
  async #restart(place: Place): Promise<void> {
    const { signal } = this.#stopping;
    while (place.current === null && !signal.aborted) {
      place.crashes = performance.now() - place.startedAt > STEADY_MS ? 1 : place.crashes + 1;
      const pause = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (place.crashes - 1));
      await sleep(pause, undefined, { signal, ref: false }).catch(() => {});
      if (signal.aborted) return;
      this.#restarts++;
      try {
        await this.#fill(place);
      } catch (error) {
        place.startedAt = performance.now();
        this.#options.log.error(
          { worker: place.number, reason: reasonOf(error) },
          'a worker cannot start',
        );
      }
    }
  }
}
