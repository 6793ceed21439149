import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import postgres from 'postgres';
import type { Address, Target, Tls } from './address.ts';
import { connectError, connectionLost, DatabaseUnavailable, stopping } from './database-error.ts';
import { LargeParameter } from './large-parameter.ts';
import { TYPES } from './types.ts';

const HOST_MS = 1000; // for reaching one host while there are others
const END_MS = 250; // for ending a connection politely
const CANCEL_MS = 15_000; // PgBouncer 1.18 dies when a cancel request that it is passing on is given up sooner
const CANCEL_REQUEST = 80_877_102; // code of the protocol

export type Sql = postgres.Sql;

/**
 * Makes a statement's parameter of a large ASCII text, one per statement. Its bytes must not change
 * until the statement has succeeded, or ever if it fails, because they may still be being sent.
 */
export type Large = (text: Buffer) => string;

export type DatabaseConnection = ReturnType<typeof newConnection>;

export type QueryDeadline = ReturnType<typeof startDeadline>;

/**
 * Bounds the time of some work with the database.
 * @param ms milliseconds; Infinity never passes by itself
 * @param stop passes at once when this aborts
 */
export function startDeadline(ms: number, stop?: AbortSignal) {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  let passed = false;
  const pass = (reason: Error): void => {
    passed = true;
    reject(reason);
  };
  const late = () => pass(new DatabaseUnavailable('DEADLINE', `no answer within ${ms} ms`));
  const stopped = () => pass(stopping());
  stop?.addEventListener('abort', stopped);
  const timer = Number.isFinite(ms) ? setTimeout(late, ms) : undefined;
  return {
    get passed() {
      return passed;
    },
    /** Passes now. */
    stop: stopped,
    /** Settles as the promise does, or rejects when the deadline passes first. */
    race: <T>(other: PromiseLike<T>): Promise<T> => Promise.race([other, promise]),
    clear(): void {
      clearTimeout(timer);
      stop?.removeEventListener('abort', stopped);
    },
  };
}

export type Connect = ReturnType<typeof connectorTo>;

/**
 * Connects to the servers of an address in turn, beginning with the one that last worked. Rejects with
 * DatabaseUnavailable when none will do.
 */
export function connectorTo(address: Address) {
  const { targets } = address;
  let first = 0;

  return async (deadline: QueryDeadline, onNotice = (_payload: string) => {}, onClose = () => {}) => {
    for (let tried = 1; ; tried++) {
      const at = first;
      const connection = newConnection(address, targets[at] as Target, onNotice, onClose);
      const ofHost = startDeadline(targets.length > 1 ? HOST_MS : Number.POSITIVE_INFINITY);
      try {
        await deadline.race(ofHost.race(connection.open()));
        return connection;
      } catch (error) {
        connection.cut(false);
        if (first === at) first = (at + 1) % targets.length;
        if (deadline.passed) throw error;
        // after a silent one the others are asked again: one of them may have been promoted meanwhile
        if (tried >= targets.length && !ofHost.passed) throw connectError(error);
      } finally {
        ofHost.clear();
      }
    }
  };
}

/**
 * One connection: one driver instance that never connects a second time. The driver's own reconnecting loops
 * among several hosts, sends leftovers of the old session, and leaves sockets to frozen servers open (3.4.9).
 */
function newConnection(address: Address, target: Target, onNotice: (payload: string) => void, onClose: () => void) {
  let socket: Socket | undefined;
  let alive = false;
  let ended = false;
  let backend: { pid: number; secret: number } | undefined;
  const tls = tlsTo(target, address.tls);
  const parameter = new LargeParameter();
  // with TLS, or while it looks whether the server has it, the driver may write to a socket of its own
  const large = (text: Buffer) => (tls === false ? parameter.set(text) : text.toString('latin1'));

  const options = {
    ...driverOptions(address, target),
    ssl: tls,
    onnotify: (_channel: string, payload: string) => onNotice(payload),
    onclose: () => {
      alive = false;
      // refuses at once whatever is still asked of it; not earlier: over TLS the driver would write
      // to a destroyed socket, and nobody listens for that error
      void sql.end({ timeout: 0 });
      onClose();
    },
    socket: async (): Promise<Socket> => {
      if (socket !== undefined || ended) throw connectionLost();
      socket = connect(target);
      socket.setKeepAlive(true, 30_000).setNoDelay(true);
      await connected(socket);
      if (tls === false) parameter.attach(socket);
      // the driver names the server in its TLS handshake by this member
      return Object.assign(socket, { host: 'host' in target ? target.host : undefined });
    },
  };
  const sql = postgres(options as unknown as postgres.Options<Record<string, never>>) as unknown as Sql;

  return {
    sql,
    /** Does some work, nothing else meanwhile. */
    async run<T>(work: (sql: Sql, large: Large) => PromiseLike<T>): Promise<T> {
      try {
        return await work(sql, large);
      } finally {
        parameter.clear(); // of a statement that failed before its parameters were asked for
      }
    },
    /** Connected, and not cut off since. */
    get alive(): boolean {
      return alive;
    },
    /** Connects; rejects when the server has the wrong role. */
    async open(): Promise<void> {
      const rows = await sql<[{ standby: boolean }]>`select pg_is_in_recovery() as standby`;
      backend = rows.state;
      const { role } = address;
      if (role !== 'any' && rows[0].standby !== (role === 'standby')) {
        throw new DatabaseUnavailable('WRONG_ROLE', `no server of the list is a ${role}`);
      }
      alive = !ended;
    },
    /** Ends it at once. @param cancel asks the server to stop what it is doing for it */
    cut(cancel: boolean): void {
      alive = false;
      ended = true;
      const end = () => socket?.destroy();
      if (!cancel || backend === undefined) return void end();
      // work may go on after its deadline, and must not commit: the driver refuses it from here on
      void sql.end();
      // a pooler forgets whom to cancel for as soon as the connection is gone
      void requestCancel(target, backend).then(end);
    },
    /** Ends it politely. */
    async end(): Promise<void> {
      alive = false;
      await Promise.race([sql.end(), sleep(END_MS, undefined, { ref: false })]);
      ended = true;
      socket?.destroy();
    },
  };
}

function driverOptions({ user, password, database, settings }: Address, target: Target): object {
  const given = Object.entries({ user, password, database }).filter(([, value]) => value !== undefined);
  return {
    ...target,
    ...Object.fromEntries(given),
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
  };
}

/** None for a socket folder. A host is named, or Node would verify the certificate of an IP address for "localhost". */
function tlsTo(target: Target, tls: Tls): Tls {
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
async function requestCancel(target: Target, { pid, secret }: { pid: number; secret: number }): Promise<void> {
  const message = Buffer.alloc(16);
  for (const [i, word] of [16, CANCEL_REQUEST, pid, secret].entries()) message.writeUInt32BE(word, 4 * i);
  const socket = connect(target).on('error', () => {});
  const timer = setTimeout(() => socket.destroy(), CANCEL_MS);
  socket.resume().write(message); // the server answers by closing; a frozen one never answers
  await new Promise((resolve) => socket.once('close', resolve));
  clearTimeout(timer);
}
