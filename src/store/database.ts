import { randomUUID } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import { type Address, parseAddress, type Target } from './address.ts';
import { connectError, connectionLost, DatabaseUnavailable, databaseError, stopping } from './database-error.ts';
import { TYPES } from './types.ts';

/** What statements are written with: the tagged template of postgres.js. */
export type Sql = postgres.Sql;

/**
 * Makes a parameter of a statement of a large ASCII text, one for each statement. Its bytes must stay as they are
 * until the statement has succeeded, or for good where it fails: they may not all have left by then.
 */
export type Large = (text: Buffer) => string;

export interface DatabaseOptions {
  /** `postgres://…`; address.ts tells about several hosts, socket folders and TLS. */
  readonly url: string;
  /** Connections for queries, made when first needed; each LISTEN has one more. Default 2. */
  readonly maxConnections?: number;
}

/**
 * The database, with a deadline on every use. Past the deadline the caller gets
 * DatabaseUnavailable and the connection is cut off, whatever state it or the server is in.
 */
export interface Database {
  /**
   * Runs one or more statements with a connection to themselves, outside a transaction.
   * Nothing is prepared (PgBouncer), so a statement with parameters is two round trips.
   * @param deadlineMs milliseconds for all of it: a free connection, connecting, running; Infinity for none
   * @throws DatabaseUnavailable try again later; whether a statement took effect is unknown
   * @throws DatabaseRefused the statement can never work with these values
   * Errors of the work itself pass through.
   */
  run<T>(deadlineMs: number, work: (sql: Sql, large: Large) => PromiseLike<T>): Promise<T>;
  /** The same in one transaction: committed when the work resolves, rolled back when it rejects. */
  transaction<T>(deadlineMs: number, work: (sql: Sql) => PromiseLike<T>): Promise<T>;
  /** LISTENs on a connection of its own until closed, through every loss of the server. */
  listen(channel: string, handlers: ListenHandlers): Listening;
  /** Ends every connection and listener; work still running rejects. */
  close(): Promise<void>;
}

export interface ListenHandlers {
  onNotice(payload: string): void;
  /** Listening from here on; what was sent before may have been missed. */
  onReady(): void;
  /** Not listening from here on, until the next onReady. */
  onLost(): void;
}

export interface Listening {
  close(): void;
}

const HOST_MS = 1000; // for reaching one host while there are others
const LISTEN_MS = 2000; // for connecting a listener, and for each heartbeat
const HEARTBEAT_MS = 10_000; // how often a silent listener must prove that it lives; who listens asks besides
const LISTEN_RETRY_MS = 250;
const FAREWELL_MS = 250;
const CANCEL_MS = 1000;

/** @throws TypeError when the URL cannot be read; the message does not repeat it */
export function openDatabase({ url, maxConnections = 2 }: DatabaseOptions): Database {
  const dial = dialer(parseAddress(url));
  const idle: Connection[] = [];
  const waiting: (() => void)[] = [];
  const deadlines = new Set<Deadline>();
  const listeners = new Set<Listening>();
  let free = maxConnections;
  let closed = false;

  // one task per connection at a time: a deadline cuts off exactly what exceeded it
  async function run<T>(deadlineMs: number, work: (sql: Sql, large: Large) => PromiseLike<T>): Promise<T> {
    if (closed) throw stopping();
    const deadline = startDeadline(deadlineMs);
    deadlines.add(deadline);
    let connection: Connection | undefined;
    let served = false;
    try {
      await turn(deadline);
      served = true;
      connection = idleConnection() ?? (await dial(deadline));
      return await deadline.race(connection.run(work));
    } catch (error) {
      const failure = databaseError(error);
      if (failure instanceof DatabaseUnavailable) {
        connection?.cut(deadline.passed);
        // a server that is frozen or cut off would keep each of the others waiting for a deadline of its own
        if (deadline.passed && connection !== undefined) for (const other of idle.splice(0)) other.cut(false);
      }
      throw failure;
    } finally {
      deadline.clear();
      deadlines.delete(deadline);
      if (connection?.alive) {
        if (closed) connection.cut(false);
        else idle.push(connection);
      }
      if (served) release();
    }
  }

  async function transaction<T>(deadlineMs: number, work: (sql: Sql) => PromiseLike<T>): Promise<T> {
    return run(deadlineMs, async (sql) => {
      // should this process vanish, the server lets go of the locks by itself
      const patience = Number.isFinite(deadlineMs) ? Math.ceil(deadlineMs) : 0;
      await sql.unsafe(`begin; set local idle_in_transaction_session_timeout = ${patience}`);
      let value: T;
      try {
        value = await work(sql);
      } catch (error) {
        // a connection that is about to be cut rolls back by itself, and may be in the middle of an answer
        if (!(databaseError(error) instanceof DatabaseUnavailable)) await sql.unsafe('rollback').catch(() => {});
        throw error;
      }
      const { command } = await sql.unsafe('commit');
      if (command !== 'COMMIT') throw new Error('the work of a transaction kept a failed statement to itself');
      return value;
    });
  }

  function listen(channel: string, handlers: ListenHandlers): Listening {
    const stop = new AbortController();
    const listening = { close: () => stop.abort() };
    listeners.add(listening);
    void keepListening(dial, channel, handlers, stop.signal).finally(() => listeners.delete(listening));
    return listening;
  }

  async function close(): Promise<void> {
    closed = true;
    for (const listening of listeners) listening.close();
    for (const deadline of deadlines) deadline.pass(stopping());
    await Promise.all(idle.splice(0).map((connection) => connection.farewell()));
  }

  /** Waits for the right to use one of the connections. */
  async function turn(deadline: Deadline): Promise<void> {
    if (free > 0) {
      free--;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.push(resolve);
    try {
      await deadline.race(promise);
    } catch (error) {
      const place = waiting.indexOf(resolve);
      if (place >= 0) waiting.splice(place, 1);
      else release(); // the turn came in the tick the deadline passed
      throw error;
    }
  }

  function release(): void {
    const next = waiting.shift();
    if (next === undefined) free++;
    else next();
  }

  /** The one used last: the others may rest. */
  function idleConnection(): Connection | undefined {
    let connection = idle.pop();
    while (connection !== undefined && !connection.alive) connection = idle.pop();
    return connection;
  }

  return { run, transaction, listen, close };
}

/** Listens, notices when that ends, and begins again; until stopped. Never rejects. */
async function keepListening(
  dial: Dial,
  channel: string,
  { onNotice, onReady, onLost }: ListenHandlers,
  stop: AbortSignal,
): Promise<void> {
  while (!stop.aborted) {
    const lost = new AbortController();
    const over = AbortSignal.any([lost.signal, stop]);
    let connection: Connection | undefined;
    let ready = false;
    try {
      connection = await withDeadline(LISTEN_MS, stop, (deadline) => dial(deadline, onNotice, () => lost.abort()));
      const { sql } = connection;
      await withDeadline(LISTEN_MS, stop, (deadline) => deadline.race(sql`listen ${sql(channel)}`));
      ready = true;
      onReady();
      for (;;) {
        // a frozen server and a half-open connection say nothing: ask
        await sleep(HEARTBEAT_MS, undefined, { signal: over });
        await withDeadline(LISTEN_MS, stop, (deadline) => deadline.race(sql`select 1`));
      }
    } catch {
      connection?.cut(false);
    }
    if (stop.aborted) return;
    if (ready) onLost();
    await sleep(LISTEN_RETRY_MS, undefined, { signal: stop }).catch(() => {});
  }
}

/** Connects to a server that will do, or rejects with DatabaseUnavailable. */
type Dial = (deadline: Deadline, onNotice?: (payload: string) => void, onClose?: () => void) => Promise<Connection>;

function dialer(address: Address): Dial {
  const { targets } = address;
  let first = 0; // where the last attempt succeeded

  return async (deadline, onNotice = () => {}, onClose = () => {}) => {
    for (let tried = 1; ; tried++) {
      const at = first;
      const connection = openConnection(address, targets[at] as Target, onNotice, onClose);
      const patience = startDeadline(targets.length > 1 ? HOST_MS : Number.POSITIVE_INFINITY);
      try {
        await deadline.race(patience.race(connection.greet()));
        return connection;
      } catch (error) {
        connection.cut(false);
        if (first === at) first = (at + 1) % targets.length;
        if (deadline.passed) throw error;
        // after one that keeps silent the others are asked again: one of them may have been promoted meanwhile
        if (tried >= targets.length && !patience.passed) throw connectError(error);
      } finally {
        patience.clear();
      }
    }
  };
}

/**
 * One connection: one driver instance that is never allowed to connect a second time.
 * The driver's own reconnecting loops without end among several hosts, sends leftovers of
 * the old session on the new one, and leaves a socket to a frozen server open (3.4.9).
 */
interface Connection {
  readonly sql: Sql;
  /** Does some work, nothing else meanwhile. */
  run<T>(work: (sql: Sql, large: Large) => PromiseLike<T>): Promise<T>;
  /** Connected, and not cut off since. */
  readonly alive: boolean;
  /** Connects; rejects when the server has the wrong role. */
  greet(): Promise<void>;
  /** Ends it at once. @param cancel asks the server to stop what it is doing for it */
  cut(cancel: boolean): void;
  /** Ends it politely. */
  farewell(): Promise<void>;
}

function openConnection(
  { role, user, password, database, tls, settings }: Address,
  target: Target,
  onNotice: (payload: string) => void,
  onClose: () => void,
): Connection {
  let socket: Socket | undefined;
  let alive = false;
  let ended = false;
  let backend: { pid: number; secret: number } | undefined;
  const tlsOptions = tlsTo(target, tls);
  const sender = new LargeSender();
  // over TLS, or where it looks whether there is any, the driver may write to a socket of its own
  const large = (text: Buffer) => (tlsOptions === false ? sender.take(text) : text.latin1Slice());

  const options = {
    ...('path' in target ? { path: target.path } : { host: target.host, port: target.port }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database }),
    ssl: tlsOptions,
    connection: settings,
    types: TYPES,
    max: 1,
    prepare: false,
    fetch_types: false,
    idle_timeout: 0,
    connect_timeout: 0,
    max_lifetime: null,
    target_session_attrs: undefined,
    onnotice: () => {},
    onnotify: (_channel: string, payload: string) => onNotice(payload),
    onclose: () => {
      alive = false;
      // refuses at once whatever is asked of it still; not before: over TLS it would write
      // to a socket destroyed below it, and nobody listens for that error
      void sql.end({ timeout: 0 });
      onClose();
    },
    socket: async (): Promise<Socket> => {
      if (socket !== undefined || ended) throw connectionLost();
      socket = 'path' in target ? connect(target.path) : connect(target.port, target.host);
      socket.setKeepAlive(true, 30_000).setNoDelay(true);
      await connected(socket);
      if (tlsOptions === false) sender.attach(socket);
      // the driver names the server in its TLS handshake by this member
      return Object.assign(socket, { host: 'host' in target ? target.host : undefined });
    },
  };
  const sql = postgres(options as unknown as postgres.Options<Record<string, never>>) as unknown as Sql;

  return {
    sql,
    async run(work) {
      try {
        return await work(sql, large);
      } finally {
        sender.drop(); // of a statement that failed before its parameters were asked for
      }
    },
    get alive() {
      return alive;
    },
    async greet() {
      const rows = await sql<[{ standby: boolean }]>`select pg_is_in_recovery() as standby`;
      backend = rows.state;
      if (role !== 'any' && rows[0].standby !== (role === 'standby')) {
        throw new DatabaseUnavailable('WRONG_ROLE', `no server of the list is a ${role}`);
      }
      alive = !ended;
    },
    cut(cancel) {
      alive = false;
      ended = true;
      const end = () => socket?.destroy();
      // a pooler forgets whom to cancel for as soon as the connection is gone
      if (cancel && backend !== undefined) void requestCancel(target, backend).then(end);
      else end();
    },
    async farewell() {
      alive = false;
      await Promise.race([sql.end(), sleep(FAREWELL_MS, undefined, { ref: false })]);
      ended = true;
      socket?.destroy();
    },
  };
}

/**
 * Sends a large text in the place of a token that the driver was given for it. The driver takes
 * strings alone and copies each three times, into memory from outside V8's heap: at 10,000 ledger
 * rows a second, 20 MB a second that made V8 collect its whole heap every 0.8 s.
 *
 *   B length … length token …  ─>  B length … length | text | …
 */
class LargeSender {
  /** So long that the driver sends it at once, with nothing else waiting. */
  readonly #token = randomUUID().padEnd(1024, '.');
  #text: Buffer | null = null;

  take(text: Buffer): string {
    this.#text = text;
    return this.#token;
  }

  drop(): void {
    this.#text = null;
  }

  attach(socket: Socket): void {
    const write = socket.write.bind(socket) as (chunk: Buffer, done?: () => void) => boolean;
    const send = (message: Buffer, done?: () => void): boolean => {
      const text = this.#text;
      if (text === null) return write(message, done);
      const at = message.indexOf(this.#token);
      if (at < 0 && message[0] !== BIND) return write(message, done);
      // rather than let the server have the token for the text
      if (at < 0 || message[0] !== BIND) throw new Error('the driver sends parameters in another way');
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

/** First byte of the message with a statement's parameters. */
const BIND = 0x42;

/** A socket folder needs no TLS. A host is named, for else Node verifies the certificate of an IP address against "localhost". */
function tlsTo(target: Target, tls: Address['tls']): Address['tls'] {
  if ('path' in target) return false;
  return typeof tls === 'object' ? { ...tls, host: target.host } : tls;
}

function connected(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
    socket.once('close', () => reject(connectionLost()));
  });
}

/** Asks a server to cancel what a connection of ours is doing. Resolves when it was heard, or after CANCEL_MS. */
function requestCancel(target: Target, { pid, secret }: { pid: number; secret: number }): Promise<void> {
  const message = Buffer.alloc(16);
  message.writeUInt32BE(16, 0);
  message.writeUInt32BE(80_877_102, 4);
  message.writeUInt32BE(pid, 8);
  message.writeUInt32BE(secret, 12);
  const socket = 'path' in target ? connect(target.path) : connect(target.port, target.host);
  const timer = setTimeout(() => socket.destroy(), CANCEL_MS);
  return new Promise((resolve) => {
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      resolve();
    });
    socket.resume().write(message); // the server answers by closing, a frozen one not at all
  });
}

interface Deadline {
  readonly passed: boolean;
  /** Settles as the promise does, or rejects when the deadline passes first. */
  race<T>(promise: PromiseLike<T>): Promise<T>;
  /** Passes at once. */
  pass(reason: Error): void;
  clear(): void;
}

/** @param ms milliseconds; Infinity never passes by itself */
function startDeadline(ms: number): Deadline {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  let passed = false;
  const pass = (reason: Error): void => {
    passed = true;
    reject(reason);
  };
  const late = () => pass(new DatabaseUnavailable('DEADLINE', `no answer within ${ms} ms`));
  const timer = Number.isFinite(ms) ? setTimeout(late, ms) : undefined;
  return {
    get passed() {
      return passed;
    },
    race: (other) => Promise.race([other, promise]),
    pass,
    clear: () => clearTimeout(timer),
  };
}

async function withDeadline<T>(ms: number, stop: AbortSignal, work: (deadline: Deadline) => Promise<T>): Promise<T> {
  const deadline = startDeadline(ms);
  const pass = () => deadline.pass(stopping());
  stop.addEventListener('abort', pass);
  try {
    return await work(deadline);
  } finally {
    stop.removeEventListener('abort', pass);
    deadline.clear();
  }
}
