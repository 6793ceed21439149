import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Payer } from '../../src/domain/key.ts';
import type { LedgerStore } from '../../src/domain/ports.ts';
import { formatEur } from '../../src/domain/pricing/money.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { type UsageRecord, usageRecord } from '../../src/domain/usage.ts';
import { BatchLedger } from '../../src/ledger/batch-ledger.ts';
import { systemTiming } from '../../src/ledger/timing.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { thrownBy } from '../support/client.ts';
import { testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';

const { db } = await testDatabase(t);
const store = ledgerStore(db);
const MONTH = '2026-11-01';
const MODEL = {
  slug: 'fast',
  upstream: 'internal-fast',
  kind: 'chat',
  euHosted: true,
  acceptsTokens: false,
  created: 0,
  next: null,
  prices: parsePrices('0.000000000001', '1.5'),
} as const;
const AWAY = Object.assign(new Error('away'), { unavailable: true, code: 'TEST' });

const newPayer = (): Payer => ({ id: randomUUID(), companyId: randomUUID() });

function record(payer: Payer, month = MONTH): UsageRecord {
  const at = Date.parse(`${month}T12:00:00Z`);
  const endpoint = 'chat.completions';
  const admission = {
    requestId: randomUUID(),
    payer,
    model: MODEL,
    endpoint,
    at,
    month,
    costCenter: '',
  } as const;
  return usageRecord(admission, { prompt: 7, completion: 3 }, 'upstream', 'completed');
}

/** A ledger whose monotonic clock stands still until it is moved, and the sizes of its readings of usage. */
function open(t: Test, more: Partial<LedgerStore> = {}) {
  const readings: number[] = [];
  const clock = { now: 0 };
  const ledger = new BatchLedger({
    store: {
      ...store,
      keyUsage: (keys) => {
        readings.push(keys.length);
        return store.keyUsage(keys);
      },
      ...more,
    },
    clock: Date.now,
    calendar: { date: () => MONTH },
    log: { warn: () => {}, error: () => {} },
    timing: { ...systemTiming(Date.now), uptime: () => clock.now },
  });
  ledger.start();
  t.teardown(() => ledger.close(1000));
  const used = async (payer: Payer, month = MONTH) => {
    const { requests, promptTokens, completionTokens, cost } = await ledger.usageOf(payer, month);
    return [requests, promptTokens, completionTokens, formatEur(cost)];
  };
  return { ledger, readings, clock, used };
}

t.test(
  'what a key used has the rows of all gateways, and what this one has not written yet',
  async (t) => {
    const payer = newPayer();
    const { ledger, used } = open(t);
    t.same(await used(payer), [0, 0, 0, '0']);
    const of = { company: payer.companyId, key: payer.id };
    await db.run(60_000, (sql) =>
      addUsage(sql, [{ ...of, prompt: 1000, input: '0.2' }, { company: payer.companyId }]),
    );
    const other = open(t);
    other.ledger.book(record(payer), null);
    other.ledger.book(record(payer, '2026-10-01'), null);
    other.ledger.book(record({ ...payer, id: randomUUID() }), null);
    t.same(await other.used(payer), [2, 1007, 3, '0.204500000000007']);
    t.same(await used(payer), [0, 0, 0, '0'], 'kept for a second');
    await until(() => other.ledger.backlog === 0, 'the records are written');
    t.same(
      await other.used(payer),
      [2, 1007, 3, '0.204500000000007'],
      'counted once before and after',
    );
    other.clock.now += 1000;
    t.same(await other.used(payer), [2, 1007, 3, '0.204500000000007'], 'and when it is read again');
    t.equal(ledger.backlog, 0);
  },
);

t.test(
  'a key is read once a second, whoever asks, and what is booked meanwhile is in it',
  async (t) => {
    const payers = Array.from({ length: 20 }, newPayer);
    const { ledger, readings, clock, used } = open(t);
    const asked = payers.flatMap((payer) => [used(payer), used(payer), used(payer)]);
    t.same(new Set((await Promise.all(asked)).map(String)), new Set(['0,0,0,0']));
    const [payer] = payers as [Payer];
    for (let n = 1; n <= 10; n++) {
      ledger.book(record(payer), null);
      ledger.book(record(payer, '2026-10-01'), null);
      t.same((await used(payer)).slice(0, 2), [n, 7 * n]);
    }
    t.same(readings, [20], 'all in one statement');
    clock.now += 999;
    await used(payer);
    t.equal(readings.length, 1);
    clock.now += 1;
    t.same(await used(payer), [10, 70, 30, '0.04500000000007']);
    t.same(readings, [20, 1]);
  },
);

t.test(
  'keys that are asked for one after the other are read together, twenty times a second',
  async (t) => {
    const { readings, clock, used } = open(t);
    await used(newPayer());
    const waiting = [used(newPayer())];
    for (let n = 0; n < 3; n++) await store.spend([], []); // time enough for a reading that is due
    waiting.push(used(newPayer()));
    t.same(readings, [1]);
    clock.now += 50;
    await Promise.all(waiting);
    t.same(readings, [1, 2]);
  },
);

t.test('with the database away, and when too many keys wait, the answer is 503', async (t) => {
  let away = true;
  const full = open(t, {
    keyUsage: (keys) => (away ? Promise.reject(AWAY) : store.keyUsage(keys)),
  });
  t.match(await thrownBy(full.used(newPayer())), { status: 503 });
  t.match(
    await thrownBy(full.used(newPayer())),
    { status: 503 },
    'at once while the database is known to be away',
  );
  away = false;
  await until(() => full.ledger.available, 'the database is back');
  full.clock.now += 50;
  const asked = Array.from({ length: 501 }, () =>
    full.used(newPayer()).catch(({ status }) => status),
  );
  const answers = await Promise.all(asked);
  t.equal(answers.filter((answer) => answer === 503).length, 1);
  t.equal(answers.at(-1), 503);
});

t.test(
  'companies with many keys leave some of a reading to others, two of them as well',
  async (t) => {
    for (const companies of [1, 2]) {
      const { used } = open(t);
      const asked = Array.from({ length: companies }, () => randomUUID()).flatMap((companyId) =>
        Array.from({ length: 500 }, () =>
          used({ id: randomUUID(), companyId }).then(String, ({ name }) => name),
        ),
      );
      t.same(await used(newPayer()), [0, 0, 0, '0']);
      const refused = (await Promise.all(asked)).filter(
        (answer) => answer === 'service_unavailable',
      );
      const read = asked.length - refused.length;
      t.ok(read > 400 && read < 500, `${read} of ${companies}`);
    }
  },
);
