import { openDatabase } from '../src/store/database.ts';
import { startEmbedded } from '../src/store/embedded.ts';
import { migrate } from '../src/store/migrate.ts';
import { inDatabase } from '../test/support/postgres.ts';
import { INTERNAL_MODEL, SLUG } from './payload.ts';

/** A database server with scratch databases. */
export interface DatabaseServer {
  /** "Postgres 18.4" */
  readonly version: string;
  /** Makes a database of the gateway's schema with companies, keys, a model and ledger rows in it. */
  seeded(seed: Seed): Promise<string>;
  drop(url: string): Promise<void>;
  stop(): Promise<void>;
}

export interface Seed {
  /** Companies with a budget, one key each: benchKey(n) is the key of company n. */
  readonly companies: number;
  /** Ledger rows of the current month, all of company 0. */
  readonly ledgerRows: number;
}

const SEED_MS = 3_600_000;

/**
 * The server BENCH_DATABASE_URL names (a role that may create databases), or the embedded one in a
 * scratch folder, which then runs on the same cores as this process.
 */
export async function startDatabase(folder: string): Promise<DatabaseServer> {
  const given = process.env.BENCH_DATABASE_URL;
  if (given) return serverAt(given, () => Promise.resolve());
  // room for large seeds; everything else as the gateway itself would start it
  const settings = { shared_buffers: '256MB', max_wal_size: '4GB' };
  const embedded = await startEmbedded({ dataDir: folder, log: { info: () => {} }, settings });
  const abandon = (): void => {
    process.kill(embedded.pid, 'SIGQUIT');
  };
  process.once('exit', abandon);
  return serverAt(embedded.url, async () => {
    await embedded.stop();
    process.off('exit', abandon);
  });
}

async function serverAt(url: string, end: () => Promise<void>): Promise<DatabaseServer> {
  const db = openDatabase({ url, maxConnections: 1 });
  const rows = await db.run(
    10_000,
    (sql) => sql<{ version: string }[]>`select current_setting('server_version') as version`,
  );
  let made = 0;
  return {
    version: `Postgres ${rows[0]?.version.split(' ')[0]}`,
    async seeded(seed) {
      const name = `tollgate_bench_${process.pid}_${made++}`;
      await db.run(60_000, (sql) => sql`create database ${sql(name)}`);
      const database = inDatabase(url, name);
      await fill(database, seed);
      return database;
    },
    async drop(database) {
      const name = /\/(tollgate_bench_\w+)/.exec(database)?.[1] as string;
      await db.run(60_000, (sql) => sql`drop database ${sql(name)} with (force)`);
    },
    async stop() {
      await db.close();
      await end();
    },
  };
}

async function fill(url: string, { companies, ledgerRows }: Seed): Promise<void> {
  const db = openDatabase({ url, maxConnections: 1 });
  await migrate(db, { billingTimezone: 'UTC' });
  await db.run(SEED_MS, async (sql) => {
    // without the triggers, for speed: what they would count is set in one go below
    await sql`set session_replication_role = replica`;
    await sql`
      insert into companies (id, name, monthly_budget_eur)
      select md5('company ' || n)::uuid, 'Company ' || n, 1e9 from generate_series(0, ${companies - 1}::int) n`;
    await sql`
      insert into api_keys (company_id, name, digest, prefix, scopes)
      select md5('company ' || n)::uuid, 'bench', sha256(convert_to(key, 'UTF8')), left(key, 8), array['chat', 'embeddings', 'assistants']
      from generate_series(0, ${companies - 1}::int) n,
        lateral (select 'svc_' || lpad(translate(n::text, '0189', 'abcd'), 32, 'z') as key) k`;
    await sql`
      insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values (${SLUG}, ${INTERNAL_MODEL}, 'chat', true, 0.0005, 0.0015)`;
    for (let done = 0; done < ledgerRows; done += LEDGER_STEP) {
      await sql`
        insert into api_usage
        select date_trunc('month', now())::date, gen_random_uuid(), md5('company 0')::uuid, md5('key')::uuid,
          ${SLUG}, ${INTERNAL_MODEL}, 'chat.completions', 200 + n % 100, 100 + n % 50,
          ((200 + n % 100) * 0.0005 + (100 + n % 50) * 0.0015) * 0.001, 0.0005, 0.0015, 'upstream', 'completed',
          greatest(date_trunc('month', now()), now() - make_interval(secs => n % 100000))
        from generate_series(1, ${Math.min(LEDGER_STEP, ledgerRows - done)}::int) n`;
    }
    await sql`
      insert into monthly_spend (company_id, billing_month, requests, prompt_tokens, completion_tokens, api_cost_eur)
      select company_id, billing_month, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
      from api_usage group by 1, 2`;
    await sql`vacuum analyze`;
    await sql`checkpoint`;
  });
  await db.close();
}

const LEDGER_STEP = 500_000;
