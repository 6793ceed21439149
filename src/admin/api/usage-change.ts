import { addDays, type DayRange, readBefore, readRange } from '../../domain/reports/day-range.ts';
import type { Schema } from '../../domain/settings/schema.ts';
import * as schema from '../../domain/settings/schema.ts';
import { readAt } from '../../operations/problem.ts';
import { readAllChange, readAllUsage } from '../../store/usage/all-usage.ts';
import { readUsageChange } from '../../store/usage/change.ts';
import type { Times } from '../../store/usage/cube.ts';
import {
  ALL_GROUPS,
  COMPANY_GROUPS,
  checkGroups,
  type Group,
  METRICS,
  type Metric,
  readAllTable,
  readUsageTable,
  type TableQuery,
} from '../../store/usage/usage-table.ts';
import { type ApiCall, type ApiOperation, get } from './frame/operation.ts';
import { filtersOf, usageFilters } from './usage.ts';

/** Why usage changed, and usage by two groups, as the pages show them: days are those of the billing time zone. */

type Days = Partial<DayRange>;

interface TimesQuery extends Days {
  readonly before_from?: string;
  readonly before_to?: string;
}

const days = {
  from: { ...schema.day, description: 'the first day; default: seven days before the present one' },
  to: { ...schema.day, description: 'the last day; default: yesterday' },
};

const times = {
  ...days,
  before_from: {
    ...schema.day,
    description:
      'the first day of the time before; default: as many days before the others, or the month before a month',
  },
  before_to: { ...schema.day, description: 'the last day of the time before' },
};

const difference = { type: 'string', description: 'EUR as exact decimal text; negative: it became less' };

const sums = schema.object({
  requests: schema.count,
  prompt_tokens: schema.count,
  completion_tokens: schema.count,
  cost_eur: schema.sum,
});

const parts = {
  before: sums,
  after: sums,
  more_calls_eur: difference,
  longer_calls_eur: difference,
  more_cached_eur: {
    ...difference,
    description: 'another share of the prompt tokens is read from a cache, or written to it, where these have a price',
  },
  dearer_models_eur: difference,
  changed_prices_eur: difference,
  difference_eur: { ...difference, description: 'the sum of the five parts, to the last digit' },
};

const mover = { before_eur: schema.sum, after_eur: schema.sum, difference_eur: difference };

const movers = (members: Readonly<Record<string, Schema>>) =>
  schema.object({ count: schema.count, lines: schema.array(schema.object({ ...mover, ...members })) });

const timeCosts = schema.array(
  schema.object({ time: schema.oneOf(['before', 'after']), at: schema.day, cost_eur: schema.sum }),
  'by day, or by month where one of the times is longer than 62 days',
);

const range = schema.object({ from: schema.day, to: schema.day });

const explained = {
  total: schema.object(parts),
  by_model: schema.array(schema.object({ ...parts, model: schema.string }), 'those that changed most first'),
  by_time: timeCosts,
};

const both = { before: range, after: range };

const heading = schema.object({ value: schema.string, name: schema.textOrNull, total: schema.string });

const grid = {
  from: schema.day,
  to: schema.day,
  rows: schema.array(heading, 'the dearest first; days and months in order'),
  columns: schema.array(heading),
  cells: schema.array(schema.array(schema.string), 'by row and column, exact decimal text'),
  other_rows: { ...schema.count, description: 'how many more there are' },
  other_columns: schema.count,
  total: schema.string,
};

const gridQuery = <G extends Group>(groups: readonly G[]) => ({
  ...days,
  rows: schema.oneOf(groups),
  columns: schema.oneOf(groups, 'another group than the rows'),
  metric: schema.oneOf(METRICS, 'default: cost_eur'),
});

interface GridQuery extends Days {
  readonly rows?: Group;
  readonly columns?: Group;
  readonly metric?: Metric;
}

const MOST_MOVERS = 100;

const MOST_COMPANIES = 1000;

const MOST_CELLS = { rows: 200, columns: 100 };

export const usageChangeOperations: readonly ApiOperation[] = [
  get('getUsageChange', '/companies/{company}/usage/change', {
    summary:
      'Why a company spent more or less than in a time before: more calls, longer calls, more of it cached, dearer models, changed prices',
    action: 'usage.read',
    query: schema.object({ ...times, ...usageFilters }, []),
    answer: schema.object({
      company_id: schema.id,
      company_name: schema.string,
      ...both,
      ...explained,
      by_key: movers({ id: schema.id, name: schema.textOrNull, prefix: schema.textOrNull }),
      by_cost_center: movers({ cost_center: schema.string }),
    }),
    async run(sql, call) {
      const asked = timesOf(call);
      const company_id = call.params.company as string;
      return {
        company_id,
        ...asked,
        ...(await readUsageChange(sql, company_id, asked, filtersOf(call.query), MOST_MOVERS)),
      };
    },
  }),
  get('getUsageTable', '/companies/{company}/usage/table', {
    summary: 'One figure of a company by two groups, such as cost by model and key',
    action: 'usage.read',
    query: schema.object({ ...gridQuery(COMPANY_GROUPS), ...usageFilters }, []),
    answer: schema.object({ company_id: schema.id, company_name: schema.string, ...grid }),
    async run(sql, call) {
      const company_id = call.params.company as string;
      const asked = gridOf(call, { rows: 'model', columns: 'key' });
      return { company_id, ...asked.range, ...(await readUsageTable(sql, company_id, filtersOf(call.query), asked)) };
    },
  }),
  get('getAllUsage', '/usage', {
    summary: 'The usage of all companies together, by model and by company',
    action: 'overview.read',
    query: schema.object(days, []),
    answer: schema.object({
      from: schema.day,
      to: schema.day,
      ...sums.properties,
      by_model: schema.array(schema.object({ ...sums.properties, model: schema.string })),
      by_company: {
        ...schema.object({
          count: schema.count,
          lines: schema.array(schema.object({ id: schema.id, name: schema.textOrNull, cost_eur: schema.sum })),
        }),
        description: `the ${MOST_COMPANIES} with the highest cost`,
      },
      by_time: schema.array(schema.object({ at: schema.day, model: schema.string, cost_eur: schema.sum })),
    }),
    async run(sql, call) {
      const asked = daysOf(call);
      return { ...asked, ...(await readAllUsage(sql, asked, MOST_COMPANIES)) };
    },
  }),
  get('getAllUsageChange', '/usage/change', {
    summary: 'Why all companies together spent more or less than in a time before, and which companies',
    action: 'overview.read',
    query: schema.object({ ...times, model: schema.slug }, []),
    answer: schema.object({
      ...both,
      ...explained,
      by_company: {
        ...schema.orNull(movers({ id: schema.id, name: schema.textOrNull })),
        description: 'those that changed most first; null with a filter for a model',
      },
    }),
    async run(sql, call) {
      const asked = timesOf(call);
      return { ...asked, ...(await readAllChange(sql, asked, call.query.model ?? null, MOST_MOVERS)) };
    },
  }),
  get('getAllUsageTable', '/usage/table', {
    summary: 'One figure of all companies by two groups, such as cost by company and model',
    action: 'overview.read',
    query: schema.object(gridQuery(ALL_GROUPS), []),
    answer: schema.object(grid),
    async run(sql, call) {
      const asked = gridOf(call, { rows: 'company', columns: 'model' });
      return { ...asked.range, ...(await readAllTable(sql, asked)) };
    },
  }),
];

type Services = Pick<ApiCall['services'], 'calendar' | 'clock'>;

/** The days that are asked for, by default the last seven that are over. @throws Problem 400 */
function daysOf({ query: { from, to }, services }: { readonly query: Days; readonly services: Services }): DayRange {
  const last = to ?? addDays(services.calendar.date(services.clock()), -1);
  return readAt('?to', () => readRange(from ?? addDays(last, -6), last));
}

/** @throws Problem 400 */
function timesOf(call: { readonly query: TimesQuery; readonly services: Services }): Times {
  const after = daysOf(call);
  const { before_from: from, before_to: to } = call.query;
  return { before: readAt('?before_to', () => readBefore(after, from, to)), after };
}

/** @throws Problem 400 */
function gridOf(
  call: { readonly query: GridQuery; readonly services: Services },
  fallback: Pick<TableQuery, 'rows' | 'columns'>,
): TableQuery {
  const { rows = fallback.rows, columns = fallback.columns, metric = 'cost_eur' } = call.query;
  const asked = { rows, columns, metric, range: daysOf(call), most: MOST_CELLS };
  readAt('?columns', () => checkGroups(asked));
  return asked;
}
