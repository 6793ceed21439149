import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { KEY_DAYS } from '../connection/expressions.ts';

/**
 * The tables of sums of the ledger, as data: which columns each groups by and adds up. Triggers fill the tables
 * (`count_api_usage` and others, in sql/), and `ledger verify` compares them with the ledger's rows. A test compares each
 * statement of the triggers with this file (test/store/statement/sums.test.ts).
 */

/** What is added up. */
type Source = 'calls' | 'cells' | 'told' | 'named' | 'costs';

/** A table of sums: its key, its figures, and the rows that it adds up. */
export interface Sums {
  readonly table: string;
  readonly period: 'day' | 'month';
  /** The columns of its key. */
  readonly by: string;
  /** The columns of figures, each with the SQL that sums it over rows of `from`. */
  readonly figures: Readonly<Record<string, string>>;
  /** The name in SOURCES of the rows that it adds up; in a trigger, those of a batch. */
  readonly from: Source;
  /** A further column of its key, with its SQL. Rows that differ in this column alone are summed by readers. */
  readonly part?: readonly [column: string, sql: string];
  /** Figures that are null, and not 0, where there is nothing to add up. */
  readonly untold?: readonly string[];
}

/** The day of a call in the billing time zone. */
export const DAY = '(occurred_at at time zone zone)::date';

/** The queries of the rows to add up, over calls and the upstream's costs; `zone` is the billing time zone. */
export const SOURCES: Readonly<Record<Source, (calls: string, costs?: string) => string>> = {
  calls: (calls) => calls,
  // `number` is that of the day in its billing month. A trigger counts the calls of a batch that are alike as one
  cells: (calls) =>
    `(select *, ${DAY} as day, ${DAY} - billing_month + 1 as number, 1 as requests from ${calls})`,
  told: (calls) =>
    `(select *, ${DAY} as day from ${calls} where coalesce(${TOKEN_DETAILS.join(', ')}) is not null)`,
  named: (calls) => `(select *, ${DAY} as day from ${calls} where end_user_id is not null)`,
  costs: (calls, costs = 'upstream_costs') =>
    `(select c.*, model_slug, cost_eur from ${calls} join ${costs} c using (company_id, billing_month, request_id))`,
};

/** Rows of a table with the columns of the ledger, with the billing time zone beside each call. */
export function withZone(table: string): string {
  return `(select u.*, z.value as zone from ${table} u, settings z where z.name = 'billing_timezone') as calls`;
}

/** The ledger. */
export const CALLS = withZone('api_usage');

const CELL = {
  requests: 'sum(requests)',
  prompt_tokens: 'sum(prompt_tokens)',
  completion_tokens: 'sum(completion_tokens)',
  cost_eur: 'sum(cost_eur)',
};
const ENDING = 'endpoint, usage_source, outcome, cost_center';

/** The columns of `monthly_spend` that come from the ledger; others count in-app chat. */
export const API_SPEND: Sums = {
  table: 'monthly_spend',
  period: 'month',
  by: 'company_id, billing_month',
  figures: {
    requests: 'count(*)',
    prompt_tokens: 'sum(prompt_tokens)',
    completion_tokens: 'sum(completion_tokens)',
    api_cost_eur: 'sum(cost_eur)',
  },
  from: 'calls',
};

/** The tables of sums that pages show. */
export const SUMS = {
  daily: {
    table: 'usage_daily',
    period: 'day',
    by: `company_id, billing_month, api_key_id, day, model_slug, ${ENDING}`,
    figures: CELL,
    from: 'cells',
  },
  company_days: {
    table: 'usage_company_days',
    period: 'day',
    by: `company_id, billing_month, day, model_slug, ${ENDING}`,
    figures: CELL,
    from: 'cells',
  },
  key_months: {
    table: 'usage_key_months',
    period: 'month',
    by: 'company_id, billing_month, api_key_id, endpoint, cost_center',
    figures: {
      ...CELL,
      estimated: "coalesce(sum(requests) filter (where usage_source = 'estimated'), 0)",
      unfinished: "coalesce(sum(requests) filter (where outcome <> 'completed'), 0)",
      ...Object.fromEntries(
        KEY_DAYS.map((name, at) => [name, `sum(cost_eur) filter (where number = ${at + 1})`]),
      ),
    },
    from: 'cells',
    untold: KEY_DAYS, // a key without calls on a day is not shown
  },
  model_days: {
    table: 'usage_model_days',
    period: 'day',
    by: 'billing_month, day, model_slug',
    figures: {
      ...CELL,
      completed: "coalesce(sum(requests) filter (where outcome = 'completed'), 0)",
      untold:
        "coalesce(sum(requests) filter (where outcome = 'completed' and usage_source = 'estimated'), 0)",
    },
    from: 'cells',
    part: ['part', 'own_part'],
  },
  details: {
    table: 'usage_details',
    period: 'day',
    by: 'company_id, billing_month, day, model_slug, endpoint, cost_center',
    figures: {
      requests: 'count(*)',
      prompt_tokens: 'coalesce(sum(prompt_tokens) filter (where cached_tokens is not null), 0)',
      ...Object.fromEntries(TOKEN_DETAILS.map((name) => [name, `coalesce(sum(${name}), 0)`])),
    },
    from: 'told',
  },
  end_user_days: {
    table: 'usage_end_user_days',
    period: 'day',
    by: 'company_id, billing_month, end_user_id, api_key_id, day, model_slug',
    figures: { ...CELL, requests: 'count(*)' },
    from: 'named',
  },
  upstream: {
    table: 'upstream_cost_monthly',
    period: 'month',
    by: 'company_id, billing_month, model_slug, currency',
    figures: { requests: 'count(*)', cost: 'sum(cost)', cost_eur: 'sum(cost_eur)' },
    from: 'costs',
  },
} as const satisfies Readonly<Record<string, Sums>>;

/** Batches write into the parts of a table of sums from 0 to the one before this. */
const OWN_PART = 16;

/** Adds rows to a table of sums, as triggers add those of a batch. @param rows of `rowsOf` */
export function upsertOf({ table, by, figures, part, untold = [] }: Sums, rows: string): string {
  const names = Object.keys(figures);
  const into = `insert into ${table} as s (${by}, ${names.join(', ')}`;
  if (part !== undefined) return `${into}, ${part[0]}) select q.*, ${OWN_PART} from (${rows}) as q`;
  const moved = names.map((name) => {
    const sum = `s.${name} + excluded.${name}`;
    return `${name} = ${untold.includes(name) ? `coalesce(${sum}, s.${name}, excluded.${name})` : sum}`;
  });
  return `${into}) ${rows} on conflict (${by}) do update set ${moved.join(', ')}`;
}

/** The query of the rows of a table of sums, without its part. @param from SQL of what it groups */
export function rowsOf({ by, figures }: Pick<Sums, 'by' | 'figures'>, from: string): string {
  return `select ${by}, ${Object.values(figures).join(', ')} from ${from} group by ${by}`;
}
