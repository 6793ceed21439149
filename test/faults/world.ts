import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import postgres, { type Sql } from 'postgres';
import type { Test } from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { parseDatabaseUrl } from '../../src/store/connection/address.ts';
import { decimal, whole } from '../ledger/oracle.ts';
import { type FaultyDemo, type JournalCall, startFaultyDemo } from '../support/demo/server.ts';
import { FAST_HTTP } from '../support/gateway.ts';
import { testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { type GatewayProcess, startProcess } from './gateway.ts';

/** Full counts, time bounds asserted, minutes per file; the figures go into RESULTS.md. */
export const LONG = process.env.FAULTS === 'long';

/** The tier that the rates name, and the prompt tokens beyond which some hold: `send` makes shorter and longer prompts. */
export const TIER = 'priority';
const OVER = 30;

/** A budget that nobody reaches. */
const PLENTY = '1000000000';

export type Life = Pick<Test, 'teardown'>;

/** A database, an upstream that keeps a journal and one customer; gateways are processes. */
export interface FaultWorld {
  readonly sql: Sql;
  readonly databaseUrl: string;
  readonly demo: FaultyDemo;
  readonly company: string;
  readonly key: string;
  readonly spoolDir: string;
  /** A gateway process on the database, the upstream and the spool folder of this world. */
  gateway(env?: Record<string, string>, main?: string): Promise<GatewayProcess>;
  newCompany(settings?: {
    budget?: string | null;
    mode?: string;
  }): Promise<{ company: string; key: string }>;
  /** @param prices with rates where there are hours, in which some of them hold */
  model(
    slug: string,
    upstream: string,
    prices?: { input?: string; output?: string; hours?: string },
  ): Promise<void>;
  /** Resolves once a gateway serves a shared model: by then the change feed has told it of every earlier change. */
  served(gateway: Pick<GatewayProcess, 'url'>, slug: string): Promise<unknown>;
  /** The upstream's journal by the marker in the prompt. */
  upstreamJournal(): Map<string, JournalCall>;
  /** Spool files with their folders; empty when every record is in the database and every process gone. */
  spoolFiles(): string[];
}

/** @param database a migrated one; a fresh one on the shared server unless given */
export async function faultWorld(
  life: Life,
  database?: { url: string; sql: Sql },
): Promise<FaultWorld> {
  const databaseUrl = database?.url ?? (await testDatabase(life as Test)).url;
  const sql = database?.sql ?? connect(databaseUrl);
  if (database === undefined) life.teardown(() => sql.end({ timeout: 1 }));
  const demo = await startFaultyDemo({ port: 0 });
  life.teardown(() => demo.close());
  const spoolDir = mkdtempSync(join(tmpdir(), 'tollgate-spool-'));
  life.teardown(() => rmSync(spoolDir, { recursive: true, force: true }));

  async function newCompany({
    budget = null,
    mode = 'standard',
  }: {
    budget?: string | null;
    mode?: string;
  } = {}) {
    const [row] = await sql`
      insert into companies (name, monthly_budget_eur, budget_mode) values ('Faults', ${budget}, ${mode}) returning id`;
    const company = row?.id as string;
    const key = `svc_${randomBytes(20).toString('hex')}`;
    await sql`
      insert into api_keys (company_id, name, digest, prefix, scopes)
      values (${company}, 'faults', decode(${digestOf(key)}, 'hex'), ${key.slice(0, 8)}, '{chat,embeddings,assistants,rerank}')`;
    return { company, key };
  }
  // with prices of cached input, that a fault might lose
  async function model(
    slug: string,
    upstream: string,
    { input = '0.37', output = '1.013', hours = '' } = {},
  ): Promise<void> {
    const kind = upstream.includes('embed')
      ? 'embedding'
      : upstream.includes('rerank')
        ? 'rerank'
        : 'chat';
    await sql`
      insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output,
        cost_eur_per_1k_cache_read, cost_eur_per_1k_cache_write, cost_eur_per_1k_request, cost_eur_per_1k_search_unit, rates)
      values (${slug}, ${upstream}, ${kind}, true, ${input}, ${output}, ${input}::numeric / 10, ${input}::numeric / 4 * 5,
        ${hours ? REQUEST : null}, ${kind === 'rerank' ? '2.001' : null},
        ${hours ? JSON.stringify(ratesOf(input, output, hours)) : null}::text::jsonb)`;
  }
  await model('brand-chat', 'internal-chat!events-5!pace-4', {
    hours: thisMinute(),
  });
  await model('brand-embed', 'internal-embed');
  await model('brand-rerank', 'internal-rerank');
  const customer = await newCompany();

  return {
    sql,
    databaseUrl,
    demo,
    spoolDir,
    ...customer,
    newCompany,
    model,
    gateway(env = {}, main) {
      const own = {
        DATABASE_URL: databaseUrl,
        UPSTREAM_URL: demo.url,
        SPOOL_DIR: spoolDir,
        FAST_HTTP,
      };
      // on a busy machine the load shedder would refuse some requests itself
      return startProcess(life, { MAX_DELAY_MS: '60000', ...own, ...env }, main);
    },
    served({ url }, slug) {
      const headers = { authorization: `Bearer ${customer.key}` };
      const served = async () => (await fetch(`${url}/models/${slug}`, { headers })).status === 200;
      return until(served, `a gateway serves model ${slug}`);
    },
    upstreamJournal() {
      const journal = new Map<string, JournalCall>();
      for (const call of demo.journal) {
        const marker = /mark-\d+-\d+-/.exec(call.body.toString('latin1'))?.[0];
        if (marker !== undefined) journal.set(marker, call);
      }
      return journal;
    },
    spoolFiles: () => readdirSync(spoolDir, { recursive: true, encoding: 'utf8' }),
  };
}

/** The price of 1000 calls. */
const REQUEST = '0.25';

/** Hours that end at the next full minute, perhaps under load. */
function thisMinute(): string {
  const clock = (ms: number) => new Date(ms + 345 * 60_000).toISOString().slice(11, 16);
  return `${clock(Date.now())}-${clock(Date.now() + 60_000)} Asia/Kathmandu`;
}

/** Rates of all conditions. */
function ratesOf(input: string, output: string, hours: string): object[] {
  const times = (text: string, hundredths: bigint) => decimal((whole(text) * hundredths) / 100n);
  const rate = (conditions: object, hundredths: bigint) => ({
    ...conditions,
    input: times(input, hundredths),
    output: times(output, hundredths),
    cache_read: times(input, hundredths / 5n),
    cache_write: null,
    request: times(REQUEST, hundredths),
  });
  return [
    rate({ over: OVER }, 150n),
    rate({ tier: TIER }, 200n),
    rate({ over: OVER, tier: TIER }, 300n),
    rate({ over: OVER, hours }, 125n),
    rate({ over: OVER, tier: TIER, hours }, 250n),
  ];
}

/** Has all counted of the customer that may be, beside the month of its company: a fault might lose it. `send` names the end users. */
export async function countAll({
  sql,
  company,
}: Pick<FaultWorld, 'sql' | 'company'>): Promise<void> {
  await sql`update companies set daily_budget_eur = ${PLENTY} where id = ${company}`;
  await sql`
    update api_keys set monthly_budget_eur = ${PLENTY}, daily_budget_eur = ${PLENTY}, end_users = 'header',
      end_user_budget_eur = ${PLENTY}
    where company_id = ${company}`;
}

/** BILLING_TIMEZONE where it is noon now: no day and no month ends while an experiment runs. */
export function noonZone(): string {
  const behind = new Date().getUTCHours() - 12; // zones of this kind are named by how far they are behind UTC
  return `Etc/GMT${behind < 0 ? '' : '+'}${behind}`;
}

/** A connection beside the gateways' own; numeric values come as text. */
export function connect(url: string): Sql {
  const { targets, user, password, database } = parseDatabaseUrl(url);
  const options = { ...targets[0], user, password, database, max: 4, onnotice: () => {} };
  return postgres(options as postgres.Options<Record<string, never>>);
}
