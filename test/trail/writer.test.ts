import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import type { EndedRequest, TrailStore } from '../../src/domain/ports.ts';
import { newRequestId } from '../../src/runtime/request-id.ts';
import { DatabaseUnavailable } from '../../src/store/connection/errors.ts';
import { TrailWriter } from '../../src/trail/writer.ts';
import { until } from '../support/until.ts';

/** A store that takes rows, or fails as a test says. */
function fakeStore() {
  const batches: Record<string, unknown>[][] = [];
  const kept: (readonly [days: number, first: string, last: string])[] = [];
  const fake = {
    batches,
    kept,
    hours: 0,
    error: null as Error | null,
    asked: 0,
    store: {
      async insert(rows) {
        fake.asked++;
        await setImmediate();
        if (fake.error !== null) throw fake.error;
        batches.push(JSON.parse(rows.toString('latin1')));
      },
      async keep(...asked) {
        kept.push(asked);
      },
      async trimHours() {
        fake.hours++;
        return false;
      },
    } satisfies TrailStore,
  };
  return fake;
}

const log = { warn() {}, info() {} };
const COMPANY = '7d9c0000-0000-4000-8000-000000000000';
const OTHER = '7d9c0000-0000-4000-8000-000000000001';
const AT = Date.parse('2026-11-22T23:59:59.999Z');

function ended(change: Partial<EndedRequest> & { status?: number } = {}): EndedRequest {
  const { status = 200, at = AT, ...more } = change;
  const reply = { requestId: newRequestId(at), status, failure: null };
  return {
    at,
    reply,
    endpoint: 'models',
    companyId: null,
    keyId: null,
    asked: null,
    slug: null,
    meter: null,
    ...more,
  };
}

t.test('requests of a moment are one statement, after room was made for their days', async (t) => {
  const { store, batches, kept } = fakeStore();
  const writer = new TrailWriter({ store, days: 3, log, gatherMs: 5 });
  t.teardown(() => writer.close());
  const [first, last] = [ended(), ended({ at: AT + 1 })];
  writer.add(first, 12.6, 0.0634, Number.NaN);
  writer.add(last, 1, 0, 400.4);
  await until(() => batches.length > 0, 'a batch');
  t.same(batches, [
    [
      {
        i: first.reply.requestId,
        t: '2026-11-22T23:59:59.999Z',
        e: 'models',
        s: 200,
        d: 13,
        a: 63,
      },
      {
        i: last.reply.requestId,
        t: '2026-11-23T00:00:00.000Z',
        e: 'models',
        s: 200,
        d: 1,
        a: 0,
        f: 400,
      },
    ],
  ]);
  t.ok(kept.some((each) => `${each}` === '3,2026-11-22,2026-11-23'));
  t.equal(writer.written, 2);
});

t.test('texts of callers and of the upstream are what a database takes', async (t) => {
  const { store, batches } = fakeStore();
  const writer = new TrailWriter({ store, days: 3, log, gatherMs: 5 });
  t.teardown(() => writer.close());
  const failure = { name: 'not_found', code: null, param: 'Dear diary' };
  const said = { status: 500, reason: `a\0b\ud800 "ü" ${'x'.repeat(2000)}` };
  const meter = {
    outcome: null,
    tokens: { prompt: 1, completion: 2 },
    cost: '0.000025',
    failure: said,
  };
  const reply = { requestId: newRequestId(AT), status: 502, failure };
  writer.add(ended({ reply, asked: 'gpt-5 please', slug: null, meter }), 1, 1, Number.NaN);
  await until(() => batches.length > 0, 'a batch');
  const row = batches[0]?.[0] as Record<string, string>;
  t.match(row, {
    s: 502,
    x: 'not_found',
    p: '(no name)',
    q: '(no name)',
    o: 'client_aborted',
    n: 1,
    g: 2,
    u: 500,
  });
  t.equal(row.v, 0.000025);
  t.equal(row.r?.length, 600 - 1, 'the words are shortened');
  t.ok(row.r?.startsWith('ab\ufffd "ü" x'), 'without NUL and half characters');
});

t.test(
  'while the database is away memory is bounded, requests beyond are counted, and nothing waits',
  async (t) => {
    const fake = fakeStore();
    fake.error = new DatabaseUnavailable('X', 'away');
    const writer = new TrailWriter({ store: fake.store, days: 3, log, gatherMs: 5 });
    t.teardown(() => writer.close());
    const one = ended({ companyId: COMPANY });
    const most = 250_000;
    for (let i = 0; i < most; i++) writer.add(one, 1, 1, Number.NaN);
    const { dropped } = writer;
    t.ok(dropped > 0 && dropped < most - 50_000, `${dropped} of ${most} are dropped, the newest`);
    await until(() => fake.asked > 2, 'it tries again');
    t.equal(writer.written, 0);
    fake.error = null;
    await until(() => writer.written === most - dropped, 'what was kept is written');
    t.equal(fake.batches.flat().length, most - dropped);
    writer.add(one, 1, 1, Number.NaN);
    await until(() => writer.written === most - dropped + 1, 'and what comes later');
    t.equal(writer.dropped, dropped);
  },
);

t.test('a flood of one company leaves room for requests of another, in each outage', async (t) => {
  const fake = fakeStore();
  const writer = new TrailWriter({ store: fake.store, days: 3, log, gatherMs: 5 });
  t.teardown(() => writer.close());
  const flood = ended({ companyId: COMPANY, status: 404 });
  const other = ended({ companyId: OTHER });
  for (let outage = 1; outage <= 2; outage++) {
    fake.error = new DatabaseUnavailable('X', 'away');
    const before = writer.dropped + writer.written;
    for (let i = 0; i < 200_000; i++) {
      writer.add(flood, 1, 1, Number.NaN);
      if (i % 100 === 0) writer.add(other, 1, 1, Number.NaN);
    }
    fake.error = null;
    await until(
      () => writer.dropped + writer.written === before + 202_000,
      'what was kept is written',
    );
    const rows = fake.batches.flat();
    t.equal(rows.filter(({ c }) => c === OTHER).length, 2000, 'all of the other are kept');
    t.ok(rows.length > 70_000, `${rows.length}: the flood has most of the room`);
    fake.batches.length = 0;
  }
});

t.test('rows that the database refuses are dropped, and hold up no others', async (t) => {
  const fake = fakeStore();
  fake.error = Object.assign(new Error('no partition'), { unavailable: false });
  const writer = new TrailWriter({ store: fake.store, days: 3, log, gatherMs: 5 });
  t.teardown(() => writer.close());
  writer.add(ended(), 1, 1, Number.NaN);
  await until(() => writer.dropped === 1, 'it is dropped');
  fake.error = null;
  writer.add(ended(), 1, 1, Number.NaN);
  await until(() => writer.written === 1, 'the next is written');
});

t.test('closing writes what waits, and gives up on a database that is away', async (t) => {
  const fake = fakeStore();
  const writer = new TrailWriter({ store: fake.store, days: 3, log, gatherMs: 60_000 });
  writer.add(ended(), 1, 1, Number.NaN);
  await writer.close();
  t.equal(writer.written, 1);
  writer.add(ended(), 1, 1, Number.NaN);
  t.equal(writer.dropped, 1, 'a request that ends later is counted');

  fake.error = new DatabaseUnavailable('X', 'away');
  const other = new TrailWriter({ store: fake.store, days: 3, log, gatherMs: 60_000 });
  other.add(ended(), 1, 1, Number.NaN);
  await other.close();
  t.equal(other.dropped, 1);
});

t.test('old days and hours are looked for without any request', async (t) => {
  const fake = fakeStore();
  const writer = new TrailWriter({ store: fake.store, days: 5, log, gatherMs: 5 });
  t.teardown(() => writer.close());
  await until(() => fake.hours > 0, 'hours');
  const today = new Date().toISOString().slice(0, 10);
  t.same(fake.kept.at(-1), [5, today, today]);
});

t.test(
  'a key that does not work does not flood the trail of its company: strangers may have it',
  async (t) => {
    const { store, batches } = fakeStore();
    const writer = new TrailWriter({ store, days: 3, log, gatherMs: 5 });
    const keyId = OTHER;
    for (let n = 0; n < 1200; n++)
      writer.add(ended({ companyId: COMPANY, keyId, status: 401 }), 1, 0, Number.NaN);
    await writer.close();
    t.equal(batches.flat().length, 1000);
    t.match(batches[0]?.[0], { c: COMPANY, k: keyId });
  },
);

t.test(
  'of requests without a company a number each second is kept, of the others all',
  async (t) => {
    const { store, batches } = fakeStore();
    const writer = new TrailWriter({ store, days: 3, log, gatherMs: 5 });
    const add = (companyId: string | null, at: number) =>
      writer.add(ended({ companyId, at }), 1, 0, Number.NaN);
    for (let n = 0; n < 1200; n++) {
      add(null, AT);
      add(COMPANY, AT);
    }
    for (let n = 0; n < 30; n++) add(null, AT + 1000 - (n % 2) * 500); // they end in another order than they came in
    const set = AT - 86_400_000; // the clock
    for (let n = 0; n < 30; n++) add(null, set + Math.min(n, 1) * 1000);
    await writer.close();
    const rows = batches.flat();
    t.equal(rows.filter(({ c }) => c === undefined).length, 1000 + 20 + 20);
    t.equal(rows.filter(({ c }) => c !== undefined).length, 1200);
    t.equal(writer.dropped, 200 + 10 + 10);
  },
);

t.test('a call that was answered whole leaves the members that any other leaves', async (t) => {
  const { store, batches } = fakeStore();
  const writer = new TrailWriter({ store, days: 3, log, gatherMs: 5 });
  t.teardown(() => writer.close());
  const meter = {
    outcome: 'completed',
    tokens: { prompt: 200, completion: 1e12 },
    cost: '0.00025',
    failure: null,
  } as const;
  const call = {
    endpoint: 'chat.completions',
    companyId: COMPANY,
    keyId: OTHER,
    asked: 'x',
    meter,
  };
  const calls = [
    ended({ ...call, slug: 'small' }),
    ended({ ...call, slug: 'größer "so"' }),
    ended({ ...call, slug: 'small', endpoint: 'embeddings' }),
    ended({ ...call, slug: 'small', meter: { ...meter, outcome: 'client_aborted' } }),
    ended({ ...call, slug: 'small', meter: { ...meter, cost: null, tokens: null } }),
  ];
  for (const [n, each] of calls.entries()) writer.add(each, 12.6, 0.0634, n === 1 ? 0 : Number.NaN);
  await until(() => batches.length > 0, 'a batch');
  const members = {
    t: '2026-11-22T23:59:59.999Z',
    s: 200,
    d: 13,
    a: 63,
    c: COMPANY,
    k: OTHER,
    n: 200,
    g: 1e12,
    v: 0.00025,
  };
  const chat = { ...members, e: 'chat.completions', m: 'small', o: 'completed' };
  const { n: _n, g: _g, v: _v, ...unbooked } = chat;
  const expected = [
    chat,
    { ...chat, m: 'größer "so"', f: 0 },
    { ...chat, e: 'embeddings' },
    { ...chat, o: 'client_aborted' },
    unbooked,
  ];
  t.same(batches, [expected.map((each, n) => ({ i: calls[n]?.reply.requestId, ...each }))]);
});
