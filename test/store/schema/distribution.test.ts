import t from 'tap';
import { SchemaRefused } from '../../../src/store/connection/errors.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { BESIDE, distribute, SPREAD } from '../../../src/store/schema/distribution.ts';
import { tollgate } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

/** What can be said of a database that is spread over servers without having one; test/fleet/citus.test.ts has one. */

const MS = 60_000;
const REFUSED =
  'this database has no Citus: load it on every server (shared_preload_libraries = citus) and run "create extension citus" in this database on each';

/** Tables that stay on the coordinator: they do not grow with requests, or a trigger of theirs tells others of a change. */
const ON_COORDINATOR = [
  'admin_tokens',
  'alert_lease',
  'alert_receivers',
  'api_keys',
  'api_usage_set_aside',
  'assistants',
  'audit_log',
  'budget_alerts',
  'budget_reservations',
  'changes',
  'chat_usage',
  'companies',
  'company_price_factors',
  'cost_center_budgets',
  'end_user_alerts',
  'end_users',
  'event_deliveries',
  'events',
  'gateways',
  'idempotent_answers',
  'invitations',
  'key_reveals',
  'ledger_feed',
  'ledger_moves',
  'ledger_seals',
  'limit_owners',
  'limit_slots',
  'limit_windows',
  'model_cost_prices',
  'model_prices',
  'models',
  'oidc_groups',
  'personal_data',
  'request_totals',
  'schema_migrations',
  'seal_checkpoints',
  'second_factors',
  'sessions',
  'settings',
  'statement_rows',
  'statements',
  'tenant_grants',
  'unusual_days',
  'usage_marks',
  'users',
];

t.test('every table has its place', async (t) => {
  const { db } = await testDatabase(t);
  const tables = await db.run(
    MS,
    (sql) => sql<{ name: string }[]>`
      select relname as name from pg_class
      where relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace`,
  );
  t.same(
    [...SPREAD, ...Object.keys(BESIDE), ...ON_COORDINATOR].sort(),
    tables.map(({ name }) => name).sort(),
  );
});

t.test(
  'what is spread by company has the company in every unique key, and refers to no other table',
  async (t) => {
    const { db } = await testDatabase(t);
    const keys = await db.run(
      MS,
      (sql) => sql<{ key: string }[]>`
      select format('%s (%s)', c.relname, string_agg(a.attname, ', ' order by k.place)) as key
      from pg_index i join pg_class c on c.oid = i.indrelid
      cross join unnest(i.indkey) with ordinality as k (attnum, place)
      join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
      where i.indisunique and c.relname = any(string_to_array(${SPREAD.join()}, ','))
      group by c.relname, i.indexrelid having not 'company_id' = any(array_agg(a.attname::text))
      union all
      select format('%s refers to %s', conrelid::regclass, confrelid::regclass) from pg_constraint
      where contype = 'f' and (conrelid::regclass::text = any(string_to_array(${SPREAD.join()}, ',')) or confrelid::regclass::text = any(string_to_array(${SPREAD.join()}, ',')))`,
    );
    // spreading the ledger adds the company to this one
    t.same(keys, [{ key: 'api_usage (billing_month, request_id)' }]);
  },
);

t.test(
  'each spread table has an identity of its rows: without one Citus moves no shard to a new worker while it is written',
  async (t) => {
    const { db } = await testDatabase(t);
    const without = await db.run(
      MS,
      (sql) => sql<{ name: string }[]>`
      select c.relname as name from pg_class c
      where (c.relname = any(string_to_array(${SPREAD.join()}, ',')) or c.oid in (
          select inhrelid from pg_inherits where inhparent::regclass::text = any(string_to_array(${SPREAD.join()}, ','))))
        and c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace
        and not (c.relreplident = 'f' or (c.relreplident = 'd'
          and exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)))`,
    );
    t.same(without, []);
  },
);

t.test('a server without Citus is refused in words, and nothing is changed', async (t) => {
  const { db, url } = await testDatabase(t);
  await t.rejects(distribute(db, { shards: 8, dryRun: false }), new SchemaRefused(REFUSED));
  const plain = openDatabase({ url: `${url}&role=tollgate_tenant`, maxConnections: 1 }); // reads no settings of superusers
  t.teardown(() => plain.close());
  await t.rejects(distribute(plain, { shards: 8, dryRun: false }), new SchemaRefused(REFUSED));
  const { code, err } = await tollgate(['database', 'distribute', '--dry-run'], {
    env: { DATABASE_URL: url },
  });
  t.equal(code, 1);
  t.equal(err, `tollgate: ${REFUSED}\n`);
});

t.test(
  'triggers that count rows name no table by its schema: on a shard the same names mean its own tables',
  async (t) => {
    const { db } = await testDatabase(t);
    const functions = await db.run(
      MS,
      (sql) => sql<{ name: string; source: string }[]>`
      select distinct p.proname as name, p.prosrc as source from pg_trigger g join pg_proc p on p.oid = g.tgfoid
      where g.tgrelid = 'api_usage'::regclass and not g.tgisinternal`,
    );
    t.ok(functions.some(({ name }) => name === 'count_api_usage'));
    for (const { name, source } of functions) {
      const others = [...source.matchAll(/\b(?:from|into|join|update)\s+([a-z_.]+)/g)]
        .map(([, table]) => table as string)
        // settings are there as a view, and no row gets to the feed there
        .filter(
          (table) =>
            ON_COORDINATOR.includes(table) && table !== 'settings' && table !== 'ledger_feed',
        );
      t.same(others, [], `${name} reads and writes nothing that is on the coordinator alone`);
      t.notMatch(source, /\bpublic\./);
    }
  },
);
