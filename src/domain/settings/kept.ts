import { EVENT_DAYS } from '../event.ts';
import type { Words } from '../language/en.ts';
import { SESSION_LIMITS } from '../user.ts';
import { ASSISTANT } from './assistant.ts';
import { COMPANY, DISABLED } from './company.ts';
import { KEY } from './key.ts';
import { MODEL } from './model.ts';
import { namesOf } from './schema.ts';
import type { Settings } from './setting.ts';

/**
 * All that this service keeps, as a person asks: where, and in the word lists what, why and how long. From this list the
 * page "What is kept about us" is made, and a test compares it with the tables of the
 * database: a column that may keep a text and is not named here fails.
 */

/** Tables, each with its columns that may keep a text: all but numbers, times, ids and yes or no. */
type Tables = Readonly<Record<string, string>>;
type Entry = keyof Words['kept']['entries'];

/** The columns of settings that may keep a text: not ids. */
const textsOf = (settings: Settings) =>
  namesOf(settings)
    .filter(
      (column) =>
        column !== 'project_id' && /text|choice|list/.test(String(settings[column]?.kind)),
    )
    .join(' ');

const LEDGER_COLUMNS = 'model_slug endpoint usage_source outcome cost_center';

/** What is kept of companies and their people. */
// biome-ignore format: a table
export const KEPT: Readonly<Record<Entry, Tables>> = {
  users: { users: 'email role password_hash oidc_group language saved_views page_language reset_digest' },
  groups: { oidc_groups: 'name role' },
  invitations: { invitations: 'email role digest created_by' },
  sessions: { sessions: 'digest browser second_factor' },
  factors: { second_factors: 'secret pending recovery' },
  receivers: { alert_receivers: 'email percents digest created_by language' },
  costCenters: { cost_center_budgets: 'name' },
  company: { companies: `${textsOf({ ...COMPANY, ...DISABLED })} paused_by pause_reason` },
  keys: { api_keys: `${textsOf(KEY)} digest prefix created_by paused_by pause_reason purpose` },
  endUsers: { end_users: 'name' },
  reveals: { key_reveals: 'ciphertext' },
  tokens: { admin_tokens: 'name digest access created_by' },
  answers: { idempotent_answers: 'key_digest request answer secret' },
  assistants: { assistants: textsOf(ASSISTANT) },
  models: { models: `slug rates ${textsOf(MODEL)}` },
  prices: { model_prices: 'slug rates changed_by' },
  log: { audit_log: 'actor db_role action subject before after' },
  events: { events: 'kind subject actor body' },
  deliveries: { event_deliveries: 'channel recipient state last_error' },
  alerts: { budget_alerts: 'threshold cost_center', end_user_alerts: '', unusual_days: 'measure subject about model_slug' },
  ledger: {
    api_usage: 'model_slug upstream_model endpoint usage_source outcome cost_center rate parts',
    usage_daily: LEDGER_COLUMNS, usage_company_days: LEDGER_COLUMNS,
    usage_key_months: 'endpoint cost_center', usage_details: 'model_slug endpoint cost_center',
    usage_end_user_days: 'model_slug', monthly_spend: '',
  },
  statements: { statements: 'content previous digest opened_by', statement_rows: 'request_ids row_digests', late_usage: '' },
  requests: { request_trail: 'endpoint model_slug asked code param outcome upstream_reason' },
  hours: {
    request_hours: 'model_slug endpoint duration_buckets added_buckets reasons',
    request_days: 'model_slug endpoint duration_buckets reasons',
  },
  chat: { chat_usage: '' },
  reservations: { budget_reservations: '' },
};

/** What is kept of the service alone, which no page of a company shows: where, what, why and how long. */
// biome-ignore format: a table
export const KEPT_OF_SERVICE: readonly (readonly [Tables, what: string, why: string, until: string])[] = [
  [{ model_cost_prices: 'slug rates changed_by', company_price_factors: 'changed_by' }, 'Cost prices and price factors: e-mail address of everybody who changed one', 'to prove who changed what', 'until erasure'],
  [{ upstream_costs: 'currency', upstream_cost_monthly: 'model_slug currency', usage_model_days: 'model_slug' },
    'What calls cost the operator, and sums of all companies, nothing of persons', 'the margin', 'as long as bookkeeping law wants it'],
  [{ request_totals: 'reasons models duration_buckets' }, 'Requests of all companies together, by hour', 'the overview', '190 days'],
  [{ ledger_seals: 'request_ids row_digests previous digest', seal_checkpoints: 'writers numbers digests previous digest', ledger_feed: 'request_ids seen', ledger_moves: 'companies requests prompt_tokens completion_tokens cost_eur row_digests previous digest' },
    'Seals and order of the ledger, nothing of persons: ids of calls and digests', 'to prove the ledger, and to tell other programs each call once', 'as long as bookkeeping law wants it'],
  [{ api_usage_set_aside: 'record reason' }, 'Ledger rows that could not be booked', 'to book them by hand', 'until the operator deletes them'],
  [{ gateways: 'name version unread_usage' }, 'Gateways: name of the machine or pod, members of usages that they do not read', 'to know which one is gone', 'a day after it was last seen, longer if it left records'],
  [{ changes: 'kind subject', spend_changes: 'others' }, 'What changed a moment ago: ids', 'to tell every gateway', 'about an hour'],
  [{ limit_owners: '', limit_slots: '', limit_windows: 'kind units', usage_marks: 'period', alert_lease: '' },
    'Limits in use, and what all used up to an hour: ids and counts', 'limits and the overview', 'about an hour; marks for days and months'],
  [{ settings: 'name value', tenant_grants: 'privilege', personal_data: 'table_name column_name kind word company', schema_migrations: 'name sha256 needs' },
    'Facts of this database: settings, rights, the list of columns that an erasure reaches, the versions of the tables', 'to run it', 'for good'],
];

/** An entry of a company in words. */
export interface KeptEntry {
  readonly what: string;
  readonly why: string;
  readonly until: string;
  /** Names of tables, with their columns that may keep a text. */
  readonly tables: Tables;
}

/** @param trail how long it is kept what became of single requests, in words */
export function keptEntries({ kept }: Words, trail: string): KeptEntry[] {
  const { entries } = kept;
  const until: Readonly<Partial<Record<Entry, string>>> = {
    sessions: entries.sessions.until(SESSION_LIMITS.absolute / 3600),
    events: entries.events.until(EVENT_DAYS),
    deliveries: entries.deliveries.until(EVENT_DAYS),
    requests: trail,
  };
  return Object.entries(KEPT).map(([name, tables]) => {
    const { what, why, until: always } = entries[name as Entry];
    return { what, why, until: until[name as Entry] ?? String(always), tables };
  });
}
