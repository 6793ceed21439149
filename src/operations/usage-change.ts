import { addDays, type DayRange, readBefore, readRange } from '../domain/reports/day-range.ts';
import { SUMS } from '../domain/reports/usage-change.ts';
import * as schema from '../domain/settings/schema.ts';
import { ALL_CHANGE, readAllChange, readAllUsage } from '../store/usage/all-usage.ts';
import { readUsageChange, USAGE_CHANGE } from '../store/usage/change.ts';
import type { Times } from '../store/usage/cube.ts';
import {
  ALL_GROUPS,
  COMPANY_GROUPS,
  checkGroups,
  type Group,
  METRICS,
  readAllTable,
  readUsageTable,
  type TableQuery,
  USAGE_TABLE,
} from '../store/usage/usage-table.ts';
import { readAt } from './frame/refused.ts';
import { type Call, get, type Operation } from './frame/row.ts';
import { filtersOf, usageFilters } from './usage.ts';

/** Why usage changed, and usage by two groups, as the pages show them: days are those of the billing time zone. */

type Days = Partial<DayRange>;
type TimesQuery = Days & Partial<Readonly<Record<'before_from' | 'before_to', string>>>;
type GridQuery = Days & Partial<Pick<TableQuery, 'rows' | 'columns' | 'metric'>>;

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

const range = schema.object({ from: schema.day, to: schema.day });

const both = { before: range, after: range };

const { company_name, ...changed } = USAGE_CHANGE.properties;

const grid = { ...range.properties, ...USAGE_TABLE.properties };

const gridQuery = <G extends Group>(groups: readonly G[]) => ({
  ...days,
  rows: schema.oneOf(groups),
  columns: schema.oneOf(groups, 'another group than the rows'),
  metric: schema.oneOf(METRICS, 'default: cost_eur'),
});

const MOST_MOVERS = 100;

const MOST_COMPANIES = 1000;

const MOST_CELLS = { rows: 200, columns: 100 };

export const usageChangeOperations: readonly Operation[] = [
  get('getUsageChange', '/companies/{company}/usage/change', {
    summary:
      'Why a company spent more or less than in a time before: more calls, longer calls, more of it cached, other tiers, hours or lengths of prompts, dearer models, changed prices',
    action: 'usage.read',
    query: schema.object({ ...times, ...usageFilters }, []),
    answer: schema.object({
      company_id: schema.id,
      company_name,
      ...both,
      ...changed,
    }),
    async run(sql, call) {
      const times = timesOf(call);
      const { company: company_id } = call;
      return {
        company_id,
        ...times,
        ...(await readUsageChange(sql, company_id, times, filtersOf(call.query), MOST_MOVERS)),
      };
    },
  }),
  get('getUsageTable', '/companies/{company}/usage/table', {
    summary: 'One figure of a company by two groups, such as cost by model and key',
    action: 'usage.read',
    query: schema.object({ ...gridQuery(COMPANY_GROUPS), ...usageFilters }, []),
    answer: schema.object({ company_id: schema.id, company_name, ...grid }),
    async run(sql, call) {
      const { company: company_id } = call;
      const table = gridOf(call, { rows: 'model', columns: 'key' });
      return {
        company_id,
        ...table.range,
        ...(await readUsageTable(sql, company_id, filtersOf(call.query), table)),
      };
    },
  }),
  get('getAllUsage', '/usage', {
    summary: 'The usage of all companies together, by model and by company',
    action: 'overview.read',
    query: schema.object(days, []),
    answer: schema.object({
      from: schema.day,
      to: schema.day,
      ...SUMS.properties,
      by_model: schema.array(schema.object({ ...SUMS.properties, model: schema.string })),
      by_company: {
        ...schema.object({
          count: schema.count,
          lines: schema.array(
            schema.object({ id: schema.id, name: schema.textOrNull, cost_eur: schema.sum }),
          ),
        }),
        description: `the ${MOST_COMPANIES} with the highest cost`,
      },
      by_time: schema.array(
        schema.object({ at: schema.day, model: schema.string, cost_eur: schema.sum }),
      ),
    }),
    async run(sql, call) {
      const days = daysOf(call);
      return { ...days, ...(await readAllUsage(sql, days, MOST_COMPANIES)) };
    },
  }),
  get('getAllUsageChange', '/usage/change', {
    summary:
      'Why all companies together spent more or less than in a time before, and which companies',
    action: 'overview.read',
    query: schema.object({ ...times, model: schema.slug }, []),
    answer: schema.object({ ...both, ...ALL_CHANGE.properties }),
    async run(sql, call) {
      const times = timesOf(call);
      return {
        ...times,
        ...(await readAllChange(sql, times, call.query.model ?? null, MOST_MOVERS)),
      };
    },
  }),
  get('getAllUsageTable', '/usage/table', {
    summary: 'One figure of all companies by two groups, such as cost by company and model',
    action: 'overview.read',
    query: schema.object(gridQuery(ALL_GROUPS), []),
    answer: schema.object(grid),
    async run(sql, call) {
      const table = gridOf(call, { rows: 'company', columns: 'model' });
      return { ...table.range, ...(await readAllTable(sql, table)) };
    },
  }),
];

type Services = Pick<Call['services'], 'calendar' | 'clock'>;

/** The days that are asked for, by default the last seven that are over. @throws Refused wrong */
function daysOf({
  query: { from, to },
  services,
}: {
  readonly query: Days;
  readonly services: Services;
}): DayRange {
  const last = to ?? addDays(services.calendar.date(services.clock()), -1);
  return readAt('?to', () => readRange(from ?? addDays(last, -6), last));
}

/** @throws Refused wrong */
function timesOf(call: { readonly query: TimesQuery; readonly services: Services }): Times {
  const after = daysOf(call);
  const { before_from: from, before_to: to } = call.query;
  return { before: readAt('?before_to', () => readBefore(after, from, to)), after };
}

/** @throws Refused wrong */
function gridOf(
  call: { readonly query: GridQuery; readonly services: Services },
  fallback: Pick<TableQuery, 'rows' | 'columns'>,
): TableQuery {
  const { rows = fallback.rows, columns = fallback.columns, metric = 'cost_eur' } = call.query;
  const table = { rows, columns, metric, range: daysOf(call), most: MOST_CELLS };
  readAt('?columns', () => checkGroups(table));
  return table;
}
