import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { type Database, openDatabase } from '../../src/store/connection/pool.ts';
import { startEmbedded } from '../../src/store/schema/embedded.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { childrenOf } from '../../test/faults/server.ts';
import { inDatabase } from '../../test/support/postgres.ts';
import { INTERNAL_MODEL, SLUG } from '../programs/answers.ts';
import { parentOf, serverMicros, setPolicy } from './process.ts';

const MS = 60_000;
const SEED_MS = 3_600_000;

/** A database server with scratch databases. */
export type DatabaseServer = Awaited<ReturnType<typeof startDatabase>>;

/** Companies with a budget and one key each (benchKey(n) is that of company n), and rows of this month, all of company 0. */
type Seed = { readonly companies?: number; readonly ledgerRows?: number };

/**
 * The server that BENCH_DATABASE_URL names (on this machine, with a role that may create databases), or the embedded
 * one in a scratch folder, which runs on the same cores as this process.
 */
export async function startDatabase(folder: string) {
  const given = process.env.BENCH_DATABASE_URL;
  // room for large seeds; everything else as the gateway itself would start it
  const settings = { shared_buffers: '256MB', max_wal_size: '4GB' };
  const embedded = given
    ? null
    : await startEmbedded({ dataDir: folder, log: { info: () => {} }, settings });
  const abandon = () => embedded && process.kill(embedded.pid, 'SIGQUIT');
  process.once('exit', abandon);
  const url = embedded?.url ?? (given as string);
  const db = openDatabase({ url, maxConnections: 1 });
  const [row] = await db.run(
    MS,
    (sql) => sql<[{ version: string; pid: number }]>`
      select current_setting('server_version') as version, pg_backend_pid() as pid`,
  );
  const pid = parentOf(row.pid);
  const made: string[] = [];
  return {
    /** "Postgres 18.4" */
    version: `Postgres ${row.version.split(' ')[0]}`,
    /**
     * Makes a database of the gateway's schema with a model, companies, keys and ledger rows in it, or what a function fills in.
     * @param checkout whose schema; default: this one's
     */
    async seeded(
      seed: Seed | ((db: Database) => Promise<void>) = {},
      checkout?: string,
    ): Promise<string> {
      const name = `tollgate_bench_${process.pid}_${made.length}`;
      made.push(name);
      await db.run(MS, (sql) => sql`create database ${sql(name)}`);
      const filled = openDatabase({ url: inDatabase(url, name), maxConnections: 1 });
      if (checkout === undefined) await migrate(filled, { billingTimezone: 'UTC' });
      else {
        const env = { PATH: process.env.PATH, DATABASE_URL: inDatabase(url, name) };
        execFileSync(process.execPath, [join(checkout, 'dist/main.js'), 'migrate'], {
          env,
          stdio: 'ignore',
        });
      }
      await (typeof seed === 'function' ? seed(filled) : fill(filled, seed));
      await filled.close();
      return inDatabase(url, name);
    },
    /**
     * Runs work while the server gets only what others on its cores leave: what it does with a batch of the gateway
     * would delay the load generator, which times the answers.
     */
    async behind<Result>(work: () => Promise<Result>): Promise<Result> {
      const all = [pid, ...childrenOf(pid)];
      setPolicy('--idle', all);
      try {
        return await work();
      } finally {
        setPolicy('--other', all);
      }
    },
    /** CPU microseconds of the server and of all its processes. */
    cpuMicros: () => serverMicros(pid),
    async stop(): Promise<void> {
      for (const name of made)
        await db.run(MS, (sql) => sql`drop database ${sql(name)} with (force)`);
      await db.close();
      await embedded?.stop();
      process.off('exit', abandon);
    },
  };
}

async function fill(db: Database, { companies = 1, ledgerRows = 0 }: Seed): Promise<void> {
  await db.run(SEED_MS, async (sql) => {
    // without the triggers, for speed: the statement on monthly_spend below does what they would
    await sql`set session_replication_role = replica`;
    await sql`
      insert into companies (id, name, monthly_budget_eur)
      select md5('company ' || n)::uuid, 'Company ' || n, 1e9 from generate_series(0, ${companies - 1}::int) n`;
    // a commit to compare with may have a schema in which keys have no line yet
    await sql`
      do $$ begin
        if exists (select from pg_trigger where tgname = 'note_line') then
          alter table api_keys enable always trigger note_line;
        end if;
      end $$`;
    await sql`
      insert into api_keys (id, company_id, name, digest, prefix, scopes)
      select md5('key ' || n)::uuid, md5('company ' || n)::uuid, 'bench', sha256(convert_to(key, 'UTF8')), left(key, 8), array['chat', 'embeddings', 'assistants']
      from generate_series(0, ${companies - 1}::int) n,
        lateral (select 'svc_' || lpad(translate(n::text, '0189', 'abcd'), 32, 'z') as key) k`;
    await sql`
      insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values (${SLUG}, ${INTERNAL_MODEL}, 'chat', true, 0.0005, 0.0015)`;
    await sql`
      insert into api_usage
      select date_trunc('month', now())::date, gen_random_uuid(), md5('company 0')::uuid, md5('key')::uuid,
        ${SLUG}, ${INTERNAL_MODEL}, 'chat.completions', 200 + n % 100, 100 + n % 50,
        ((200 + n % 100) * 0.0005 + (100 + n % 50) * 0.0015) * 0.001, 0.0005, 0.0015, 'upstream', 'completed',
        greatest(date_trunc('month', now()), now() - make_interval(secs => n % 100000))
      from generate_series(1, ${ledgerRows}::int) n`;
    await sql`
      insert into monthly_spend (company_id, billing_month, requests, prompt_tokens, completion_tokens, api_cost_eur)
      select company_id, billing_month, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
      from api_usage group by 1, 2`;
    await sql`vacuum analyze`;
    await sql`checkpoint`;
  });
}
