import { Refused } from '../domain/refusal.ts';
import {
  explainRequest,
  OPERATOR_RESULTS,
  RESULTS,
  type ResultFilter,
} from '../domain/reports/request-explanation.ts';
import * as schema from '../domain/settings/schema.ts';
import { TOKEN_DETAILS } from '../domain/usage.ts';
import { ENDPOINTS } from '../domain/wording/endpoint.ts';
import { requestIdTime } from '../runtime/request-id.ts';
import type { Range } from '../store/connection/cursor.ts';
import type { Sql } from '../store/connection/pool.ts';
import { findRequest, pageOfRequests, type RequestCursor } from '../store/usage/request.ts';
import { HOURS_GROUPS, REQUEST_SUMS, readRequestHours } from '../store/usage/request-hours.ts';
import { wrongAt } from './frame/refused.ts';
import { type Call, get, getList, type Operation } from './frame/row.ts';

const statusAmong = (results: readonly ResultFilter[]) =>
  schema.written(
    `^(${results.join('|')}|[1-5]\\d\\d)$`,
    `${results.join(', ')}, or a status such as 429`,
  );
const filters = {
  status: statusAmong(RESULTS),
  model: schema.slug,
  key: schema.id,
  endpoint: schema.oneOf(Object.keys(ENDPOINTS)),
  from: schema.instant,
  to: { ...schema.instant, description: 'the first instant that is left out' },
};

const numberOrNull = { type: ['number', 'null'], minimum: 0 };

const members = {
  request_id: { ...schema.id, description: 'the x-request-id of its answer' },
  occurred_at: schema.instant,
  company_id: schema.orNull(schema.id),
  company_name: schema.textOrNull,
  api_key_id: schema.orNull(schema.id),
  key_name: schema.textOrNull,
  key_prefix: schema.textOrNull,
  status: {
    ...numberOrNull,
    description: '0: the client left before an answer; null: only the ledger knows the call',
  },
  result: schema.oneOf(RESULTS),
  code: schema.textOrNull,
  param: {
    ...schema.textOrNull,
    description:
      'the member of the request, or the setting that refused it, such as key.monthly_budget_eur',
  },
  endpoint: schema.string,
  model_slug: schema.textOrNull,
  asked: {
    ...schema.textOrNull,
    description: 'the model that was asked for, where none was found',
  },
  outcome: schema.textOrNull,
  prompt_tokens: numberOrNull,
  completion_tokens: numberOrNull,
  cost_eur: { ...schema.textOrNull, description: 'exact decimal text' },
  duration_ms: numberOrNull,
  added_us: numberOrNull,
  first_event_ms: numberOrNull,
};

const detail = schema.object({
  ...members,
  what: { type: 'string', description: 'what happened, in words' },
  advice: { ...schema.textOrNull, description: 'what to do about it' },
  in_trail: { type: 'boolean', description: 'false: only the ledger knows it' },
  usage_source: schema.textOrNull,
  upstream_status: { ...numberOrNull, description: 'for operators' },
  upstream_reason: { ...schema.textOrNull, description: 'what the upstream said, for operators' },
  // the kinds of tokens, as far as the upstream told them
  ...Object.fromEntries(TOKEN_DETAILS.map((name) => [name, numberOrNull])),
  rate: {
    ...schema.textOrNull,
    description:
      'which rate of the price held, such as "priority over 272000"; null: the base price',
  },
  charged: {
    ...schema.orNull(
      schema.array(
        schema.object({ part: schema.string, units: schema.count, price: schema.price }),
        'cost_eur is the sum of units × price × 0.001',
      ),
    ),
    description:
      'what the cost consists of; null: no rate held, and the prices of input, output and the cache alone',
  },
  upstream_cost: {
    ...schema.textOrNull,
    description: "the upstream's own cost, for operators: exact decimal text",
  },
  upstream_currency: { ...schema.textOrNull, description: 'its currency' },
});

const LIST = { filters, row: schema.object(members), read: requests } as const;

const NOTE = 'Where little matches, a page may be short or empty while next_cursor is not null';

/** What became of requests: single ones of the last days, and sums. */
export const requestOperations: readonly Operation[] = [
  getList('listRequests', '/requests', {
    ...LIST,
    filters: { ...filters, status: statusAmong(OPERATOR_RESULTS) },
    summary: `Requests of all companies, and those without a valid key, newest first. upstream_failed: those that the upstream failed, whatever the client was told. ${NOTE}`,
    action: 'request.all',
  }),
  get('getRequest', '/requests/{request}', {
    answer: detail,
    summary: 'What became of a request, with what the upstream said',
    action: 'request.all',
    run: find,
  }),
  getList('listRequestsOfCompany', '/companies/{company}/requests', {
    ...LIST,
    summary: `Requests of a company, newest first. ${NOTE}`,
    action: 'request.read',
  }),
  get('getRequestOfCompany', '/companies/{company}/requests/{request}', {
    answer: detail,
    summary: 'What became of a request of a company, without what the upstream said',
    action: 'request.read',
    run: find,
  }),
  get('sumRequests', '/companies/{company}/requests/sums', {
    summary:
      'How many requests were answered, refused and failed in a range of hours, and how fast',
    action: 'request.read',
    query: schema.object(
      { from: schema.instant, to: schema.instant, by: schema.oneOf(HOURS_GROUPS) },
      ['from', 'to'],
    ),
    answer: schema.object({ data: schema.array(REQUEST_SUMS) }),
    async run(sql, { company, query: { from, to, by = 'all' } }) {
      const range = { company, from: new Date(from), to: new Date(to) };
      return { data: await readRequestHours(sql, range, by) };
    },
  }),
];

async function requests(
  sql: Sql,
  { params, query }: Call<unknown, schema.Members<typeof filters, never>>,
  { after, limit }: Range,
) {
  const { status = null, model = null, key = null, endpoint = null, from, to } = query;
  const { rows, next } = await pageOfRequests(sql, {
    model,
    key,
    endpoint,
    company: params.company ?? null,
    status:
      status !== null && /^\d/.test(status) ? Number(status) : (status as ResultFilter | null),
    from: from === undefined ? null : new Date(from),
    to: to === undefined ? null : new Date(to),
    before: after === null ? null : placeOf(after),
    limit,
  });
  return {
    rows: rows.map((row) => ({ ...row, result: explainRequest(row).result })),
    next: next?.id ?? null,
  };
}

function placeOf(cursor: string): RequestCursor {
  const at = requestIdTime(cursor);
  if (at !== null) return { at: new Date(at), id: cursor };
  throw wrongAt('?cursor', 'must be a next_cursor');
}

async function find(sql: Sql, { id, params }: Call): Promise<object> {
  const request = await findRequest(sql, id, params.company ?? null);
  if (request === null) throw new Refused('missing', `Nothing is known of request ${id}.`);
  const { about: _, ...explanation } = explainRequest(request);
  return { ...request, ...explanation };
}
