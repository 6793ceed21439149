import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import {
  addDays,
  type DayRange,
  intervalOf,
  wholeMonth,
} from '../../../src/domain/reports/day-range.ts';
import { restOf } from '../../../src/domain/usage.ts';
import type { Work } from '../../../src/store/connection/pool.ts';
import { NO_FILTERS, type UsageFilters } from '../../../src/store/usage/cube.ts';
import {
  ALL_GROUPS,
  COMPANY_GROUPS,
  type Group,
  METRICS,
  type Metric,
  readAllTable,
  readUsageTable,
  type UsageTable,
} from '../../../src/store/usage/usage-table.ts';
import { insertUsage } from '../../admin/rows.ts';
import { testDatabase } from '../../support/postgres.ts';

/** One figure by any two groups is the sum of the ledger rows of each pair, and what is not shown is the rest. */

const { db } = await testDatabase(t);
const run = <T>(work: Work<T>) => db.transaction(60_000, work);
const newCompany = async (name: string): Promise<string> =>
  (await run((sql) => sql`insert into companies (name) values (${name}) returning id`))[0]?.id;
const [company, other] = [await newCompany('Acme'), await newCompany('Other')];
const keys = Array.from({ length: 6 }, () => randomUUID());
for (const [seed, month] of ['2026-01-01', '2026-02-01'].entries()) {
  await run((sql) =>
    insertUsage(sql, { companies: [company, other], keys, rows: 1500, seed, month }),
  );
}

const COLUMNS: Readonly<Record<Group, string>> = {
  company: 'company_id::text',
  model: 'model_slug',
  key: 'api_key_id::text',
  endpoint: 'endpoint',
  cost_center: 'cost_center',
  outcome: 'outcome',
  day: "to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD')",
  month: "to_char(date_trunc('month', occurred_at at time zone 'UTC'), 'YYYY-MM-DD')",
};

/** The ledger rows by both groups: "row column" and the figure; a group that is empty stands for all. */
async function ledgerOf(
  of: readonly string[],
  { from, to }: DayRange,
  rows: Group,
  columns: Group,
  metric: Metric,
  filters: UsageFilters,
) {
  const { model, key } = filters;
  const found = await run(
    (sql) => sql<{ r: string | null; c: string | null; n: string }[]>`
      select r, c, trim_scale(sum(n))::text as n from (
        select ${sql.unsafe(`${COLUMNS[rows]} as r, ${COLUMNS[columns]} as c, ${metric === 'requests' ? '1' : metric} as n`)} from api_usage
        where company_id = any(${[...of]}::uuid[]) and (occurred_at at time zone 'UTC')::date between ${from}::date and ${to}::date
          and model_slug = coalesce(${model}, model_slug) and api_key_id = coalesce(${key}::uuid, api_key_id)) u
      group by grouping sets ((r, c), (r), (c), ())`,
  );
  return new Map(found.map(({ r, c, n }) => [JSON.stringify([r, c]), n]));
}

let seed = 3;
const random = (below: number): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((seed / 2_147_483_648) * below);
};
const oneOf = <T>(...from: readonly T[]): T => from[random(from.length)] as T;
const randomRange = (): DayRange => {
  const from = addDays('2026-01-01', random(50));
  return oneOf({ from, to: addDays(from, random(40)) }, wholeMonth(from), {
    from: '2026-01-01',
    to: '2026-12-31',
  });
};

function compare(
  t: Test,
  table: UsageTable,
  ledger: ReadonlyMap<string, string>,
  said: string,
): void {
  const of = (r: string | null, c: string | null) => ledger.get(JSON.stringify([r, c])) ?? '0';
  t.equal(table.total, of(null, null), said);
  for (const [at, row] of table.rows.entries()) {
    t.equal(row.total, of(row.value, null), said);
    t.same(
      table.cells[at],
      table.columns.map(({ value }) => of(row.value, value)),
      said,
    );
  }
  for (const { value, total } of table.columns) t.equal(total, of(null, value), said);
  if (table.other_rows === 0)
    t.equal(
      restOf(
        table.total,
        table.rows.map(({ total }) => total),
      ),
      '0',
      said,
    );
  if (table.other_columns === 0)
    t.equal(
      restOf(
        table.total,
        table.columns.map(({ total }) => total),
      ),
      '0',
      said,
    );
}

t.test('of a company, by every two groups', async (t) => {
  for (const rows of COMPANY_GROUPS) {
    for (const columns of COMPANY_GROUPS) {
      const range = randomRange();
      if (rows === columns || ([rows, columns].includes('day') && intervalOf(range) === 'month'))
        continue;
      const metric = oneOf(...METRICS);
      const filters = {
        ...NO_FILTERS,
        model: oneOf(null, null, 'swift'),
        key: oneOf(null, null, keys[0] as string),
      };
      const most = oneOf({ rows: 100, columns: 100 }, { rows: 2, columns: 2 });
      const table = await run((sql) =>
        readUsageTable(sql, company, filters, { rows, columns, metric, range, most }),
      );
      const ledger = await ledgerOf([company], range, rows, columns, metric, filters);
      compare(t, table, ledger, JSON.stringify({ rows, columns, metric, range, filters, most }));
    }
  }
});

t.test('of all companies, by every two groups', async (t) => {
  for (const rows of ALL_GROUPS) {
    for (const columns of ALL_GROUPS) {
      const range = randomRange();
      if (rows === columns || ([rows, columns].includes('day') && intervalOf(range) === 'month'))
        continue;
      const metric = oneOf(...METRICS);
      const most = oneOf({ rows: 100, columns: 100 }, { rows: 1, columns: 1 });
      const table = await run((sql) => readAllTable(sql, { rows, columns, metric, range, most }));
      const ledger = await ledgerOf([company, other], range, rows, columns, metric, NO_FILTERS);
      compare(t, table, ledger, JSON.stringify({ rows, columns, metric, range, most }));
    }
  }
});

t.test('the dearest are shown, and how many more there are is told', async (t) => {
  const range = { from: '2026-01-01', to: '2026-02-28' };
  const asked = { rows: 'key', columns: 'model', metric: 'requests', range } as const;
  const all = await run((sql) =>
    readUsageTable(sql, company, NO_FILTERS, { ...asked, most: { rows: 100, columns: 100 } }),
  );
  const few = await run((sql) =>
    readUsageTable(sql, company, NO_FILTERS, { ...asked, most: { rows: 2, columns: 1 } }),
  );
  t.same(few.rows, all.rows.slice(0, 2));
  t.equal(few.other_rows, all.rows.length - 2);
  t.equal(few.other_columns, all.columns.length - 1);
  t.equal(few.total, all.total);
});

t.test('groups that cannot be together are refused', async (t) => {
  const asked = {
    metric: 'requests',
    range: { from: '2026-01-01', to: '2026-12-31' },
    most: { rows: 1, columns: 1 },
  } as const;
  const read = (rows: Group, columns: Group) =>
    run((sql) => readAllTable(sql, { ...asked, rows, columns }));
  await t.rejects(read('model', 'model'), { name: 'FieldError' });
  await t.rejects(read('model', 'day'), { name: 'FieldError' });
});
