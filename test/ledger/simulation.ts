import type { Payer } from '../../src/domain/key.ts';
import { Calendar } from '../../src/domain/month.ts';
import type {
  KeyAndMonth,
  LedgerStore,
  MaybeAsync,
  MonthSum,
  RefusedRecord,
} from '../../src/domain/ports.ts';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { readRecordCost } from '../../src/domain/record.ts';
import { type Admission, type UsageRecord, usageRecord } from '../../src/domain/usage.ts';
import { BatchLedger } from '../../src/ledger/batch-ledger.ts';
import type { Disk } from '../../src/ledger/disk.ts';
import { Spool } from '../../src/ledger/spool.ts';
import type { Timing } from '../../src/ledger/timing.ts';
import type { Processes } from '../../src/runtime/processes.ts';

/**
 * The metering core with clock, disk and database played by a seed: replicas book records
 * while processes die, stop or are suspended, disks fill up, descriptors run out, statements fail before or after they took effect, and
 * clocks step. Nothing here waits for real time.
 */
export interface Outcome {
  readonly booked: number;
  readonly rows: number;
  readonly kills: number;
  /** What must not be; empty when all is well. */
  readonly violations: readonly string[];
}

const REPLICAS = 3;
const LOAD_MS = 20_000; // virtual
const SUSPENDED_MS = 60_000; // so long that others take a process for dead
const START = Date.UTC(2026, 11, 31, 23, 59, 50); // the year turns in the middle of it
const COMPANIES = ['0', '1', '2'].map((n) => `00000000-0000-4000-8000-00000000000${n}`);
/** The one with a budget of the day. */
const DAILY = COMPANIES[0] as string;
/** Of every company, by turns with and without a budget of its own and an allowance; the rest have none. */
const BUDGETED = '20000000-0000-4000-8000-000000000000';
/** End users of the keys of each company; every third call names none. */
const PEOPLE = COMPANIES.map((_, n) => [
  { id: `30000000-0000-4000-8000-0000000000${n}0`, budget: null },
  { id: `30000000-0000-4000-8000-0000000000${n}1`, budget: null },
  null,
]);
const RESTRICTION = { budget: 1n, endUserBudget: 1n };
const POISON = 'poison';

export async function simulate(seed: number): Promise<Outcome> {
  const random = generator(seed);
  const time = new VirtualTime();
  const disk = new VirtualDisk(random);
  const database = new VirtualDatabase(random, time);
  const violations: string[] = [];
  const books = { booked: [], bookedBy: new Map(), lost: new Map() };
  const world: World = { random, time, disk, database, violations, ...books, clockOffset: 0 };
  const replicas = Array.from({ length: REPLICAS }, (_, n) => new Replica(world, n));
  let kills = 0;

  const later = (most: number, call: () => void): void => time.at(time.now + random() * most, call);
  const busy = (): boolean => time.now < LOAD_MS;
  const book = (): void => {
    if (!busy()) return;
    replicas[Math.floor(random() * REPLICAS)]?.book();
    later(20, book);
  };
  const disturb = (): void => {
    if (!busy()) return;
    const replica = replicas[Math.floor(random() * REPLICAS)] as Replica;
    const what = random();
    if (what < 0.3) {
      kills += 1;
      replica.kill();
      later(3000, () => replica.start());
    } else if (what < 0.5) {
      database.failing = true;
      later(4000, () => {
        database.failing = false;
      });
    } else if (what < 0.6) {
      disk.full = true;
      later(1500, () => {
        disk.full = false;
      });
    } else if (what < 0.7) world.clockOffset += (random() < 0.5 ? -1 : 1) * 7_200_000 * random();
    else if (what < 0.75) replica.suspend();
    else if (what < 0.8)
      void replica.close(1500 * random()).then(() => later(3000, () => replica.start()));
    else database.wildUntil = time.now + 2000;
    later(3000, disturb);
  };
  const look = (): void => {
    for (const replica of replicas) replica.check();
    if (busy()) later(100, look);
  };
  const ownRandom = generator(seed + 0.5); // what it decides changes nothing else that a seed stands for
  const blink = (): void => {
    disk.blind = busy() && !disk.blind;
    if (busy()) time.at(time.now + ownRandom() * (disk.blind ? 3000 : 6000), blink);
  };
  for (const replica of replicas) replica.start();
  blink();
  book();
  later(1000, disturb);
  look();
  await time.run(LOAD_MS);

  disk.full = false;
  disk.blind = false;
  database.failing = false;
  database.wildUntil = 0;
  for (const replica of replicas) replica.start();
  await time.run(LOAD_MS + 120_000); // those whose death cannot be looked up are adopted after 30 s
  for (const replica of replicas) {
    replica.check();
    void replica.close(10_000);
  }
  await time.run(LOAD_MS + 140_000);
  return {
    booked: world.booked.length,
    rows: database.rows.size,
    kills,
    violations: [...violations, ...settle(world)],
  };
}

interface World {
  readonly random: () => number;
  readonly time: VirtualTime;
  readonly disk: VirtualDisk;
  readonly database: VirtualDatabase;
  readonly violations: string[];
  readonly booked: Booked[];
  /** The same by the month and each id under which the ledger keeps its cost. */
  readonly bookedBy: Map<string, Sums>;
  /** How many records each process said it had lost when it stopped. */
  readonly lost: Map<string, number>;
  clockOffset: number;
}

/** What was booked of a company or a key, kept since each look adding it up would be most of the work. */
interface Sums {
  requests: number;
  cost: bigint;
  /** By the process that booked them, without those that can never be booked. */
  readonly own: Map<string, number>;
}

interface Booked {
  readonly record: UsageRecord;
  readonly at: number;
  /** The process that booked it. */
  readonly life: string;
  /** Its answer was ended. */
  told: boolean;
  /** The ledger said since then that all that waits is on the disk. */
  promised: boolean;
}

/**
 * After everything healed: the database holds each promised record once, all that those who stopped did not report as
 * lost, and nothing that was not booked.
 */
function settle({ booked, lost, database, disk }: World): string[] {
  const wrong: string[] = [];
  const known = new Map(booked.map((one) => [one.record.admission.requestId, one]));
  const missing = new Map<string, number>();
  for (const [id, { record, life, told, promised }] of known) {
    const poisoned = record.admission.model.slug === POISON;
    const there = poisoned ? database.refused.has(id) : database.rows.has(id);
    if (promised && !there) wrong.push(`${id} was promised and is not there`);
    if (told && !there) missing.set(life, (missing.get(life) ?? 0) + 1);
    if (poisoned && database.rows.has(id)) wrong.push(`${id} can never be booked and is there`);
  }
  for (const [life, said] of lost) {
    const count = missing.get(life) ?? 0;
    if (count > said) wrong.push(`${life} stopped and lost ${count}, and said ${said}`);
  }
  for (const [id, row] of database.rows) {
    const { record } = known.get(id) ?? {};
    if (record === undefined) wrong.push(`${id} was never booked`);
    else if (record.cost !== row.cost || record.admission.month !== row.month)
      wrong.push(`${id} is not as it was booked`);
  }
  for (const [key, spent] of database.spend) {
    const sum = [...database.rows].filter(([id, row]) =>
      figuresOf(row, row.month, known.get(id)?.record.admission).includes(key),
    );
    if (sum.reduce((total, [, { cost }]) => total + cost, 0n) !== spent.femto)
      wrong.push(`the counter ${key} is not its rows`);
  }
  if (disk.files.size > 0) wrong.push(`left on the disk: ${[...disk.files.keys()].join(', ')}`);
  return wrong;
}

interface Life {
  dead: boolean;
  stopping: boolean;
  /** When it is no longer suspended. */
  resumesAt: number;
  readonly name: string;
}

/** One gateway, life after life. */
class Replica {
  readonly #world: World;
  readonly #number: number;
  #ledger: BatchLedger | null = null;
  /** A key of each company, and the budgeted one of each. */
  #payers: Payer[] = [];
  #budgeted: Payer[] = [];
  #life: Life = { dead: true, stopping: false, resumesAt: 0, name: '' };
  /** Booked in this life, ended, and not promised. */
  #told: Booked[] = [];
  #lives = 0;
  #startedAt = 0;

  constructor(world: World, number: number) {
    this.#world = world;
    this.#number = number;
  }

  /** Neither dead nor stopping nor suspended. */
  get #isActive(): boolean {
    const { dead, stopping, resumesAt } = this.#life;
    return !dead && !stopping && resumesAt <= this.#world.time.now;
  }

  start(): void {
    if (!this.#life.dead) return;
    const { time, disk, database, random } = this.#world;
    if (disk.full || disk.blind) return void time.at(time.now + 500, () => this.start()); // it says so and does not start
    this.#lives += 1;
    const life: Life = {
      dead: false,
      stopping: false,
      resumesAt: 0,
      name: `${this.#number}-${this.#lives}`,
    };
    this.#life = life;
    this.#told = [];
    const log = { warn: () => {}, error: () => {} };
    const timing: Timing = {
      now: () => START + time.now + this.#world.clockOffset,
      uptime: () => time.now,
      after(ms, call) {
        let cancelled = false;
        time.at(time.now + ms, () => time.callIn(life, () => cancelled || call()));
        return () => {
          cancelled = true;
        };
      },
      soon: (call) => time.at(time.now + random(), () => time.callIn(life, call)),
    };
    // whether a dead process is seen to be dead at once, or only after its silence
    const place = random() < 0.5 ? 'here' : life.name;
    const processes: Processes = {
      self: { place, pid: this.#number, started: life.name },
      isAlive: (other) =>
        other.place === 'here' && place === 'here' ? living.has(other.started) : null,
    };
    const living = disk.living;
    living.add(life.name);
    const spool = new Spool({
      disk,
      processes,
      folder: 'spool',
      id: life.name,
      uptime: timing.uptime,
      log,
    });
    const calendar = new Calendar('UTC');
    this.#ledger = new BatchLedger({
      store: database.storeFor(life),
      clock: timing.now,
      calendar,
      log,
      spool,
      writer: life.name,
      timing,
      maxInMemory: 30,
      maxFileBytes: 8 * 1024,
    });
    this.#startedAt = time.now;
    this.#payers = COMPANIES.map((companyId) => ({ id: COMPANIES[0] as string, companyId }));
    this.#budgeted = COMPANIES.map((companyId) => ({
      id: BUDGETED,
      companyId,
      restriction: RESTRICTION,
    }));
    this.#ledger.start();
    for (const [index] of COMPANIES.entries()) this.#ask(index);
  }

  /** kill -9, perhaps in the middle of a write. */
  kill(): void {
    if (this.#life.dead) return;
    this.#promise();
    this.#life.dead = true;
    this.#world.disk.living.delete(this.#life.name);
    this.#world.disk.tear(this.#life.name);
  }

  /** The process stands still; then it books before it does anything else. */
  suspend(): void {
    const { time } = this.#world;
    if (!this.#isActive) return;
    this.#life.resumesAt = time.now + SUSPENDED_MS;
    this.#startedAt = this.#life.resumesAt;
    time.at(this.#life.resumesAt, () => {
      for (let n = 0; n < 20; n++) this.book();
    });
  }

  /** A clean stop, whatever disk and database do. */
  async close(patienceMs: number): Promise<void> {
    const life = this.#life;
    if (!this.#isActive) return;
    life.stopping = true;
    const lost = await (this.#ledger as BatchLedger).close(patienceMs);
    if (life.dead) return; // killed meanwhile
    this.#world.lost.set(life.name, lost);
    life.dead = true;
    this.#world.disk.living.delete(life.name);
  }

  #promise(): void {
    if (this.#ledger?.spooling !== true) return;
    for (const one of this.#told) one.promised = true;
    this.#told = [];
  }

  book(): void {
    if (!this.#isActive) return;
    const { random, time, booked, bookedBy, clockOffset } = this.#world;
    const index = Math.floor(random() * COMPANIES.length);
    const changed = random() < 0.01 ? this.#budgeted[index] : undefined;
    // as the directory has it once its budget was taken away, or given back
    if (changed !== undefined) {
      this.#budgeted[index] = {
        ...changed,
        restriction: changed.restriction === null ? RESTRICTION : null,
      };
    }
    const at = START + time.now + clockOffset;
    const poisoned = random() < 0.01;
    const admission: Admission = {
      requestId: `10000000-0000-7000-8000-${String(booked.length).padStart(12, '0')}`,
      payer: (random() < 0.5 ? this.#payers : this.#budgeted)[index] as Payer,
      model: {
        slug: poisoned ? POISON : 'good',
        upstream: 'ü"internal"',
        kind: 'chat',
        euHosted: true,
        acceptsTokens: false,
        prices: parsePrices('0.123456789012', '1.5'),
        created: 0,
        next: null,
      },
      endpoint: 'chat.completions',
      at,
      month: new Calendar('UTC').month(at),
      day: COMPANIES[index] === DAILY ? new Calendar('UTC').date(at) : '',
      costCenter: booked.length % 3 === 0 ? 'Einkauf "ü"' : '',
      endUser: PEOPLE[index]?.[(booked.length >> 1) % 3] ?? null,
    };
    const tokens = { prompt: Math.floor(random() * 1000), completion: Math.floor(random() * 1000) };
    const one: Booked = {
      record: usageRecord(admission, tokens, 'upstream', 'completed'),
      at: time.now,
      life: this.#life.name,
      told: false,
      promised: false,
    };
    booked.push(one);
    for (const key of figuresOf(admission.payer, admission.month, admission)) {
      const sums = bookedBy.get(key) ?? { requests: 0, cost: 0n, own: new Map() };
      bookedBy.set(key, sums);
      sums.requests += 1;
      sums.cost += one.record.cost;
      if (!poisoned) sums.own.set(one.life, (sums.own.get(one.life) ?? 0) + 1);
    }
    const ledger = this.#ledger as BatchLedger;
    ledger.book(one.record, {
      onThrown() {},
      onBooked: () => {
        one.told = true;
        this.#told.push(one);
        this.#promise();
      },
    });
  }

  /** What the budget gate would read is never above the truth, and not below what is a second old. */
  check(): void {
    const ledger = this.#ledger;
    if (ledger === null || !this.#isActive) return;
    this.#promise();
    const { random, time, violations } = this.#world;
    const present = new Calendar('UTC').month(START + time.now + this.#world.clockOffset);
    for (const [index, company] of COMPANIES.entries()) {
      void this.#checkUsage(this.#payers[index] as Payer, present);
      for (const month of ['2026-12-01', '2027-01-01']) {
        const known = figure(ledger.spentOf(stranger(company), month));
        const remembered = figure(ledger.spentOf(this.#payers[index] as Payer, month));
        if (known !== null) {
          if (remembered !== known)
            violations.push(`at ${time.now} ${company} ${month}: a key remembers ${remembered}`);
          this.#compare(company, month, known);
        }
        const budgeted = this.#budgeted[index] as Payer;
        const isIdle = budgeted.restriction === null || random() < 0.8; // then what others change is read when it is asked for
        const own = isIdle ? null : figure(ledger.spentByKey(budgeted, month));
        if (own !== null) this.#compare(`${company}/${BUDGETED}`, month, own);
        // some often, some seldom, some after they were not asked for in a while
        for (const [n, person] of (PEOPLE[index] ?? []).entries()) {
          if (
            person === null ||
            budgeted.restriction === null ||
            Math.floor(time.now / 100) % (1 + 7 * n) > 0
          )
            continue;
          const spent = figure(ledger.spentByEndUser(budgeted, month, person));
          if (spent !== null) this.#compare(`${company}/${BUDGETED}/${person.id}`, month, spent);
        }
      }
      if (company !== DAILY) continue;
      for (const day of ['2026-12-31', '2027-01-01']) {
        const all = figure(ledger.spentOnDay(stranger(company), day, 'company'));
        if (all !== null) this.#compare(`${company}//day`, day, all);
        const key = this.#budgeted[index] as Payer;
        const own = random() < 0.8 ? null : figure(ledger.spentOnDay(key, day, 'key'));
        if (own !== null) this.#compare(`${company}/${BUDGETED}/day`, day, own);
      }
    }
  }

  #compare(id: string, month: string, spent: bigint): void {
    const { database, time, violations } = this.#world;
    const truth = this.#booked(id, month)?.cost ?? 0n;
    if (spent > truth)
      violations.push(`at ${time.now} ${id} ${month}: ${formatEur(spent - truth)} too much`);
    const settled =
      Math.max(database.healthySince, database.wildUntil) < time.now - 3000 &&
      this.#startedAt < time.now - 3000;
    const old = database.spentBefore(`${id} ${month}`, time.now - 1000);
    if (settled && spent < old)
      violations.push(`at ${time.now} ${id} ${month}: ${formatEur(old - spent)} too little`);
  }

  /** What a key used is never above the truth, and has all of this life and what is a second old of the others. */
  async #checkUsage(payer: Payer, month: string): Promise<void> {
    const { database, time, violations } = this.#world;
    const life = this.#life;
    const id = `${payer.companyId}/${payer.id}`;
    const own = this.#booked(id, month)?.own.get(life.name) ?? 0;
    const old = database.spentBefore(`${id} ${month}`, time.now - 1000);
    const asked = (this.#ledger as BatchLedger).usageOf(payer, month);
    const used = asked instanceof Promise ? await asked.catch(() => null) : asked; // null: the database is away
    if (used === null || life.dead) return;
    const requests = this.#booked(id, month)?.requests ?? 0;
    const wrong = (text: string): void =>
      void violations.push(`at ${time.now} usage of ${id}: ${text}`);
    if (used.requests > requests) wrong(`${used.requests} requests of ${requests}`);
    if (used.cost < old) wrong(`${formatEur(old - used.cost)} too little`);
    if (used.requests < own) wrong(`${used.requests} requests, ${own} of them its own`);
  }

  /** @param id of a company or a key, see MonthSpend */
  #booked(id: string, month: string): Sums | undefined {
    return this.#world.bookedBy.get(`${id} ${month}`);
  }

  #ask(index: number): void {
    const ledger = this.#ledger as BatchLedger;
    figure(ledger.spentOf(stranger(COMPANIES[index] as string), '2026-12-01'));
    figure(ledger.spentByKey(this.#budgeted[index] as Payer, '2026-12-01'));
  }
}

/** null: it has to be read first. */
function figure(spent: MaybeAsync<bigint>): bigint | null {
  if (typeof spent === 'bigint') return spent;
  spent.catch(() => {});
  return null;
}

/** The figures of the ledger that a call of a key, or its row, moves: of company, key and end user, of month and day. */
function figuresOf(
  {
    companyId,
    ...row
  }: Pick<Payer, 'companyId'> & ({ readonly id: string } | { readonly keyId: string }),
  month: string,
  { at, endUser = null }: Partial<Pick<Admission, 'at' | 'endUser'>> = {},
): string[] {
  const [key, day] = ['id' in row ? row.id : row.keyId, new Calendar('UTC').date(at ?? 0)];
  return [
    `${companyId} ${month}`,
    `${companyId}/${key} ${month}`,
    `${companyId}//day ${day}`,
    `${companyId}/${key}/day ${day}`,
    ...(endUser === null ? [] : [`${companyId}/${key}/${endUser.id} ${month}`]),
  ];
}

/** A key that remembers nothing: the figure is looked up. */
function stranger(companyId: string): Payer {
  return { id: '', companyId };
}

/** Time that passes as fast as there is nothing to do. */
class VirtualTime {
  now = 0;
  #events: { at: number; order: number; call: () => void }[] = [];
  #order = 0;

  at(at: number, call: () => void): void {
    const event = { at: Math.max(at, this.now), order: this.#order++, call };
    let low = 0;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const other = this.#events[middle] as typeof event;
      if (other.at > event.at || (other.at === event.at && other.order > event.order))
        low = middle + 1;
      else high = middle;
    }
    this.#events.splice(low, 0, event); // the next one stands last
  }

  /** Calls back in a process: not when it is dead, and not while it is suspended. */
  callIn(life: Life, call: () => void): void {
    if (life.resumesAt > this.now) this.at(life.resumesAt + 1, () => this.callIn(life, call));
    else if (!life.dead) call();
  }

  async run(until: number): Promise<void> {
    for (;;) {
      const next = this.#events.at(-1);
      if (next === undefined || next.at > until) break;
      this.#events.pop();
      this.now = next.at;
      next.call();
      await new Promise((resolve) => setImmediate(resolve)); // whatever awaits goes on
    }
    this.now = until;
  }
}

/** A disk in memory that survives its processes and fills up at times. */
class VirtualDisk implements Disk {
  readonly files = new Map<string, { bytes: Buffer }>();
  readonly living = new Set<string>();
  readonly #times = new Map<string, number>();
  readonly #random: () => number;
  full = false;
  /** No file or folder can be opened: the process has no descriptor left. */
  blind = false;

  constructor(random: () => number) {
    this.#random = random;
  }

  #see(): void {
    if (this.blind) throw failureOf('EMFILE');
  }

  makeFolder(): void {}

  list(path: string): string[] {
    this.#see();
    const names = [...this.files.keys()].filter((name) => name.startsWith(`${path}/`));
    return [
      ...new Set(names.map((name) => name.slice(path.length + 1).split('/')[0] as string)),
    ].sort();
  }

  open(path: string) {
    this.#see();
    if (this.full) throw new Error('ENOSPC');
    const file = { bytes: Buffer.alloc(0) };
    this.files.set(path, file);
    return {
      append: (bytes: Buffer, length: number): void => {
        const written = this.full ? Math.floor(this.#random() * length) : length;
        file.bytes = Buffer.concat([file.bytes, bytes.subarray(0, written)]);
        if (this.full) throw new Error('ENOSPC');
      },
      truncate(size: number): void {
        file.bytes = file.bytes.subarray(0, size);
      },
      close: (): void => {},
    };
  }

  read(path: string): Buffer {
    this.#see();
    const file = this.files.get(path);
    if (file === undefined) throw failureOf('ENOENT');
    return file.bytes;
  }

  write(path: string, text: string): void {
    this.#see();
    this.files.set(path, { bytes: Buffer.from(text) });
    this.touch(path);
  }

  rename(from: string, to: string): void {
    const moving = [...this.files].filter(([name]) => name === from || name.startsWith(`${from}/`));
    if (moving.length === 0) throw failureOf('ENOENT');
    for (const [name, file] of moving) {
      this.files.delete(name);
      this.files.set(to + name.slice(from.length), file);
    }
  }

  remove(path: string): void {
    this.files.delete(path);
  }

  removeFolder(): void {}

  touch(path: string): boolean {
    if (!this.files.has(path)) return false;
    this.#times.set(path, (this.#times.get(path) ?? 0) + 1);
    return true;
  }

  time(path: string): number | null {
    return this.files.has(path) ? (this.#times.get(path) ?? 0) : null;
  }

  /** A process died while it appended: half a line is there. */
  tear(life: string): void {
    const path = [...this.files.keys()]
      .filter((name) => name.startsWith(`spool/${life}/`) && name.endsWith('.spool'))
      .at(-1);
    if (path === undefined || this.#random() < 0.5) return;
    const line = '000001c3 5f0a9c21 {"billing_month":"2026-12-01","request_id":"torn';
    const torn = Buffer.from(line.slice(0, Math.floor(this.#random() * line.length)));
    const file = this.files.get(path) as { bytes: Buffer };
    file.bytes = Buffer.concat([file.bytes, torn]);
  }
}

function failureOf(code: string): Error {
  return Object.assign(new Error(code), { code });
}

interface Row {
  readonly companyId: string;
  readonly keyId: string;
  readonly month: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cost: bigint;
}

/** A database that takes each record once, when and if it answers. */
class VirtualDatabase {
  readonly rows = new Map<string, Row>();
  readonly refused = new Set<string>();
  readonly spend = new Map<string, { femto: bigint; version: number }>();
  /** Nobody can reach it. */
  #failing = false;
  /** Until then statements fail before or after they took effect. */
  wildUntil = 0;
  healthySince = 0;
  #version = 0;
  /** By key, what it had spent from each instant on. */
  readonly #history = new Map<string, { at: number; femto: bigint }[]>();
  readonly #random: () => number;
  readonly #time: VirtualTime;

  constructor(random: () => number, time: VirtualTime) {
    this.#random = random;
    this.#time = time;
  }

  set failing(failing: boolean) {
    this.#failing = failing;
    this.healthySince = failing ? Number.POSITIVE_INFINITY : this.#time.now;
  }

  spentBefore(key: string, at: number): bigint {
    return this.#history.get(key)?.findLast((one) => one.at <= at)?.femto ?? 0n;
  }

  storeFor(life: Life): LedgerStore {
    const run = <T>(work: () => T): Promise<T> => this.#run(life, work);
    return {
      insert: (_writer, records, total) => run(() => this.#insert(records, total)),
      setAside: (refused: readonly RefusedRecord[]) =>
        run(() => {
          for (const { record } of refused)
            this.refused.add(readRecordCost(record)?.requestId ?? record);
        }),
      spend: (ids, months) =>
        run(() => {
          const keys = ids.flatMap((id) => months.map((month) => `${id} ${month}`));
          return this.#sums(keys.filter((key) => this.spend.has(key)));
        }),
      changedSpend: (cursor) =>
        run(() => {
          const changed = [...this.spend].filter(
            ([, { version }]) => cursor !== null && version >= Number(cursor),
          );
          const ofCompanies = changed.map(([key]) => key).filter((key) => !key.includes('/'));
          return { cursor: `${this.#version}`, sums: this.#sums(ofCompanies) };
        }),
      keyUsage: (keys) => run(() => keys.flatMap((key) => this.#usage(key))),
      calls: () => run(() => []),
      touchKeys: () => run(() => {}),
      reserve: () => run(() => new Map<string, boolean>()),
      keepReservations: () => run(() => {}),
    };
  }

  #run<T>(life: Life, work: () => T): Promise<T> {
    const wild = this.#time.now < this.wildUntil;
    const fate = wild ? this.#random() : 1;
    return new Promise((resolve, reject) => {
      const answer = (settle: () => void): void => this.#time.callIn(life, settle);
      const away = (code: string) => Object.assign(new Error(code), { unavailable: true, code });
      this.#time.at(this.#time.now + 1 + this.#random() * 30, () => {
        if (this.#failing) return answer(() => reject(away('ECONNREFUSED')));
        if (fate < 0.2) return answer(() => reject(away('ECONNRESET'))); // before it took effect
        if (fate < 0.3) return answer(() => reject(away('40P01')));
        if (fate < 0.45) {
          // our deadline passes, the statement goes on: what comes next waits for its locks, so it is done first
          attempt(
            work,
            () => {},
            () => {},
          );
          return answer(() => reject(away('DEADLINE')));
        }
        attempt(
          work,
          (value) => {
            if (fate < 0.65)
              answer(() => reject(away('ECONNRESET'))); // it took effect, and nobody was told
            else answer(() => resolve(value));
          },
          (error) => answer(() => reject(error)),
        );
      });
    });
  }

  #insert(records: Buffer, total: bigint | null): MonthSum[] | 'all' {
    const batch = membersOf(records.toString()).map((json) => ({
      json,
      record: JSON.parse(json),
      cost: readRecordCost(json),
    }));
    if (batch.some(({ record }) => record.model_slug === POISON)) {
      throw Object.assign(new Error('poison'), { unavailable: false, code: '22000' });
    }
    const fresh = new Map<string, bigint>();
    for (const { record, cost } of batch) {
      if (cost === null) throw new Error('no record');
      if (this.rows.has(record.request_id)) continue;
      this.rows.set(record.request_id, cost);
      const endUser =
        record.end_user_id === undefined
          ? null
          : { id: record.end_user_id as string, budget: null };
      const call = { at: Date.parse(record.occurred_at), endUser };
      for (const key of figuresOf(cost, cost.month, call)) {
        fresh.set(key, (fresh.get(key) ?? 0n) + cost.cost);
      }
    }
    this.#version += 1;
    for (const [key, femto] of fresh) {
      const total = (this.spend.get(key)?.femto ?? 0n) + femto;
      this.spend.set(key, { femto: total, version: this.#version });
      const history = this.#history.get(key) ?? [];
      history.push({ at: this.#time.now, femto: total });
      this.#history.set(key, history);
    }
    const sums = [...fresh].filter(([key]) => !key.includes('/'));
    const sum = sums.reduce((all, [, femto]) => all + femto, 0n);
    return sums.length > 0 && sum === total ? 'all' : sums.map(([key, femto]) => sumOf(key, femto));
  }

  #usage(key: KeyAndMonth) {
    const rows = [...this.rows.values()].filter(
      ({ keyId, companyId, month }) =>
        keyId === key.keyId && companyId === key.companyId && month === key.month,
    );
    if (rows.length === 0) return [];
    const sum = (count: (row: Row) => number): number =>
      rows.reduce((total, row) => total + count(row), 0);
    return {
      ...key,
      requests: rows.length,
      promptTokens: sum(({ promptTokens }) => promptTokens),
      completionTokens: sum(({ completionTokens }) => completionTokens),
      eur: formatEur(rows.reduce((total, { cost }) => total + cost, 0n)),
    };
  }

  #sums(keys: readonly string[]): MonthSum[] {
    return keys.map((key) => sumOf(key, this.spend.get(key)?.femto ?? 0n));
  }
}

/** The texts of an array's members, each as it was written. */
function membersOf(array: string): string[] {
  const members = array
    .slice(1, -1)
    .split(/(?<=\})\s*,(?=\{)/)
    .map((json) => json.trim());
  if (members.length !== JSON.parse(array).length) throw new Error('no array of records');
  return members;
}

function sumOf(key: string, femto: bigint): MonthSum {
  const [id, month] = key.split(' ') as [string, string];
  return { id, month, eur: formatEur(parseEur(formatEur(femto))) };
}

function attempt<T>(
  work: () => T,
  done: (value: T) => void,
  failed: (error: unknown) => void,
): void {
  let value: T;
  try {
    value = work();
  } catch (error) {
    failed(error);
    return;
  }
  done(value);
}

/** mulberry32: the same numbers for the same seed. */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
