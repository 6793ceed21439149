import { createHash, randomBytes } from 'node:crypto';
import { Writable } from 'node:stream';
import postgres, { type Sql } from 'postgres';
import type { Test } from 'tap';
import { openApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { SCOPES } from '../../src/domain/key.ts';
import type { ModelKind } from '../../src/domain/model.ts';
import { createLog } from '../../src/log.ts';
import { parseDatabaseUrl } from '../../src/store/connection/address.ts';
import { ask } from './client.ts';
import './pages-here.ts';
import { testDatabase } from './postgres.ts';
import { until } from './until.ts';
import { MASTER_KEY } from './upstream.ts';

/** FAST_HTTP of every gateway under test, whether in this process or in another: `make test` runs both ways. */
export const FAST_HTTP = process.env.FAST_HTTP ?? 'on';

/** Both, where a test tries each itself; one where FAST_HTTP chose it, or where run.ts found that no change touches them. */
export const WAYS: readonly string[] =
  (process.env.FAST_HTTP ?? process.env.ONE_WAY) === undefined ? ['on', 'off'] : [FAST_HTTP];

/**
 * A whole gateway in the test process: real HTTP, a database of its own, and companies,
 * models, assistants and keys added by plain SQL, as any other program would do.
 */
export interface TestGateway {
  /** Base address, ending in `/v1`: what a client gives its SDK. */
  readonly url: string;
  readonly adminUrl: string;
  readonly databaseUrl: string;
  readonly sql: Sql;
  /** Lines logged so far. */
  readonly logged: string[];
  company(settings?: CompanySettings): Promise<string>;
  /** Resolves once the gateway serves the model: the change feed tells it of shared ones. */
  model(slug: string, settings: ModelSettings): Promise<void>;
  key(company: string, scopes?: readonly string[], expires?: Date | null): Promise<string>;
  assistant(company: string, settings?: AssistantSettings): Promise<string>;
  /** The key of a company that may use every shared model; it is made anew when somebody removed it. */
  scout(): Promise<string>;
  /** The ledger of a company, oldest row first, once it has at least this many rows. */
  ledger(company: string, rows: number): Promise<LedgerRow[]>;
}

export interface CompanySettings {
  readonly budget?: string | null;
  readonly allowNonEu?: boolean;
  readonly disabled?: readonly string[];
}

export interface ModelSettings {
  readonly upstream: string;
  readonly kind?: ModelKind;
  readonly eu?: boolean;
  /** EUR per 1000 tokens, as decimal text. */
  readonly input?: string;
  readonly output?: string;
  /** Of cached input; none by default. */
  readonly cacheRead?: string | null;
  readonly cacheWrite?: string | null;
  /** The one company that has the model; null: a shared model. */
  readonly company?: string | null;
}

export interface AssistantSettings {
  readonly prompt?: string;
  readonly model?: string | null;
  readonly temperature?: number | null;
  readonly maxTokens?: number | null;
  readonly visibility?: string;
  readonly project?: string | null;
}

export interface LedgerRow {
  readonly billing_month: string;
  readonly request_id: string;
  readonly company_id: string;
  readonly api_key_id: string;
  readonly model_slug: string;
  readonly upstream_model: string;
  readonly endpoint: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  /** Exact decimal text without trailing zeros. */
  readonly cost_eur: string;
  readonly price_input: string;
  readonly price_output: string;
  readonly usage_source: string;
  readonly outcome: string;
  readonly occurred_at: Date;
}

/**
 * Starts a gateway for the length of a test.
 * @param env overrides the environment it is configured by
 * @param prepare changes the database before the gateway sees it
 */
export async function startGateway(
  t: Test,
  upstreamUrl: string,
  env: Record<string, string> = {},
  prepare?: (sql: Sql) => PromiseLike<unknown>,
): Promise<TestGateway> {
  const database = await testDatabase(t);
  const sql = connect(database.url);
  await prepare?.(sql);
  const logged: string[] = [];
  const log = createLog(
    { level: 'trace' },
    new Writable({
      write(line, _encoding, done) {
        logged.push(String(line));
        done();
      },
    }),
  );
  const config = readConfig({
    PORT: '0',
    ADMIN_PORT: '0',
    DATABASE_URL: database.url,
    UPSTREAM_URL: upstreamUrl,
    UPSTREAM_API_KEY: MASTER_KEY,
    SPOOL_DIR: '',
    DRAIN_SECONDS: '1',
    MAX_DELAY_MS: '60000', // on a busy machine the load shedder would refuse some requests itself
    FAST_HTTP,
    ...env,
  });
  const app = await openApp(config, log);
  await app.listen();
  t.teardown(async () => {
    await app.drain(config.drainSeconds);
    await app.close();
    await sql.end();
  });

  let scout = { company: '', key: '' };
  const gateway: TestGateway = {
    url: app.apiUrl,
    adminUrl: app.adminUrl as string,
    databaseUrl: database.url,
    sql,
    logged,

    async company({ budget = null, allowNonEu = false, disabled = [] } = {}) {
      const [row] = await sql`
        insert into companies (name, monthly_budget_eur, allow_non_eu_models, disabled_model_slugs)
        values ('Test company', ${budget}, ${allowNonEu}, ${disabled as string[]}) returning id`;
      return row?.id;
    },

    async model(
      slug,
      { upstream, kind = 'chat', eu = true, input = '0.5', output = '1.5', ...more },
    ) {
      const { company = null, cacheRead = null, cacheWrite = null } = more;
      await sql`
        insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output,
          cost_eur_per_1k_cache_read, cost_eur_per_1k_cache_write)
        values (${slug}, ${company}, ${upstream}, ${kind}, ${eu}, ${input}, ${output}, ${cacheRead}, ${cacheWrite})`;
      if (company !== null) return;
      const key = await gateway.scout();
      const path = `${app.apiUrl}/models/${encodeURIComponent(slug)}`;
      await until(
        async () => (await ask(path, { key })).status === 200,
        `the gateway serves model ${slug}`,
      );
    },

    async key(company, scopes = SCOPES, expires = null) {
      const key = `svc_${[...randomBytes(32)].map((byte) => 'abcdefghijklmnopqrstuvwxyz234567'[byte & 31]).join('')}`;
      const digest = createHash('sha256').update(key).digest();
      await sql`
        insert into api_keys (company_id, name, digest, prefix, scopes, expires_at)
        values (${company}, 'test', ${digest}, ${key.slice(0, 8)}, ${scopes as string[]}, ${expires})`;
      return key;
    },

    async assistant(company, settings = {}) {
      const {
        prompt = 'You are a helpful assistant.',
        model = null,
        temperature = null,
      } = settings;
      const { maxTokens = null, visibility = 'company', project = null } = settings;
      const [row] = await sql`
        insert into assistants (company_id, name, system_prompt, model_slug, temperature, max_tokens, visibility, project_id)
        values (${company}, 'Test assistant', ${prompt}, ${model}, ${temperature}, ${maxTokens}, ${visibility}, ${project})
        returning id`;
      return row?.id;
    },

    async scout() {
      const there = await sql`select from companies where id::text = ${scout.company}`;
      if (there.length > 0) return scout.key;
      const company = await gateway.company({ allowNonEu: true });
      scout = { company, key: await gateway.key(company) };
      return scout.key;
    },

    ledger: (company, rows) =>
      until(
        () => ledgerOf(sql, company),
        `${rows} rows of company ${company} in the ledger`,
        ({ length }) => length >= rows,
      ),
  };
  return gateway;
}

/** A connection beside the gateway's own, as another program would have it. */
function connect(url: string): Sql {
  const { targets, user, password, database } = parseDatabaseUrl(url);
  const options = { ...targets[0], user, password, database, max: 2, onnotice: () => {} };
  return postgres(options as postgres.Options<Record<string, never>>);
}

async function ledgerOf(sql: Sql, company: string): Promise<LedgerRow[]> {
  return sql<LedgerRow[]>`
    select billing_month::text, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
      prompt_tokens::integer, completion_tokens::integer, trim_scale(cost_eur)::text as cost_eur,
      price_input::text, price_output::text, usage_source, outcome, occurred_at
    from api_usage where company_id = ${company} order by occurred_at, request_id`;
}
