import { PLAIN_CSV, SPREADSHEET_NAMES, SPREADSHEETS } from '../domain/documents/csv.ts';
import { type DayRange, isMonth, readRange, wholeMonth } from '../domain/reports/day-range.ts';
import { SUMS } from '../domain/reports/usage-change.ts';
import type { Schema } from '../domain/settings/schema.ts';
import * as schema from '../domain/settings/schema.ts';
import { TOKEN_DETAILS } from '../domain/usage.ts';
import { BOOKED_ENDPOINTS } from '../domain/wording/endpoint.ts';
import { findCompany } from '../store/company/company.ts';
import type { Sql } from '../store/connection/pool.ts';
import { snapshot } from '../store/connection/tenant-role.ts';
import { readCompanyUsage } from '../store/usage/company-usage.ts';
import type { UsageFilters } from '../store/usage/cube.ts';
import { readTokenDetails } from '../store/usage/details.ts';
import { copyLedger, EXPORT_MS } from '../store/usage/export.ts';
import {
  FEED_CURSOR,
  FEED_PAGE,
  isFeedCursor,
  OTHER_LEDGER,
  readFeed,
} from '../store/usage/feed.ts';
import { copyFocus, type FocusQuestion } from '../store/usage/focus.ts';
import { answersOf, readQuality } from '../store/usage/quality.ts';
import { summaryOf } from '../store/usage/summary.ts';
import { readAt, wrongAt } from './frame/refused.ts';
import { type Call, get, type Operation } from './frame/row.ts';

const { properties: sums } = SUMS;
const { cost_eur: _, ...tokens } = sums;

const by = (members: Readonly<Record<string, Schema>>) =>
  schema.array(schema.object({ ...members, ...sums }));

/** Filters of a query, and their values. */
export const usageFilters = {
  model: schema.slug,
  key: schema.id,
  endpoint: schema.oneOf(BOOKED_ENDPOINTS),
  cost_center: schema.written(`^[^${schema.CONTROL}]{0,128}$`, 'empty: calls that name none'),
};

type AskedFilters = schema.Members<typeof usageFilters, never>;

const query = schema.object(
  {
    month: { ...schema.month, description: 'a month such as 2026-11; default: the present one' },
    from: { ...schema.day, description: 'the first day, in place of month' },
    to: { ...schema.day, description: 'the last day' },
    ...usageFilters,
  },
  [],
);

type Query = schema.Value<typeof query>;

const exportQuery = schema.object(
  {
    ...query.properties,
    spreadsheet: {
      ...schema.oneOf(SPREADSHEET_NAMES),
      description:
        'for people: with a byte order mark, and commas with numbers like 1234.56, or semicolons with numbers like 1234,56; default: commas without a mark, for programs',
    },
  },
  [],
);

/** Groups whose lines are bounded, as members of an answer; a cost centre for each call would make it as long as the ledger. */
const GROUPS = ['by_model', 'by_endpoint', 'by_key', 'by_cost_center'] as const;

const MOST_LINES = 1000;

const token_details = {
  type: ['object', 'null'],
  description:
    'of calls whose upstream told what their tokens consist of; null: none did, or of a single key',
  properties: {
    requests: schema.count,
    ...Object.fromEntries(TOKEN_DETAILS.map((name) => [name, schema.count])),
    cached_percent: { type: ['number', 'null'], description: 'cached of their prompt tokens' },
  },
} as const;

const members = {
  company_id: schema.id,
  company_name: schema.string,
  month: { ...schema.textOrNull, description: 'null: the days are not those of one month' },
  from: schema.day,
  to: schema.day,
  ...tokens,
  api_cost_eur: schema.sum,
  chat_cost_eur: {
    ...schema.textOrNull,
    description: 'of in-app chat; null: not known for parts of months and with filters',
  },
  total_cost_eur: schema.sum,
  monthly_budget_eur: schema.textOrNull,
  day: {
    ...schema.object({
      spent_eur: schema.sum,
      budget_eur: schema.sum,
      percent: { type: 'number' },
    }),
    description: 'the present day and its budget; absent: the company has no daily budget',
  },
  token_details,
  answers: {
    ...schema.orNull(
      schema.object({
        requests: schema.count,
        refused: schema.count,
        failed: schema.count,
        reasons: schema.array(
          schema.object({ code: schema.string, requests: schema.count }),
          'by error code',
        ),
      }),
    ),
    description:
      'what became of all requests, also those that are not in the ledger; null: not known, or too many',
  },
  counts: {
    ...schema.object(Object.fromEntries(GROUPS.map((name) => [name, schema.count]))),
    description: `how many lines there are; of each the ${MOST_LINES} with the highest cost are told`,
  },
  by_model: by({ model_slug: schema.string, token_details }),
  by_endpoint: by({ endpoint: schema.string }),
  by_key: by({ id: schema.id, name: schema.textOrNull, prefix: schema.textOrNull }),
  by_cost_center: by({ cost_center: schema.string }),
  by_time: {
    ...by({ at: schema.string, model: schema.string }),
    description: 'by model and hour of a single day, day of up to 62 days, else month',
  },
};
const answer = schema.object(
  members,
  schema.namesOf(members).filter((name) => name !== 'day'),
);

const PATH = '/companies/{company}/usage';

const FOCUS = 'The charges of a month as FOCUS 1.2 (CSV)';

function focusOf({
  services,
  params,
  query,
  role,
}: Call<unknown, { readonly month: string }>): FocusQuestion {
  return {
    brand: services.brand,
    company: params.company ?? null,
    month: `${query.month}-01`,
    role,
  };
}

/** What a company used, and the ledger rows behind it. Days are those of the billing time zone. */
export const usageOperations: readonly Operation[] = [
  get('getUsage', PATH, {
    summary: 'The usage of a company in a month or in a range of days',
    action: 'usage.read',
    query,
    answer,
    async run(sql, call) {
      const { company } = call;
      const range = rangeOf(call);
      const usage = await readCompanyUsage(sql, company, range, filtersOf(call.query), MOST_LINES);
      const details = await readTokenDetails(sql, company, range, filtersOf(call.query));
      const answers = answersOf(await readQuality(sql, company, range, filtersOf(call.query), []));
      const summary = { ...summaryOf(company, usage, range.from.slice(0, 7), details), answers };
      const { lines: keys } = usage.by_key;
      const by_key = keys.map(({ estimated: _, unfinished: __, ...line }) => line);
      const counts = Object.fromEntries(GROUPS.map((name) => [name, usage[name].count]));
      const month = isMonth(range) ? summary.month : null;
      return { ...summary, ...range, month, counts, by_key, by_time: usage.by_time };
    },
  }),
  get('exportLedger', '/companies/{company}/ledger', {
    summary:
      'The ledger rows behind the usage of a month or of a range of days, as CSV, oldest first',
    action: 'usage.read',
    query: exportQuery,
    file: {
      type: 'text/csv; charset=utf-8',
      name: (call) => `ledger-${rangeOf(call).from}-to-${rangeOf(call).to}.csv`,
      write(db, call, write) {
        const { company: companyId } = call;
        const { spreadsheet } = call.query;
        const form = spreadsheet === undefined ? PLAIN_CSV : SPREADSHEETS[spreadsheet];
        const internal = call.role === 'operator';
        const exported = {
          companyId,
          range: rangeOf(call),
          filters: filtersOf(call.query),
          internal,
          form,
        };
        return snapshot(db, companyId, EXPORT_MS, (sql) => copyLedger(sql, exported, write));
      },
    },
    async run(sql: Sql, call) {
      rangeOf(call);
      return findCompany(sql, call.company);
    },
  }),
  get('exportFocus', '/companies/{company}/focus', {
    summary: `${FOCUS}: BilledCost adds up to its statement, or to what that would be now`,
    action: 'statement.read',
    query: schema.object({ month: schema.month }),
    file: {
      type: 'text/csv; charset=utf-8',
      name: ({ query }) => `focus-${query.month}.csv`,
      write: (db, call, write) =>
        snapshot(db, call.company, EXPORT_MS, (sql) => copyFocus(sql, focusOf(call), write)),
    },
    run: (sql, { company }) => findCompany(sql, company),
  }),
  get('exportAllFocus', '/focus', {
    summary: `${FOCUS} of all companies`,
    action: 'feed.read',
    query: schema.object({ month: schema.month }),
    file: {
      type: 'text/csv; charset=utf-8',
      name: ({ query }) => `focus-${query.month}.csv`,
      write: (db, call, write) =>
        snapshot(db, null, EXPORT_MS, (sql) => copyFocus(sql, focusOf(call), write)),
    },
    run: async () => null,
  }),
  get('feedUsage', '/usage-feed', {
    summary:
      'The booked calls of all companies, each once, a JSON object a line with request_id and the cursor behind it. The order leaves none out, whatever is booked meanwhile; an empty answer: there is no further call yet',
    action: 'feed.read',
    query: schema.object(
      {
        after: schema.written(FEED_CURSOR.source, 'the cursor of a call of the feed'),
        limit: schema.whole(10 * FEED_PAGE, `how many calls at most; default: ${FEED_PAGE}`),
      },
      [],
    ),
    file: {
      type: 'application/x-ndjson',
      name: () => 'usage-feed.ndjson',
      async write(db, { query: { after = null, limit = FEED_PAGE } }, write) {
        for await (const rows of readFeed(db, { after, limit }))
          if (!(await write(Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join('')))))
            return;
      },
    },
    async run(sql, { query: { after } }) {
      if (after !== undefined && !(await isFeedCursor(sql, after)))
        throw wrongAt('?after', OTHER_LEDGER);
      return null;
    },
  }),
];

/** @throws Refused wrong */
function rangeOf({ query: { month, from, to }, services }: Call<unknown, Query>): DayRange {
  if (from === undefined && to === undefined) {
    return wholeMonth(
      month === undefined ? services.calendar.date(services.clock()) : `${month}-01`,
    );
  }
  if (month !== undefined) throw wrongAt('?month', 'must be left out where from and to are given');
  if (from === undefined) throw wrongAt('?from', 'is missing');
  if (to === undefined) throw wrongAt('?to', 'is missing');
  return readAt('?to', () => readRange(from, to));
}

export function filtersOf({ model, key, endpoint, cost_center }: AskedFilters): UsageFilters {
  const keys = null;
  return {
    model: model ?? null,
    key: key ?? null,
    endpoint: endpoint ?? null,
    cost_center: cost_center ?? null,
    keys,
  };
}
