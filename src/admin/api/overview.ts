import { OVERVIEW, problemsOf } from '../../domain/reports/overview.ts';
import * as schema from '../../domain/settings/schema.ts';
import { readDetailedMargin } from '../../store/usage/margin.ts';
import { readOverview } from '../../store/usage/overview.ts';
import { type ApiOperation, get } from './frame/operation.ts';

const sumOrNull = schema.orNull(schema.sum);

const percent = { type: ['number', 'null'] };

const status = schema.object({
  ok: { type: 'boolean', description: 'nothing is wrong; refused requests and budgets are not judged' },
  problems: schema.array(
    schema.object({ text: schema.string, remedy: schema.string }),
    'what is wrong and what to do about it, the worst first',
  ),
  ...OVERVIEW.properties,
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
