import { EVENT_DAYS } from '../event.ts';
import { SESSION_LIMITS } from '../user.ts';

/**
 * All that this service keeps, as a person asks: what, why, how long, where. From this list the page "What is kept about
 * us" and the table of sql/PRIVACY.md are made, and a test compares it with the tables of the database: a column that may
 * keep a text and is not named here fails.
 */
export interface Kept {
  /** Of companies and their people, or of the service alone, which a company's page leaves out. */
  readonly of: 'company' | 'service';
  readonly what: string;
  readonly why: string;
  until(settings: RetentionSettings): string;
  /** Tables, each with its columns that may keep a text: all but numbers, times, ids and yes or no. */
  readonly tables: Readonly<Record<string, string>>;
}

/** The settings of a deployment that say how long something is kept. */
export interface RetentionSettings {
  /** Days for which it is kept what became of each request; 0: nothing is. In words where they are not known. */
  readonly trail: string;
}

/** For a deployment. @param requestTrailDays of REQUEST_TRAIL_DAYS */
export function retentionOf(requestTrailDays: number): RetentionSettings {
  const days = `${requestTrailDays} ${requestTrailDays === 1 ? 'day' : 'days'}`;
  return { trail: requestTrailDays === 0 ? 'not at all' : `${days}, rounded up to whole days in UTC` };
}

/** For documents, which do not know the deployment. */
export const DOCUMENTED: RetentionSettings = {
  trail: '`REQUEST_TRAIL_DAYS` (7 days), rounded up to whole days in UTC',
};

const HOURS = SESSION_LIMITS.absolute / 3600;
const ERASURE = 'until erasure';
const BOOKS = 'as long as bookkeeping law wants it';
const LEDGER_COLUMNS = 'model_slug endpoint usage_source outcome cost_center';

/** An entry of a company. @param until how long, in words; or as the settings say */
function company(
  what: string,
  why: string,
  until: string | Kept['until'],
  tables: Kept['tables'],
  of: Kept['of'] = 'company',
): Kept {
  return { of, what, why, until: typeof until === 'string' ? () => until : until, tables };
}

function service(...[what, why, until, tables]: Parameters<typeof company>): Kept {
  return company(what, why, until, tables, 'service');
}

// biome-ignore format: a table
export const KEPT: readonly Kept[] = [
  company('people who may sign in: e-mail address, role, company, hash of the password, last sign-in; since when there is a second factor and how many recovery codes are left; when somebody asked to be erased',
    'to sign in', 'until the user is removed', { users: 'email role password_hash' }),
  company('invitations: e-mail address, role, company, who invited, digest of the link',
    'to let somebody join', 'until accepted or withdrawn', { invitations: 'email role digest created_by' }),
  company('that somebody is signed in: the digest of a random token, times, the browser in words such as “Firefox on Windows”, and how. Not the address of the computer',
    'to stay signed in, and to see where one is', `at most ${HOURS} hours`, { sessions: 'digest browser second_factor' }),
  company('second factors: the secret of the app, encrypted; digests of recovery codes; how many codes were wrong',
    'to check codes', 'until it is turned off or reset, or the user is removed', { second_factors: 'secret pending recovery' }),
  company('receivers of budget alerts: e-mail address, percentages, who added it, when its reader agreed, digest of the link to agree by',
    'to send alerts to those who want them', 'until removed, by the company or the reader', { alert_receivers: 'email percents digest created_by' }),
  company('the company: its name, which is a person’s if the company is one person; its budget and models',
    'contract and invoices', ERASURE, { companies: 'name disabled_model_slugs budget_mode' }),
  company('keys: name, digest, beginning, scopes, e-mail address of the maker, networks and models it may be used with, time of last use',
    'to know whose key it is, and to revoke the right one', ERASURE,
    { api_keys: 'name digest prefix scopes created_by allowed_model_slugs allowed_cidrs purpose' }),
  company('the text of a new key, encrypted for the form that made it', 'to show it once',
    'one minute, and at most five more', { key_reveals: 'ciphertext' }),
  company('tokens of programs: name, digest, access, e-mail address of the maker', 'to know whose program it is', ERASURE,
    { admin_tokens: 'name digest access created_by' }),
  company('what a program got as an answer, such as the name of a new key', 'to answer a repeated request the same', 'one day',
    { idempotent_answers: 'key_digest request answer secret' }),
  company('assistants: name and system prompt, whatever was written there', 'to run them', 'until removed',
    { assistants: 'name system_prompt model_slug visibility' }),
  company('own models of a company, and shared ones: slug and internal name. No personal data, unless one is named after a person',
    'to run them', 'until removed', { models: 'slug upstream_model kind token_input' }),
  company('prices, past and coming: e-mail address of everybody who changed one', 'to prove who changed what', ERASURE,
    { model_prices: 'slug changed_by' }),
  company('the log of changes: e-mail address of everybody who changed something; the rows above, before and after each change, without secrets',
    'to prove who changed what', ERASURE, { audit_log: 'actor db_role action subject before after' }),
  company('events: e-mail address of everybody who created, rotated or revoked a key, closed a company or a statement',
    'to tell programs who changed what', `${EVENT_DAYS} days`, { events: 'kind subject actor body' }),
  company('deliveries of events: e-mail addresses that got an alert, answers of the mail server',
    'to send each event once', `${EVENT_DAYS} days`, { event_deliveries: 'channel recipient state last_error' }),
  company('what was reached of budgets: amounts, nothing of persons', 'to send each alert once', 'for good; those of past months may be deleted',
    { budget_alerts: 'threshold' }),
  company('the ledger and its sums, nothing of persons directly: time, model, token counts, cost, cost centre and id of the key of each call. A cost centre is what the caller named and cannot be erased: it is for accounts, not for names of persons. Where one person alone uses a key, they tell when that person worked',
    'invoices', BOOKS, {
      api_usage: 'model_slug upstream_model endpoint usage_source outcome cost_center',
      usage_daily: LEDGER_COLUMNS, usage_monthly: LEDGER_COLUMNS, usage_company_days: LEDGER_COLUMNS,
      usage_key_months: 'endpoint cost_center', usage_details: 'model_slug endpoint cost_center', monthly_spend: '',
    }),
  company('statements, nothing of persons directly: what the ledger tells of a month, by model, cost centre and id of the key, and ids of calls. Names are shown beside a statement and not stored in it',
    'invoices', BOOKS, { statements: 'content previous digest', statement_rows: 'request_ids row_digests', late_usage: '' }),
  company('what became of single requests, nothing of persons directly: time, model, status, cost and id of the key; the model or parameter that was asked for in vain, if it looks like a name and not like an address; what the upstream said when it failed, without what it repeats of the prompt. Never a prompt, an answer or an address of a client',
    'to find out why a request failed', ({ trail }) => trail,
    { request_trail: 'endpoint model_slug asked code param outcome upstream_reason' }),
  company('the same requests summed by hour, by id of the key', 'to find out why requests failed', '190 days',
    { request_hours: 'model_slug endpoint duration_buckets added_buckets reasons' }),
  company('in-app chat, nothing of persons: time and cost', 'the same budget', 'as the application decides', { chat_usage: '' }),
  company('what calls in flight may cost, nothing of persons', 'strict budgets', 'until the call is booked', { budget_reservations: '' }),

  service('cost prices: e-mail address of everybody who changed one', 'to prove who changed what', ERASURE,
    { model_cost_prices: 'slug changed_by' }),
  service('what calls cost the operator, and sums of all companies, nothing of persons', 'the margin', BOOKS,
    { upstream_costs: 'currency', upstream_cost_monthly: 'model_slug currency', usage_model_days: 'model_slug' }),
  service('seals of the ledger, nothing of persons: ids of calls and digests', 'to prove the ledger', BOOKS,
    { ledger_seals: 'request_ids row_digests previous digest', seal_checkpoints: 'writers numbers digests previous digest' }),
  service('ledger rows that could not be booked, as above', 'to book them by hand', 'until the operator deletes them',
    { api_usage_set_aside: 'record reason' }),
  service('gateways: name of the machine or pod', 'to know which one is gone', 'a day after it was last seen, longer if it left records',
    { gateways: 'name version' }),
  service('what changed a moment ago: ids', 'to tell every gateway', 'about an hour', { changes: 'kind subject' }),
  service('limits in use, and what all used up to an hour: ids and counts', 'limits and the overview', 'about an hour; marks for days and months',
    { limit_owners: '', limit_slots: '', limit_windows: 'kind units', usage_marks: 'period', alert_lease: '' }),
  service('facts of this database: settings, rights, the list of columns that an erasure reaches, the versions of the tables',
    'to run it', 'for good', {
      settings: 'name value', tenant_grants: 'privilege', personal_data: 'table_name column_name kind word company',
      schema_migrations: 'name sha256 needs',
    }),
];
