import { createHash } from 'node:crypto';
import type { BudgetPeriod } from '../budget.ts';
import { EUR, MOST_VALUES, SLUG } from '../field.ts';
import { ALLOWED_MODELS } from '../gate.ts';
import { SCOPES, type Scope } from '../key.ts';
import { eachLimit, type LimitName } from '../limits.ts';
import { type Convert, convertBy, priceText } from './catalogue.ts';
import type { COMPANY } from './company.ts';
import { type KEY, SCOPED } from './key.ts';
import { type LitellmModel, litellmModels } from './litellm-models.ts';
import {
  type Left,
  type LitellmTables,
  nameFrom,
  numberIn,
  objectIn,
  objectsIn,
  type Row,
  textIn,
  textsIn,
  without,
} from './litellm-rows.ts';
import { eachSetting, type New } from './setting.ts';

/** What comes of a LiteLLM database, as settings of companies, keys and models, and what does not come. */

interface Planned {
  /** An id that follows from theirs: what came once is found again, whatever was changed since. */
  readonly id: string;
  /** What its settings do not say, in words. */
  readonly notes: readonly string[];
  /** Why it may do nothing there, and comes paused; null: it works. */
  readonly paused: string | null;
}

/** A team, or a person with keys of no team. */
interface PlannedCompany extends Planned {
  readonly settings: New<typeof COMPANY>;
  /** The only models that it may use; null: all. */
  readonly only: readonly string[] | null;
}

interface PlannedKey extends Planned {
  /** Id of its company. */
  readonly company: string;
  /** SHA-256 of the whole key in hex. */
  readonly digest: string;
  /** What can be shown of it: "sk-…1a2b". */
  readonly prefix: string;
  readonly settings: New<typeof KEY>;
}

interface PlannedModel extends Pick<LitellmModel, 'slug' | 'settings' | 'notes'> {
  /** Id of the company whose own it is; null: everybody's. */
  readonly company: string | null;
}

export type LitellmPlan = Readonly<
  Pick<Planning, 'companies' | 'models' | 'keys' | 'left' | 'unrated'>
>;

const DIGEST = /^[0-9a-f]{64}$/;
/** The team of the keys by which people are signed in to LiteLLM's own pages. */
const DASHBOARD = 'litellm-dashboard';
/** Whose keys are those that an administrator makes for nobody. */
const NOBODY = 'default_user_id';
const DAY = 86_400;
const SECONDS: Readonly<Record<string, number>> = {
  s: 1,
  m: 60,
  h: 3600,
  d: DAY,
  w: 7 * DAY,
  mo: 30 * DAY,
};

/** "30d" and "1mo"; of "7days" the unit is "days", as LiteLLM reads it where it looks when a budget begins anew. */
const PERIOD = /^(\d{1,6})([a-z]+)/;

const LIMITS: Readonly<Record<LimitName, string>> = {
  requests_per_minute: 'rpm_limit',
  tokens_per_minute: 'tpm_limit',
  max_concurrent: 'max_parallel_requests',
};
const BUDGETED = [
  'max_budget',
  'budget_duration',
  'budget_reset_at',
  'budget_limits',
  'spend',
  'model_spend',
  ...Object.values(LIMITS),
];
const DATES = ['created_at', 'created_by', 'updated_at', 'updated_by', 'last_active'];
const ROTATION = ['rotation_count', 'last_rotation_at', 'key_rotation_at', 'soft_budget_cooldown'];
const OF_ANY = ['team_id', 'user_id', 'models', 'blocked', ...BUDGETED, ...DATES];
const OF_KEY = [
  ...OF_ANY,
  ...ROTATION,
  'token',
  'key_name',
  'key_alias',
  'expires',
  'allowed_routes',
  'budget_id',
];
const OF_OWNER = [
  ...OF_ANY,
  'team_alias',
  'user_alias',
  'user_email',
  'user_role',
  'teams',
  'password',
  'sso_user_id',
];
const PEOPLE = ['members', 'admins', 'members_with_roles'];

const ALL = ['*', 'all-proxy-models', 'all-team-models'];
const NONE = 'no-default-models';

/** What a key does there, which calls all endpoints unless it has routes of its own. */
const CALLS = SCOPES.filter((scope) => scope !== 'assistants');
const ROUTES: Readonly<Record<(typeof CALLS)[number], readonly string[]>> = {
  chat: ['/chat/completions', '/completions', '/responses', '/messages', 'anthropic_routes'],
  embeddings: ['/embeddings'],
  rerank: ['/rerank'],
};
const ALL_ROUTES = ['llm_api_routes', 'openai_routes'];
/** What may stand before a path: "/v1", "/engines/NAME", "/openai/deployments/NAME". */
const BEFORE_PATH = /^(?:\/openai)?(?:\/v\d)?(?:\/(?:engines|deployments)\/[^/]+)?(?=\/)/;

/**
 * @param router what `GET /model/info` of the router tells; null: nothing
 * @param rate EUR for one USD; null: not given
 * @param own digests of keys that are the operator's own, such as the router's master key
 * @param now milliseconds
 */
export function litellmPlan(
  tables: LitellmTables,
  router: readonly Row[] | null,
  rate: string | null,
  own: readonly string[],
  now: number,
): LitellmPlan {
  const plan = new Planning(tables, router, rate);
  plan.all(own, now);
  return plan;
}

class Planning {
  readonly companies: PlannedCompany[] = [];
  readonly models: PlannedModel[] = [];
  readonly keys: PlannedKey[] = [];
  readonly left: Left[] = [];
  /** Amounts in USD, for which there was no rate. */
  unrated = 0;
  readonly #tables: LitellmTables;
  readonly #users: ReadonlyMap<unknown, Row>;
  readonly #budgets: ReadonlyMap<unknown, Row>;
  readonly #ids = new Set<string>();
  readonly #names: readonly string[];
  readonly #groups: ReadonlyMap<string, readonly string[]>;
  readonly #found: readonly LitellmModel[];
  readonly #convert: Convert;

  constructor(tables: LitellmTables, router: readonly Row[] | null, rate: string | null) {
    this.#tables = tables;
    this.#users = new Map(tables.users.map((row) => [row.user_id, row]));
    this.#budgets = new Map(tables.budgets.map((row) => [row.budget_id, row]));
    const known = convertBy(rate ?? '1');
    this.#convert = (usd) => {
      if (rate === null) this.unrated++;
      return known(usd);
    };
    const { models, groups, left } = litellmModels(tables.models, router, this.#convert);
    this.#found = models;
    this.#groups = groups;
    this.#names = models.map(({ slug }) => slug);
    this.left.push(...left);
  }

  all(own: readonly string[], now: number): void {
    const { teams, keys, oldKeys, others } = this.#tables;
    for (const team of teams)
      if (team.team_id !== DASHBOARD)
        this.#company(team, companyId('team', team.team_id), [team.team_alias, team.team_id]);
    for (const { team, ...model } of this.#found) {
      const company = team === null ? null : companyId('team', team);
      if (company === null || this.#ids.has(company)) this.models.push({ ...model, company });
      else
        this.left.push({
          what: `model ${model.slug}`,
          why: `its team is not there: ${nameFrom(team)}`,
        });
    }
    const signedIn = keys.filter(({ team_id }) => team_id === DASHBOARD).length;
    if (signedIn > 0)
      this.left.push({
        what: "sign-ins to LiteLLM's own pages",
        why: `${signedIn}, which are no keys of programs`,
      });
    const byToken = new Map(keys.map((key) => [key.token, key]));
    for (const key of keys) if (key.team_id !== DASHBOARD) this.#key(key, own, now);
    for (const { token, active_token_id, revoke_at } of oldKeys) {
      const key = byToken.get(active_token_id);
      const notes = ['was rotated there, and ends when it ends there'];
      if (key !== undefined)
        this.#key({ ...key, token, expires: revoke_at, key_name: null }, own, now, notes);
    }
    const people = this.#tables.users.filter(
      ({ user_email }) => textIn(user_email) !== null,
    ).length;
    if (people > 0)
      this.left.push({
        what: 'people',
        why: `${people}, who sign in after "user invite", or by single sign-on`,
      });
    for (const [table, rows] of Object.entries(others)) {
      this.left.push({ what: `table ${nameFrom(table)}`, why: `no counterpart, rows: ${rows}` });
    }
  }

  /** @param names for it, the best first */
  #company(row: Row, id: string, names: readonly unknown[]): void {
    const name = nameFrom(...names);
    const { settings, notes, paused } = this.#limited(row);
    const only = this.#slugs(row.models, notes);
    const people = PEOPLE.flatMap((column) => [row[column]].flat()).map((each) =>
      textIn(objectIn(each).user_id ?? each),
    );
    const count = new Set(people.filter((each) => each !== null)).size;
    if (count > 0) notes.push(`people: ${count}`);
    if (only !== null) notes.push(`models: only ${only.join(', ') || 'none'}`);
    notes.push(...without(row, [...OF_OWNER, ...PEOPLE]));
    const reason = row.blocked === true ? 'blocked at LiteLLM' : (paused ?? noModels(only));
    this.#ids.add(id);
    this.companies.push({
      id,
      settings: { name, ...settings, allow_non_eu_models: true },
      only,
      notes,
      paused: reason,
    });
  }

  #key(row: Row, own: readonly string[], now: number, notes: string[] = []): void {
    const name = nameFrom(row.key_alias, row.key_name, row.user_id);
    const digest = textIn(row.token) ?? '';
    const expires_at = endIn(row.expires);
    const calls = callsOf(textsIn(row.allowed_routes));
    const why = (() => {
      if (!DIGEST.test(digest)) return 'its digest is not SHA-256 in hex';
      if (own.includes(digest)) return 'is the key by which the gateway calls the router';
      if (Number.isNaN(expires_at?.getTime()))
        return `its end cannot be read: ${nameFrom(row.expires)}`;
      if (expires_at !== null && expires_at.getTime() <= now)
        return `ended there, ${expires_at.toISOString()}`;
      if (calls.length === 0)
        return `calls no endpoint here: ${nameFrom(textsIn(row.allowed_routes).join(', '))}`;
      return null;
    })();
    const company = why === null ? this.#companyOfKey(row) : null;
    if (company === null) {
      this.left.push({
        what: `key ${name}`,
        why: why ?? `its team is not there: ${nameFrom(row.team_id)}`,
      });
      return;
    }
    const budget = this.#budgets.get(row.budget_id) ?? {};
    const isShared = row.max_budget === null || row.max_budget === undefined;
    const merged = {
      ...row,
      ...(isShared && { max_budget: budget.max_budget, budget_duration: budget.budget_duration }),
      ...Object.fromEntries(
        Object.values(LIMITS).map((column) => [column, row[column] ?? budget[column]]),
      ),
    };
    const limited = this.#limited(merged);
    const slugs = this.#slugs(row.models, limited.notes);
    const lost = [
      ...without(row, OF_KEY),
      ...without(budget, [...BUDGETED, ...DATES, 'budget_id']),
    ];
    this.keys.push({
      id: idOf(`key ${digest}`),
      company,
      digest,
      prefix: shownOf(row.key_name),
      settings: {
        name,
        ...eachSetting(SCOPED, () => calls),
        expires_at,
        ...limited.settings,
        ...(slugs !== null && slugs.length > 0 && { [ALLOWED_MODELS]: slugs }),
      },
      notes: [...notes, ...limited.notes, ...lost],
      paused: row.blocked === true ? 'blocked at LiteLLM' : (limited.paused ?? noModels(slugs)),
    });
  }

  /** A key of no team is of its person's company, which has the budget that the person has there. @returns null: its team is not there */
  #companyOfKey({ team_id, user_id }: Row): string | null {
    if (textIn(team_id) !== null) {
      const id = companyId('team', team_id);
      return this.#ids.has(id) ? id : null;
    }
    const user = textIn(user_id) ?? NOBODY;
    const id = companyId('user', user);
    const row = this.#users.get(user) ?? {};
    const name = user === NOBODY ? 'Keys without a team' : user;
    if (!this.#ids.has(id)) this.#company(row, id, [row.user_alias, row.user_email, name]);
    return id;
  }

  /** Budget and limits. */
  #limited(row: Row) {
    const notes: string[] = [];
    const settings: { -readonly [K in LimitName]?: number } & {
      [K in `${BudgetPeriod}_budget_eur`]?: string;
    } = {};
    let paused: string | null = null;
    eachLimit(({ most, kind }, column) => {
      const limit = numberIn(row[LIMITS[column]]);
      if (limit === null) return;
      if (limit < 1) paused ??= `a limit of ${limit} ${kind} at LiteLLM`;
      else settings[column] = Math.min(Math.floor(limit), most);
    });
    const { max_budget, budget_duration } = row;
    for (const window of [{ max_budget, budget_duration }, ...objectsIn(row.budget_limits)]) {
      const usd = numberIn(window.max_budget);
      if (usd === null) continue;
      if (usd <= 0) {
        paused ??= `a budget of ${usd} USD at LiteLLM`; // 0 is no limit here
        continue;
      }
      const { column, amount, note } = this.#budget(usd, textIn(window.budget_duration));
      if (column === null) notes.push(`no counterpart: a budget of ${usd} USD`);
      // all windows hold there: of two that are one budget here the tightest
      else if (Number(amount) < Number(settings[column] ?? Number.POSITIVE_INFINITY))
        settings[column] = amount;
      if (note !== null) notes.push(note);
      const isForGood = secondsOf(textIn(window.budget_duration)) === 0;
      if (isForGood && (numberIn(row.spend) ?? 0) >= usd)
        paused ??= `a budget of ${usd} USD, spent at LiteLLM`;
    }
    return { settings, notes, paused };
  }

  /** A budget as it is here; column null: it can be none. @param told the period as it is written there; null: none */
  #budget(usd: number, told: string | null) {
    const seconds = secondsOf(told);
    const days = seconds / DAY;
    const exact = priceText(this.#convert(String(usd)));
    const isDaily = seconds > 0 && days <= 1;
    const isExact = seconds === 0 || days === 1 || (days >= 28 && days <= 31);
    const amount = isExact ? exact : cents(Number(exact) * ((isDaily ? 1 : 30) / days));
    const here = `${amount} EUR each ${isDaily ? 'day' : 'month'} here`;
    const period = told === null ? 'for good' : `for ${nameFrom(told)}`;
    const read = told !== null && !hasUnit(told) ? ', which LiteLLM begins anew each day' : '';
    const column = `${isDaily ? 'daily' : 'monthly'}_budget_eur` as const;
    const isPlain = isExact && seconds > 0 && read === '';
    return {
      column: EUR.test(amount) ? column : null,
      amount,
      note: isPlain ? null : `budget: ${usd} USD ${period} there${read}, ${here}`,
    };
  }

  /** The slugs of a list of models; null: any. Names that are not offered stay, in case they are. */
  #slugs(models: unknown, notes: string[]): string[] | null {
    const listed = textsIn(models);
    if (listed.length === 0 || listed.some((name) => ALL.includes(name))) return null;
    const slugs = listed.flatMap((name) => {
      if (name === NONE) return [];
      if (this.#groups.has(name)) return this.#groups.get(name) as string[];
      if (!name.includes('*')) return name;
      notes.push(`models: of ${nameFrom(name)} those that there are now`);
      const pattern = new RegExp(
        `^${name.replace(/[\\^$.+?()[\]{}|]/g, '\\$&').replaceAll('*', '.*')}$`,
      );
      return this.#names.filter((each) => pattern.test(each));
    });
    const wrong = slugs.filter((slug) => !SLUG.test(slug));
    if (wrong.length > 0)
      notes.push(`no counterpart: models ${wrong.map((each) => nameFrom(each)).join(', ')}`);
    return [...new Set(slugs)].filter((slug) => SLUG.test(slug)).slice(0, MOST_VALUES);
  }
}

function noModels(slugs: readonly string[] | null): string | null {
  return slugs?.length === 0 ? 'no model allowed at LiteLLM' : null;
}

function callsOf(routes: readonly string[]): Scope[] {
  if (routes.length === 0) return [...CALLS];
  return CALLS.filter((scope) => routes.some((route) => allows(route, ROUTES[scope])));
}

/** Whether a route there, "/v1/chat/*" or the name of a group, has one of these. */
function allows(route: string, wanted: readonly string[]): boolean {
  if (ALL_ROUTES.includes(route)) return true;
  if (!route.endsWith('*')) return wanted.includes(route.replace(BEFORE_PATH, ''));
  const start = route.slice(0, -1);
  return wanted.some((path) => [path, `/v1${path}`].some((each) => each.startsWith(start)));
}

/** How long a budget lasts there; 0: for good. What has no unit that LiteLLM knows begins anew at each midnight. */
function secondsOf(told: string | null): number {
  if (told === null || /^\s*(none|null)?\s*$/i.test(told)) return 0;
  const [, count, unit] = PERIOD.exec(told) ?? [];
  return hasUnit(told) ? Number(count) * (SECONDS[unit as string] as number) : DAY;
}

function hasUnit(told: string): boolean {
  return Object.hasOwn(SECONDS, PERIOD.exec(told)?.[2] ?? '');
}

/** An instant, in UTC, as columns without a zone have it; null: never. */
function endIn(value: unknown): Date | null {
  const text = textIn(value);
  return text === null || text === 'infinity'
    ? null
    : new Date(/Z|[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);
}

/** "sk-…1a2b" of "sk-...1a2b", in the 8 characters that are kept of a key. */
function shownOf(masked: unknown): string {
  const [, start = 'sk-', end = ''] =
    /^([\w-]{1,3})\.{3}([\w-]{4})$/.exec(textIn(masked) ?? '') ?? [];
  return `${start}…${end}`;
}

function cents(amount: number): string {
  return Math.max(0.01, Math.round(amount * 100) / 100).toFixed(2);
}

const companyId = (kind: 'team' | 'user', id: unknown) => idOf(`${kind} ${id}`);

/** An id that is always the same for a name (a UUID of version 5, RFC 9562). */
function idOf(name: string): string {
  const bytes = createHash('sha1').update(`litellm ${name}`).digest().subarray(0, 16);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
