import { connect, isIP, type Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls, type ConnectionOptions as TlsOptions } from 'node:tls';
import postgres from 'postgres';
import type { DatabaseAddress, Target } from './address.ts';
import type { Encryption } from './address-tls.ts';
import { connectError, connectionLost, DatabaseUnavailable, stopping } from './errors.ts';
import { LargeParameter } from './large-parameter.ts';
import { TYPES } from './types.ts';

const HOST_MS = 1000; // for reaching one host while there are others
const END_MS = 250; // for ending a connection politely
const CANCEL_MS = 15_000; // PgBouncer 1.18 dies when a cancel request that it is passing on is given up sooner
// codes of the protocol
const CANCEL_REQUEST = 80_877_102;
const TLS_REQUEST = 80_877_103;
const HAS_TLS = 'S';

export type Sql = postgres.Sql;

/** One connection: the driver, and two things that it does not do by itself. */
export interface ConnectionSql extends Sql {
  /**
   * Makes a statement's parameter of a large ASCII text, one per statement. Its bytes must not change
   * until the statement has succeeded, or ever if it fails, because they may still be being sent.
   */
  large(text: Buffer): string;
  /**
   * The output of a "copy … to stdout", in pieces that may end within a row. Whoever leaves it before its end loses the
   * connection, which is in the middle of an answer.
   */
  copyOut(text: string): AsyncGenerator<Buffer, void, undefined>;
}

/** Work on one connection. */
export type Work<T> = (sql: ConnectionSql) => PromiseLike<T>;

/** A "copy … to stdout" of the driver. */
interface CopyQuery {
  /** Called by the driver when the copy begins. */
  resolve: (stream: Readable) => void;
  readable(): Promise<AsyncIterable<Buffer>>;
}

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
 * @param read the address, read again for each connection: its files may have another password or certificate meanwhile.
 * Where it throws later, while a file is being replaced, the address read last is used
 */
export function connectorTo(read: () => DatabaseAddress, isFast: boolean) {
  let address = read();
  let first = 0;

  return async (
    deadline: QueryDeadline,
    onNotice = (_channel: string, _payload: string) => {},
    onClose = () => {},
  ) => {
    try {
      address = read();
    } catch {
      // a file is being replaced
    }
    const { targets, role, connectMs } = address;
    const hostMs = connectMs ?? (targets.length > 1 ? HOST_MS : Number.POSITIVE_INFINITY);
    // a standby that is only preferred is looked for once; then any server will do
    const rounds = role === 'prefer-standby' ? 2 : 1;
    for (let tried = 1; ; tried++) {
      const at = first % targets.length;
      const connection = new DatabaseConnection(address, targets[at] as Target, isFast, {
        onNotice,
        onClose,
      });
      const ofHost = startDeadline(hostMs);
      try {
        await deadline.race(
          ofHost.race(connection.open(tried > targets.length && rounds > 1 ? 'any' : role)),
        );
        return connection;
      } catch (error) {
        connection.cut(false);
        if (first % targets.length === at) first = (at + 1) % targets.length;
        if (deadline.passed) throw error;
        // after a silent one the others are asked again: one of them may have been promoted meanwhile
        const isLast = tried >= rounds * targets.length;
        if (isLast && (!ofHost.passed || connectMs !== undefined)) throw connectError(error);
      } finally {
        ofHost.clear();
      }
    }
  };
}

/** The state of a server, as it tells it. */
interface ServerState {
  readonly standby: boolean;
  /** Whether transactions may change nothing, unless they ask for it. */
  readonly read_only: boolean;
}

/** The state that each role needs of a server. */
const FITS: Readonly<
  Record<DatabaseAddress['role'], { test: (server: ServerState) => boolean; want: string }>
> = {
  any: { test: () => true, want: 'there' },
  primary: { test: ({ standby }) => !standby, want: 'a primary' },
  standby: { test: ({ standby }) => standby, want: 'a standby' },
  'prefer-standby': { test: ({ standby }) => standby, want: 'a standby' },
  'read-write': { test: (server) => !server.read_only, want: 'one that takes changes' },
  'read-only': { test: (server) => server.read_only, want: 'read-only' },
};

/** Called for notifications, and when the connection is gone. */
interface Listeners {
  readonly onNotice: (channel: string, payload: string) => void;
  readonly onClose: () => void;
}

/**
 * One connection: one driver instance that never connects a second time. The driver's own reconnecting loops
 * among several hosts, sends leftovers of the old session, and leaves sockets to frozen servers open (3.4.9).
 */
export class DatabaseConnection {
  readonly #address: DatabaseAddress;
  readonly #target: Target;
  readonly #parameter: LargeParameter | null;
  readonly sql: ConnectionSql;
  #socket: Socket | undefined;
  #backend: { readonly pid: number; readonly secret: number } | undefined;
  #alive = false;
  #ended = false;

  constructor(
    address: DatabaseAddress,
    target: Target,
    isFast: boolean,
    { onNotice, onClose }: Listeners,
  ) {
    this.#address = address;
    this.#target = target;
    this.#parameter = isFast ? new LargeParameter() : null;
    const options = {
      ...driverOptions(address, target),
      socket: () => this.#connect(),
      onnotify: onNotice,
      onclose: () => {
        this.#alive = false;
        // refuses all later statements at once; not earlier, or the driver would write to a destroyed socket
        void driver.end({ timeout: 0 });
        onClose();
      },
    };
    const driver = postgres(
      options as unknown as postgres.Options<Record<string, never>>,
    ) as unknown as Sql;
    this.sql = Object.assign(driver, {
      large: (text: Buffer) => this.#parameter?.set(text) ?? text.toString('latin1'),
      copyOut: (text: string) => this.#copyOut(text),
    });
  }

  /** Connected, and not cut off since. */
  get alive(): boolean {
    return this.#alive;
  }

  /** Connects; rejects when the server has another role. */
  async open(role: DatabaseAddress['role']): Promise<void> {
    const rows = await this.sql<[ServerState]>`
      select standby, standby or current_setting('default_transaction_read_only')::boolean as read_only
      from (select pg_is_in_recovery() as standby) as server`;
    this.#backend = rows.state;
    const { test, want } = FITS[role];
    if (!test(rows[0]))
      throw new DatabaseUnavailable('WRONG_ROLE', `no server of the list is ${want}`);
    this.#alive = !this.#ended;
  }

  /** Does some work, nothing else meanwhile. */
  async run<T>(work: Work<T>): Promise<T> {
    try {
      return await work(this.sql);
    } finally {
      this.#parameter?.clear(); // of a statement that failed before its parameters were asked for
    }
  }

  /** Ends it at once. @param cancel asks the server to stop what it is doing for it */
  cut(cancel: boolean): void {
    this.#alive = false;
    this.#ended = true;
    const end = () => this.#socket?.destroy();
    if (!cancel || this.#backend === undefined) return void end();
    // work may go on after its deadline, and must not commit: the driver refuses it from here on
    void this.sql.end();
    // a pooler forgets whom to cancel for as soon as the connection is gone
    void requestCancel(this.#target, this.#backend).then(end);
  }

  /** Ends it politely. */
  async end(): Promise<void> {
    this.#alive = false;
    await Promise.race([this.sql.end(), sleep(END_MS, undefined, { ref: false })]);
    this.#ended = true;
    this.#socket?.destroy();
  }

  async #connect(): Promise<Socket> {
    if (this.#socket !== undefined || this.#ended) throw connectionLost();
    const target = this.#target;
    const { encryption, keepaliveMs } = this.#address;
    let socket = connect(target);
    this.#socket = socket;
    socket.setKeepAlive(true, keepaliveMs).setNoDelay(true);
    await first(socket, 'connect');
    if ('host' in target && (await wantsTls(socket, encryption))) {
      socket = connectTls({ ...tlsOptions(target.host, encryption), socket });
      this.#socket = socket;
      await first(socket, 'secureConnect');
    }
    this.#parameter?.attach(socket);
    return socket;
  }

  async *#copyOut(text: string): AsyncGenerator<Buffer, void, undefined> {
    const query = this.sql.unsafe(text) as unknown as CopyQuery;
    const { resolve } = query;
    // the driver (3.4.9) emits an error that comes in the packet of the first rows before we can listen for it
    query.resolve = (stream) => {
      query.resolve = resolve; // called again at the end
      resolve(stream.on('error', () => {}));
    };
    let isLeft = false;
    try {
      for await (const piece of await query.readable()) {
        isLeft = true;
        yield piece;
        isLeft = false;
      }
    } finally {
      if (isLeft) this.cut(true);
      // with a full buffer the driver (3.4.9) pauses the socket, also where it has the end of the rows or their error
      // already: nobody would read the end of the statement
      else this.#socket?.resume();
    }
  }
}

function driverOptions(
  { user, password, database, settings }: DatabaseAddress,
  target: Target,
): object {
  const login = { user, password, database };
  const given = Object.entries(login).filter(([, value]) => value !== undefined);
  return {
    ...target,
    ...Object.fromEntries(given),
    // overrides the settings of the database: the driver reads times as ISO 8601, and in our statements a backslash
    // is a backslash; PgBouncer knows both settings
    connection: { ...settings, DateStyle: 'ISO', standard_conforming_strings: 'on' },
    types: TYPES,
    max: 1,
    prepare: false,
    fetch_types: false,
    idle_timeout: 0,
    connect_timeout: 0,
    max_lifetime: null,
    target_session_attrs: undefined,
    ssl: false,
    onnotice: () => {},
  };
}

/** Resolves at the first event of a kind; rejects when the socket fails or closes before it. */
function first<T>(socket: Socket, event: 'connect' | 'data' | 'secureConnect'): Promise<T> {
  return new Promise((resolve, reject) => {
    socket.once(event, resolve);
    socket.once('error', reject);
    socket.once('close', () => reject(connectionLost()));
  });
}

/** Whether to go on with TLS: asks the server whether it has it. Rejects where it has to and has not. */
async function wantsTls(socket: Socket, { mode }: Encryption): Promise<boolean> {
  if (mode === 'never') return false;
  socket.write(words(8, TLS_REQUEST));
  const answer = await first<Buffer>(socket, 'data');
  if (answer.toString('latin1') === HAS_TLS) return true;
  if (mode === 'prefer') return false;
  throw new DatabaseUnavailable('NO_TLS', 'the server has no TLS');
}

/** The host is named, or Node would verify the certificate of an IP address for "localhost". */
function tlsOptions(host: string, { options }: Encryption): TlsOptions {
  return { ...options, host, ...(isIP(host) === 0 && { servername: host }) };
}

/** Asks a server to cancel what a connection of ours is doing. Resolves when it was heard, or after CANCEL_MS. */
async function requestCancel(
  target: Target,
  { pid, secret }: { pid: number; secret: number },
): Promise<void> {
  const socket = connect(target).on('error', () => {});
  const timer = setTimeout(() => socket.destroy(), CANCEL_MS);
  socket.resume().write(words(16, CANCEL_REQUEST, pid, secret)); // the server answers by closing; a frozen one never answers
  await new Promise((resolve) => socket.once('close', resolve));
  clearTimeout(timer);
}

/** A message of the protocol that consists of numbers. */
function words(...numbers: readonly number[]): Buffer {
  const message = Buffer.alloc(4 * numbers.length);
  for (const [i, number] of numbers.entries()) message.writeUInt32BE(number, 4 * i);
  return message;
}
