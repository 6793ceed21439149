import { BlockList } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { type Assistant, isEligible, promptPieces } from '../../domain/assistant.ts';
import type { Company } from '../../domain/company.ts';
import { GatewayError } from '../../domain/errors.ts';
import { UUID } from '../../domain/field.ts';
import {
  type ApiKey,
  type EndUser,
  type EndUsers,
  PAUSED,
  type Pause,
  REVOKED,
  type Restriction,
  scopeSet,
} from '../../domain/key.ts';
import { eachLimit, type Limits } from '../../domain/limits.ts';
import {
  type ComingPrice,
  type Model,
  type PriceFactors,
  withFactors,
} from '../../domain/model.ts';
import type { Directory, MaybeAsync } from '../../domain/ports.ts';
import { type Femto, parseEur } from '../../domain/pricing/money.ts';
import { type Prices, type PriceTexts, parsePrices } from '../../domain/pricing/prices.ts';
import { parseRates, type RateTexts } from '../../domain/pricing/rates.ts';
import { unknownCompany } from '../../domain/refusal.ts';
import { type Logger, reasonOf } from '../../log.ts';
import { DatabaseUnavailable } from '../connection/errors.ts';
import type { Database, Sql } from '../connection/pool.ts';
import { outside } from '../connection/tenant-role.ts';
import { Cache } from './cache.ts';
import type { Follower } from './change-feed.ts';

/** Most entries kept of each; the least recently used go first. */
export type DirectoryOptions = {
  readonly [most in 'maxKeys' | 'maxCompanies' | 'maxAssistants' | 'maxEndUsers']?: number;
} & {
  /** Milliseconds from one comparison of all with the database to the next. Default one minute. */
  readonly checkMs?: number;
};

const READ_MS = 2000;
/** How much of each is compared with the database at one poll: a large memory takes longer than a minute. */
const CHECKED_AT_ONCE = 200;
const MAX_PROMPT_BYTES = 64 * 1024 * 1024; // of all cached assistants together
const MOST_FACTORED = 1000; // maps of shared models
const ID_LENGTH = 36;
const NONE: ReadonlySet<string> = new Set();
const NO_MODELS: ReadonlyMap<string, Model> = new Map();

/**
 * Keys, companies, models, assistants and end users in memory. Nothing expires: the change feed tells of changes. Beside it, all is
 * compared with the database now and then, so that a change that nobody announced comes late, and not never. The shared
 * models are one map for all companies; a company gets the newest map when it is next asked for.
 */
export class CachedDirectory implements Directory, Follower {
  readonly keys: Cache<ApiKey>;
  readonly companies: Cache<Company>;
  readonly assistants: Cache<Assistant>;
  /** By company and name. Not compared with the database: that would add again whoever was erased. */
  readonly endUsers: Cache<EndUser>;

  readonly #db: Database;
  readonly #log: Logger;
  #sharedModels: ReadonlyMap<string, Model> | null = null;
  /** They with prices times factors, by these: companies with the same factors have one map. */
  readonly #factored = new Map<string, ReadonlyMap<string, Model>>();
  /** Whether the shared models changed since the last reading of them began. */
  #sharedOutdated = true;
  #sharedReading: Promise<void> | null = null;
  /** Models without a price, rates that cannot be read, and companies with too many end users, of which the log was told. */
  readonly #free = new Set<string>();
  readonly #unread = new Set<string>();
  readonly #crowded = new Set<string>();
  #failing = false;
  readonly #checkMs: number;
  #checkedAt = performance.now();
  #checking = false;
  /** What is left to compare. */
  #unchecked: [cache: Cache<ApiKey> | Cache<Company> | Cache<Assistant>, ids: string[]][] = [];

  constructor(db: Database, log: Logger, options: DirectoryOptions = {}) {
    const { maxKeys = 131_072, maxCompanies = 131_072, maxAssistants = 10_000 } = options;
    const { maxEndUsers = 131_072, checkMs = 60_000 } = options;
    this.#db = db;
    this.#log = log;
    this.#checkMs = checkMs;
    this.keys = new Cache((digests) => this.#read((sql) => readKeys(sql, digests)), {
      max: maxKeys,
      // a BlockList shows its content by `rules` alone
      facts: (key) => [
        key,
        key.restriction?.networks instanceof BlockList && key.restriction.networks.rules,
      ],
    });
    this.companies = new Cache((ids) => this.#readCompanies(ids), {
      max: maxCompanies,
      facts: ({ sharedModels: _, listedModels: __, ...company }) => company,
    });
    this.assistants = new Cache((ids) => this.#read((sql) => readAssistants(sql, ids)), {
      max: maxAssistants,
      maxWeight: MAX_PROMPT_BYTES,
      weigh: ({ prompt }) => prompt.reduce((sum, { length }) => sum + length, 200),
    });
    this.endUsers = new Cache((names) => this.#readEndUsers(names), {
      max: maxEndUsers,
      ownerOf: (name) => name.slice(0, ID_LENGTH),
      nameOf: ({ id }) => id,
    });
  }

  key(digest: string): MaybeAsync<ApiKey | null> {
    return this.keys.get(digest);
  }

  keyInMemory(digest: string): ApiKey | null {
    return this.keys.peek(digest);
  }

  /** The company with the newest shared models. */
  company(id: string): MaybeAsync<Company | null> {
    const company = this.companies.get(id);
    const sharedModels = this.#sharedModels;
    if (company === null || company instanceof Promise || sharedModels === null) return company;
    if (company.listedModels === sharedModels) return company;
    const current = this.#priced(company);
    this.companies.replace(id, current);
    return current;
  }

  /** A company with the newest shared models at the prices that it pays. */
  #priced(company: ReadCompany): Company {
    const listedModels = this.#sharedModels as ReadonlyMap<string, Model>;
    const name = JSON.stringify(company.factors);
    const sharedModels = this.#factored.get(name) ?? factored(listedModels, company.factors);
    if (this.#factored.size >= MOST_FACTORED) this.#factored.clear(); // of factors that are over, most likely
    this.#factored.set(name, sharedModels);
    return { ...company, listedModels, sharedModels };
  }

  assistant(id: string, companyId: string): MaybeAsync<Assistant | null> {
    const canonical = id.toLowerCase();
    if (!UUID.test(canonical)) return null;
    const assistant = this.assistants.get(canonical);
    const own = (found: Assistant | null) => (found?.companyId === companyId ? found : null);
    return assistant instanceof Promise ? assistant.then(own) : own(assistant);
  }

  endUser(companyId: string, name: string): MaybeAsync<EndUser | null> {
    return this.endUsers.get(`${companyId} ${name}`);
  }

  changed(kind: string, subject: string): void {
    if (kind === 'key') for (const digest of subject.split(',')) this.keys.drop(digest);
    else if (kind === 'assistant') for (const id of subject.split(',')) this.assistants.drop(id);
    else if (kind === 'end_user') this.endUsers.dropNamed(subject.split(','));
    else if (kind === 'company' || (kind === 'model' && subject !== ''))
      this.companies.drop(subject);
    else if (kind === 'model') this.#renewSharedModels();
    else if (kind === 'all') {
      for (const cache of [this.keys, this.companies, this.assistants, this.endUsers])
        cache.clear();
      this.#renewSharedModels();
    }
  }

  missed(): void {
    for (const cache of [this.keys, this.companies, this.assistants, this.endUsers]) cache.doubt();
    this.#renewSharedModels();
  }

  polled(): void {
    if (this.#sharedOutdated) this.#readSharedModels().catch(() => {});
    void this.#check();
  }

  /** Compares a part of the memory with the database. A part that cannot be read waits for the next time. */
  async #check(): Promise<void> {
    if (this.#checking) return;
    const now = performance.now();
    if (this.#unchecked.length === 0) {
      if (now - this.#checkedAt < this.#checkMs) return;
      this.#checkedAt = now;
      this.#unchecked = [this.keys, this.companies, this.assistants].map((cache) => [
        cache,
        cache.ids,
      ]);
      this.#renewSharedModels();
    }
    this.#checking = true;
    try {
      let outdated = 0;
      for (const [cache, ids] of this.#unchecked) {
        const part = ids.splice(-CHECKED_AT_ONCE);
        if (part.length > 0) outdated += await cache.check(part);
      }
      if (outdated > 0) this.#log.warn({ outdated }, UNANNOUNCED);
    } catch {} // it was logged
    this.#unchecked = this.#unchecked.filter(([, ids]) => ids.length > 0);
    this.#checking = false;
  }

  /** The old map serves until the new one is read: dropped just before an outage, all companies would be refused. */
  #renewSharedModels(): void {
    this.#sharedOutdated = true;
    this.#readSharedModels().catch(() => {}); // logged; the next poll tries again
  }

  /** One reading at a time, and one more when a change arrived meanwhile. */
  #readSharedModels(): Promise<void> {
    this.#sharedReading ??= (async () => {
      this.#sharedOutdated = false;
      try {
        const models = await this.#read((sql) => readSharedModels(sql, this.#onUnread));
        this.#warnOfFree('', models);
        if (!isDeepStrictEqual(models, this.#sharedModels)) {
          this.#sharedModels = models;
          this.#factored.clear();
        }
      } catch (error) {
        this.#sharedReading = null;
        this.#sharedOutdated = true;
        throw error;
      }
      this.#sharedReading = null;
      if (this.#sharedOutdated) this.#renewSharedModels();
    })();
    return this.#sharedReading;
  }

  async #readCompanies(ids: readonly string[]): Promise<ReadonlyMap<string, Company>> {
    const [found] = await Promise.all([
      this.#read((sql) => readCompanies(sql, ids, this.#onUnread)),
      this.#sharedModels === null ? this.#readSharedModels() : null,
    ]);
    for (const { id, ownModels } of found) this.#warnOfFree(id, ownModels);
    return new Map(found.map((company) => [company.id, this.#priced(company)]));
  }

  async #readEndUsers(names: readonly string[]): Promise<ReadonlyMap<string, EndUser>> {
    const rows = await this.#read((sql) => findEndUsers(sql, names));
    for (const { company, isOther } of rows) {
      if (!isOther || this.#crowded.has(company)) continue;
      this.#crowded.add(company);
      this.#log.warn({ company }, MANY_END_USERS);
    }
    return new Map(
      rows.map(({ company, name, id, budget }) => [
        `${company} ${name}`,
        Object.freeze({ id, budget: amountOf(budget) }),
      ]),
    );
  }

  /** @throws GatewayError 503, since a subject that cannot be read may exist */
  async #read<T>(query: (sql: Sql) => Promise<T>): Promise<T> {
    try {
      const answer = await this.#db.run(READ_MS, query).catch((error) => {
        // the connection may have died: another one answers, unless there is no server
        if (error instanceof DatabaseUnavailable && error.code !== 'DEADLINE')
          return this.#db.run(READ_MS, query);
        throw error;
      });
      this.#failing = false;
      return answer;
    } catch (error) {
      if (!this.#failing)
        this.#log.warn({ reason: reasonOf(error) }, 'directory: the database cannot be read');
      this.#failing = true;
      throw new GatewayError('service_unavailable');
    }
  }

  readonly #onUnread = (model: string, rate: string): void => {
    const name = `${model} ${rate}`;
    if (this.#unread.has(name)) return;
    this.#unread.add(name);
    this.#log.warn({ model, rate }, UNREAD_RATE);
  };

  #warnOfFree(company: string, models: ReadonlyMap<string, Model>): void {
    for (const { slug, prices } of models.values()) {
      const name = `${company}/${slug}`;
      const texts = [prices, ...prices.rates.map((rate) => rate.prices)].flatMap(({ texts }) =>
        Object.values(texts),
      );
      if (texts.some((text) => text !== null && parseEur(text) !== 0n)) this.#free.delete(name);
      else if (!this.#free.has(name)) {
        this.#free.add(name);
        this.#log.warn(
          { model: slug, company: company || null },
          'this model has no price: its calls are free',
        );
      }
    }
  }
}

const MANY_END_USERS =
  'calls of this company name more than 100,000 new end users this month: those that come now share one row, "(others)", and its budget';
const UNREAD_RATE =
  'a rate of this model cannot be read, and never holds: does its time zone exist?';
const UNANNOUNCED =
  'directory: the database had changes of which it told nothing; do other programs turn off triggers (session_replication_role)?';

interface KeyColumns extends Limits {
  readonly digest: string;
  readonly id: string;
  readonly line: string;
  readonly companyId: string;
  readonly scopes: string[];
  readonly expiresAt: number | null;
  readonly isRevoked: boolean;
  readonly isPaused: boolean;
  readonly isCompanyPaused: boolean;
  readonly models: readonly string[] | null;
  readonly budget: string | null;
  readonly dailyBudget: string | null;
  readonly endUserBudget: string | null;
  readonly networks: readonly string[] | null;
  readonly endUsers: EndUsers;
}

async function readKeys(sql: Sql, digests: readonly string[]): Promise<Map<string, ApiKey>> {
  const rows = await sql<KeyColumns[]>`
    select encode(digest, 'hex') as digest, id, line, company_id as "companyId", scopes,
      (extract(epoch from expires_at) * 1000)::float8 as "expiresAt", revoked_at is not null as "isRevoked", paused_at is not null as "isPaused",
      exists (select 1 from companies c where c.id = k.company_id and c.paused_at is not null) as "isCompanyPaused", ${limitColumns(sql)},
      allowed_model_slugs as models, monthly_budget_eur::text as budget, daily_budget_eur::text as "dailyBudget",
      end_user_budget_eur::text as "endUserBudget", allowed_cidrs::text[] as networks, end_users as "endUsers"
    from api_keys k
    where digest = any(select decode(d, 'hex') from unnest(${digests as string[]}::text[]) as t (d))
      and not exists (select 1 from companies c where c.id = k.company_id and c.closed_at is not null)`;
  return new Map(
    rows.map((row) => {
      const { digest, id, line, companyId, scopes, endUsers } = row;
      const expiresAt = row.isRevoked ? REVOKED : (row.expiresAt ?? Number.POSITIVE_INFINITY);
      const pause = row.isRevoked ? null : pauseOf(row, expiresAt);
      return [
        digest,
        Object.freeze({
          id,
          line,
          companyId,
          scopeBits: scopeSet(scopes),
          expiresAt: pause === null ? expiresAt : PAUSED,
          pause,
          limits: limitsOf(row),
          restriction: restrictionOf(row),
          endUsers,
        }),
      ];
    }),
  );
}

function pauseOf({ isPaused, isCompanyPaused }: KeyColumns, expiresAt: number): Pause | null {
  if (isCompanyPaused)
    return Object.freeze({ error: 'account_paused', setting: 'company.paused_at', expiresAt });
  return isPaused
    ? Object.freeze({ error: 'key_paused', setting: 'key.paused_at', expiresAt })
    : null;
}

interface EndUserColumns {
  readonly company: string;
  readonly name: string;
  readonly id: string;
  readonly budget: string | null;
  /** Whether the company has too many, so that the row is that of all others. */
  readonly isOther: boolean;
}

/** @param names each a company's id, a blank, and the name */
function findEndUsers(sql: Sql, names: readonly string[]): Promise<EndUserColumns[]> {
  const companies = names.map((each) => each.slice(0, ID_LENGTH));
  return sql<EndUserColumns[]>`
    select company_id::text as company, name, id::text, is_other as "isOther", monthly_budget_eur::text as budget
    from end_user_ids(${companies}::uuid[], ${names.map((each) => each.slice(ID_LENGTH + 1))}::text[])`;
}

const LIMITS_AS_MEMBERS = Object.values(
  eachLimit(({ member }, name) => `${name} as "${member}"`),
).join(', ');

function limitColumns(sql: Sql) {
  return sql.unsafe(LIMITS_AS_MEMBERS);
}

function limitsOf({ requestsPerMinute, tokensPerMinute, maxConcurrent }: Limits): Limits | null {
  if (requestsPerMinute === null && tokensPerMinute === null && maxConcurrent === null) return null;
  return Object.freeze({ requestsPerMinute, tokensPerMinute, maxConcurrent });
}

function restrictionOf({ models, networks, ...row }: KeyColumns): Restriction | null {
  const amounts = {
    budget: amountOf(row.budget),
    dailyBudget: amountOf(row.dailyBudget),
    endUserBudget: amountOf(row.endUserBudget),
  };
  if (models === null && networks === null && Object.values(amounts).every((each) => each === null))
    return null;
  return Object.freeze({
    models: models === null ? null : new Set(models),
    ...amounts,
    networks: networks === null ? null : networksOf(networks),
  });
}

/** A budget; null and 0 are none. */
function amountOf(eur: string | null): Femto | null {
  return eur === null ? null : parseEur(eur) || null;
}

/** @param cidrs as Postgres prints them, such as "10.0.0.0/8" and "2001:db8::/32" */
function networksOf(cidrs: readonly string[]): BlockList {
  const networks = new BlockList();
  for (const cidr of cidrs) {
    const [address, bits] = cidr.split('/') as [string, string];
    networks.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4');
  }
  return networks;
}

type ModelColumns = Omit<Model, 'prices' | 'next'> &
  PriceColumns & {
    /** Prices that begin at a date, the first of them first; null: none. */
    readonly coming: readonly ({ readonly from: number } & PriceColumns)[] | null;
  };
interface PriceColumns {
  readonly prices: PriceTexts;
  readonly rates: readonly RateTexts[] | null;
}
type CompanyColumns = Pick<Company, 'id' | 'name' | 'allowNonEu' | 'strict'> &
  Limits & {
    readonly disabledSlugs: string[];
    readonly budget: string | null;
    readonly dailyBudget: string | null;
    readonly models: ModelColumns[];
    readonly factor: string;
    /** Factors that begin at a date, the first of them first; null: none. */
    readonly coming: PriceFactors | null;
  };
type ReadCompany = Omit<Company, 'sharedModels' | 'listedModels'>;

async function readCompanies(
  sql: Sql,
  ids: readonly string[],
  onUnread?: OnUnread,
): Promise<ReadCompany[]> {
  const rows = await sql<CompanyColumns[]>`
    select c.id, c.name, c.disabled_model_slugs as "disabledSlugs", company_allows_non_eu(c) as "allowNonEu",
      company_budget(c.monthly_budget_eur, c.credit_limit_eur)::text as budget, company_daily_budget(c)::text as "dailyBudget",
      c.budget_mode = 'strict' as strict, ${limitColumns(sql)}, trim_scale(c.price_factor)::text as factor,
      (select json_agg(json_build_object('from', (extract(epoch from f.valid_from) * 1000)::float8, 'factor', f.factor::text) order by f.valid_from)
       from company_price_factors f where f.company_id = c.id and not f.applied) as coming,
      (select coalesce(json_agg(own), '[]')
       from (select ${modelColumns(sql, 'own')} from models where company_id = c.id) as own) as models
    from companies c where c.id = any(${ids.filter((id) => UUID.test(id))}::uuid[])`;
  return rows.map(
    ({ models, requestsPerMinute, tokensPerMinute, maxConcurrent, factor, coming, ...company }) => {
      const factors =
        factor === '1' && coming === null ? null : [{ from: 0, factor }, ...(coming ?? [])];
      return {
        ...company,
        limits: limitsOf({ requestsPerMinute, tokensPerMinute, maxConcurrent }),
        // most companies have none: one shared set is less memory to fetch
        disabledSlugs: company.disabledSlugs.length === 0 ? NONE : new Set(company.disabledSlugs),
        budget: amountOf(company.budget),
        dailyBudget: amountOf(company.dailyBudget),
        ownModels: factored(
          models.length === 0 ? NO_MODELS : modelsBySlug(models, onUnread),
          factors,
        ),
        factors,
      };
    },
  );
}

/** Models at the prices that a company with these factors pays; null: the same models. */
function factored(
  models: ReadonlyMap<string, Model>,
  factors: PriceFactors | null,
): ReadonlyMap<string, Model> {
  return factors === null
    ? models
    : new Map([...models].map(([slug, model]) => [slug, withFactors(model, factors)]));
}

/** A company with its models as they stand in the database now. @throws Refused missing */
export async function readCompany(sql: Sql, id: string): Promise<Company> {
  const [[company], listedModels] = await outside(sql, async () => [
    await readCompanies(sql, [id]),
    await readSharedModels(sql),
  ]);
  if (company === undefined) unknownCompany(id);
  return { ...company, listedModels, sharedModels: factored(listedModels, company.factors) };
}

async function readSharedModels(sql: Sql, onUnread?: OnUnread): Promise<Map<string, Model>> {
  return modelsBySlug(
    await sql<
      ModelColumns[]
    >`select ${modelColumns(sql, 'shared')} from models where company_id is null`,
    onUnread,
  );
}

// prices as text, because a float would not keep all their digits
function modelColumns(sql: Sql, whose: 'shared' | 'own') {
  const sameCompany = whose === 'shared' ? sql`p.company_id is null` : sql`p.company_id = c.id`;
  const texts = (prices: string) =>
    sql.unsafe(
      `(select json_object_agg(each.key, each.value #>> '{}') from jsonb_each(${prices}) each where each.key <> 'rates')`,
    );
  return sql`slug, upstream_model as upstream, kind, eu_hosted as "euHosted", token_input = 'accept' as "acceptsTokens",
      context_length as "contextLength", max_output_tokens as "maxOutputTokens", ${texts('present_prices(models)')} as prices, rates,
      floor(extract(epoch from created_at))::float8 as created,
    (select json_agg(json_build_object('from', (extract(epoch from valid_from) * 1000)::float8, 'prices', ${texts('prices_of(p)')}, 'rates', p.rates) order by valid_from)
     from model_prices p where p.slug = models.slug and ${sameCompany} and not applied) as coming`;
}

function modelsBySlug(rows: readonly ModelColumns[], onUnread?: OnUnread): Map<string, Model> {
  return new Map(rows.map((row) => [row.slug, modelOf(row, onUnread)]));
}

/** The model with its present price, linked to one with the price that begins next, and so on. */
function modelOf(
  { prices, rates, coming, ...model }: ModelColumns,
  onUnread: OnUnread = () => {},
): Model {
  const unread = (rate: string) => onUnread(model.slug, rate);
  let next: ComingPrice | null = null;
  for (const { from, ...price } of (coming ?? []).toReversed()) {
    next = { from, model: { ...model, prices: pricesOf(price, unread), next } };
  }
  return { ...model, prices: pricesOf({ prices, rates }, unread), next };
}

/** Called for a rate of a model that cannot be read. */
type OnUnread = (slug: string, rate: string) => void;

function pricesOf({ prices, rates }: PriceColumns, onUnread: (rate: string) => void): Prices {
  const { input, output, ...others } = prices;
  return parsePrices(input, output, others, parseRates(rates, onUnread));
}

interface AssistantColumns extends Omit<Assistant, 'prompt'> {
  readonly systemPrompt: string;
  readonly visibility: string;
  readonly projectId: string | null;
}

async function readAssistants(sql: Sql, ids: readonly string[]): Promise<Map<string, Assistant>> {
  const rows = await sql<AssistantColumns[]>`
    select id, company_id as "companyId", system_prompt as "systemPrompt", model_slug as "modelSlug",
      temperature::float8 as temperature, max_tokens as "maxTokens", visibility, project_id as "projectId"
    from assistants where id = any(${ids as string[]}::uuid[])`;
  const eligible = rows.filter(({ visibility, projectId }) => isEligible(visibility, projectId));
  return new Map(
    eligible.map(({ visibility, projectId, systemPrompt, ...assistant }) => [
      assistant.id,
      { ...assistant, prompt: promptPieces(systemPrompt) },
    ]),
  );
}
