import { problemsOf } from '../../domain/reports/overview.ts';
import * as schema from '../../domain/settings/schema.ts';
import { readDetailedMargin } from '../../store/usage/margin.ts';
import { readOverview } from '../../store/usage/overview.ts';
import { type ApiOperation, get } from './frame/operation.ts';

const sumOrNull = schema.orNull(schema.sum);

const percent = { type: ['number', 'null'] };

const totals = { requests: schema.count, tokens: schema.count, cost_eur: schema.sum };

const company = schema.object({ id: schema.id, name: schema.string });

const period = {
  ...totals,
  begins: schema.day,
  before: { ...schema.object(totals), description: 'up to the same time of the day or month before' },
  spenders: schema.array(
    schema.object({ id: schema.id, name: schema.textOrNull, cost_eur: schema.sum, share: percent }),
  ),
};

const nearBudget = schema.object({
  company,
  key: schema.orNull(schema.object({ ...company.properties, prefix: schema.string })),
  budget_eur: schema.sum,
  spent_eur: schema.sum,
  percent,
  forecast_percent: percent,
  reached_on: { ...schema.orNull(schema.day), description: 'at the present pace; null: reached, or not in this month' },
  owners: schema.array(schema.string, 'addresses of owners of the company, three at most'),
});

const gateway = schema.object({
  id: schema.string,
  name: schema.string,
  version: schema.string,
  started_at: schema.instant,
  last_seen_at: schema.instant,
  gone: schema.boolean,
  backlog: schema.count,
  oldest_seconds: { type: 'number' },
  lost: schema.count,
  spool_failing: schema.boolean,
  limits_alone: schema.boolean,
  requests_in_flight: schema.count,
});

const status = schema.object({
  ok: { type: 'boolean', description: 'nothing is wrong; refused requests and budgets are not judged' },
  problems: schema.array(
    schema.object({ text: schema.string, remedy: schema.string }),
    'what is wrong and what to do about it, the worst first',
  ),
  at: schema.instant,
  today: schema.object(period),
  month: schema.object({ ...period, chat_eur: schema.sum }),
  budgets: schema.object({
    total: schema.count,
    used_up: schema.count,
    nearest: schema.array(nearBudget, 'those that end soon first, then those used up, then others'),
  }),
  spend: schema.array(
    schema.object({ day: schema.day, model: schema.string, cost_eur: schema.sum }),
    'of all companies in the last thirty days, by day and model',
  ),
  request_days: schema.array(
    schema.object({
      day: schema.day,
      begins: schema.instant,
      ends: schema.instant,
      requests: schema.count,
      refused: schema.count,
      failed: schema.count,
      reasons: { type: 'object', additionalProperties: schema.count, description: 'by error code' },
      p50: { type: ['number', 'null'], description: 'milliseconds of requests that were not refused' },
      p95: { type: ['number', 'null'] },
    }),
    'requests of the last thirty days; empty: none is known',
  ),
  refused_now: schema.array(
    schema.object({
      code: schema.string,
      requests: schema.count,
      company: schema.orNull(schema.object({ id: schema.id, name: schema.textOrNull })),
      of: { ...schema.count, description: 'all requests of the company in that time' },
      owners: schema.array(schema.string),
    }),
    'errors of companies in the present hour and the one before, those with most requests first; company null: without a valid key',
  ),
  last_day: {
    ...schema.object({
      requests: schema.count,
      refused: schema.count,
      failed: schema.count,
      reasons: schema.array(
        schema.object({
          code: schema.string,
          requests: schema.count,
          companies: schema.count,
          most: schema.orNull(schema.object({ id: schema.id, name: schema.textOrNull, requests: schema.count })),
        }),
        'by error code, and the company that got each most often; null: requests without a valid key',
      ),
    }),
    description: 'requests of the last 24 hours',
  },
  models: schema.array(
    schema.object({
      slug: schema.string,
      requests: schema.count,
      refused: schema.count,
      failed: schema.count,
      upstream_failed: schema.count,
      recent_requests: { ...schema.count, description: 'in the present hour and the one before' },
      recent_upstream_failed: schema.count,
      mean_ms: { type: ['number', 'null'] },
    }),
    'of the last 24 hours',
  ),
  untold_usage: schema.array(
    schema.object({ slug: schema.string, requests: schema.count, estimated: schema.count }),
    'models whose upstream told no usage of some whole answers of yesterday and today: how many of them are estimated',
  ),
  set_aside: schema.count,
  dead_deliveries: schema.count,
  failing_deliveries: { ...schema.count, description: 'those that have failed for some minutes, and are tried again' },
  gateways: schema.array(gateway),
  tenant_role_advice: {
    ...schema.textOrNull,
    description: 'SQL by which row-level security between companies begins to hold; null: it holds',
  },
  has_operator: { type: 'boolean', description: 'whether anybody can sign in as an operator' },
  changes: schema.array(schema.object({ at: schema.instant, who: schema.string, what: schema.string })),
});

const sums = {
  requests: schema.count,
  revenue_eur: schema.sum,
  uncosted_eur: schema.sum,
  cost_eur: sumOrNull,
  margin_eur: sumOrNull,
  margin_percent: percent,
  cached_percent: { ...percent, description: "of the prompt tokens, from the upstream's cache, where it tells them" },
  upstream: schema.orNull(
    schema.object({
      requests: { ...schema.count, description: 'calls of which the upstream told its own cost' },
      revenue_eur: schema.sum,
      costs: schema.array(schema.object({ currency: schema.string, cost: schema.string }), 'as told'),
      cost_eur: { ...sumOrNull, description: 'null: a part is in a currency whose rate is not set' },
      margin_eur: sumOrNull,
      margin_percent: percent,
    }),
  ),
};

const ofModel = { model: schema.string };

const ofCompany = { company_id: schema.id, company_name: schema.textOrNull };

const margin = schema.object({
  month: schema.day,
  total: schema.object(sums),
  by_model: schema.array(schema.object({ ...sums, ...ofModel })),
  by_company: schema.array(schema.object({ ...sums, ...ofCompany })),
  companies: { ...schema.count, description: 'how many have calls' },
  lines: schema.array(schema.object({ ...sums, ...ofModel, ...ofCompany })),
  without_cost: schema.array(schema.string, 'models with calls and no cost price'),
  months: schema.array(schema.day),
  told: {
    ...schema.object({ cost: schema.boolean, cached: schema.boolean }),
    description: 'whether upstreams told their own cost, and cached tokens, of any call',
  },
  upstream_currency: schema.object({ currency: schema.string, rate: schema.textOrNull }),
});

const MOST_COMPANIES = 100_000;

const USUAL_COMPANIES = 200;

/** What operators have to know of all companies. */
export const overviewOperations: readonly ApiOperation[] = [
  get('getStatus', '/status', {
    summary: 'What is wrong, usage of all companies, top spenders, budgets near their end, models and gateways',
    action: 'overview.read',
    answer: status,
    async run(sql) {
      const overview = await readOverview((query) => Promise.resolve(query(sql)));
      const problems = problemsOf(overview).map(({ text, remedy }) => ({ text, remedy }));
      return { ok: problems.length === 0, problems, ...overview };
    },
  }),
  get('getMargin', '/margin', {
    summary: 'Revenue, cost and margin of a month by model and by company; default: the present month',
    action: 'cost.read',
    query: schema.object(
      {
        month: schema.month,
        companies: schema.whole(MOST_COMPANIES, `how many, the highest revenue first; default: ${USUAL_COMPANIES}`),
        lines: schema.oneOf(['true', 'false'], 'true: also by company and model'),
      },
      [],
    ),
    answer: margin,
    isLong: true,
    async run(sql, { query: { month, companies = USUAL_COMPANIES, lines }, services }) {
      const extent = { companies, lines: lines === 'true' };
      const worth = { currency: services.upstreamCurrency, rate: services.upstreamRate };
      return readDetailedMargin(sql, month === undefined ? null : `${month}-01`, worth, extent);
    },
  }),
];
