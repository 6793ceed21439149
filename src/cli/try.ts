import { createInterface, type Interface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReadStream } from 'node:tty';
import type { App } from '../app.ts';
import type { Config } from '../config.ts';
import { createOperator } from '../demo/first-run.ts';
import { FieldError, oneOf, type Read, readPrice, readUsdRate } from '../domain/field.ts';
import { explainRequest } from '../domain/reports/request-explanation.ts';
import { convertBy } from '../domain/settings/catalogue.ts';
import {
  type CatalogueEntry,
  entriesOf,
  entryOf,
  priceOf,
} from '../domain/settings/catalogue-entry.ts';
import { KEY, TRIAL_KEY } from '../domain/settings/key.ts';
import {
  eachPrice,
  MODEL,
  modelPrices,
  type PriceTexts,
  pricesOf,
  priceTexts,
  type SomePrices,
} from '../domain/settings/model.ts';
import { changeCompany, createCompany } from '../operations/company.ts';
import { createKey } from '../operations/key.ts';
import { changeModel, createModel } from '../operations/model.ts';
import { type CompanyRow, listCompanies } from '../store/company/company.ts';
import { listModels, type ModelRow } from '../store/company/model.ts';
import { actingAs } from '../store/connection/acting-person.ts';
import type { Sql } from '../store/connection/pool.ts';
import { installBinaries } from '../store/schema/launch.ts';
import { findRequest } from '../store/usage/request.ts';
import { askModelInfo, askRouter } from '../upstream/router-models.ts';
import { didYouMean } from './frame/closest.ts';
import { ArgumentError, Failure, type Invocation, named, type Output } from './frame/command.ts';
import { ACTOR, withDatabase } from './frame/database.ts';
import { callerOf } from './frame/setting.ts';
import { card } from './frame/text.ts';
import { readCatalogue } from './nouns/catalogue.ts';
import { routerOf } from './nouns/model.ts';
import { serve } from './serve.ts';

/** What `tollgate try` is told by its options. */
export interface TryOptions {
  readonly upstream: string | undefined;
  readonly model: string | undefined;
  readonly input: string | undefined;
  readonly output: string | undefined;
  readonly catalogue: string | undefined;
  /** EUR for one USD. */
  readonly usdRate: string | undefined;
  readonly euHosted: boolean | undefined;
}

/** The configuration of the environment, with other variables besides. */
type ConfigWith = (more: Readonly<Record<string, string>>) => Config;
type Entries = ReadonlyMap<string, CatalogueEntry>;

/** The model that is offered, and who said what it costs. */
interface Chosen {
  readonly upstream_model: string;
  readonly prices: SomePrices;
  readonly eu_hosted: boolean;
  readonly source: string;
}

const COMPANY = 'Trial';
const SLUG = 'chat';
/** So that a trial at a provider costs little. */
const BUDGET_EUR = '5';
const INFO_MS = 10_000;
const CALL_MS = 300_000;
const TRANSACTION_MS = 60_000;
const TRAIL_TRIES = 50;
const TRAIL_MS = 200;
const MOST_LISTED = 20;
/** Names of models that answer no chat. */
const NO_CHAT =
  /embed|whisper|tts|audio|realtime|transcri|image|dall-e|sora|moderation|rerank|ocr|davinci|babbage|(?:^|\/)(?:bge|e5)-/i;

/**
 * `tollgate try`: looks up the models of an upstream, makes a company with one model and a key, serves, and makes the
 * first call, which has a price. Asks in a terminal what neither options nor the upstream tell.
 * @returns the exit code of the gateway
 * @throws ArgumentError, Failure or ConfigError, which say what to do
 */
export async function tryOut(
  invocation: Invocation,
  options: TryOptions,
  json: boolean,
  configWith: ConfigWith,
): Promise<number> {
  const questions = new Questions(invocation, json);
  try {
    const { config, names } = await findUpstream(invocation, options, questions, configWith);
    const entries = await entriesFor(config, options, invocation);
    const progress = (line: string) =>
      line.includes('DATABASE_URL is not set')
        ? questions.tell(`Making a database in ${config.dataDir} ...`)
        : questions.tell(line);
    if (config.databaseUrl === null)
      await installBinaries(config.dataDir, progress).catch((error: Error) => {
        throw new Failure(error.message);
      });
    const source = await withDatabase(config, {}, progress, async ({ transact }) => {
      const earlier = await transact((sql) => earlierTry(sql, config));
      if (earlier !== null && isSame(earlier, names, options)) return null;
      const chosen = await choose(names, entries, options, config, questions);
      await transact((sql) => setUp(sql, config, chosen));
      return chosen.source;
    });
    questions.close();
    const announce = (started: Output) =>
      void invocation.stdout.write(`${json ? JSON.stringify(started.json) : started.text}\n`);
    return await serve(config, false, announce, (app, stop) =>
      firstCall(app, config, source, stop),
    );
  } finally {
    questions.close();
  }
}

/** The upstream that answers, and the names of what it offers. @throws Failure */
async function findUpstream(
  { env }: Invocation,
  { upstream = env.UPSTREAM_URL }: TryOptions,
  questions: Questions,
  configWith: ConfigWith,
): Promise<{ config: Config; names: readonly string[] }> {
  const address =
    upstream?.trim() ||
    (await questions.ask(
      'Address of your model router or provider, such as https://api.openai.com/v1',
      (text) => text.trim(),
      'set UPSTREAM_URL to the address of your model router or provider, such as https://api.openai.com/v1, or give --upstream',
    ));
  const level = env.LOG_LEVEL || 'error';
  const plain = { WORKERS: '1', LISTEN_SOCKET: '', TLS_CERT: '', TLS_KEY: '' }; // one call comes from here
  const configOf = (url: string) => configWith({ ...plain, LOG_LEVEL: level, UPSTREAM_URL: url });
  const config = configOf(address);
  const answer = await askRouter(routerIn(config));
  if (answer.reason === null) return { config, names: answer.names };
  const [url] = config.upstreamUrls ?? [];
  if (url?.pathname === '/' && !answer.isReachable) {
    const below = configOf(new URL('/v1', url).href); // where nearly all have it
    const second = await askRouter(routerIn(below));
    if (second.reason === null) return { config: below, names: second.names };
    if (/^The router (?:refuses|offers)/.test(second.reason)) throw new Failure(second.reason);
  }
  throw new Failure(answer.reason);
}

const routerIn = (config: Config) => routerOf(config) as NonNullable<ReturnType<typeof routerOf>>;

/** What a catalogue file tells of models, or else the router; empty where neither tells anything. */
async function entriesFor(
  config: Config,
  { catalogue }: TryOptions,
  { stdin }: Invocation,
): Promise<Entries> {
  if (catalogue !== undefined) return await readCatalogue({ config, stdin }, catalogue);
  return entriesOf(await askModelInfo(routerIn(config), INFO_MS).catch(() => [])) ?? new Map();
}

/** What an earlier `try` set up; null: the database is empty. @throws Failure where it has anything else */
async function earlierTry(sql: Sql, { databaseUrl, dataDir }: Config): Promise<ModelRow | null> {
  const names = (await listCompanies(sql)).map(({ name }) => name);
  const model = await triedModel(sql);
  const isOwn = names.length === 0 ? model === null : names.join() === COMPANY;
  if (isOwn) return model;
  const [where, more] =
    databaseUrl === null ? [dataDir, ''] : ['DATABASE_URL', ', and DATABASE_URL to nothing'];
  throw new Failure(
    `the database in ${where} has companies or models of its own, and "try" makes some: set DATA_DIR to a new folder${more}`,
  );
}

async function triedModel(sql: Sql): Promise<ModelRow | null> {
  const models = await listModels(sql);
  return models.find(({ slug, company_id }) => slug === SLUG && company_id === null) ?? null;
}

/** Whether what is there does what is asked for now. */
function isSame(
  { upstream_model }: ModelRow,
  names: readonly string[],
  { upstream: _, model = upstream_model, ...others }: TryOptions,
): boolean {
  const isAsked = Object.values(others).some((value) => value !== undefined);
  return !isAsked && model === upstream_model && names.includes(upstream_model);
}

async function choose(
  names: readonly string[],
  entries: Entries,
  options: TryOptions,
  config: Config,
  questions: Questions,
): Promise<Chosen> {
  const ofChat = names.filter((name) => {
    const kind = entryOf(entries, name)?.kind;
    return kind == null ? !NO_CHAT.test(name) : kind === 'chat';
  });
  const upstream_model = await chooseModel(names, ofChat, entries, options, questions);
  const entry = entryOf(entries, upstream_model);
  const { prices, source } = await choosePrices(entry, options, config, questions);
  const eu_hosted =
    options.euHosted ?? regionOf(entry) ?? (await askHosting(upstream_model, questions));
  return { upstream_model, prices, source, eu_hosted };
}

async function chooseModel(
  names: readonly string[],
  ofChat: readonly string[],
  entries: Entries,
  { model }: TryOptions,
  questions: Questions,
): Promise<string> {
  const known = (name: string): string => {
    if (names.includes(name)) return name;
    const near = didYouMean(name, names) || `; it has ${names.slice(0, MOST_LISTED).join(', ')}`;
    throw new FieldError(`must be a model of the upstream, not ${JSON.stringify(name)}${near}`);
  };
  if (model !== undefined) return named('--model', () => known(model));
  const first = ofChat.find((name) => entryOf(entries, name) !== undefined) ?? ofChat[0];
  if (!questions.isPossible || ofChat.length === 1) {
    if (first !== undefined) return first;
    throw new Failure(
      `the upstream offers no model for chat that is known as one: name one with --model: ${names.slice(0, MOST_LISTED).join(', ')}`,
    );
  }
  const listed = (ofChat.length > 0 ? ofChat : names).slice(0, MOST_LISTED);
  const more = names.length > listed.length ? `  and ${names.length - listed.length} more` : '';
  questions.tell(
    ['The upstream has:', ...listed.map((name) => `  ${name}`), more].join('\n').trimEnd(),
  );
  return await questions.ask(
    `Model${first === undefined ? '' : ` [${first}]`}`,
    (text) => known(text.trim() || (first ?? '')),
    '',
  );
}

async function choosePrices(
  entry: CatalogueEntry | undefined,
  { input, output, catalogue, usdRate }: TryOptions,
  { upstreamRate, upstreamCurrency }: Config,
  questions: Questions,
): Promise<Pick<Chosen, 'prices' | 'source'>> {
  if (input !== undefined || output !== undefined) {
    if (input === undefined || output === undefined)
      throw new ArgumentError('--input-price and --output-price go together; give both');
    return { prices: somePrice(input, output), source: 'as given' };
  }
  const inUsd = (rate: string) =>
    entry === undefined ? null : priceOf(entry, 'chat', convertBy(rate));
  if (inUsd('1') !== null) {
    const known = upstreamCurrency === 'USD' ? upstreamRate : null;
    const rate =
      usdRate ??
      known ??
      (await questions.ask(
        'Its price is known in USD. EUR for one USD',
        readUsdRate,
        'the price of the model is known in USD: give --usd-rate, the EUR for one USD such as 0.92, or --input-price and --output-price in EUR per 1000 tokens',
      ));
    const { prices, rates } = inUsd(rate) as NonNullable<ReturnType<typeof inUsd>>;
    const source = `${catalogue === undefined ? "from the router's list" : 'from the catalogue'}, at ${rate} EUR for one USD`;
    return { prices: { ...prices, rates: rates.length === 0 ? null : rates }, source };
  }
  const absent =
    'nothing tells the price of the model: give --input-price and --output-price in EUR per 1000 tokens, or --catalogue';
  const unit = 'EUR per 1000 tokens, such as 0.0025';
  const asked = await questions.ask(`Price of what it reads (input), ${unit}`, readPrice, absent);
  const written = await questions.ask(
    `Price of what it writes (output), ${unit}`,
    readPrice,
    absent,
  );
  return { prices: somePrice(asked, written), source: 'as given' };
}

/** @throws ArgumentError where both are 0: a first call that costs nothing shows nothing */
function somePrice(input: string, output: string): SomePrices {
  if (!/[1-9]/.test(input + output))
    throw new ArgumentError('one of both prices must be above 0, so that the call costs something');
  return { input, output };
}

/** Whether a model runs in the EU, as the router tells it of each deployment; null: it does not. */
function regionOf(entry: CatalogueEntry | undefined): boolean | null {
  const regions = entry?.each.map(({ region_name }) => region_name) ?? [];
  const areTold = regions.length > 0 && regions.every((region) => typeof region === 'string');
  return areTold ? regions.every((region) => region === 'eu') : null;
}

function askHosting(model: string, questions: Questions): Promise<boolean> {
  return questions.ask(
    `Does ${model} run in the EU? yes or no`,
    (text) => oneOf('yes', 'no')(text.trim().toLowerCase()) === 'yes',
    'nothing tells whether the model runs in the EU: give --eu-hosted true or false',
  );
}

/** Makes the company and its model, or changes those that are there. */
async function setUp(sql: Sql, config: Config, chosen: Chosen): Promise<void> {
  const caller = callerOf({ config, warn: () => {} }, MODEL);
  const { upstream_model, eu_hosted, prices } = chosen;
  const settings = { monthly_budget_eur: BUDGET_EUR, allow_non_eu_models: !eu_hosted };
  const company = (await listCompanies(sql)).find(({ name }) => name === COMPANY);
  if (company === undefined) await createCompany(sql, caller, { name: COMPANY, ...settings });
  else await changeCompany(sql, caller, company.id, settings);
  const each = { ...eachPrice(() => null), ...prices } as unknown as PriceTexts;
  const values = {
    ...{ upstream_model, eu_hosted, kind: 'chat' as const, rates: prices.rates ?? null },
    ...modelPrices(each),
  };
  const name = { slug: SLUG, company_id: null };
  if ((await triedModel(sql)) === null) await createModel(sql, caller, { ...name, ...values });
  else await changeModel(sql, caller, name, values);
}

/**
 * Makes a key and the first call, and tells of both.
 * @param source who said the prices; null: they are those of an earlier `try`
 * @throws Failure when the call is not answered with 200
 */
async function firstCall(
  app: App,
  config: Config,
  source: string | null,
  stop: AbortSignal,
): Promise<Output> {
  const { key, login, model } = await actingAs(app.db, ACTOR, TRANSACTION_MS, async (sql) => {
    const company = (await listCompanies(sql)).find(({ name }) => name === COMPANY) as CompanyRow;
    const caller = callerOf({ config, warn: () => {} }, KEY);
    const made = await createKey(sql, caller, company.id, { ...TRIAL_KEY, name: 'try' });
    return {
      key: made.key as string,
      login: await createOperator(sql),
      model: (await triedModel(sql)) as ModelRow,
    };
  });
  const url = `${app.apiUrl}/chat/completions`;
  const body = JSON.stringify({ model: SLUG, messages: [{ role: 'user', content: 'Say hello.' }] });
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
    signal: AbortSignal.any([stop, AbortSignal.timeout(CALL_MS)]),
  });
  await answer.arrayBuffer();
  const id = answer.headers.get('x-request-id') as string;
  if (answer.status !== 200) throw new Failure(await whyFailed(app, id, answer.status));
  const cost = answer.headers.get('x-cost-eur') as string;
  const page = app.adminUrl === null ? null : `${app.adminUrl}/requests/${id}`;
  const { upstream_model, eu_hosted } = model;
  const prices = { ...pricesOf<string | null>(model), rates: model.rates };
  const upstream = config.upstreamUrls?.map(({ href }) => href).join(',') as string;
  const rows = {
    'Base URL': app.apiUrl,
    'API key': `${key}   (shown only now)`,
    Model: `${SLUG}: ${upstream_model} at ${upstream}, ${eu_hosted ? 'in' : 'not in'} the EU`,
    Prices: `${priceTexts(prices)} EUR per 1000 tokens in and out, ${source ?? 'as before'}`,
    'First call': `200, x-cost-eur: ${cost}`,
    ...(page !== null && { 'Its page': page }),
    ...(page !== null && {
      Login:
        login === null
          ? 'as before; npx tollgate user set-password --email operator@localhost --password-stdin sets a new password'
          : `${login.email}   ${login.password}   (shown only now)`,
    }),
  };
  const kept =
    source === null
      ? ` It found what an earlier "try" set up (${config.databaseUrl === null ? config.dataDir : 'DATABASE_URL'}).`
      : '';
  const text = `${card(`\nTollgate is serving, and its first priced call was answered.${kept}`, rows)}

  Call it yourself:

  curl -i ${url} -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '${body}'

  Ctrl-C stops it; "tollgate try" goes on from here. For real: your own Postgres in DATABASE_URL, "tollgate serve",
  then "tollgate model create" and "tollgate company onboard" for each customer.
`;
  const json = {
    ...{ base_url: app.apiUrl, admin_url: app.adminUrl, key, login, is_new: source !== null },
    model: { slug: SLUG, upstream_model, eu_hosted, ...prices },
    call: { request_id: id, status: 200, cost_eur: cost, page },
  };
  return { json, text };
}

/** Why the first call failed, and what to do, as the page of the request would say it. */
async function whyFailed(app: App, id: string, status: number): Promise<string> {
  for (let tries = 0; tries < TRAIL_TRIES; tries++) {
    const request = await app.db.run(TRANSACTION_MS, (sql) => findRequest(sql, id, null));
    if (request !== null) {
      const { what, advice } = explainRequest(request, undefined, true);
      const said = request.upstream_reason === null ? '' : ` It said: ${request.upstream_reason}`;
      return `the first call was answered ${status}. ${what}${said}${advice === null ? '' : ` What to do: ${advice}`}`;
    }
    await sleep(TRAIL_MS);
  }
  return `the first call was answered ${status}; "tollgate request ${id}" tells why`;
}

/** Questions in a terminal, on standard error. */
class Questions {
  /** There is a terminal to ask. */
  readonly isPossible: boolean;
  readonly #invocation: Invocation;
  #lines: Interface | null = null;
  #answers: AsyncIterator<string> | null = null;

  constructor(invocation: Invocation, json: boolean) {
    this.#invocation = invocation;
    this.isPossible = !json && (invocation.stdin as Partial<ReadStream>).isTTY === true;
  }

  readonly tell = (text: string): void => void this.#invocation.stderr.write(`${text}\n`);

  /** Asks until the answer is right. @param otherwise what to do where nobody can be asked @throws ArgumentError */
  async ask<T>(question: string, read: Read<T>, otherwise: string): Promise<T> {
    if (!this.isPossible) throw new ArgumentError(otherwise);
    this.#lines ??= createInterface({ input: this.#invocation.stdin, terminal: false });
    this.#answers ??= this.#lines[Symbol.asyncIterator]();
    for (;;) {
      this.#invocation.stderr.write(`${question}: `);
      const { done, value } = await this.#answers.next();
      if (done) throw new ArgumentError(otherwise || 'no answer; give the options');
      try {
        return read(value);
      } catch (error) {
        if (!(error instanceof FieldError)) throw error;
        this.tell(`It ${error.message}.`);
      }
    }
  }

  close(): void {
    this.#lines?.close();
    this.#lines = null;
  }
}
