import { randomUUID } from 'node:crypto';
import t from 'tap';
import { wholeMonth } from '../../../src/domain/reports/day-range.ts';
import { enterCompany } from '../../../src/store/connection/tenant-role.ts';
import { type Cube, NO_FILTERS, readCube, SUMMED } from '../../../src/store/usage/cube.ts';
import { testDatabase } from '../../support/postgres.ts';

/** Which tables of sums are read: the smallest that have the columns and figures. What is read from them, the tests of each report tell. */

const { db } = await testDatabase(t);
const company = randomUUID();
const month = wholeMonth('2026-03-01');
const part = { from: '2026-02-01', to: '2026-03-04' };
const most = { from: '2026-02-01', to: '2026-03-28' };

interface Plan {
  readonly 'Relation Name'?: string;
  readonly Plans?: readonly Plan[];
}

const relationsOf = ({ Plans = [], ...plan }: Plan): string[] => [
  ...(plan['Relation Name'] === undefined ? [] : [plan['Relation Name']]),
  ...Plans.flatMap(relationsOf),
];

/** The tables of the plan that Postgres makes. */
async function tablesOf(asked: Cube): Promise<string> {
  const [row] = await db.run(60_000, (sql) => sql`explain (format json) ${readCube(sql, asked)}`);
  return [...new Set(relationsOf(row?.['QUERY PLAN'][0].Plan))].join(' ');
}

const cost = { measures: ['cost_eur'] } as const;
const all = { measures: SUMMED } as const;
const cases: readonly (readonly [Cube, string])[] = [
  [{ company, range: month, by: ['company_id'], ...all }, 'monthly_spend'],
  [{ company: null, range: month, by: ['company_id'], ...cost }, 'monthly_spend'],
  [{ company: null, range: part, by: ['company_id'], ...cost }, 'monthly_spend usage_key_months'],
  [{ company: null, range: part, by: ['company_id'], ...all }, 'monthly_spend usage_company_days'],
  [{ company: null, range: part, by: ['day', 'model_slug'], ...all }, 'usage_model_days'],
  [{ company, range: part, by: ['day', 'model_slug'], ...all }, 'usage_company_days'],
  [{ company: null, range: month, by: ['company_id', 'model_slug'], ...all }, 'usage_company_days'],
  [{ company, range: month, by: ['cost_center'], ...all }, 'usage_key_months'],
  [{ company, range: most, by: ['api_key_id'], ...cost }, 'usage_key_months'],
  [{ company, range: most, by: ['api_key_id'], ...all }, 'usage_key_months usage_daily'],
  [
    { company, range: month, by: ['api_key_id'], measures: ['estimated', 'unfinished'] },
    'usage_key_months',
  ],
  [{ company, range: month, by: ['model_slug'], measures: ['estimated'] }, 'usage_company_days'],
  [{ company, range: month, by: ['api_key_id', 'model_slug'], ...cost }, 'usage_daily'],
  [
    {
      company,
      range: month,
      filters: { ...NO_FILTERS, model: 'swift' },
      by: ['api_key_id'],
      ...cost,
    },
    'usage_daily',
  ],
  [
    {
      company,
      range: month,
      filters: { ...NO_FILTERS, keys: [company] },
      by: ['outcome'],
      ...cost,
    },
    'usage_daily',
  ],
  [
    { company, range: { before: month, after: part }, by: ['endpoint'], ...all },
    'usage_key_months usage_company_days',
  ],
  [
    { company, range: part, by: ['model_slug'], measures: ['requests', 'cached_tokens'] },
    'usage_details',
  ],
];

for (const [asked, tables] of cases) {
  const { by, measures, range } = asked;
  t.test(`${measures} by ${by}, ${JSON.stringify(range)}: ${tables}`, async (t) => {
    t.equal(await tablesOf(asked), tables);
  });
}

t.test('what is read of calls themselves, a company may read', async (t) => {
  const filters = { ...NO_FILTERS, key: randomUUID() };
  const asked = { company, range: part, filters, measures: [...SUMMED, 'cached_tokens'] } as const;
  const read = (cube: Cube) =>
    db.transaction(60_000, async (sql) => {
      await enterCompany(sql, company);
      t.strictSame([...(await sql`select current_user as name`)], [{ name: 'tollgate_tenant' }]);
      return [...(await readCube(sql, cube))];
    });
  t.strictSame(await read({ ...asked, by: ['model_slug'], measures: ['cached_tokens'] }), []);
  t.strictSame(await read({ ...asked, by: ['model_slug', 'rate'] }), []);
});
