import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { NO_FILTERS, type UsageFilters } from '../../../src/store/usage/cube.ts';
import { readQuality } from '../../../src/store/usage/quality.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests, type SomeRequest } from '../../support/requests.ts';

/** What became of a company's requests, however many keys and hours it has. */

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const add = (rows: readonly SomeRequest[]) => addRequests(trailStore(db), rows);
const month = { from: '2026-10-01', to: '2026-10-31' };
const read = (company: string, filters: Partial<UsageFilters> = {}, range = month) =>
  run((sql) => readQuality(sql, company, range, { ...NO_FILTERS, ...filters }));

const FIRST = Date.parse('2026-10-01T00:30:00Z');
const company = randomUUID();
const keys = Array.from({ length: 140 }, () => randomUUID());
const rows = keys.flatMap((key, k) =>
  Array.from({ length: 300 }, (_, hour): SomeRequest => {
    const refused = (hour + k) % 10 === 0;
    const failed = !refused && hour % 50 === 7;
    return {
      company,
      key,
      at: FIRST + hour * 3_600_000,
      model: hour % 2 === 0 ? 'swift' : 'large',
      endpoint: k === 0 ? 'embeddings' : 'chat.completions',
      ms: hour % 4 === 0 ? 2400 : 240,
      ...(refused && { status: 402, code: 'insufficient_quota' }),
      ...(failed && { status: 502, code: 'upstream_error' }),
    };
  }),
);
for (let at = 0; at < rows.length; at += 3000) await add(rows.slice(at, at + 3000));
const count = (is: (row: SomeRequest) => boolean) => rows.filter(is).length;

t.test(
  'a company with more hours than are added up is told all the same, but not by key',
  async (t) => {
    const quality = await read(company);
    const refused = count(({ status }) => status === 402);
    const failed = count(({ status }) => status === 502);
    t.match(quality.all, {
      requests: rows.length,
      refused,
      failed,
      error_rate: failed / rows.length,
    });
    t.ok(
      (quality.all?.p50 as number) <= 300 && (quality.all?.p95 as number) > 2000,
      JSON.stringify(quality.all),
    );
    t.same(quality.reasons, [
      { code: 'insufficient_quota', requests: refused },
      { code: 'upstream_error', requests: failed },
    ]);
    for (const model of ['swift', 'large'])
      t.equal(
        quality.by_model.get(model)?.requests,
        count((row) => row.model === model),
      );
    t.equal(quality.by_endpoint.get('embeddings')?.requests, 300);
    t.ok(quality.isTooMuch);
    t.equal(quality.by_key.size, 0);
  },
);

t.test('filters hold for all figures', async (t) => {
  const swift = await read(company, { model: 'swift', endpoint: 'embeddings' });
  t.equal(
    swift.all?.requests,
    count((row) => row.model === 'swift' && row.endpoint === 'embeddings'),
  );
  const [key = ''] = keys;
  const own = await read(company, { key, model: 'large' });
  t.equal(
    own.all?.requests,
    count((row) => row.key === key && row.model === 'large'),
  );
  t.same([...own.by_key.keys()], [key]);
  const some = await read(company, { keys: keys.slice(0, 2) });
  t.match(some, { isTooMuch: false, all: { requests: 600 } });
  t.equal(some.by_key.size, 2);
  const day = await read(company, {}, { from: '2026-10-02', to: '2026-10-02' });
  t.match(day, { isTooMuch: false, all: { requests: 24 * keys.length } });
  t.equal(day.by_key.size, keys.length);
  t.match(await read(company, { cost_center: 'it' }), { all: null, reasons: [], isTooMuch: false });
  t.match(await read(randomUUID()), { all: null, reasons: [], hasTrail: false });
});

t.test('days are always the sum of the hours that begin on them', async (t) => {
  const small = randomUUID();
  await add(rows.filter((_, at) => at % 97 === 0).map((row) => ({ ...row, company: small })));
  const sums = (table: string, day: string) =>
    run(
      (sql) => sql`
        with own as (select *, ${sql.unsafe(day)}::text as of_day from ${sql.unsafe(table)} where company_id = ${small})
        select of_day, model_slug, endpoint, sum(requests)::integer as requests, sum(refused)::integer as refused, sum(failed)::integer as failed,
          (select sum(n) from own u, unnest(u.duration_buckets) n where u.of_day = own.of_day)::integer as served,
          (select sum(value::integer) from own u, jsonb_each_text(u.reasons) where u.of_day = own.of_day)::integer as wrong
        from own group by 1, 2, 3 order by 1, 2, 3`,
    );
  const hours = await sums(
    'request_hours',
    `(hour at time zone (select value from settings where name = 'billing_timezone'))::date`,
  );
  t.ok(hours.length > 20);
  t.same(await sums('request_days', 'day'), hours);
});
