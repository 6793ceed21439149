import { randomUUID } from 'node:crypto';
import t from 'tap';
import { NO_FILTERS } from '../../../src/store/usage/cube.ts';
import { readQuality } from '../../../src/store/usage/quality.ts';
import { testDatabase } from '../../support/postgres.ts';

/** What became of the requests of a busy company: many rows of request_hours. */

const { db } = await testDatabase(t);
const RANGE = { from: '2026-10-01', to: '2026-10-31' };

/** A company with rows of 30 requests, of which two are refused and one failed, all in 200 to 300 ms. */
async function busy(models: number, hours: number): Promise<string> {
  const company = randomUUID();
  await db.run(
    60_000,
    (sql) => sql`
      insert into request_hours (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed, upstream_failed,
        duration_ms, added_us, duration_buckets, added_buckets, reasons)
      select ${company}, '2026-10-02T00:00:00Z'::timestamptz + h * interval '1 hour', 'model-' || m, md5(m::text)::uuid, 'chat.completions',
        30, 2, 1, 1, 7000, 1, array_fill(0, array[6]) || array[28] || array_fill(0, array[16]), array_fill(0, array[15]),
        '{"insufficient_quota": 2, "upstream_error": 1}'
      from generate_series(1, ${models}::integer) m, generate_series(0, ${hours - 1}::integer) h`,
  );
  return company;
}

const read = (company: string) => db.run(20_000, (sql) => readQuality(sql, company, RANGE, NO_FILTERS));

t.test('refused, failed and durations of thousands of hours', async (t) => {
  const quality = await read(await busy(12, 600));
  const group = { requests: 18_000, refused: 1200, error_rate: 1 / 30 };
  t.match(quality, { isTooMuch: false, all: { requests: 216_000, refused: 14_400, failed: 7200 } });
  t.same(quality.reasons, [
    { code: 'insufficient_quota', requests: 14_400 },
    { code: 'upstream_error', requests: 7200 },
  ]);
  t.equal(quality.by_model.size, 12);
  for (const [name, { p50, p95, ...counts }] of quality.by_model) {
    t.same(counts, { requests: group.requests, refused: group.refused, error_rate: group.error_rate }, name);
    t.ok(p50 !== null && p95 !== null && p50 > 200 && p50 < p95 && p95 <= 300, `${p50} ms, ${p95} ms`);
  }
});

t.test('of still more hours refused and failed are known, and no durations', async (t) => {
  const quality = await read(await busy(70, 600));
  t.match(quality, { isTooMuch: true, all: { requests: 1_260_000, refused: 84_000, failed: 42_000 } });
  t.match(quality.by_key.get([...quality.by_key.keys()][0] as string), { p50: null, p95: null, refused: 1200 });
});
