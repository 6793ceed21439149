import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { readSecretFile } from '../../runtime/regular-file.ts';
import { parseDatabaseUrl } from './address.ts';
import {
  type Connect,
  connectorTo,
  type DatabaseConnection,
  type QueryDeadline,
  startDeadline,
  type Work,
} from './driver.ts';
import { DatabaseUnavailable, databaseError, stopping } from './errors.ts';

export type { ConnectionSql, Sql, Work } from './driver.ts';

const LISTEN_MS = 2000; // for connecting a listener, and for each heartbeat
const HEARTBEAT_MS = 10_000; // how often a silent listener must prove that it lives
const LISTEN_RETRY_MS = 250;
/** The channel on which a listener waits for a notification of its own. */
const PROOF_CHANNEL = 'tollgate_proof';

/**
 * The database, with a deadline on every use. Past the deadline the caller gets
 * DatabaseUnavailable and the connection is cut, whatever state it or the server is in.
 */
export interface Database {
  /**
   * Runs one or more statements on a connection of their own, outside a transaction.
   * Nothing is prepared (PgBouncer), so a statement with parameters is two round trips. Errors of the work pass through.
   * @param deadlineMs milliseconds for all of it: a free connection, connecting, running; Infinity for none
   * @throws DatabaseUnavailable try again later; whether a statement took effect is unknown
   * @throws DatabaseRefused the statement can never work with these values
   */
  run<T>(deadlineMs: number, work: Work<T>): Promise<T>;
  /** As `run`, in one transaction: committed when the work resolves, rolled back when it rejects. */
  transaction<T>(deadlineMs: number, work: Work<T>): Promise<T>;
  /** LISTENs on a connection of its own until closed, through every loss of the server. */
  listen(channel: string, handlers: ListenHandlers): Listening;
  /** Ends every connection and listener; work still running rejects. */
  close(): Promise<void>;
}

interface ListenHandlers {
  onNotice(payload: string): void;
  /** Notifications arrive from now on. Earlier ones may have been missed. Never called behind a transaction pooler. */
  onReady(): void;
  /** Not listening from here on, until the next onReady. */
  onLost(): void;
}

export interface Listening {
  close(): void;
}

interface DatabaseOptions {
  readonly url: string;
  readonly urlFile?: string | null;
  readonly maxConnections?: number;
  readonly isFast?: boolean;
}

/**
 * @param options.url `postgres://…`; address.ts describes several hosts, socket folders and TLS
 * @param options.urlFile the file with the URL, where it is read from one: again for each connection
 * @param options.maxConnections for queries, made when first needed; each LISTEN has one more
 * @param options.isFast whether large parameters go past the driver (large-parameter.ts)
 * @throws TypeError when the URL cannot be read; the message does not repeat it
 */
export function openDatabase({
  url,
  urlFile = null,
  maxConnections = 2,
  isFast = false,
}: DatabaseOptions): Database {
  const read = () => parseDatabaseUrl(urlFile === null ? url : readSecretFile(urlFile).trim());
  return new ConnectionPool(connectorTo(read, isFast), maxConnections);
}

/** A pool in which each connection has one task at a time, so that a deadline cuts off exactly what exceeded it. */
class ConnectionPool implements Database {
  readonly #connect: Connect;
  /** The one used last is at the end and used next, so that the others may rest. */
  readonly #idle: DatabaseConnection[] = [];
  readonly #waiting: (() => void)[] = [];
  /** Aborts when the pool is closed. */
  readonly #stop = new AbortController();
  /** The deadlines of tasks under way, which pass when the pool is closed. */
  readonly #deadlines = new Set<QueryDeadline>();
  /** Tasks that may begin. */
  #free: number;

  constructor(connect: Connect, maxConnections: number) {
    this.#connect = connect;
    this.#free = maxConnections;
  }

  async run<T>(deadlineMs: number, work: Work<T>): Promise<T> {
    const stop = this.#stop.signal;
    if (stop.aborted) throw stopping();
    // not by the signal: to add a listener and remove it takes as long as the deadline itself
    const deadline = startDeadline(deadlineMs);
    this.#deadlines.add(deadline);
    let connection: DatabaseConnection | undefined;
    let acquired = false;
    try {
      if (this.#free > 0) this.#free--;
      else await this.#acquire(deadline);
      acquired = true;
      connection = this.#idleConnection() ?? (await this.#connect(deadline));
      return await deadline.race(connection.run(work));
    } catch (error) {
      const failure = databaseError(error);
      if (failure instanceof DatabaseUnavailable) {
        connection?.cut(deadline.passed);
        // if the server is frozen or cut off, the idle ones would each wait for a deadline of their own
        if (deadline.passed && connection !== undefined)
          for (const other of this.#idle.splice(0)) other.cut(false);
      }
      throw failure;
    } finally {
      deadline.clear();
      this.#deadlines.delete(deadline);
      if (connection?.alive) {
        if (stop.aborted) connection.cut(false);
        else this.#idle.push(connection);
      }
      if (acquired) this.#release();
    }
  }

  async transaction<T>(deadlineMs: number, work: Work<T>): Promise<T> {
    return this.run(deadlineMs, async (sql) => {
      // if this process vanishes, the server releases the locks by itself; a statement has the deadline given here, and
      // not what the server allows others
      const timeout = Number.isFinite(deadlineMs) ? Math.ceil(deadlineMs) : 0;
      await sql.unsafe(
        `begin; set local idle_in_transaction_session_timeout = ${timeout}; set local statement_timeout = 0`,
      );
      let value: T;
      try {
        value = await work(sql);
      } catch (error) {
        // a connection that is about to be cut rolls back by itself, and may be in the middle of an answer
        if (!(databaseError(error) instanceof DatabaseUnavailable))
          await sql.unsafe('rollback').catch(() => {});
        throw error;
      }
      const { command } = await sql.unsafe('commit');
      if (command !== 'COMMIT')
        throw new Error('the work of a transaction kept a failed statement to itself');
      return value;
    });
  }

  listen(channel: string, handlers: ListenHandlers): Listening {
    const own = new AbortController();
    const prove = (token: string) =>
      this.run(LISTEN_MS, (sql) => sql`select pg_notify(${PROOF_CHANNEL}, ${token})`).then(
        () => true,
        () => false,
      );
    void keepListening(
      this.#connect,
      prove,
      channel,
      handlers,
      AbortSignal.any([own.signal, this.#stop.signal]),
    );
    return { close: () => own.abort() };
  }

  async close(): Promise<void> {
    this.#stop.abort();
    for (const deadline of this.#deadlines) deadline.stop();
    await Promise.all(this.#idle.splice(0).map((connection) => connection.end()));
  }

  /** Waits for the right to use a connection, where none is free. */
  async #acquire(deadline: QueryDeadline): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    try {
      await deadline.race(promise);
    } catch (error) {
      const index = this.#waiting.indexOf(resolve);
      if (index >= 0) this.#waiting.splice(index, 1);
      else this.#release(); // it was granted in the tick the deadline passed
      throw error;
    }
  }

  #release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free++;
    else next();
  }

  #idleConnection(): DatabaseConnection | undefined {
    let connection = this.#idle.pop();
    while (connection !== undefined && !connection.alive) connection = this.#idle.pop();
    return connection;
  }
}

/**
 * Listens, notices when the connection is lost, and begins again; until stopped. Never rejects. A transaction pooler takes
 * LISTEN and passes no notification on, so it counts as listening once a notification has arrived that another connection
 * sent: one of its own could be answered by the pooler's server before that serves somebody else.
 * @param prove sends a token to PROOF_CHANNEL; resolves with whether it was sent
 */
async function keepListening(
  connect: Connect,
  prove: (token: string) => Promise<boolean>,
  channel: string,
  { onNotice, onReady, onLost }: ListenHandlers,
  stop: AbortSignal,
): Promise<void> {
  while (!stop.aborted) {
    const lost = new AbortController();
    const over = AbortSignal.any([lost.signal, stop]);
    const token = randomUUID();
    let connection: DatabaseConnection | undefined;
    let ready = false;
    const hear = (from: string, payload: string): void => {
      if (from !== PROOF_CHANNEL) return onNotice(payload);
      if (payload !== token || ready || over.aborted) return;
      ready = true;
      onReady();
    };
    try {
      connection = await withinListenMs(stop, (deadline) =>
        connect(deadline, hear, () => lost.abort()),
      );
      const { sql } = connection;
      for (const name of [channel, PROOF_CHANNEL])
        await withinListenMs(stop, (deadline) => deadline.race(sql`listen ${sql(name)}`));
      for (;;) {
        const isSent = ready || (await prove(token));
        await sleep(isSent ? HEARTBEAT_MS : LISTEN_RETRY_MS, undefined, { signal: over });
        // a frozen server and a half-open connection say nothing: ask
        await withinListenMs(stop, (deadline) => deadline.race(sql`select 1`));
      }
    } catch {
      connection?.cut(false);
    }
    if (stop.aborted) return;
    if (ready) onLost();
    await sleep(LISTEN_RETRY_MS, undefined, { signal: stop }).catch(() => {});
  }
}

/** Gives work LISTEN_MS, less when `stop` aborts. */
async function withinListenMs<T>(
  stop: AbortSignal,
  work: (deadline: QueryDeadline) => Promise<T>,
): Promise<T> {
  const deadline = startDeadline(LISTEN_MS, stop);
  try {
    return await work(deadline);
  } finally {
    deadline.clear();
  }
}
