import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { type Database, openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { verifySeals } from '../../../src/store/statement/verify.ts';
import { type FedCall, isFeedCursor, readFeed } from '../../../src/store/usage/feed.ts';
import { WORKERS } from '../../support/distributed.ts';
import { testDatabase } from '../../support/postgres.ts';
import { closeStatement } from '../../support/statement.ts';
import { addUsage } from '../../support/usage.ts';

const MS = 60_000;
const company = randomUUID();

interface Booked {
  readonly id: string;
  readonly month?: string;
}

/** Books a batch as a gateway does. */
function book(sql: Sql, writer: string, calls: readonly Booked[]) {
  const records = calls.map(({ id, month = '2026-11-01' }) => ({
    billing_month: month,
    request_id: id,
    company_id: company,
    api_key_id: randomUUID(),
    model_slug: 'fast',
    upstream_model: 'internal-name',
    endpoint: 'chat.completions',
    prompt_tokens: 3,
    completion_tokens: 4,
    cost_eur: '0.011',
    price_input: '1',
    price_output: '2',
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: `${month.slice(0, 8)}03T04:05:06.789Z`,
  }));
  return sql`select from book_usage(${writer}::uuid, ${JSON.stringify(records)}::text::json)`;
}

const some = (count: number) => Array.from({ length: count }, () => ({ id: randomUUID() }));
const idsOf = (rows: readonly { readonly request_id: string }[]) =>
  rows.map(({ request_id }) => request_id);

async function read(
  db: Database,
  after: string | null = null,
  limit = Number.POSITIVE_INFINITY,
): Promise<FedCall[]> {
  const rows: FedCall[] = [];
  for await (const page of readFeed(db, { after, limit })) rows.push(...page);
  return rows;
}

async function world(t: Test) {
  const { db, url } = await testDatabase(t);
  const other = openDatabase({ url, maxConnections: 8 });
  t.teardown(() => other.close());
  return {
    db,
    other,
    run: <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, async (sql) => work(sql)),
  };
}

t.test(
  'a batch that commits after later ones comes after them, and none is left out or told twice',
  async (t) => {
    const { db, other, run } = await world(t);
    const [early, late] = [some(3), some(2)];
    const begun = Promise.withResolvers<void>();
    const mayEnd = Promise.withResolvers<void>();
    const slow = other.transaction(MS, async (sql) => {
      await book(sql, randomUUID(), early);
      begun.resolve();
      await mayEnd.promise;
    });
    await begun.promise;
    // of another month: the sums of one are counted in turn
    await run((sql) =>
      book(
        sql,
        randomUUID(),
        late.map(({ id }) => ({ id, month: '2026-10-01' })),
      ),
    );
    const first = await read(db);
    t.same(idsOf(first).sort(), idsOf(late.map(({ id }) => ({ request_id: id }))).sort());
    mayEnd.resolve();
    await slow;
    const second = await read(db, first.at(-1)?.cursor);
    t.same(idsOf(second).sort(), early.map(({ id }) => id).sort());
    t.same(await read(db, second.at(-1)?.cursor), [], 'then there is none');
    t.same(await read(db), [...first, ...second], 'the order stays');
  },
);

t.test('from any cursor on, with any limit, the rest follows', async (t) => {
  const { db, run } = await world(t);
  const writers = [randomUUID(), randomUUID()] as const;
  await run((sql) => book(sql, writers[0], some(3)));
  await run((sql) =>
    book(sql, writers[0], [...some(2), { id: randomUUID(), month: '2026-10-01' }]),
  );
  await read(db);
  await run((sql) => book(sql, writers[1], some(1)));
  await run((sql) => book(sql, writers[0], some(2)));
  const plain =
    WORKERS.length > 0 ? [] : [{ company, month: '2026-10-01' }, { company }, { company }];
  await run((sql) => addUsage(sql, plain));
  const all = await read(db);
  t.equal(all.length, 9 + plain.length);
  t.equal(new Set(idsOf(all)).size, all.length);
  for (let from = 0; from <= all.length; from++) {
    const after = from === 0 ? null : (all[from - 1] as FedCall).cursor;
    t.same(await read(db, after), all.slice(from), `behind the call ${from}`);
    for (const limit of [1, 2, 4])
      t.same(await read(db, after, limit), all.slice(from, from + limit));
    if (after !== null) t.ok(await run((sql) => isFeedCursor(sql, after)));
  }
});

t.test(
  'a call is told as its company sees it, with its company and end user, and nothing of what stands behind',
  async (t) => {
    const { db, run } = await world(t);
    const endUser = randomUUID();
    const [{ id, key } = { id: '', key: '' }] = await run(
      (sql) => sql<{ id: string; key: string }[]>`
      with made as (insert into companies (name) values ('Acme') returning id)
      insert into api_keys (company_id, name, digest, prefix, scopes) select id, 'agents', sha256('x'), 'svc_abcd', '{chat}' from made
      returning company_id as id, id as key`,
    );
    const request = randomUUID();
    const records = [{ billing_month: '2026-11-01', request_id: request, company_id: id, api_key_id: key, model_slug: 'fast',
    upstream_model: 'internal-name', endpoint: 'messages', prompt_tokens: 100, completion_tokens: 10, cached_tokens: 80, cost_eur: '0.0000048',
    price_input: '0.0001', price_output: '0.0002', price_cache_read: '0.00001', usage_source: 'upstream', outcome: 'completed',
    occurred_at: '2026-11-03T04:05:06.789Z', cost_center: 'R&D', end_user_id: endUser }]; // biome-ignore format: a row
    await run(
      (sql) =>
        sql`select from book_usage(${randomUUID()}::uuid, ${JSON.stringify(records)}::text::json)`,
    );
    t.same(await read(db), [
      {
        cursor: `1-1-1-${request.slice(0, 8)}`,
        billing_month: '2026-11-01',
        request_id: request,
        company_id: id,
        company_name: 'Acme',
        api_key_id: key,
        api_key_name: 'agents',
        model_slug: 'fast',
        endpoint: 'messages',
        prompt_tokens: 100,
        completion_tokens: 10,
        cost_eur: '0.0000048',
        price_input: '0.0001',
        price_output: '0.0002',
        usage_source: 'upstream',
        outcome: 'completed',
        occurred_at: '2026-11-03T04:05:06.789000Z',
        cost_center: 'R&D',
        cached_tokens: 80,
        cache_write_tokens: null,
        audio_prompt_tokens: null,
        reasoning_tokens: null,
        audio_completion_tokens: null,
        price_cache_read: '0.00001',
        price_cache_write: null,
        cost_input: '0.000002',
        cost_cache_read: '0.0000008',
        cost_cache_write: '0',
        cost_output: '0.000002',
        end_user_id: endUser,
      },
    ]);
  },
);

t.test(
  'writers, other programs, readers and the close of a month at once: each reader gets each call once',
  async (t) => {
    const { db, other, run } = await world(t);
    await run((sql) => addUsage(sql, [{ company, month: '2026-10-01' }]));
    const booked: string[] = [];
    let writing = true;
    const write = async (n: number) => {
      const writer = randomUUID();
      for (let round = 0; round < 25; round++) {
        const month = round % 3 === n % 3 ? '2026-10-01' : '2026-11-01';
        const calls = some(1 + ((round * 7 + n) % 9)).map(({ id }) => ({ id, month }));
        const plain = n === 0 && WORKERS.length === 0;
        if (plain)
          await other.run(MS, (sql) =>
            addUsage(
              sql,
              calls.map(({ id }) => ({ company, request: id, month })),
            ),
          );
        else await other.run(MS, async (sql) => book(sql, writer, calls));
        // its answer may be lost, and the batch comes again
        if (!plain && round % 5 === 0) await other.run(MS, async (sql) => book(sql, writer, calls));
        booked.push(...calls.map(({ id }) => id));
        if (n === 1 && round === 10) await closeStatement(other, company, '2026-10-01');
      }
    };
    const follow = async () => {
      const seen: FedCall[] = [];
      for (let last = false; ; ) {
        const more = await read(db, seen.at(-1)?.cursor, 1 + (seen.length % 17));
        seen.push(...more);
        if (more.length === 0 && last) return seen;
        last = !writing;
      }
    };
    const readers = [follow(), follow()];
    await Promise.all([0, 1, 2, 3].map(write));
    writing = false;
    const [one, two] = (await Promise.all(readers)) as [FedCall[], FedCall[]];
    t.equal(one.length, booked.length + 1);
    const told = new Set(idsOf(one));
    t.equal(told.size, one.length, 'none twice');
    t.same(
      booked.filter((id) => !told.has(id)),
      [],
      'none left out',
    );
    t.same(two, one, 'all readers have one order');
    t.equal((await run((sql) => verifySeals(sql))).total, 0);
    t.ok(
      (await run((sql) => sql`select from late_usage limit 1`)).length > 0,
      'late calls were among them',
    );
  },
);

t.test(
  'after a failover, a restore or a restart of the server, the calls that came meanwhile follow',
  async (t) => {
    const { db, run } = await world(t);
    const writers = [randomUUID(), randomUUID()] as const;
    const all: string[] = [];
    let after: string | null = null;
    for (const server of ['this', 'another', 'this']) {
      const calls = [...some(2), ...some(1)];
      await run((sql) => book(sql, writers[0], calls.slice(0, 2)));
      await run((sql) => book(sql, writers[1], calls.slice(2)));
      // as if transactions had ids from the beginning again
      if (server === 'another')
        await run((sql) => sql`update ledger_feed set seen = 'another 999999999999'`);
      const rows = await read(db, after);
      t.same(idsOf(rows).sort(), calls.map(({ id }) => id).sort(), server);
      after = rows.at(-1)?.cursor ?? null;
      all.push(...idsOf(rows));
    }
    t.same(idsOf(await read(db)), all);
  },
);

t.test('a cursor of a ledger that was restored to an earlier time is refused', async (t) => {
  const { db, run } = await world(t);
  const writer = randomUUID();
  await run((sql) => book(sql, writer, some(2)));
  const [first, second] = (await read(db)) as [FedCall, FedCall];
  const is = (cursor: string) => run((sql) => isFeedCursor(sql, cursor));
  t.ok(await is(second.cursor));
  for (const wrong of [
    '',
    'x',
    '0-0-0-00000000',
    second.cursor.replace(/.{8}$/, 'ffffffff'),
    second.cursor.replace(/^1-1-2/, '1-1-3'),
    second.cursor.replace(/^1-1/, '1-2'),
    second.cursor.replace(/^1/, '7'),
    `${'9'.repeat(18)}-1-1-00000000`,
  ])
    t.notOk(await is(wrong), wrong);
  t.ok(await is(first.cursor));
});

t.test(
  'calls of a month that was taken away are left out, and those behind them follow',
  { skip: WORKERS.length > 0 && 'other servers have the rows' },
  async (t) => {
    const { db, run } = await world(t);
    const kept = some(2);
    await run((sql) =>
      book(
        sql,
        randomUUID(),
        some(1500).map(({ id }) => ({ id, month: '2026-10-01' })),
      ),
    );
    await run((sql) => book(sql, randomUUID(), kept));
    await run((sql) => sql`alter table api_usage detach partition api_usage_2026_10`);
    t.same(idsOf(await read(db, null, 2)).sort(), kept.map(({ id }) => id).sort());
  },
);

t.test(
  'a rolled-back batch of another program leaves nothing in the feed',
  { skip: WORKERS.length > 0 && 'not in the feed there' },
  async (t) => {
    const { db, run } = await world(t);
    await run((sql) =>
      sql
        .unsafe('begin')
        .then(() => addUsage(sql, [{ company }]))
        .then(() => sql.unsafe('rollback')),
    );
    const both = randomUUID();
    // one transaction with rows of both kinds
    await db.transaction(MS, async (sql) => {
      await addUsage(sql, [{ company }]);
      await book(sql, randomUUID(), [{ id: both }]);
      await addUsage(sql, [{ company }]);
    });
    const rows = await read(db);
    t.equal(rows.length, 3);
    t.equal(new Set(idsOf(rows)).size, 3);
    t.ok(idsOf(rows).includes(both));
  },
);
