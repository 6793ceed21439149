import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { DISABLED, PRICE_FACTOR, TOLD_TO_OWNERS } from '../../domain/settings/company.ts';
import { COST_CENTER } from '../../domain/settings/cost-center.ts';
import { KEY } from '../../domain/settings/key.ts';
import { OFFERED_MODEL, PRICED } from '../../domain/settings/model.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { digestOfRow } from '../statement/digest.ts';

/** A table in the archive of a company: the file `<table>.jsonl`, with one JSON object a line. */
export interface ArchivedTable {
  readonly table: string;
  /** The contents of the file, in words. */
  readonly what: string;
  readonly columns: readonly string[];
  /** Columns for operators only. */
  readonly internal?: readonly string[];
  /** Columns that are left out, and why. */
  readonly without?: Readonly<Record<string, string>>;
  /** Further members for operators, as expressions over the row `t`. */
  readonly computed?: Readonly<Record<string, string>>;
  /** Its numbers are prices, which hold at this instant of the row `t`: others than operators get what the company pays. */
  readonly pricedAt?: string;
  /** The column with the id of the company, unless it is "company_id". */
  readonly company?: string;
  readonly order: string;
}

/**
 * Everything that is stored about a company. A new table with a `company_id` is a line here, or in NOT_ARCHIVED;
 * a test compares both with the database, column by column.
 */
export const ARCHIVED: readonly ArchivedTable[] = [
  {
    table: 'companies',
    what: 'the company: name, budget, EU gate and their ceilings, limits, disabled models, when it was closed or paused',
    columns: words(
      `id ${namesOf({ ...TOLD_TO_OWNERS, ...DISABLED }).join(' ')} created_at closed_at paused_at paused_by pause_reason erased_at`,
    ),
    internal: namesOf(PRICE_FACTOR),
    company: 'id',
    order: 'id',
  },
  {
    table: 'users',
    what: 'users, who may sign in to the administration pages, and their roles',
    columns: words(
      'id email company_id role created_at oidc_group last_sign_in_at language second_factor_since recovery_codes erasure_asked_at saved_views page_language reset_asked_at monthly_summary',
    ),
    without: {
      password_hash: 'a secret: it could be used to guess the password',
      reset_digest: 'a secret: it identifies the link to a new password',
    },
    order: 'email',
  },
  {
    table: 'oidc_groups',
    what: 'groups of the identity provider that give roles in the company',
    columns: words('id name company_id role created_at'),
    order: 'name',
  },
  {
    table: 'invitations',
    what: 'open invitations to the company',
    columns: words('id company_id email role created_at created_by expires_at'),
    without: { digest: 'a secret: it identifies the link' },
    order: 'created_at, id',
  },
  {
    table: 'alert_receivers',
    what: 'who is told of budgets by e-mail, and at which percentages',
    columns: words(
      'id company_id email percents forecast created_at created_by expires_at confirmed_at language',
    ),
    without: { digest: 'a secret: it identifies the link by which an address agrees' },
    order: 'created_at, id',
  },
  {
    table: 'cost_center_budgets',
    what: 'what cost centres may cost in a month before somebody is told',
    columns: words(`id company_id name ${namesOf(COST_CENTER).join(' ')} created_at`),
    order: 'created_at, id',
  },
  {
    table: 'api_keys',
    what: 'keys with their limits and restrictions, revoked ones included',
    columns: words(
      `id company_id prefix created_at created_by last_used_at revoked_at paused_at paused_by paused_by_operator pause_reason ${namesOf(KEY).join(' ')} purpose rotated_from line user_id`,
    ),
    without: { digest: 'a secret: it identifies the key' },
    order: 'created_at, id',
  },
  {
    table: 'end_users',
    what: 'people behind the keys of front ends, as calls named them; without a name: erased',
    columns: words('id company_id name first_seen last_seen booked erased_at monthly_budget_eur'),
    order: 'first_seen, id',
  },
  {
    table: 'admin_tokens',
    what: 'administration tokens of programs that manage the company over HTTP',
    columns: words(
      'id name company_id access created_at created_by expires_at last_used_at revoked_at',
    ),
    without: { digest: 'a secret: it identifies the token' },
    order: 'created_at, id',
  },
  {
    table: 'models',
    what: 'models that belong to this company alone, with their prices',
    columns: words(`id slug company_id ${namesOf(OFFERED_MODEL).join(' ')} created_at`),
    internal: ['upstream_model'],
    pricedAt: 'now()',
    order: 'slug',
  },
  {
    table: 'model_prices',
    what: 'the history of the prices of these models, and those to come; without a price: the model was removed',
    columns: words(`id slug company_id valid_from ${namesOf(PRICED).join(' ')} applied`),
    without: {
      changed_by: 'people of the operator; audit_log has them as far as the company may see them',
      created_at: 'when the operator entered the price',
    },
    pricedAt: 't.valid_from',
    order: 'slug, valid_from',
  },
  {
    table: 'assistants',
    what: 'assistants with their system prompts and settings',
    columns: words(`id company_id ${namesOf(ASSISTANT).join(' ')} created_at`),
    order: 'created_at, id',
  },
  {
    table: 'api_usage',
    what: 'the ledger: one row for each call that was charged',
    columns: words(
      `billing_month request_id company_id api_key_id model_slug endpoint prompt_tokens completion_tokens cost_eur price_input price_output price_cache_read price_cache_write usage_source outcome occurred_at cost_center ${TOKEN_DETAILS.join(' ')} rate parts end_user_id`,
    ),
    internal: ['upstream_model'],
    computed: { digest: `encode(${digestOfRow('t')}, 'hex')` },
    order: 'occurred_at, request_id',
  },
  {
    table: 'usage_daily',
    what: 'the ledger summed by day, model, key, endpoint, source, outcome and cost centre',
    columns: words(
      'company_id billing_month day model_slug api_key_id endpoint usage_source outcome cost_center requests prompt_tokens completion_tokens cost_eur',
    ),
    order:
      'billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center',
  },
  {
    table: 'monthly_spend',
    what: 'the sums of each billing month: API calls and in-app chat',
    columns: words(
      'company_id billing_month requests prompt_tokens completion_tokens api_cost_eur chat_cost_eur statement',
    ),
    order: 'billing_month',
  },
  {
    table: 'statements',
    what: 'closed months: numbered documents; content is the document as it was sealed, and its SHA-256 is the digest',
    columns: words(
      'company_id number billing_month closed_at requests cost_eur corrections total_eur content opened_at opened_by',
    ),
    without: { digest: 'it is the SHA-256 of content', previous: 'it is in content' },
    order: 'number',
  },
  {
    table: 'statement_rows',
    what: 'which calls each statement covers',
    columns: words('company_id number billing_month part request_ids'),
    internal: ['row_digests'],
    order: 'number, billing_month, part',
  },
  {
    table: 'late_usage',
    what: 'calls that came after their month was closed, for the next statement',
    columns: words('company_id billing_month request_id arrived_at'),
    order: 'billing_month, request_id',
  },
  {
    table: 'chat_usage',
    what: 'cost of in-app chat, as the application booked it',
    columns: words('id company_id occurred_at cost_eur'),
    order: 'occurred_at, id',
  },
  {
    table: 'budget_alerts',
    what: 'thresholds that the budgets of the company, its keys and its cost centres reached',
    columns: words(
      'id company_id api_key_id billing_month threshold budget_eur spent_eur forecast_eur superseded occurred_at cost_center day',
    ),
    order: 'occurred_at, id',
  },
  {
    table: 'end_user_alerts',
    what: 'end users who used up a part of their budgets in the present month',
    columns: words('company_id billing_month end_user_id threshold occurred_at told_at'),
    order: 'billing_month, end_user_id, threshold',
  },
  {
    table: 'unusual_days',
    what: 'what was unusual on a day of the company, its keys and its models',
    columns: words(
      'id company_id day measure subject about api_key_id model_slug value usual superseded occurred_at seen_at',
    ),
    order: 'day, measure, subject, about',
  },
  {
    table: 'events',
    what: 'what the operator’s programs were told of the company in the last 90 days',
    columns: words('id at company_id kind subject body'),
    without: {
      actor: 'people of the operator; audit_log has them as far as the company may see them',
      told: 'state of sending',
    },
    order: 'at, id',
  },
  {
    table: 'request_trail',
    what: 'what became of each request of the last days',
    columns: words(
      'company_id occurred_at request_id api_key_id status duration_ms added_us first_event_ms endpoint model_slug asked code param outcome prompt_tokens completion_tokens cost_eur',
    ),
    without: {
      upstream_status: 'what stands behind Tollgate, for operators: tollgate request ID',
      upstream_reason: 'the same',
    },
    order: 'occurred_at, request_id',
  },
  {
    table: 'request_hours',
    what: 'requests by hour, model, key and endpoint: how many were refused and failed, why, and how long they took',
    columns: words(
      'company_id hour model_slug api_key_id endpoint requests refused failed upstream_failed reasons duration_ms added_us duration_buckets added_buckets',
    ),
    order: 'hour, model_slug, api_key_id, endpoint',
  },
  {
    table: 'audit_log',
    what: 'every change to the company, its models, keys, assistants and users: who, when, before, after; an update leaves out long values that it did not change',
    columns: words('id at actor action subject subject_id company_id before after'),
    internal: ['db_role'],
    order: 'id',
  },
];

/** The things that an archive leaves out, and why. */
export const NOT_ARCHIVED: Readonly<Record<string, string>> = {
  budget_reservations:
    'calls in flight under a strict budget: a row lives for seconds and ends in the ledger',
  event_deliveries: 'state of sending: alerts go to the owners and administrators in users.jsonl',
  model_cost_prices: 'what the operator pays its provider, which is not about the company',
  company_price_factors:
    'how the operator makes its prices: what was charged is in api_usage.jsonl',
  upstream_costs: 'what calls cost the operator, which is not about the company',
  upstream_cost_monthly: 'sums of these',
  spend_changes: 'ids of companies whose sums changed in the last hour, for gateways',
  idempotent_answers:
    'answers kept for a day, so that a program that repeats a request gets the same one',
  key_reveals: 'texts of new keys for a minute, encrypted with a secret that is stored nowhere',
  usage_details: 'sums of the rows in api_usage.jsonl that tell what their tokens consist of',
  usage_end_user_days: 'sums of the rows in api_usage.jsonl that have an end user',
  usage_company_days: 'sums of the rows in usage_daily.jsonl',
  usage_key_months: 'sums of the rows in usage_daily.jsonl',
  request_days: 'sums of the same requests as in request_hours.jsonl',
  second_factors: 'encrypted secrets of people, and digests of their recovery codes',
  sessions: 'digests of random tokens of people who are signed in, for twelve hours at most',
};

/** Columns that name an actor. In its own archive a company sees "operator" for people who never belonged to it. */
export const ACTORS: readonly string[] = ['actor', 'created_by', 'paused_by'];

/** Columns that hold rows of other tables as JSON. In its own archive a company learns of them what the audit log shows. */
export function isJsonRow(column: string): column is 'before' | 'after' {
  return column === 'before' || column === 'after';
}

function words(text: string): readonly string[] {
  return text.split(' ');
}
