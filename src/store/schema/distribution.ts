import { SchemaRefused } from '../connection/errors.ts';
import { NIL_ID } from '../connection/expressions.ts';
import type { Database, Sql } from '../connection/pool.ts';

/**
 * The tables that grow with requests, which are spread over the workers: all rows of a company are on one of them. Each
 * table stands beside the first one. All others stay on the coordinator, where the change feed is.
 */
export const SPREAD = [
  'monthly_spend',
  'spend_changes',
  'usage_daily',
  'usage_company_days',
  'usage_key_months',
  'usage_details',
  'usage_end_user_days',
  'late_usage',
  'upstream_costs',
  'upstream_cost_monthly',
  'api_usage',
  'request_trail',
  'request_hours',
  'request_days',
] as const;

/** Tables of sums of all companies, with their unique keys. They are spread too: each shard has the sums of its companies. */
export const BESIDE: Readonly<Record<string, string>> = {
  usage_model_days: 'billing_month, day, model_slug, part',
};

interface DistributeOptions {
  /** Parts that the companies are divided into; more than there will ever be workers. Fixed once tables are spread. */
  readonly shards: number;
  /** Says what would be done and changes nothing. */
  readonly dryRun: boolean;
}

interface Distribution {
  /** Statements in their order; empty: all is done already. */
  readonly statements: readonly string[];
  /** Addresses of the workers that have rows, as `host:port`. */
  readonly workers: readonly string[];
}

/** Long, because whole tables are copied. */
const DISTRIBUTE_MS = 12 * 3_600_000;

/**
 * Spreads the tables over the workers of Citus, in one transaction: all or nothing. Gateways may run meanwhile; their
 * records wait in the spools. A second call does the rest.
 * @throws SchemaRefused, DatabaseUnavailable, DatabaseRefused
 */
export async function distribute(
  db: Database,
  { shards, dryRun }: DistributeOptions,
): Promise<Distribution> {
  return db.transaction(DISTRIBUTE_MS, async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
    const workers = await workersOf(sql);
    const statements = await pending(sql, shards);
    if (dryRun || statements.length === 0) return { statements, workers };
    await run(sql, statements);
    return { statements, workers };
  });
}

/**
 * Changes tables in the transaction of a migration. On a database that is spread, new tables are spread too, and
 * functions that were replaced hold on several servers again.
 */
export async function changeTables(sql: Sql, change: () => PromiseLike<unknown>): Promise<void> {
  if (!(await isDistributed(sql))) {
    await change();
    return;
  }
  await changeInTurn(sql);
  await change();
  await run(sql, await pending(sql, 1)); // beside those that are there: in as many parts
}

/** Whether the ledger of this database is spread, whatever its version. */
export async function isDistributed(sql: Sql): Promise<boolean> {
  const [{ known }] = await sql<
    [{ known: boolean }]
  >`select to_regclass('pg_dist_partition') is not null as known`;
  return known && (await placed(sql)).has('api_usage');
}

/** A transaction over several servers that changes tables and functions changes them one after the other. */
async function changeInTurn(sql: Sql): Promise<void> {
  await sql`set local citus.multi_shard_modify_mode = 'sequential'`;
  await sql`set local citus.enable_unsafe_triggers = on`;
}

async function run(sql: Sql, statements: readonly string[]): Promise<void> {
  await changeInTurn(sql);
  for (const statement of statements) await sql.unsafe(statement);
}

/** @throws SchemaRefused */
async function workersOf(sql: Sql): Promise<string[]> {
  const [{ extension, loaded }] = await sql<[{ extension: boolean; loaded: boolean }]>`
    select exists (select 1 from pg_extension where extname = 'citus') as extension,
      current_setting('citus.shard_count', true) is not null as loaded`; // not everybody may read shared_preload_libraries
  if (!extension || !loaded) {
    throw new SchemaRefused(
      'this database has no Citus: load it on every server (shared_preload_libraries = citus) and run "create extension citus" in this database on each',
    );
  }
  const nodes = await sql<{ address: string; group: number; active: boolean; rows: boolean }[]>`
    select format('%s:%s', nodename, nodeport) as address, groupid as "group", isactive as active,
      shouldhaveshards as rows
    from pg_dist_node where noderole = 'primary' order by groupid`;
  const [{ own }] = await sql<[{ own: number }]>`select groupid as own from pg_dist_local_group`;
  if (own !== 0)
    throw new SchemaRefused('this server is a worker: give the address of the coordinator');
  if (!nodes.some(({ group }) => group === 0)) {
    throw new SchemaRefused(
      'the workers do not know the coordinator: run "select citus_set_coordinator_host(\'HOST\', PORT)" with an address that they reach',
    );
  }
  const workers = nodes.filter(({ rows }) => rows);
  if (workers.length === 0) {
    throw new SchemaRefused(
      'there is no worker: run "select citus_add_node(\'HOST\', PORT)" for each',
    );
  }
  const away = nodes.filter(({ active }) => !active).map(({ address }) => address);
  if (away.length > 0) throw new SchemaRefused(`not active: ${away.join(', ')}`);
  return workers.map(({ address }) => address);
}

/** The tables that Citus knows. */
async function placed(sql: Sql): Promise<ReadonlySet<string>> {
  const rows = await sql<{ name: string }[]>`
    select c.relname as name from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid
    where p.partmethod = 'h' and pg_table_is_visible(c.oid)`;
  return new Set(rows.map(({ name }) => name));
}

/** The statements that are still to be run. */
async function pending(sql: Sql, shards: number): Promise<string[]> {
  const done = await placed(sql);
  const [{ database, zone, generation, entered, counting, walled, booksByOne, compiles }] =
    await sql<
      [
        {
          database: string;
          zone: string;
          generation: number;
          entered: string | null;
          counting: string[] | null;
          walled: string[] | null;
          booksByOne: boolean;
          compiles: boolean;
        },
      ]
    >`
    select quote_ident(current_database()) as database, quote_literal(value) as zone,
      (select count(*)::integer from schema_migrations) as generation,
      (select prosrc from pg_proc where proname = 'enter_shard' and pg_function_is_visible(oid)) as entered,
      (select json_agg(distinct p.proname) from pg_trigger t join pg_proc p on p.oid = t.tgfoid
        where t.tgrelid = 'api_usage'::regclass and p.proconfig::text like '%search_path%') as counting,
      (select json_agg(c.relname) from pg_policy p join pg_class c on c.oid = p.polrelid
        where c.relname = any(string_to_array(${SPREAD.join()}, ',')) and pg_table_is_visible(c.oid)
          and pg_get_expr(p.polqual, p.polrelid) like '%SELECT%') as walled,
      (select coalesce(${ONE_CONNECTION} = any(proconfig), false) from pg_proc where oid = 'book_usage'::regproc) as "booksByOne",
      not exists (select 1 from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
        where d.datname = current_database() and s.setrole = 0 and 'jit=off' = any(s.setconfig)) as compiles
    from settings where name = 'billing_timezone'`;
  const [first] = SPREAD;
  const statements: string[] = [];
  const isNew = !done.has('api_usage');
  if (isNew) {
    statements.push(
      `alter database ${database} set citus.enable_unsafe_triggers = on`,
      'alter table api_usage drop constraint api_usage_pkey, add primary key (billing_month, request_id, company_id)',
      `alter table spend_changes alter xid set default ${CLOCK}`,
      // a worker has a session of the tenant for what the coordinator asks as the tenant; without a password nobody else has
      'alter role tollgate_tenant login',
    );
  }
  // on each server, for the tenant too: what Citus thinks that a part of a page costs makes Postgres compile it
  // (sql/schema/settings.sql), for ten times as long as the page takes
  if (compiles) statements.push(`alter database ${database} set jit = off`);
  const place = placeOf(generation);
  if (entered === null || !entered.includes(place) || !entered.includes(zone))
    statements.push(...functions(zone, place));
  for (const name of counting ?? []) statements.push(`alter function ${name}() reset search_path`);
  if (!booksByOne) statements.push(`alter function book_usage(uuid, json) set ${ONE_CONNECTION}`);
  // rows that are copied are counted already
  const triggers = await triggersOf(
    sql,
    [...SPREAD, ...Object.keys(BESIDE)].filter((table) => !done.has(table)),
  );
  statements.push(...triggers.map(({ drop }) => drop));
  for (const table of walled ?? []) statements.push(`alter policy own on ${table} using (${OWN})`);
  for (const table of SPREAD) {
    if (done.has(table)) continue;
    const beside = table === first ? `shard_count => ${shards}` : `colocate_with => '${first}'`;
    statements.push(`select create_distributed_table('${table}', 'company_id', ${beside})`);
  }
  for (const table of Object.keys(BESIDE)) {
    if (done.has(table)) continue;
    statements.push(
      // Citus needs a column to spread by; nothing looks for rows of a shard by it
      `alter table ${table} drop constraint ${table}_pkey, add column spread_by uuid not null default '${NIL_ID}', replica identity full`,
      `select create_distributed_table('${table}', 'spread_by', colocate_with => '${first}')`,
    );
  }
  statements.push(...triggers.flatMap(({ create }) => splitTrigger(create)));
  if (isNew) {
    statements.push(
      ENTERS,
      `select create_distributed_function(oid::regprocedure) from pg_proc
    where pg_function_is_visible(oid) and proname in (${ON_WORKERS.map((name) => `'${name}'`)})`,
    );
  }
  return statements;
}

/** The triggers of tables and their partitions. */
async function triggersOf(
  sql: Sql,
  tables: readonly string[],
): Promise<{ drop: string; create: string }[]> {
  return sql<{ drop: string; create: string }[]>`
    select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass) as drop, pg_get_triggerdef(t.oid) as create
    from pg_trigger t join pg_class c on c.oid = t.tgrelid left join pg_inherits i on i.inhrelid = c.oid
    where not t.tgisinternal and t.tgparentid = 0 and pg_table_is_visible(c.oid)
      and coalesce(i.inhparent, c.oid)::regclass::text = any(string_to_array(${tables.join()}, ','))
    order by t.tgrelid, t.tgname`;
}

/** Citus leaves a trigger that is of TRUNCATE too to the coordinator, which is where tables are truncated. */
function splitTrigger(create: string): readonly string[] {
  const [, name, events, rest] =
    /^CREATE TRIGGER (\S+) BEFORE (.+) OR TRUNCATE ON (.*)$/s.exec(create) ?? [];
  if (name === undefined) return [create];
  return [
    `CREATE TRIGGER ${name} BEFORE ${events} ON ${rest}`,
    `CREATE TRIGGER ${name}_whole BEFORE TRUNCATE ON ${rest}`,
  ];
}

/** Microseconds since the epoch in place of a transaction id, because each server counts its own. */
const CLOCK = '((extract(epoch from clock_timestamp()) * 1000000)::bigint::text::xid8)';

/**
 * How many seconds a figure of spend is read again after it changed: a transaction becomes visible later than the
 * instant that it wrote, and clocks differ.
 */
const HORIZON_SECONDS = 15;

/** Functions that parts of a statement call on the workers. */
const ON_WORKERS: readonly string[] = [
  'enter_shard',
  'usage_digest',
  'billing_month',
  'parts_cost',
  'part_units',
  'part_price',
];

/** What row-level security says of a row. Citus takes no policy with a query in it (sql/schema/tenant.sql). */
const OWN = `current_user <> 'tollgate_tenant' or company_id = nullif(current_setting('tollgate.company_id', true), '')::uuid`;

/** The statements of a batch go to each worker over one connection, which knows their plans, and in the same order. */
const ONE_CONNECTION = 'citus.multi_shard_modify_mode=sequential';

/** Its name puts this trigger before those that count. */
const ENTERS =
  'create trigger a_shard before insert on api_usage for each statement execute function enter_shard()';

/**
 * Begins the names of schemas on workers, one for each shard of the ledger. In it the names of tables are those of the
 * shards beside: triggers that count rows then do on a shard what they do on one server, in the same words.
 * @param generation number of migrations, because views know the columns of when they were made
 */
function placeOf(generation: number): string {
  return `tollgate_${generation}_`;
}

/** Functions that one server has no need of, or in another form (sql/schema/settings.sql). @param zone quoted */
function functions(zone: string, place: string): readonly string[] {
  return [
    `create or replace function is_distributed() returns boolean language sql immutable as 'select true'`,
    `create or replace function enter_shard() returns trigger language plpgsql as $$
    declare
      id    constant bigint := substring(tg_table_name from '_(\\d+)$')::bigint;
      place constant text := '${place}' || id;
      keys  constant jsonb := '${JSON.stringify(BESIDE)}';
      item  record;
    begin
      -- a shard that comes back to this server finds the schema of before without its views
      if to_regclass(place || '.monthly_spend') is null then
        perform pg_advisory_xact_lock(hashtext(place));
        set local citus.enable_ddl_propagation = off;
        execute format('create schema if not exists %I', place);
        for item in
          select c.relname as name, c.relname || '_' || t.shardid as shard_name, format('%I.%I', n.nspname, c.relname || '_' || t.shardid) as shard
          from pg_dist_shard s join pg_dist_partition p on p.logicalrelid = s.logicalrelid
          join pg_dist_partition q on q.colocationid = p.colocationid
          join pg_dist_shard t on t.logicalrelid = q.logicalrelid and t.shardminvalue = s.shardminvalue
          join pg_class c on c.oid = q.logicalrelid and not c.relispartition join pg_namespace n on n.oid = c.relnamespace
          where s.shardid = id
        loop
          if keys ? item.name then
            execute format('create unique index if not exists %I on %s (%s)', item.shard_name || '_once', item.shard, keys ->> item.name);
          end if;
          execute format('create or replace view %I.%I with (security_invoker) as select * from %s', place, item.name, item.shard);
        end loop;
        execute format('create or replace view %I.settings as select ''billing_timezone'' as name, %L as value', place, ${zone});
        -- who may write the shard may, and nobody else
        execute format('grant usage on schema %1$I to public; grant all on all tables in schema %1$I to public', place);
        set local citus.enable_ddl_propagation = on;
      end if;
      perform set_config('search_path', format('%I, %I', place, tg_table_schema), true);
      perform set_config('tollgate.sealed', 'on', true); -- a worker has no feed: rows of other programs are not in it
      return null;
    end $$`,
    `create or replace function spend_horizon() returns xid8 language sql stable as
    'select ((extract(epoch from clock_timestamp()) * 1000000)::bigint - ${HORIZON_SECONDS * 1_000_000})::text::xid8'`,
    // the coordinator commits before the workers, but keeps its locks until they have: reserve_budget() waits until what
    // ends here is in the sums
    `create or replace function end_reservations(booked uuid[]) returns void language plpgsql set search_path from current as $$
    begin
      perform pg_advisory_xact_lock_shared(hashtextextended('tollgate budget ' || company_id, 0))
      from (select distinct company_id from budget_reservations where request_id = any(booked) order by 1) as c;
      delete from budget_reservations where request_id = any(booked);
      -- a batch takes its rows to each shard over another connection: opening those was most of what it cost
      perform set_config('citus.max_cached_conns_per_worker', '64', false);
    end $$`,
    // workers are told the company too, and then asked as the tenant: Citus carries over what is set by "set local" alone
    `create or replace function enter_company(company uuid) returns void language plpgsql as $$
    begin
      perform set_config('citus.propagate_set_commands', 'local', true);
      execute format('set local tollgate.company_id = %L', company);
      if tenant_wall_stands() then perform set_config('role', 'tollgate_tenant', true); end if;
    end $$`,
    // a worker that runs a part of a statement does not look into settings
    `create or replace function billing_month(at timestamptz) returns date language sql stable as
    $$ select date_trunc('month', at at time zone ${zone})::date $$`,
  ];
}
