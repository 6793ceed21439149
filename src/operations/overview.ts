import { OVERVIEW, problemsOf } from '../domain/reports/overview.ts';
import * as schema from '../domain/settings/schema.ts';
import { MARGIN, readDetailedMargin } from '../store/usage/margin.ts';
import { readOverview } from '../store/usage/overview.ts';
import { get, type Operation } from './frame/row.ts';

const status = schema.object({
  ok: {
    type: 'boolean',
    description: 'nothing is wrong; refused requests and budgets are not judged',
  },
  problems: schema.array(
    schema.object({ text: schema.string, remedy: schema.string }),
    'what is wrong and what to do about it, the worst first',
  ),
  ...OVERVIEW.properties,
});

const MOST_COMPANIES = 100_000;

const USUAL_COMPANIES = 200;

/** What operators have to know of all companies. */
export const overviewOperations: readonly Operation[] = [
  get('getStatus', '/status', {
    summary:
      'What is wrong, usage of all companies, top spenders, budgets near their end, models and gateways',
    action: 'overview.read',
    answer: status,
    async run(sql) {
      const overview = await readOverview((query) => Promise.resolve(query(sql)));
      const problems = problemsOf(overview).map(({ text, remedy }) => ({ text, remedy }));
      return { ok: problems.length === 0, problems, ...overview };
    },
  }),
  get('getMargin', '/margin', {
    summary:
      'Revenue, cost and margin of a month by model and by company; default: the present month',
    action: 'cost.read',
    query: schema.object(
      {
        month: schema.month,
        companies: schema.whole(
          MOST_COMPANIES,
          `how many, the highest revenue first; default: ${USUAL_COMPANIES}`,
        ),
        lines: schema.oneOf(['true', 'false'], 'true: also by company and model'),
      },
      [],
    ),
    answer: MARGIN,
    isLong: true,
    async run(sql, { query: { month, companies = USUAL_COMPANIES, lines }, services }) {
      const extent = { companies, lines: lines === 'true' };
      const worth = { currency: services.upstreamCurrency, rate: services.upstreamRate };
      return readDetailedMargin(sql, month === undefined ? null : `${month}-01`, worth, extent);
    },
  }),
];
