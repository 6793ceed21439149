import t from 'tap';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

/** What the tenant role may do with each column of each table: all that is not named here is closed to it. */

type May = Readonly<Record<'select' | 'insert' | 'update', string>>;

// biome-ignore format: a table
const MAY: Readonly<Record<string, Partial<May>>> = {
  admin_tokens: { select: 'id name company_id access created_at created_by expires_at last_used_at revoked_at', insert: 'id name company_id digest access created_at created_by expires_at last_used_at revoked_at', update: 'revoked_at' },
  alert_receivers: { select: 'id company_id email percents forecast created_at created_by expires_at confirmed_at language', insert: 'id company_id email percents forecast created_at created_by digest expires_at confirmed_at language', update: 'percents forecast digest expires_at' },
  api_keys: { select: 'id company_id name prefix scopes created_at created_by expires_at last_used_at revoked_at paused_at paused_by paused_by_operator pause_reason requests_per_minute tokens_per_minute max_concurrent allowed_model_slugs monthly_budget_eur daily_budget_eur allowed_cidrs purpose rotated_from line end_users end_user_budget_eur user_id', insert: 'id company_id name digest prefix scopes created_at created_by expires_at last_used_at revoked_at paused_at paused_by paused_by_operator pause_reason requests_per_minute tokens_per_minute max_concurrent allowed_model_slugs monthly_budget_eur daily_budget_eur allowed_cidrs purpose rotated_from line end_users end_user_budget_eur user_id', update: 'name digest prefix scopes expires_at revoked_at paused_at pause_reason requests_per_minute tokens_per_minute max_concurrent allowed_model_slugs monthly_budget_eur daily_budget_eur allowed_cidrs end_users end_user_budget_eur' },
  api_usage: { select: 'billing_month request_id company_id api_key_id model_slug endpoint prompt_tokens completion_tokens cost_eur price_input price_output usage_source outcome occurred_at cost_center cached_tokens cache_write_tokens audio_prompt_tokens reasoning_tokens audio_completion_tokens price_cache_read price_cache_write end_user_id cache_write_1h_tokens image_prompt_tokens image_completion_tokens search_units rate parts' },
  assistants: { select: 'id company_id name system_prompt model_slug temperature max_tokens visibility project_id created_at', insert: 'id company_id name system_prompt model_slug temperature max_tokens visibility project_id created_at', update: 'id company_id name system_prompt model_slug temperature max_tokens visibility project_id created_at' },
  audit_log: { select: 'id at actor subject subject_id company_id' },
  budget_alerts: { select: 'id company_id api_key_id billing_month threshold budget_eur spent_eur forecast_eur superseded occurred_at cost_center day' },
  budget_reservations: { select: 'request_id company_id billing_month owner amount_eur expires_at billing_day api_key_id end_user_id' },
  chat_usage: { select: 'id company_id occurred_at cost_eur' },
  companies: { select: 'id name disabled_model_slugs allow_non_eu_models monthly_budget_eur daily_budget_eur created_at budget_mode requests_per_minute tokens_per_minute max_concurrent credit_limit_eur eu_locked closed_at paused_at paused_by pause_reason erased_at language member_max_keys member_key_budget_eur member_playground billing_name billing_address vat_id customer_number end_user_alerts unusual_times', update: 'name disabled_model_slugs allow_non_eu_models monthly_budget_eur daily_budget_eur budget_mode requests_per_minute tokens_per_minute max_concurrent language member_max_keys member_key_budget_eur member_playground billing_name billing_address vat_id end_user_alerts unusual_times' },
  cost_center_budgets: { select: 'id company_id name monthly_budget_eur created_at', insert: 'id company_id name monthly_budget_eur created_at', update: 'id company_id name monthly_budget_eur created_at' },
  end_user_alerts: { select: 'company_id billing_month end_user_id threshold occurred_at told_at' },
  end_users: { select: 'id company_id name first_seen last_seen booked erased_at monthly_budget_eur', update: 'monthly_budget_eur' },
  events: { select: 'id at company_id kind subject body' },
  invitations: { select: 'id company_id email role created_at created_by expires_at', insert: 'id company_id email role digest created_at created_by expires_at', update: 'digest created_at created_by expires_at' },
  key_reveals: { select: 'company_id key_id ciphertext expires_at', insert: 'company_id key_id ciphertext expires_at' },
  late_usage: { select: 'company_id billing_month request_id arrived_at' },
  ledger_moves: { select: 'number billing_month is_away' },
  models: { select: 'id slug company_id kind eu_hosted created_at token_input context_length max_output_tokens' },
  monthly_spend: { select: 'company_id billing_month requests prompt_tokens completion_tokens api_cost_eur chat_cost_eur statement' },
  oidc_groups: { select: 'id name company_id role created_at' },
  request_days: { select: 'company_id day model_slug endpoint requests refused failed duration_buckets reasons' },
  request_hours: { select: 'company_id hour model_slug api_key_id endpoint requests refused failed upstream_failed duration_ms added_us duration_buckets added_buckets reasons' },
  request_trail: { select: 'company_id occurred_at request_id api_key_id status duration_ms added_us first_event_ms endpoint model_slug asked code param outcome prompt_tokens completion_tokens cost_eur' },
  settings: { select: 'name value' },
  statement_rows: { select: 'company_id number billing_month part request_ids row_digests' },
  statements: { select: 'company_id number billing_month closed_at requests cost_eur corrections total_eur content previous digest opened_at opened_by', update: 'opened_at opened_by' },
  unusual_days: { select: 'id company_id day measure subject about api_key_id model_slug value usual superseded occurred_at seen_at' },
  usage_company_days: { select: 'company_id billing_month day model_slug endpoint usage_source outcome cost_center requests prompt_tokens completion_tokens cost_eur' },
  usage_daily: { select: 'company_id billing_month day model_slug api_key_id endpoint usage_source outcome requests prompt_tokens completion_tokens cost_eur cost_center' },
  usage_details: { select: 'company_id billing_month day model_slug endpoint cost_center requests prompt_tokens cached_tokens cache_write_tokens audio_prompt_tokens reasoning_tokens audio_completion_tokens cache_write_1h_tokens image_prompt_tokens image_completion_tokens search_units' },
  usage_end_user_days: { select: 'company_id billing_month end_user_id api_key_id day model_slug requests prompt_tokens completion_tokens cost_eur' },
  usage_key_months: { select: 'company_id billing_month api_key_id endpoint cost_center requests prompt_tokens completion_tokens cost_eur estimated unfinished day_01 day_02 day_03 day_04 day_05 day_06 day_07 day_08 day_09 day_10 day_11 day_12 day_13 day_14 day_15 day_16 day_17 day_18 day_19 day_20 day_21 day_22 day_23 day_24 day_25 day_26 day_27 day_28 day_29 day_30 day_31' },
  users: { select: 'id email company_id role created_at last_sign_in_at oidc_group language second_factor_since recovery_codes erasure_asked_at saved_views page_language reset_asked_at monthly_summary', update: 'role' },
};
const DELETED = [
  'alert_receivers',
  'assistants',
  'cost_center_budgets',
  'invitations',
  'key_reveals',
  'users',
];

t.test('a column is open to a company as this list says, and in no other way', async (t) => {
  const { db } = await testDatabase(t);
  const rows = await db.run(
    20_000,
    (sql: Sql) => sql<{ name: string; kind: keyof May; columns: string }[]>`
      select c.relname as name, p.kind, string_agg(a.attname, ' ' order by a.attname) as columns
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      cross join unnest(array['select', 'insert', 'update']) as p (kind)
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition
        and has_column_privilege('tollgate_tenant', c.oid, a.attnum, p.kind)
      group by 1, 2`,
  );
  const sorted = (text = '') => text.split(' ').toSorted().join(' ');
  const found = rows.map(({ name, kind, columns }) => `${kind} ${name}: ${sorted(columns)}`);
  const listed = Object.entries(MAY).flatMap(([name, kinds]) =>
    Object.entries(kinds).map(([kind, columns]) => `${kind} ${name}: ${sorted(columns)}`),
  );
  t.strictSame(found.toSorted(), listed.toSorted());
  const deleted = await db.run(
    20_000,
    (sql: Sql) => sql<{ name: string }[]>`
      select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
        and (has_table_privilege('tollgate_tenant', oid, 'delete') or has_table_privilege('tollgate_tenant', oid, 'truncate')) order by 1`,
  );
  t.strictSame(
    deleted.map(({ name }) => name),
    DELETED,
  );
});
