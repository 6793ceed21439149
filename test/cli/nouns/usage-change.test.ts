import t from 'tap';
import { tollgate } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

/** "usage change" and "usage table": the figures of the pages, exact. */

const { url, db } = await testDatabase(t);
const run = (...args: string[]) => tollgate(['usage', ...args], { env: { DATABASE_URL: url } });
const [first, second] = (
  await db.run(
    10_000,
    (sql) =>
      sql<{ id: string }[]>`insert into companies (name) values ('Erste'), ('Zweite') returning id`,
  )
).map(({ id }) => id) as [string, string];
const key = '019aa8f0-3b5c-7000-8000-00000000000a';
const call = (company: string, day: string, prompt: number, model = 'swift') => ({
  company,
  key,
  model,
  prompt,
  input: '0.000123',
  at: `2026-11-${day}T12:00:00Z`,
});
await db.run(60_000, (sql) =>
  addUsage(sql, [
    call(first, '02', 1000),
    call(first, '09', 1000),
    call(first, '10', 3000),
    call(second, '09', 500, 'solid'),
  ]),
);
const WEEK = ['--from', '2026-11-08', '--to', '2026-11-14'];

t.test('why a company spent more than in the days before', async (t) => {
  const { code, out } = await run('change', '--company', first, ...WEEK);
  t.equal(code, 0);
  t.match(
    out,
    /^Usage of Erste, 2026-11-08 to 2026-11-14 and before it 2026-11-01 to 2026-11-07\n/,
  );
  t.match(
    out,
    /EUR difference +0\.000369\n +EUR more calls +0\.000123\n +EUR longer calls +0\.000246\n +EUR dearer models +0\n/,
  );
  t.match(
    out,
    /KEY THAT CHANGED MOST +BEFORE +AFTER +DIFFERENCE\n019aa8f0-\S+ +0\.000123 +0\.000492 +0\.000369/,
  );
  t.match((await run('change', '--company', first, ...WEEK, '--json')).json, {
    company_id: first,
    before: { from: '2026-11-01', to: '2026-11-07' },
    total: { difference_eur: '0.000369', more_calls_eur: '0.000123' },
    by_model: [{ model: 'swift' }],
  });
});

t.test('why all together did, and which companies changed most', async (t) => {
  const { out } = await run('change', ...WEEK, '--before-from', '2026-11-02');
  t.match(out, /^Usage of all companies, .* and before it 2026-11-02\n/);
  t.match(out, /COMPANY THAT CHANGED MOST .*\nErste .*\nZweite .* 0\.0000615\s*$/);
  t.match(await run('change', ...WEEK, '--key', key), { code: 64, err: /--company/ });
  t.match(await run('change', '--from', '2026-11-09', '--to', '2026-11-08'), {
    code: 64,
    err: /--to must not be before/,
  });
});

t.test('a figure by two groups', async (t) => {
  const table = await run(
    'table',
    '--company',
    first,
    '--rows',
    'day',
    '--columns',
    'model',
    '--metric',
    'requests',
    ...WEEK,
  );
  t.match(table.out, /^DAY +ALL +swift\nall +2 +2\n2026-11-09 +1 +1\n2026-11-10 +1 +1\s*$/);
  t.match((await run('table', '--rows', 'company', '--columns', 'model', ...WEEK, '--json')).json, {
    rows: [{ name: 'Erste', total: '0.000492' }, { name: 'Zweite' }],
    columns: [{ value: 'swift' }, { value: 'solid' }],
    cells: [
      ['0.000492', '0'],
      ['0', '0.0000615'],
    ],
  });
  t.match(await run('table', '--rows', 'key', '--columns', 'model', ...WEEK), {
    code: 64,
    err: /give --company/,
  });
  t.match(await run('table', '--rows', 'model', '--columns', 'model', ...WEEK), {
    code: 64,
    err: /another group/,
  });
});
