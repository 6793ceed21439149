import { type DayRange, monthOf, readRange } from '../../domain/day-range.ts';
import { FieldError } from '../../domain/field.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { findCompany } from '../../store/company.ts';
import { readUsage, type UsageFilters } from '../../store/daily.ts';
import type { Sql } from '../../store/database.ts';
import { copyLedger } from '../../store/export.ts';
import { snapshot } from '../../store/tenant-role.ts';
import { summaryOf } from '../../store/usage.ts';
import { readUsageDetails } from '../../store/usage-details.ts';
import { ENDPOINTS, isMonth } from '../usage-address.ts';
import { type Call, type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';
import * as schema from './schemas.ts';

interface Query extends Partial<DayRange & { readonly [K in keyof UsageFilters]: string }> {
  readonly month?: string;
}

const count = { type: 'integer', minimum: 0 };
const eur = { type: 'string', description: 'EUR as exact decimal text' };
const textOrNull = { type: ['string', 'null'] };
const sums = { requests: count, prompt_tokens: count, completion_tokens: count, cost_eur: eur };
const by = (name: string) => ({
  type: 'array',
  items: { type: 'object', properties: { [name]: { type: 'string' }, ...sums } },
});
const query = schema.object(
  {
    month: { ...schema.month, description: 'a month such as 2026-11; default: the present one' },
    from: { ...schema.day, description: 'the first day, in place of month' },
    to: { ...schema.day, description: 'the last day' },
    model: schema.slug,
    key: schema.id,
    endpoint: schema.oneOf(Object.keys(ENDPOINTS)),
    cost_center: { type: 'string', pattern: '^[^\\p{Cc}]{0,128}$', description: 'empty: calls that name none' },
  },
  [],
);
const answer = {
  type: 'object',
  required: [
    'company_id',
    'from',
    'to',
    'total_cost_eur',
    'by_model',
    'by_endpoint',
    'by_key',
    'by_cost_center',
    'by_time',
  ],
  properties: {
    company_id: schema.id,
    company_name: { type: 'string' },
    month: { ...textOrNull, description: 'null: the days are not those of one month' },
    ...{ from: schema.day, to: schema.day, requests: count, prompt_tokens: count, completion_tokens: count },
    api_cost_eur: eur,
    chat_cost_eur: {
      ...textOrNull,
      description: 'of in-app chat; null: not known for parts of months and with filters',
    },
    total_cost_eur: eur,
    monthly_budget_eur: textOrNull,
    token_details: {
      type: ['object', 'null'],
      description: 'of calls whose upstream told what their tokens consist of; null: none did, or of a single key',
      properties: {
        requests: count,
        ...Object.fromEntries(TOKEN_DETAILS.map((name) => [name, count])),
        cached_percent: { type: ['number', 'null'], description: 'cached of their prompt tokens' },
      },
    },
    by_model: by('model_slug'),
    by_endpoint: by('endpoint'),
    by_key: {
      type: 'array',
      items: { type: 'object', properties: { id: schema.id, name: textOrNull, prefix: textOrNull, ...sums } },
    },
    by_cost_center: by('cost_center'),
    by_time: {
      ...{
        type: 'array',
        items: { type: 'object', properties: { at: { type: 'string' }, model: { type: 'string' }, ...sums } },
      },
      description: 'by model and hour of a single day, day of up to 62 days, else month',
    },
  },
};
const PATH = '/companies/{company}/usage';
const EXPORT_MS = 30 * 60_000;

/** What a company used, and the ledger rows behind it. Days are those of the billing time zone. */
export const usageOperations: readonly Operation[] = [
  operation<never, Query>({
    id: 'getUsage',
    method: 'get',
    path: PATH,
    summary: 'The usage of a company in a month or in a range of days',
    action: 'usage.read',
    query,
    answer,
    status: 200,
    async run(sql, call) {
      const company = call.params.company as string;
      const range = rangeOf(call);
      const usage = await readUsage(sql, company, range, filtersOf(call));
      const details = await readUsageDetails(sql, company, range, filtersOf(call));
      const summary = summaryOf(company, usage, range.from.slice(0, 7), details);
      const { lines: keys } = usage.by_key;
      const by_key = keys.map(({ estimated: _, unfinished: __, ...line }) => line);
      return { ...summary, ...range, month: isMonth(range) ? summary.month : null, by_key, by_time: usage.by_time };
    },
  }),
  operation<never, Query>({
    id: 'exportLedger',
    method: 'get',
    path: '/companies/{company}/ledger',
    summary: 'The ledger rows behind the usage of a month or of a range of days, as CSV, oldest first',
    action: 'usage.read',
    query,
    answer: null,
    status: 200,
    file: {
      type: 'text/csv; charset=utf-8',
      name: (call) => `ledger-${rangeOf(call).from}-to-${rangeOf(call).to}.csv`,
      write(db, call, write) {
        const companyId = call.params.company as string;
        const asked = { companyId, range: rangeOf(call), filters: filtersOf(call), internal: call.role === 'operator' };
        return snapshot(db, companyId, EXPORT_MS, (sql) => copyLedger(sql, asked, write));
      },
    },
    async run(sql: Sql, call) {
      rangeOf(call);
      return findCompany(sql, call.params.company as string);
    },
  }),
];

/** @throws Problem 400 */
function rangeOf({ query: { month, from, to }, services }: Call<never, Query>): DayRange {
  if (from === undefined && to === undefined) {
    return monthOf(month === undefined ? services.calendar.date(services.clock()) : `${month}-01`);
  }
  const wrong = (pointer: string, detail: string) => new Problem(400, 'The query is not valid.', [{ pointer, detail }]);
  if (month !== undefined) throw wrong('?month', 'must be left out where from and to are given');
  if (from === undefined) throw wrong('?from', 'is missing');
  if (to === undefined) throw wrong('?to', 'is missing');
  try {
    return readRange(from, to);
  } catch (error) {
    throw error instanceof FieldError ? wrong('?to', error.message) : error;
  }
}

function filtersOf({ query }: Call<never, Query>): UsageFilters {
  const { model = null, key = null, endpoint = null, cost_center = null } = query;
  return { model, key, endpoint, cost_center };
}
