import { problemsOf } from '../../domain/overview.ts';
import { readDetailedMargin } from '../../store/margin-details.ts';
import { readOverview } from '../../store/overview.ts';
import { type Operation, operation } from './operation.ts';
import * as schema from './schemas.ts';

const count = { type: 'integer', minimum: 0 };
const eur = { type: 'string', description: 'EUR as exact decimal text' };
const eurOrNull = { ...eur, type: ['string', 'null'] };
const percent = { type: ['number', 'null'] };
const totals = { requests: count, tokens: count, cost_eur: eur };
const company = schema.object({ id: schema.id, name: { type: 'string' } });
const period = {
  ...totals,
  begins: schema.day,
  before: { ...schema.object(totals), description: 'up to the same time of the day or month before' },
  spenders: {
    type: 'array',
    items: schema.object({ id: schema.id, name: { type: ['string', 'null'] }, cost_eur: eur, share: percent }),
  },
};
const nearBudget = schema.object({
  company,
  key: { ...schema.object({ ...company.properties, prefix: { type: 'string' } }), type: ['object', 'null'] },
  ...{ budget_eur: eur, spent_eur: eur, percent, forecast_percent: percent },
  reached_on: schema.orNull(schema.day),
});
const gateway = schema.object({
  ...{ id: { type: 'string' }, name: { type: 'string' }, version: { type: 'string' } },
  ...{ started_at: schema.instant, last_seen_at: schema.instant, gone: { type: 'boolean' } },
  ...{ backlog: count, oldest_seconds: { type: 'number' }, lost: count, spool_failing: { type: 'boolean' } },
  ...{ limits_alone: { type: 'boolean' }, requests_in_flight: count },
});
const status = schema.object({
  ok: { type: 'boolean', description: 'nothing is wrong' },
  problems: {
    type: 'array',
    items: schema.object({ text: { type: 'string' }, remedy: { type: 'string' } }),
    description: 'what is wrong and what to do about it, the worst first',
  },
  at: schema.instant,
  today: schema.object(period),
  month: schema.object({ ...period, chat_eur: eur }),
  budgets: schema.object({ total: count, used_up: count, nearest: { type: 'array', items: nearBudget } }),
  models: {
    type: 'array',
    items: schema.object({
      ...{ slug: { type: 'string' }, requests: count, failed: count, upstream_failed: count },
      mean_ms: { type: ['number', 'null'] },
    }),
    description: 'of the last 24 hours',
  },
  set_aside: count,
  dead_deliveries: count,
  gateways: { type: 'array', items: gateway },
  changes: {
    type: 'array',
    items: schema.object({ at: schema.instant, who: { type: 'string' }, what: { type: 'string' } }),
  },
});

const sums = {
  ...{ requests: count, revenue_eur: eur, cost_eur: eurOrNull, uncosted_eur: eur, margin_eur: eurOrNull },
  margin_percent: percent,
  cached_percent: { ...percent, description: "of the prompt tokens, from the upstream's cache, where it tells them" },
  upstream: {
    ...schema.object({
      requests: { ...count, description: 'calls of which the upstream told its own cost' },
      revenue_eur: eur,
      costs: {
        type: 'array',
        items: schema.object({ currency: { type: 'string' }, cost: { type: 'string' } }),
        description: 'as told',
      },
      cost_eur: { ...eurOrNull, description: 'null: a part is in a currency whose rate is not set' },
      margin_eur: eurOrNull,
      margin_percent: percent,
    }),
    type: ['object', 'null'],
  },
};
const ofModel = { model: { type: 'string' } };
const ofCompany = { company_id: schema.id, company_name: { type: ['string', 'null'] } };
const margin = schema.object({
  month: schema.day,
  total: schema.object(sums),
  by_model: { type: 'array', items: schema.object({ ...sums, ...ofModel }) },
  by_company: { type: 'array', items: schema.object({ ...sums, ...ofCompany }) },
  companies: { ...count, description: 'how many have calls' },
  lines: { type: 'array', items: schema.object({ ...sums, ...ofModel, ...ofCompany }) },
  without_cost: { type: 'array', items: { type: 'string' }, description: 'models with calls and no cost price' },
  months: { type: 'array', items: schema.day },
  told: {
    ...schema.object({ cost: { type: 'boolean' }, cached: { type: 'boolean' } }),
    description: 'whether upstreams told their own cost, and cached tokens, of any call',
  },
  upstream_currency: schema.object({ currency: { type: 'string' }, rate: { type: ['string', 'null'] } }),
});
const MOST_COMPANIES = 100_000;
const USUAL_COMPANIES = 200;

/** What operators have to know of all companies. */
export const overviewOperations: readonly Operation[] = [
  operation({
    id: 'getStatus',
    method: 'get',
    path: '/status',
    summary: 'What is wrong, usage of all companies, top spenders, budgets near their end, models and gateways',
    action: 'overview.read',
    answer: status,
    status: 200,
    async run(sql) {
      const overview = await readOverview((query) => Promise.resolve(query(sql)));
      const problems = problemsOf(overview).map(({ text, remedy }) => ({ text, remedy }));
      return { ok: problems.length === 0, problems, ...overview };
    },
  }),
  operation<never, { readonly month?: string; readonly companies?: number; readonly lines?: 'true' | 'false' }>({
    id: 'getMargin',
    method: 'get',
    path: '/margin',
    summary: 'Revenue, cost and margin of a month by model and by company; default: the present month',
    action: 'cost.read',
    query: schema.object(
      {
        month: schema.month,
        companies: {
          ...schema.whole(MOST_COMPANIES, `how many, the highest revenue first; default: ${USUAL_COMPANIES}`),
        },
        lines: schema.oneOf(['true', 'false'], 'true: also by company and model'),
      },
      [],
    ),
    answer: margin,
    status: 200,
    isLong: true,
    async run(sql, { query: { month, companies = USUAL_COMPANIES, lines }, services }) {
      const extent = { companies, lines: lines === 'true' };
      const worth = { currency: services.upstreamCurrency, rate: services.upstreamRate };
      return readDetailedMargin(sql, month === undefined ? null : `${month}-01`, worth, extent);
    },
  }),
];
