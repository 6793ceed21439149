import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { Payer } from '../../src/domain/key.ts';
import { Calendar } from '../../src/domain/month.ts';
import type { LedgerStore } from '../../src/domain/ports.ts';
import { parseEur } from '../../src/domain/pricing/money.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { type UsageRecord, usageRecord } from '../../src/domain/usage.ts';
import { BatchLedger, type LedgerOptions } from '../../src/ledger/batch-ledger.ts';
import { type Disk, fileDisk } from '../../src/ledger/disk.ts';
import { Spool } from '../../src/ledger/spool.ts';
import { systemTiming, type Timing } from '../../src/ledger/timing.ts';
import { systemProcesses } from '../../src/runtime/processes.ts';
import type { Database, Sql } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { verifyLedger, verifySeals } from '../../src/store/statement/verify.ts';
import { testDatabase } from '../support/postgres.ts';
import { recordText } from '../support/record.ts';
import { until } from '../support/until.ts';

const { db } = await testDatabase(t);
const store = ledgerStore(db);
const calendar = new Calendar('UTC');
const read = <T>(work: (sql: Sql) => Promise<T>): Promise<T> => db.run(60_000, work);

const MODEL = {
  slug: 'fast',
  upstream: 'internal "fast" ünï',
  kind: 'chat',
  euHosted: true,
  acceptsTokens: false,
  prices: parsePrices('0.5', '1.5'),
  created: 0,
  next: null,
} as const;

/** A key nobody has used yet. */
function payer(companyId: string): Payer {
  return { id: randomUUID(), companyId };
}

/** A key with a budget of its own. */
function budgeted(companyId: string, id: string = randomUUID()): Payer {
  return { id, companyId, restriction: { budget: 1n } };
}

function record(
  companyId: string,
  more: { at?: number; slug?: string; requestId?: string; month?: string; payer?: Payer } = {},
): UsageRecord {
  const at = more.at ?? Date.now();
  const model = { ...MODEL, slug: more.slug ?? MODEL.slug };
  const admission = {
    requestId: more.requestId ?? randomUUID(),
    payer: more.payer ?? payer(companyId),
    model,
    endpoint: 'chat.completions',
    at,
    month: more.month ?? calendar.month(at),
    costCenter: '',
  } as const;
  return usageRecord(admission, { prompt: 1000, completion: 1000 }, 'upstream', 'completed');
}

const COST = parseEur('2');

interface Opened {
  readonly ledger: BatchLedger;
  readonly logged: string[];
  readonly folder: string;
}

function open(
  t: Test,
  options: Partial<LedgerOptions> & { folder?: string; disk?: Disk } = {},
): Opened {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'tollgate-spool-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const logged: string[] = [];
  const write = (fields: object, text: string): void =>
    void logged.push(`${text} ${JSON.stringify(fields)}`);
  const log = { warn: write, error: write };
  const uptime = () => performance.now();
  const spool = new Spool({
    disk: options.disk ?? fileDisk(false),
    processes: systemProcesses(),
    folder,
    id: randomUUID(),
    uptime,
    log,
  });
  const ledger = new BatchLedger({
    store,
    clock: Date.now,
    calendar,
    log,
    spool,
    ...options,
  });
  return { ledger, logged, folder };
}

/** Whether an error says so: the database is away, or refuses for good. */
function failure(unavailable: boolean, code = 'TEST'): Error {
  return Object.assign(new Error(code), { unavailable, code });
}

async function rowsOf(company: string): Promise<{ rows: number; spent: string }> {
  const [row] = await read(
    (sql) => sql<{ rows: number; spent: string }[]>`
      select (select count(*)::integer from api_usage where company_id = ${company}) as rows,
        coalesce((select sum(api_cost_eur)::text from monthly_spend where company_id = ${company}), '0') as spent`,
  );
  return row as { rows: number; spent: string };
}

async function nothingWrong(t: Test): Promise<void> {
  t.same((await read(verifyLedger)).differences, [], 'counters are the sums of their rows');
  t.equal((await read((sql) => verifySeals(sql))).total, 0, 'seals hold');
}

t.test('an answer ends once its record is on the disk, and not before', async (t) => {
  const away: LedgerStore = { ...store, insert: () => Promise.reject(failure(true)) };
  const { ledger, folder } = open(t, { store: away });
  ledger.start();
  const told: string[] = [];
  ledger.book(record(randomUUID()), { onBooked: () => told.push('a'), onThrown() {} });
  ledger.book(record(randomUUID()), { onBooked: () => told.push('b'), onThrown() {} });
  t.same(told, [], 'not in the same breath');
  await new Promise((resolve) => setImmediate(resolve));
  t.same(told, ['a', 'b'], 'although the database is away');
  t.ok(ledger.spoolBytes > 500);

  const other = open(t, { folder });
  other.ledger.start();
  t.equal(other.ledger.backlog, 0, 'not while its owner lives');
  await other.ledger.close(5000);
  t.equal(await ledger.close(100), 0, 'what is in the spool is not lost');
  t.ok(readdirSync(folder, { recursive: true }).some((name) => String(name).endsWith('.spool')));

  const next = open(t, { folder });
  next.ledger.start();
  t.equal(next.ledger.backlog, 2, 'its end is known at once, although its process lives on');
  await next.ledger.close(5000);
});

t.test(
  'while files cannot be read their records wait, the others are booked, and a stop leaves them',
  async (t) => {
    const company = randomUUID();
    let isAway = true;
    let isBlind = false;
    const real = fileDisk(false);
    const disk: Disk = {
      ...real,
      read(path) {
        if (isBlind && path.endsWith('.spool'))
          throw Object.assign(new Error('EMFILE'), { code: 'EMFILE' });
        return real.read(path);
      },
    };
    const shaky: LedgerStore = {
      ...store,
      insert: (...args) => (isAway ? Promise.reject(failure(true)) : store.insert(...args)),
    };
    const { ledger, folder } = open(t, { store: shaky, disk, maxInMemory: 10, maxFileBytes: 2000 });
    ledger.start();
    for (let n = 0; n < 40; n++) {
      ledger.book(record(company), null);
      await new Promise((resolve) => setImmediate(resolve));
    }
    isBlind = true;
    isAway = false;
    await until(async () => (await rowsOf(company)).rows === 10, 'what is in memory is booked');
    await until(() => ledger.backlog === 30, 'the rest counts on');
    t.notOk(ledger.spooling);
    ledger.book(record(company), null);
    await until(async () => (await rowsOf(company)).rows === 11, 'and so is what comes now');
    t.equal(await ledger.close(5000), 0);
    t.equal(ledger.backlog, 30, 'the last beat says that records stay');

    isBlind = false;
    const next = open(t, { folder });
    next.ledger.start();
    await until(() => next.ledger.backlog === 0, 'the next gateway books them');
    t.equal((await rowsOf(company)).rows, 41);
    t.equal(await next.ledger.close(5000), 0);
    t.same(readdirSync(folder), []);
  },
);

t.test('a waiter that fails is told so, and costs the others nothing', async (t) => {
  const { ledger } = open(t);
  const thrown: unknown[] = [];
  let told = false;
  const bad = () => {
    throw new Error('broken pipe');
  };
  ledger.book(record(randomUUID()), { onBooked: bad, onThrown: (error) => thrown.push(error) });
  ledger.book(record(randomUUID()), {
    onBooked: () => {
      told = true;
    },
    onThrown() {},
  });
  await new Promise((resolve) => setImmediate(resolve));
  t.ok(told);
  t.match(thrown, [{ message: 'broken pipe' }]);
  ledger.start();
  await ledger.close(5000);
});

t.test('a batch three times by two writers, acknowledgements lost, changes nothing', async (t) => {
  const company = randomUUID();
  const key = budgeted(company);
  const records = Array.from({ length: 300 }, (_, n) =>
    record(company, n % 3 === 0 ? { payer: key } : {}),
  );
  let lost = 0;
  let batches = 0;
  const forgetful: LedgerStore = {
    ...store,
    async insert(writer, batch, total) {
      const sums = await store.insert(writer, batch, total);
      batches += 1;
      if (lost < 6 && Math.random() < 0.7) {
        lost += 1;
        throw failure(true);
      }
      return sums;
    },
  };
  const ledgers = [open(t, { store: forgetful }), open(t, { store: forgetful })].map(
    ({ ledger }) => ledger,
  );
  for (const ledger of ledgers) ledger.start();
  for (const ledger of ledgers) {
    t.equal(await ledger.spentOf(payer(company), calendar.month(Date.now())), 0n);
    t.equal(await ledger.spentByKey(key, calendar.month(Date.now())), 0n);
  }
  for (let n = 0; n < 3; n++) {
    const before = batches;
    for (const ledger of ledgers) for (const one of records) ledger.book(one, null);
    await until(() => batches >= before + 2, 'two more batches are written');
  }
  await until(() => ledgers.every(({ backlog }) => backlog === 0), 'both have written everything');
  t.match(await rowsOf(company), { rows: 300, spent: /^600(\.0*)?$/ });
  for (const ledger of ledgers) {
    const spent = async () =>
      String(await ledger.spentOf(payer(company), calendar.month(Date.now())));
    await until(
      spent,
      'each knows the sum, with nothing counted twice',
      (sum) => sum === String(300n * COST),
    );
    const own = async () => String(await ledger.spentByKey(key, calendar.month(Date.now())));
    await until(own, 'and what one key spent of it', (sum) => sum === String(100n * COST));
    t.equal(await ledger.close(5000), 0);
  }
  await nothingWrong(t);
});

t.test(
  'what is booked in the turn in which another gateway has the spool is counted once',
  async (t) => {
    class TakenSpool extends Spool {
      override beat(): boolean {
        return false;
      }
    }
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-spool-'));
    const log = { warn() {}, error() {} };
    const place = {
      disk: fileDisk(false),
      processes: systemProcesses(),
      folder,
      id: randomUUID(),
      log,
    };
    const { ledger } = open(t, {
      folder,
      spool: new TakenSpool({ ...place, uptime: () => performance.now() }),
    });
    const company = randomUUID();
    ledger.book(record(company), null);
    ledger.start();
    await until(() => ledger.backlog === 0, 'the record is written');
    t.equal(await ledger.spentOf(payer(company), calendar.month(Date.now())), COST);
    await ledger.close(5000);
  },
);

t.test(
  'what another gateway took over is counted once by one that was only suspended',
  async (t) => {
    const company = randomUUID();
    const month = calendar.month(Date.now());
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-spool-'));
    const logged: string[] = [];
    const write = (fields: object, text: string): void =>
      void logged.push(`${text} ${JSON.stringify(fields)}`);
    const log = { warn: write, error: write };
    const state = { away: false, suspendedMs: 0 };
    const answer = <T>(work: () => Promise<T>): Promise<T> =>
      state.away ? Promise.reject(failure(true)) : work();
    const flaky: LedgerStore = {
      ...store,
      insert: (...args) => answer(() => store.insert(...args)),
      spend: (...args) => answer(() => store.spend(...args)),
      changedSpend: (...args) => answer(() => store.changedSpend(...args)),
    };
    const uptime = () => performance.now() + state.suspendedMs;
    const { self, isAlive } = systemProcesses();
    const processes = { self: { ...self, started: 'earlier' }, isAlive }; // others see a former process of this id
    const spool = new Spool({
      disk: fileDisk(false),
      processes,
      folder,
      id: randomUUID(),
      uptime,
      log,
    });
    const timing = { ...systemTiming(Date.now), uptime };
    const { ledger } = open(t, {
      store: flaky,
      folder,
      spool,
      timing,
      log,
      maxInMemory: 4,
      maxFileBytes: 1000,
    });
    const book = async (count: number): Promise<void> => {
      for (let n = 0; n < count; n++) {
        ledger.book(record(company), null);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    ledger.start();
    t.equal(await ledger.spentOf(payer(company), month), 0n);
    state.away = true;
    await until(() => !ledger.available, 'the outage is noticed');
    await book(12);
    const other = open(t, { folder });
    other.ledger.start();
    await until(
      async () => (await rowsOf(company)).rows === 12,
      'another gateway has taken them over',
    );
    state.suspendedMs = 40_000;
    await book(3); // which need a new file
    state.away = false;
    const spent = async () => String(await ledger.spentOf(payer(company), month));
    await until(
      async () => (await rowsOf(company)).rows === 15 && ledger.backlog === 0,
      'all is written',
    );
    await until(
      spent,
      'nothing of it counts as pending for good',
      (sum) => sum === String(15n * COST),
    );
    t.notMatch(logged.join(), /ENOENT/, 'and nothing is looked for where it is no longer');
    for (const each of [ledger, other.ledger]) t.equal(await each.close(5000), 0);
  },
);

t.test('the end loses what the disk refused only where it still does, and says so', async (t) => {
  const away: LedgerStore = { ...store, insert: () => Promise.reject(failure(true)) };
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  for (const full of [false, true]) {
    const company = randomUUID();
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-spool-'));
    const real = fileDisk(false);
    let refuses = false;
    const disk = {
      ...real,
      open(path: string) {
        const file = real.open(path);
        const append = (bytes: Buffer, length: number): void => {
          if (refuses) throw new Error('ENOSPC: no space left on device');
          file.append(bytes, length);
        };
        return { ...file, append };
      },
    };
    const { self, isAlive } = systemProcesses();
    const log = { warn() {}, error() {} };
    const processes = { self: { ...self, started: 'earlier' }, isAlive };
    const spool = new Spool({
      disk,
      processes,
      folder,
      id: randomUUID(),
      uptime: () => performance.now(),
      log,
    });
    const { ledger, logged } = open(t, { store: away, folder, spool });
    ledger.start();
    for (const state of [false, true, true]) {
      refuses = state;
      ledger.book(record(company), null);
      await turn();
    }
    t.notOk(ledger.spooling);
    refuses = full;
    t.equal(await ledger.close(100), full ? 2 : 0);
    t.match(logged.join(), new RegExp(`stay in the spool.*"records":${full ? 1 : 3}}`));
    const next = open(t, { folder });
    next.ledger.start();
    await until(
      async () => (await rowsOf(company)).rows === (full ? 1 : 3),
      'what is told to be there is there',
    );
    await next.ledger.close(5000);
  }
});

t.test('a deadlock is tried again, without a line in the log', async (t) => {
  const company = randomUUID();
  let deadlocks = 3;
  const unlucky: LedgerStore = {
    ...store,
    insert: (writer, batch, total) =>
      deadlocks-- > 0 ? Promise.reject(failure(true, '40P01')) : store.insert(writer, batch, total),
  };
  const { ledger, logged } = open(t, { store: unlucky });
  ledger.start();
  ledger.book(record(company), null);
  await until(() => ledger.backlog === 0, 'the record is written');
  t.same(logged, []);
  t.equal((await rowsOf(company)).rows, 1);
  await ledger.close(5000);
});

t.test('records the database refuses are set aside, and all others are booked', async (t) => {
  const company = randomUUID();
  const { ledger, logged } = open(t);
  // what a table would never take: a month that does not begin on its first day
  for (let n = 0; n < 1000; n++)
    ledger.book(record(company, n % 100 === 7 ? { month: '2026-11-21' } : {}), null);
  ledger.start();
  t.equal(await ledger.close(20_000), 0);
  t.equal((await rowsOf(company)).rows, 990);
  t.equal(ledger.setAside, 10);
  const aside = await read(
    (sql) =>
      sql`select reason, record::json ->> 'billing_month' as month from api_usage_set_aside where record like ${`%${company}%`}`,
  );
  t.equal(aside.length, 10);
  t.match(aside[0], { month: '2026-11-21', reason: /check constraint/ });
  t.match(logged.join(), /set aside/);
  await nothingWrong(t);
});

t.test('while a table, a function or a right is missing, records wait', async (t) => {
  const company = randomUUID();
  const { ledger, logged } = open(t);
  const rename = (from: string, to: string) =>
    read((sql) => sql`alter function ${sql(from)}(uuid, json) rename to ${sql(to)}`);
  await rename('book_usage', 'taken_away');
  for (let n = 0; n < 10; n++) ledger.book(record(company), null);
  ledger.start();
  await until(() => !ledger.available, 'the database takes no records');
  t.match(logged, [/records wait.*book_usage.*does not exist/]);
  await rename('taken_away', 'book_usage');
  await until(() => ledger.backlog === 0, 'all are booked');
  t.equal((await rowsOf(company)).rows, 10);
  t.equal(ledger.setAside, 0);
  await ledger.close(5000);
});

for (const code of ['DEADLINE', '57014']) {
  t.test(
    `a batch the database cannot take in time gets smaller until it can: ${code}`,
    async (t) => {
      const company = randomUUID();
      const sizes: number[] = [];
      const slow: LedgerStore = {
        ...store,
        insert(writer, batch, total) {
          const size = JSON.parse(batch.toString()).length;
          sizes.push(size);
          return size > 300
            ? Promise.reject(failure(true, code))
            : store.insert(writer, batch, total);
        },
      };
      const { ledger } = open(t, { store: slow });
      for (let n = 0; n < 800; n++) ledger.book(record(company), null);
      ledger.start();
      t.equal(await ledger.close(20_000), 0);
      t.equal((await rowsOf(company)).rows, 800);
      t.ok(sizes.some((size) => size <= 300));
    },
  );
}

t.test(
  'the month is the one of the admission, over every turn and step of the clock',
  async (t) => {
    for (const [zone, turn] of [
      ['Europe/Berlin', '2026-12-31T23:00:00Z'], // New Year there, an hour before UTC
      ['Europe/Berlin', '2026-03-29T01:00:00Z'], // the night that is an hour short
      ['Europe/Berlin', '2026-10-25T01:00:00Z'], // and the one that is an hour longer
      ['America/New_York', '2026-11-01T04:00:00Z'], // a month that begins in its night of the clock change
    ] as const) {
      const company = randomUUID();
      const local = new Calendar(zone);
      let now = Date.parse(turn) - 7_200_000;
      const { ledger } = open(t, { clock: () => now, calendar: local });
      ledger.start();
      const truth = new Map<string, number>();
      const format = new Intl.DateTimeFormat('en-CA', {
        timeZone: zone,
        year: 'numeric',
        month: '2-digit',
      });
      // forth in steps of ten minutes, with jumps of two hours either way
      for (let n = 0; n < 30; n++) {
        now += n % 10 === 4 ? 7_200_000 : n % 10 === 7 ? -7_200_000 : 600_000;
        const month = `${format.format(now)}-01`;
        truth.set(month, (truth.get(month) ?? 0) + 1);
        await ledger.spentOf(payer(company), local.month(now));
        ledger.book(record(company, { at: now, month: local.month(now) }), null);
      }
      t.equal(await ledger.close(5000), 0);
      const months = await read(
        (sql) => sql<{ month: string; rows: number }[]>`
        select billing_month::text as month, count(*)::integer as rows from api_usage where company_id = ${company} group by 1`,
      );
      t.same(
        new Map(months.map(({ month, rows }) => [month, rows])),
        truth,
        `${zone} around ${turn}`,
      );
    }
    await nothingWrong(t);
  },
);

t.test(
  'a month that begins while the database is away begins at nothing, and is read when it is back',
  async (t) => {
    const company = randomUUID();
    const before = recordText(record(company, { at: Date.parse('2026-11-30T12:00:00Z') }));
    await store.insert(randomUUID(), Buffer.from(`[${before}]`), null);
    let away = false;
    let reads = 0;
    const flaky = Object.fromEntries(
      Object.entries(store).map(([name, call]) => [
        name,
        (...args: never[]) =>
          away
            ? Promise.reject(failure(true))
            : (call as (...a: never[]) => Promise<unknown>)(...args).finally(() => {
                if (name === 'changedSpend') reads += 1;
              }),
      ]),
    ) as unknown as LedgerStore;
    let now = Date.parse('2026-11-30T23:59:59Z');
    const { ledger } = open(t, { store: flaky, clock: () => now });
    ledger.start();
    t.equal(await ledger.spentOf(payer(company), '2026-11-01'), COST);
    const key = budgeted(company);
    t.equal(await ledger.spentByKey(key, '2026-11-01'), 0n);
    await until(() => reads > 0, 'it has read the spend of the old month');
    away = true;
    now += 2000;
    t.equal(await ledger.spentOf(payer(company), '2026-12-01'), 0n, 'served on');
    t.equal(await ledger.spentByKey(key, '2026-12-01'), 0n, 'and so is a key with a budget');
    for (const strange of [
      () => ledger.spentOf(payer(randomUUID()), '2026-12-01'),
      () => ledger.spentByKey(budgeted(company), '2026-12-01'),
    ]) {
      t.match(await Promise.resolve(strange()).catch((error) => error), {
        name: 'service_unavailable',
      });
    }
    ledger.book(record(company, { at: now, month: '2026-12-01', payer: key }), null);
    t.equal(await ledger.spentOf(payer(company), '2026-12-01'), COST);
    t.equal(await ledger.spentByKey(key, '2026-12-01'), COST);
    await db.run(
      5000,
      (sql) =>
        sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, '2026-12-01T00:00:01Z', 1)`,
    );
    away = false;
    const spent = async () => String(await ledger.spentOf(payer(company), '2026-12-01'));
    await until(spent, 'the chat cost is counted', (sum) => sum === String(COST + parseEur('1')));
    await ledger.close(5000);
  },
);

t.test(
  'what a key with a budget spent counts at once here, and within a second elsewhere',
  async (t) => {
    const company = randomUUID();
    const key = budgeted(company);
    const month = calendar.month(Date.now());
    const [here, elsewhere] = [open(t).ledger, open(t).ledger];
    for (const ledger of [here, elsewhere]) {
      ledger.start();
      t.equal(await ledger.spentByKey(key, month), 0n);
    }
    here.book(record(company, { payer: key }), null);
    here.book(record(company), null);
    t.equal(
      await here.spentByKey(key, month),
      COST,
      'before it is in the database, and without that of other keys',
    );
    const seen = async () => String(await elsewhere.spentByKey(key, month));
    await until(seen, 'another gateway sees it', (sum) => sum === String(COST));
    t.equal(await here.spentByKey(key, month), COST, 'nothing counts twice');
    for (const ledger of [here, elsewhere]) await ledger.close(5000);
  },
);

t.test(
  'what others spent of an idle key is read when it is used; while that fails the known figure serves',
  async (t) => {
    const company = randomUUID();
    const key = budgeted(company);
    const month = calendar.month(Date.now());
    const state = { away: false, polls: 0, keyReads: 0 };
    const answer = <T>(work: () => Promise<T>): Promise<T> =>
      state.away ? Promise.reject(failure(true)) : work();
    const flaky: LedgerStore = {
      ...store,
      spend(ids, months) {
        if (ids.some((id) => id.includes('/'))) state.keyReads++;
        return answer(() => store.spend(ids, months));
      },
      changedSpend: (cursor) =>
        answer(() => store.changedSpend(cursor).finally(() => state.polls++)),
    };
    const [{ ledger: here }, { ledger: elsewhere }] = [open(t, { store: flaky }), open(t)];
    for (const ledger of [here, elsewhere]) ledger.start();
    t.equal(await here.spentOf(payer(company), month), 0n);
    t.equal(await here.spentByKey(key, month), 0n);
    const idleFrom = state.polls;
    await until(() => state.polls > idleFrom + 1, 'nobody asks for it between two polls');
    elsewhere.book(record(company, { payer: key }), null);
    const seen = async () => String(await here.spentOf(payer(company), month));
    await until(seen, 'the company spent', (sum) => sum === String(COST));
    t.equal(state.keyReads, 1, 'nothing is read of a key that nobody uses');
    state.away = true;
    t.equal(await here.spentByKey(key, month), 0n, 'served on');
    await until(() => !here.available, 'the outage is noticed');
    t.equal(await here.spentByKey(key, month), 0n, 'at once');
    state.away = false;
    const own = async () => String(await here.spentByKey(key, month));
    await until(own, 'and right again afterwards', (sum) => sum === String(COST));
    for (const ledger of [here, elsewhere]) await ledger.close(5000);
  },
);

t.test(
  'a key that gets a budget, or gets it back, is known to have spent what it spent without',
  async (t) => {
    const company = randomUUID();
    const plain = payer(company);
    const month = calendar.month(Date.now());
    const { ledger } = open(t);
    ledger.start();
    await ledger.spentOf(plain, month);
    ledger.book(record(company, { payer: plain }), null);
    await until(() => ledger.backlog === 0, 'the record is written');
    const first = budgeted(company, plain.id);
    t.equal(await ledger.spentByKey(first, month), COST);
    ledger.book(record(company, { payer: first }), null);
    ledger.book(record(company, { payer: { ...plain, restriction: null } }), null); // the budget was taken away
    const again = budgeted(company, plain.id);
    t.equal(await ledger.spentByKey(again, month), 2n * COST);
    const seen = async () => String(await ledger.spentByKey(again, month));
    await until(seen, 'what it spent meanwhile is read', (sum) => sum === String(3n * COST));
    await ledger.close(5000);
  },
);

t.test('what a dead gateway left in its spool counts for the key too', async (t) => {
  const company = randomUUID();
  const key = budgeted(company);
  const month = calendar.month(Date.now());
  const away: LedgerStore = { ...store, insert: () => Promise.reject(failure(true)) };
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-spool-'));
  const { self, isAlive } = systemProcesses();
  const processes = { self: { ...self, started: 'earlier' }, isAlive }; // as if it were a former process of this id
  const place = { disk: fileDisk(false), folder, id: randomUUID(), log: { warn() {}, error() {} } };
  const spool = new Spool({ ...place, processes, uptime: () => performance.now() });
  const dead = open(t, { store: away, folder, spool });
  dead.ledger.start();
  for (let n = 0; n < 3; n++) dead.ledger.book(record(company, { payer: key }), null);
  t.equal(await dead.ledger.close(100), 0);
  const { ledger } = open(t, { folder });
  ledger.start();
  const seen = async () => String(await ledger.spentByKey(key, month));
  await until(seen, 'what was left is counted', (sum) => sum === String(3n * COST));
  await ledger.close(5000);
  await nothingWrong(t);
});

t.test('the figures of very many keys are read a portion at a time', async (t) => {
  const company = randomUUID();
  const keys = Array.from({ length: 2500 }, () => budgeted(company));
  const sizes: number[] = [];
  const counting: LedgerStore = {
    ...store,
    spend(ids, months) {
      sizes.push(ids.length);
      return store.spend(ids, months);
    },
  };
  const { ledger } = open(t, { store: counting });
  ledger.start();
  const month = calendar.month(Date.now());
  const spent = await Promise.all(keys.map((key) => ledger.spentByKey(key, month)));
  t.ok(spent.every((sum) => sum === 0n));
  t.ok(Math.max(...sizes) <= 1000, `read ${sizes} at a time`);
  await ledger.close(5000);
});

t.test('a company asked for while the figure of another is read gets its own', async (t) => {
  const [first, second] = [randomUUID(), randomUUID()];
  const asked: Promise<unknown>[] = [];
  const slow: LedgerStore = {
    ...store,
    spend(companies, months) {
      if (asked.length === 0)
        asked.push(Promise.resolve(ledger.spentOf(payer(second), '2026-11-01')));
      return store.spend(companies, months);
    },
  };
  const { ledger } = open(t, { store: slow });
  ledger.start();
  t.equal(await ledger.spentOf(payer(first), '2026-11-01'), 0n);
  t.equal(await asked[0], 0n);
  await ledger.close(5000);
});

t.test(
  'a strict budget: what fits is admitted, once, by whatever replica, and never more',
  async (t) => {
    const { company } = await strictCompany(db, '10');
    const month = calendar.month(Date.now());
    const ledgers = [open(t), open(t), open(t)].map(({ ledger }) => ledger);
    for (const ledger of ledgers) ledger.start();
    const wants = Array.from({ length: 60 }, (_, n) => ({
      requestId: randomUUID(),
      on: ledgers[n % 3] as BatchLedger,
    }));
    const fits = await Promise.all(
      wants.map(({ requestId, on }) =>
        on.reserve({ requestId, companyId: company, month, amount: parseEur('3'), bounded: true }),
      ),
    );
    const admitted = wants.filter((_, n) => fits[n]);
    t.equal(admitted.length, 3, 'three times 3 of 10');
    const [first, second, third] = admitted as [
      (typeof wants)[0],
      (typeof wants)[0],
      (typeof wants)[0],
    ];
    const ask = (amount: string, bounded = true) =>
      (ledgers[0] as BatchLedger).reserve({
        requestId: randomUUID(),
        companyId: company,
        month,
        amount: parseEur(amount),
        bounded,
      });
    t.equal(await ask('1.000000000000001'), false);

    first.on.book(record(company, { requestId: first.requestId }), null); // costs 2
    await until(async () => (await rowsOf(company)).rows === 1, 'the call is booked');
    t.equal(await ask('2.000000000000001'), false, '2 are spent and 6 reserved');
    t.equal(await ask('2'), true);
    second.on.release(second.requestId);
    const reserved = () =>
      read((sql) => sql`select from budget_reservations where request_id = ${second.requestId}`);
    await until(async () => (await reserved()).length === 0, 'the reservation is released');
    t.equal(await ask('0', false), true, 'without a bound: as long as it is not reached');
    await read(
      (sql) =>
        sql`update budget_reservations set expires_at = now() - interval '1 second' where request_id = ${third.requestId}`,
    );
    t.equal(await ask('6'), true, 'a lease that ran out holds nothing');
    t.equal(await ask('0.1'), false);
    for (const ledger of ledgers) await ledger.close(5000);
  },
);

t.test(
  'a request that failed holds nothing of a strict budget when the next one asks',
  async (t) => {
    const { company } = await strictCompany(db, '10');
    const { ledger } = open(t); // not started: what ended is deleted by the next request alone
    const month = calendar.month(Date.now());
    const ask = (requestId: string) =>
      ledger.reserve({
        requestId,
        companyId: company,
        month,
        amount: parseEur('10'),
        bounded: true,
      });
    const failed = randomUUID();
    t.equal(await ask(failed), true);
    ledger.release(failed);
    t.equal(await ask(randomUUID()), true);
    t.equal(await ask(randomUUID()), false, 'that one is in flight');
  },
);

t.test('a strict budget is not guessed at: without the database there is no answer', async (t) => {
  const { company } = await strictCompany(db, '10');
  const away: LedgerStore = { ...store, reserve: () => Promise.reject(failure(true)) };
  const { ledger } = open(t, { store: away });
  const asked = ledger.reserve({
    requestId: randomUUID(),
    companyId: company,
    month: '2026-11-01',
    amount: 1n,
    bounded: true,
  });
  t.match(await asked.catch((error) => error), { name: 'service_unavailable' });
});

async function strictCompany(database: Database, budget: string): Promise<{ company: string }> {
  const [row] = await database.run(
    5000,
    (sql) => sql<{ id: string }[]>`
      insert into companies (name, monthly_budget_eur, budget_mode) values ('Strict', ${budget}, 'strict') returning id`,
  );
  return { company: (row as { id: string }).id };
}

/** A clock that moves when it is told to; what is ready then is dealt with. */
class Clock implements Timing {
  #now = Date.parse('2026-11-21T12:00:00Z');
  #due: { at: number; call: () => void }[] = [];
  readonly now = (): number => this.#now;
  readonly uptime = this.now;
  after(ms: number, call: () => void): () => void {
    const entry = { at: this.#now + ms, call };
    this.#due.push(entry);
    return () => {
      this.#due = this.#due.filter((each) => each !== entry);
    };
  }
  soon(call: () => void): void {
    setImmediate(call);
  }
  async pass(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (;;) {
      for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
      const next = this.#due.toSorted((a, b) => a.at - b.at)[0];
      if (next === undefined || next.at > end) break;
      this.#due = this.#due.filter((each) => each !== next);
      this.#now = Math.max(this.#now, next.at);
      next.call();
    }
    this.#now = end;
  }
}

/** A ledger under such a clock, with a database that answers at once and counts. */
function rest(t: Test) {
  const clock = new Clock();
  const asked = { spend: 0, inserts: 0, away: false };
  const answer = <T>(value: T): Promise<T> =>
    asked.away ? Promise.reject(failure(true)) : Promise.resolve(value);
  const quiet: LedgerStore = {
    ...store,
    insert: () => answer([]).finally(() => asked.inserts++),
    changedSpend: () => answer({ cursor: 'c', sums: [] }).finally(() => asked.spend++),
    touchKeys: () => answer(undefined),
  };
  const { ledger } = open(t, { store: quiet, timing: clock, clock: () => clock.now() });
  t.teardown(() => ledger.close(0));
  ledger.start();
  return { ledger, clock, asked };
}

t.test('the sums of a batch are told unless all of it was inserted', async (t) => {
  const company = randomUUID();
  const writer = randomUUID();
  const records = [1, 2, 3].map(() => recordText(record(company)));
  const insert = (some: readonly string[], total: bigint | null) =>
    store.insert(writer, Buffer.from(`[${some}]`), total);
  const sum = (eur: RegExp) => [{ id: company, month: calendar.month(Date.now()), eur }];
  t.match(
    await insert(records.slice(0, 1), null),
    sum(/^2(\.0+)?$/),
    'nobody knows what they cost',
  );
  t.match(await insert(records.slice(0, 2), 2n * COST), sum(/^2(\.0+)?$/), 'one was there already');
  t.same(await insert(records.slice(0, 2), 2n * COST), [], 'both were');
  t.equal(await insert(records.slice(2), COST), 'all');
});

t.test('keys know when they were last used, to the millisecond, and never earlier', async (t) => {
  const at = Date.parse('2026-11-21T10:15:30.123Z');
  const keys = await read(
    (sql) => sql<{ id: string }[]>`
      with company as (insert into companies (name, monthly_budget_eur) values ('touched', 1) returning id)
      insert into api_keys (company_id, name, digest, prefix, scopes)
      select id, 'key ' || n, sha256(convert_to('touched' || n, 'UTF8')), 'svc_xxxx', array['chat'] from company, generate_series(1, 3) n
      returning id::text`,
  );
  const [a, b] = keys.map(({ id }) => id) as [string, string];
  await store.touchKeys([
    [b, at + 877],
    [a, at],
    [b, at + 876], // the same key, as it was in memory before it was read anew
  ]);
  await store.touchKeys([
    [a, at - 1],
    [randomUUID(), at],
  ]);
  const rows = await read(
    (sql) => sql<{ at: string | null }[]>`
      select extract(epoch from last_used_at)::text as at from api_keys
      where id = any(${keys.map(({ id }) => id)}::uuid[]) order by name`,
  );
  t.same(
    rows.map((row) => row.at),
    ['1795256130.123000', '1795256131.000000', null],
  );
});

t.test('many keys are told a portion at a time, each once, and the rest at the end', async (t) => {
  const clock = new Clock();
  const told: string[][] = [];
  const quiet: LedgerStore = {
    ...store,
    insert: async () => [],
    changedSpend: async () => ({ cursor: 'c', sums: [] }),
    touchKeys: async (used) => void told.push(used.map(([id]) => id)),
  };
  const { ledger } = open(t, { store: quiet, timing: clock, clock: () => clock.now() });
  ledger.start();
  await clock.pass(20_000);
  for (let n = 0; n < 7000; n++) ledger.book(record(randomUUID()), null);
  await clock.pass(100);
  t.ok((told[0]?.length ?? 0) < 7000, 'the loop goes on in between');
  await clock.pass(2000);
  t.equal(new Set(told.flat()).size, 7000);
  for (let n = 0; n < 7000; n++) ledger.book(record(randomUUID()), null);
  await Promise.all([ledger.close(60_000), clock.pass(5000)]);
  t.equal(told.flat().length, 14_000);
  t.equal(new Set(told.flat()).size, 14_000);
});

t.test(
  'a key used often is told once each time, with its last use, and later where that failed',
  async (t) => {
    const clock = new Clock();
    let failures = 0;
    const told: (readonly [string, number])[][] = [];
    const quiet: LedgerStore = {
      ...store,
      insert: async () => [],
      changedSpend: async () => ({ cursor: 'c', sums: [] }),
      async touchKeys(used) {
        if (failures-- > 0) throw failure(true);
        told.push([...used]);
      },
    };
    const { ledger } = open(t, { store: quiet, timing: clock, clock: () => clock.now() });
    const { admission, ...rest } = record(randomUUID(), { at: clock.now() });
    const use = (at: number): void =>
      ledger.book({ ...rest, admission: { ...admission, requestId: randomUUID(), at } }, null);
    ledger.start();
    const began = clock.now();
    for (const later of [0, 1, 2]) use(began + later);
    await clock.pass(20_000);
    use(began + 21_000);
    await clock.pass(20_000);
    failures = 1;
    use(began + 41_000);
    await clock.pass(30_000);
    t.ok(failures < 1, 'it was refused once');
    await Promise.all([ledger.close(60_000), clock.pass(5000)]);
    t.same(told.flat(), [
      [admission.payer.id, began + 2],
      [admission.payer.id, began + 21_000],
      [admission.payer.id, began + 41_000],
    ]);
  },
);

t.test('at rest the spend is read so often that it is never older than a second', async (t) => {
  const { clock, asked } = rest(t);
  await clock.pass(100);
  t.equal(asked.spend, 1);
  for (let second = 1; second <= 10; second++) {
    await clock.pass(1000);
    t.ok(asked.spend > second, `${asked.spend} readings`);
  }
  t.ok(asked.spend <= 13, 'and not much more often');
});

t.test(
  'who hears that no spend changed does not read it; who hears that some did, reads at once',
  async (t) => {
    const { ledger, clock, asked } = rest(t);
    await clock.pass(100);
    for (let n = 0; n < 20; n++) {
      ledger.heard(false);
      await clock.pass(750);
    }
    t.equal(asked.spend, 1);
    ledger.heard(true);
    await clock.pass(1);
    t.equal(asked.spend, 2);
    await clock.pass(2000);
    t.equal(asked.spend, 4, 'and by itself where nobody tells it any more');
  },
);

t.test(
  'what is heard changes nothing for a database that was away: it is asked until it answers',
  async (t) => {
    const { ledger, clock, asked } = rest(t);
    await clock.pass(100);
    asked.away = true;
    await clock.pass(1000);
    t.notOk(ledger.available);
    const before = asked.spend;
    for (let n = 0; n < 10; n++) {
      ledger.heard(false);
      await clock.pass(100);
    }
    t.ok(asked.spend > before);
    t.notOk(ledger.available);
    asked.away = false;
    await clock.pass(1000);
    t.ok(ledger.available);
  },
);

t.test(
  'the first records after a rest are written as soon as any: few wait longer for others than many',
  async (t) => {
    const { ledger, clock, asked } = rest(t);
    const book = (count: number): void => {
      for (let n = 0; n < count; n++) ledger.book(record(randomUUID(), { at: clock.now() }), null);
    };
    await clock.pass(5000);
    book(1);
    await clock.pass(90);
    book(1);
    await clock.pass(150);
    t.equal(asked.inserts, 0, 'others may join them');
    await clock.pass(10);
    t.equal(asked.inserts, 1);
    t.equal(ledger.backlog, 0);
    await clock.pass(5000);
    book(500);
    await clock.pass(90);
    t.equal(asked.inserts, 1);
    await clock.pass(10);
    t.equal(asked.inserts, 2);
  },
);

t.test(
  'while the database takes no batch, the spend of other companies is read and reservations are kept',
  async (t) => {
    const { company } = await strictCompany(db, '10');
    const month = calendar.month(Date.now());
    let kept = 0;
    const stuck: LedgerStore = {
      ...store,
      insert: () => Promise.reject(failure(true, 'DEADLINE')),
      keepReservations: (...args) => {
        kept++;
        return store.keepReservations(...args);
      },
    };
    const { ledger } = open(t, { store: stuck });
    ledger.start();
    const someone = payer(randomUUID());
    t.equal(await ledger.spentOf(someone, month), 0n);
    ledger.book(record(someone.companyId, { payer: someone }), null);
    await until(() => !ledger.available, 'a batch failed');
    t.equal(
      await ledger.spentOf(payer(randomUUID()), month),
      0n,
      'of a company with no record in that batch',
    );
    const reservation = {
      requestId: randomUUID(),
      companyId: company,
      month,
      amount: COST,
      bounded: true,
    };
    t.equal(await ledger.reserve(reservation), true);
    ledger.release(reservation.requestId);
    await until(() => kept > 0, 'a reservation that ended is deleted');
    await ledger.close(0);
  },
);

t.test(
  'reservations whose leases may have run out are renewed before another one is made',
  async (t) => {
    const clock = new Clock();
    const done: string[] = [];
    let away = false;
    const answer = async <T>(what: string, result: T): Promise<T> => {
      if (away) throw failure(true);
      done.push(what);
      return result;
    };
    const log: LedgerStore = {
      ...store,
      changedSpend: () => answer('poll', { cursor: 'c', sums: [] }),
      reserve: (_writer, _lease, wanted) =>
        answer('reserve', new Map(wanted.map(({ requestId }) => [requestId, true]))),
      keepReservations: (_writer, _ended, renewed) => answer(`renew ${renewed.length}`, undefined),
    };
    const { ledger } = open(t, { store: log, timing: clock, clock: () => clock.now() });
    const ask = () =>
      ledger.reserve({
        requestId: randomUUID(),
        companyId: randomUUID(),
        month: '2026-11-01',
        amount: COST,
        bounded: true,
      });
    ledger.start();
    await clock.pass(100);
    t.equal(await ask(), true);
    away = true;
    await clock.pass(61_000);
    await t.rejects(ask(), { name: 'service_unavailable' });
    away = false;
    done.length = 0;
    t.equal(await ask(), true);
    t.same(done.filter((what) => what !== 'poll').slice(0, 2), ['renew 1', 'reserve']);
    await Promise.all([ledger.close(1000), clock.pass(5000)]);
  },
);
