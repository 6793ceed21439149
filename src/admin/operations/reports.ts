import { pageOfAudit } from '../../store/audit.ts';
import { type HoursGroup, readRequestHours } from '../../store/request-hours.ts';
import { summarizeUsage } from '../../store/usage.ts';
import { type Operation, operation } from './operation.ts';
import * as schema from './schemas.ts';

const month = { type: 'string', pattern: '^[12]\\d{3}-(0[1-9]|1[0-2])$', description: 'a month such as 2026-11' };
const count = { type: 'integer', minimum: 0 };
const eur = { type: 'string', description: 'EUR as exact decimal text' };
const sums = { requests: count, prompt_tokens: count, completion_tokens: count, cost_eur: eur };
const change = schema.object({
  id: { type: 'integer' },
  at: schema.instant,
  actor: { type: 'string' },
  action: schema.oneOf(['insert', 'update', 'delete', 'truncate', 'erase']),
  subject: { type: 'string', description: 'the table' },
  subject_id: { type: ['string', 'null'] },
  company_id: { type: ['string', 'null'] },
  company_name: { type: ['string', 'null'] },
  before: { type: ['object', 'null'] },
  after: { type: ['object', 'null'] },
});

const GROUPS = ['all', 'hour', 'day', 'model', 'key', 'endpoint'] as const satisfies readonly HoursGroup[];
const number = { type: 'number', minimum: 0 };
const times = { ...schema.object({ mean: number, p50: number, p95: number, p99: number }), type: ['object', 'null'] };
const requestSums = schema.object({
  group: {
    type: ['string', 'null'],
    description: 'an hour, a day, a slug, an id or an endpoint; null: not known, or all',
  },
  ...{ requests: count, refused: count, failed: count, upstream_failed: count },
  error_rate: { type: 'number', description: 'failed of all, from 0 to 1' },
  duration_ms: { ...times, description: 'of requests that were not refused' },
  added_us: { ...times, description: 'what the gateway added to them' },
});

/** What happened: usage, requests and changes. */
export const reportOperations: readonly Operation[] = [
  operation<never, { readonly month?: string }>({
    id: 'getUsage',
    method: 'get',
    path: '/companies/{company}/usage',
    summary: 'The usage of a company in a month; default: the present one in the billing time zone',
    action: 'usage.read',
    query: schema.object({ month }, []),
    answer: {
      type: 'object',
      required: ['company_id', 'month', 'total_cost_eur', 'by_model', 'by_endpoint'],
      properties: {
        company_id: schema.id,
        company_name: { type: 'string' },
        month,
        ...{ requests: count, prompt_tokens: count, completion_tokens: count },
        ...{ api_cost_eur: eur, chat_cost_eur: eur, total_cost_eur: eur },
        monthly_budget_eur: { type: ['string', 'null'] },
        by_model: { type: 'array', items: { type: 'object', properties: { model_slug: { type: 'string' }, ...sums } } },
        by_endpoint: {
          type: 'array',
          items: { type: 'object', properties: { endpoint: { type: 'string' }, ...sums } },
        },
      },
    },
    status: 200,
    run: (sql, { params, query }) =>
      summarizeUsage(sql, params.company as string, query.month === undefined ? null : `${query.month}-01`),
  }),
  operation<never, { readonly from: string; readonly to: string; readonly by?: HoursGroup }>({
    id: 'sumRequests',
    method: 'get',
    path: '/companies/{company}/requests/sums',
    summary: 'How many requests were answered, refused and failed in a range of hours, and how fast',
    action: 'request.read',
    query: schema.object({ from: schema.instant, to: schema.instant, by: schema.oneOf(GROUPS) }, ['from', 'to']),
    answer: schema.object({ data: { type: 'array', items: requestSums } }),
    status: 200,
    async run(sql, { params, query: { from, to, by = 'all' } }) {
      const range = { company: params.company as string, from: new Date(from), to: new Date(to) };
      return { data: await readRequestHours(sql, range, by) };
    },
  }),
  operation<never, { readonly cursor?: number; readonly search?: string }>({
    id: 'listChanges',
    method: 'get',
    path: '/audit',
    summary: 'The audit log, newest first',
    action: 'audit.read',
    query: schema.object({ cursor: { type: 'integer', minimum: 1 }, search: schema.text }, []),
    answer: schema.pageOf(change),
    status: 200,
    async run(sql, { query: { cursor = null, search = '' } }) {
      const { rows, next } = await pageOfAudit(sql, { search, newestFirst: true, from: cursor, company: null });
      return { data: rows.map(({ db_role: _, ...row }) => row), next_cursor: next === null ? null : String(next) };
    },
  }),
];
