import { oneOf, readDay, readSlug, readUuid } from '../../domain/field.ts';
import { type DayRange, readBefore, readRange } from '../../domain/reports/day-range.ts';
import { type ExplainedChange, partsAmong } from '../../domain/reports/usage-change.ts';
import { BOOKED_ENDPOINTS } from '../../domain/wording/endpoint.ts';
import { readAllChange } from '../../store/usage/all-usage.ts';
import { type ModelChange, type Mover, readUsageChange } from '../../store/usage/change.ts';
import type { UsageFilters } from '../../store/usage/cube.ts';
import {
  ALL_GROUPS,
  COMPANY_GROUPS,
  checkGroups,
  type Heading,
  METRICS,
  readAllTable,
  readUsageTable,
  type TableQuery,
  type UsageTable,
} from '../../store/usage/usage-table.ts';
import { ArgumentError, command, named, optional, required } from '../frame/command.ts';
import { type Cell, card, listing, sections, table } from '../frame/text.ts';

const days = {
  from: required('--from DAY', readDay, 'first day, such as 2026-11-08, in the billing time zone'),
  to: required('--to DAY', readDay, 'last day'),
};
const filters = {
  model: optional('--model SLUG', readSlug, 'calls of this model alone'),
  key: optional('--key ID', readUuid, 'calls of this key alone'),
  endpoint: optional(
    '--endpoint NAME',
    oneOf(...Object.keys(BOOKED_ENDPOINTS)),
    'calls of this endpoint alone',
  ),
  cost_center: optional(
    '--cost-center NAME',
    (text) => text,
    'calls that name this cost centre; empty: none',
  ),
};
const MOST_MOVERS = 20;
const MOST_CELLS = { rows: 200, columns: 50 };
const METHOD = `The difference is the sum of its parts, to the last digit. "more calls": there are more calls than before, each model with the same share of them. "longer calls": those of the same model have more tokens. "more cached": another share of their tokens is read from a cache, or written to it, where these have a price. "other tiers", "other hours", "other lengths" (of prompts): another share of the calls has such a rate. A rate with several conditions is split: first what its tier adds, then its hours, then its length. "dearer models": other models get the calls. "changed prices": what was paid beside the price that held when the time before ended.
EUR amounts are exact. In-app chat is not among them.`;

const changeCommand = command({
  name: 'usage change',
  summary: 'say why a company, or all together, spent more or less than in a time before',
  options: {
    company: optional(
      '--company ID',
      readUuid,
      'company to show; default: all together, and which ones changed most',
    ),
    ...days,
    before_from: optional(
      '--before-from DAY',
      readDay,
      'first day of the time before; default: as many days before, or the month before a month',
    ),
    before_to: optional('--before-to DAY', readDay, 'last day of the time before'),
    ...filters,
  },
  notes: METHOD,
  async run({ read }, { company, before_from, before_to, ...asked }) {
    const after = rangeOf(asked);
    const before = named('--before-to', () => readBefore(after, before_from, before_to));
    const times = { before, after };
    const names = [daysText(before), daysText(after)] as const;
    const chosen = filtersOf(asked);
    if (company !== undefined) {
      const change = await read(
        (sql) => readUsageChange(sql, company, times, chosen, MOST_MOVERS),
        company,
      );
      const title = `Usage of ${change.company_name}, ${names[1]} and before it ${names[0]}`;
      const keys = movers('KEY', change.by_key.lines, ({ name, id }) => name ?? id);
      const centers = change.by_cost_center.lines.some(({ cost_center }) => cost_center !== '')
        ? movers(
            'COST CENTRE',
            change.by_cost_center.lines,
            ({ cost_center }) => cost_center || '(none)',
          )
        : '';
      return {
        json: { company_id: company, ...times, ...change },
        text: sections(explained(title, change, names), keys, centers),
      };
    }
    if (chosen.key !== null || chosen.endpoint !== null || chosen.cost_center !== null)
      throw new ArgumentError('--key, --endpoint and --cost-center need --company');
    const change = await read((sql) => readAllChange(sql, times, chosen.model, MOST_MOVERS));
    const title = `Usage of all companies, ${names[1]} and before it ${names[0]}`;
    const companies = movers(
      'COMPANY',
      change.by_company?.lines ?? [],
      ({ name, id }) => name ?? id,
    );
    return {
      json: { ...times, ...change },
      text: sections(explained(title, change, names), companies),
    };
  },
});

const groups = [...new Set([...COMPANY_GROUPS, ...ALL_GROUPS])];

const tableCommand = command({
  name: 'usage table',
  summary: 'show one figure by two groups, such as cost by model and key',
  options: {
    company: optional('--company ID', readUuid, 'company to show; default: all together'),
    rows: required('--rows GROUP', oneOf(...groups), `one of ${groups.join(', ')}`),
    columns: required('--columns GROUP', oneOf(...groups), 'another one'),
    metric: optional(
      '--metric NAME',
      oneOf(...METRICS),
      `one of ${METRICS.join(', ')}; default: cost_eur`,
    ),
    ...days,
    ...filters,
  },
  notes: `Of a company: ${COMPANY_GROUPS.join(', ')}. Of all together: ${ALL_GROUPS.join(', ')}, without filters. The ${MOST_CELLS.rows} dearest rows and ${MOST_CELLS.columns} columns are shown; the totals are of all. Figures are exact.`,
  async run({ read }, { company, rows, columns, metric = 'cost_eur', ...asked }) {
    const query: TableQuery = { rows, columns, metric, range: rangeOf(asked), most: MOST_CELLS };
    const allowed: readonly string[] = company === undefined ? ALL_GROUPS : COMPANY_GROUPS;
    for (const group of [rows, columns]) {
      if (!allowed.includes(group))
        throw new ArgumentError(
          `${group} is a group ${company === undefined ? 'of one company: give --company' : 'of all companies: leave out --company'}`,
        );
    }
    named('--columns', () => checkGroups(query));
    const chosen = filtersOf(asked);
    if (company === undefined && Object.values(chosen).some((filter) => filter !== null))
      throw new ArgumentError('filters need --company');
    const found: UsageTable =
      company === undefined
        ? await read((sql) => readAllTable(sql, query))
        : await read((sql) => readUsageTable(sql, company, chosen, query), company);
    return {
      json: { ...query.range, rows_by: rows, columns_by: columns, metric, ...found },
      text: gridText(found, rows),
    };
  },
});

export const usageChangeCommands = [changeCommand, tableCommand];

/** @throws ArgumentError */
function rangeOf({ from, to }: DayRange): DayRange {
  return named('--to', () => readRange(from, to));
}

function filtersOf(asked: Partial<Record<keyof UsageFilters, string | undefined>>): UsageFilters {
  const { model = null, key = null, endpoint = null, cost_center = null } = asked;
  return { model, key, endpoint, cost_center, keys: null };
}

function daysText({ from, to }: DayRange): string {
  return from === to ? from : `${from} to ${to}`;
}

const HEADINGS = {
  more_calls_eur: 'CALLS',
  longer_calls_eur: 'LENGTH',
  more_cached_eur: 'CACHED',
  other_tiers_eur: 'TIERS',
  other_hours_eur: 'HOURS',
  other_lengths_eur: 'LONG PROMPTS',
  dearer_models_eur: 'MODELS',
  changed_prices_eur: 'PRICES',
};

type Explained = { readonly total: ExplainedChange; readonly by_model: readonly ModelChange[] };

/** The difference, its parts, and those of each model. */
function explained(
  title: string,
  { total, by_model }: Explained,
  [before, after]: readonly [string, string],
): string {
  const shown = partsAmong(by_model);
  const parts = shown.map((part) => [`EUR ${part.slice(0, -4).replaceAll('_', ' ')}`, total[part]]);
  return sections(
    card(title, {
      [`EUR, ${before}`]: total.before.cost_eur,
      [`EUR, ${after}`]: total.after.cost_eur,
      'EUR difference': total.difference_eur,
      ...Object.fromEntries(parts),
      'requests before': total.before.requests,
      'requests after': total.after.requests,
    }),
    listing(
      by_model,
      {
        MODEL: ({ model }) => model,
        BEFORE: (line) => line.before.cost_eur,
        AFTER: (line) => line.after.cost_eur,
        DIFFERENCE: ({ difference_eur }) => difference_eur,
        ...Object.fromEntries(
          shown.map((part) => [HEADINGS[part], (line: ModelChange) => line[part]]),
        ),
      },
      'There were no API calls in either.',
      ['BEFORE', 'AFTER', 'DIFFERENCE', ...Object.values(HEADINGS)],
    ),
  );
}

function movers<T>(
  heading: string,
  lines: readonly (Mover & T)[],
  nameOf: (line: T) => Cell,
): string {
  return listing(
    lines,
    {
      [`${heading} THAT CHANGED MOST`]: nameOf,
      BEFORE: ({ before_eur }: Mover) => before_eur,
      AFTER: ({ after_eur }: Mover) => after_eur,
      DIFFERENCE: ({ difference_eur }: Mover) => difference_eur,
    } as Record<string, (line: Mover & T) => Cell>,
    '',
    ['BEFORE', 'AFTER', 'DIFFERENCE'],
  );
}

function gridText(
  { rows, columns, cells, total, other_rows, other_columns }: UsageTable,
  by: string,
): string {
  if (rows.length === 0) return 'There were no API calls.';
  const nameOf = ({ name, value }: Heading) => name ?? (value || '(none)');
  const heads = columns.map(nameOf);
  const lines = rows.map((row, at) => [
    nameOf(row),
    row.total,
    ...(cells[at] as readonly string[]),
  ]);
  const all = ['all', total, ...columns.map((column) => column.total)];
  const more =
    other_rows + other_columns === 0
      ? ''
      : `Not shown: ${other_rows} rows, ${other_columns} columns. The totals are of all.`;
  return sections(
    table([by.toUpperCase(), 'ALL', ...heads], [all, ...lines], ['ALL', ...heads]),
    more,
  );
}
