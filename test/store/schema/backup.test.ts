import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import t from 'tap';
import { type Database, openDatabase } from '../../../src/store/connection/pool.ts';
import { ledgerStore } from '../../../src/store/gateway/ledger.ts';
import { backupOf } from '../../../src/store/schema/backup.ts';
import { BackupReader } from '../../../src/store/schema/backup-reader.ts';
import { migrate, ownTables } from '../../../src/store/schema/migrate.ts';
import { restore } from '../../../src/store/schema/restore.ts';
import { requireClosable } from '../../../src/store/statement/close.ts';
import {
  SUMS_NAMES,
  verifyLedger,
  verifySeals,
  verifySums,
} from '../../../src/store/statement/verify.ts';
import { tollgate } from '../../support/cli.ts';
import { emptyDatabase, testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const MS = 60_000;
const { db } = await testDatabase(t);
const company = randomUUID();
const key = randomUUID();

const record = (month: string) => ({
  billing_month: month,
  request_id: randomUUID(),
  company_id: company,
  api_key_id: key,
  model_slug: 'm',
  upstream_model: 'u',
  endpoint: 'embeddings',
  prompt_tokens: 7,
  completion_tokens: 0,
  cost_eur: '0.0007',
  price_input: '0.10',
  price_output: '0',
  usage_source: 'upstream',
  outcome: 'completed',
  occurred_at: `${month.slice(0, 7)}-15T12:00:00.123456Z`,
  upstream_cost: '0.0004',
  upstream_currency: 'USD',
});
const book = (to: Database, ...months: string[]) =>
  ledgerStore(to).insert(randomUUID(), Buffer.from(JSON.stringify(months.map(record))), null);

await db.run(MS, async (sql) => {
  await sql`insert into companies (id, name, disabled_model_slugs, monthly_budget_eur)
    values (${company}, ${'Tab\there, line\nthere, \\. and ümlaut'}, ${['a"b', 'c\\d']}, 12.5)`;
  await sql`insert into api_keys (id, company_id, name, digest, prefix, scopes, allowed_cidrs)
    values (${key}, ${company}, 'CI', sha256('x'), 'svc_aaaa', '{chat}', '{10.0.0.0/8}')`;
  await sql`insert into assistants (company_id, name, system_prompt) values (${company}, 'A', ${'\\.\n\\.'})`;
  await sql`insert into users (email, role, password_hash) values ('olga@gate.example', 'operator', 'secret')`;
  await sql`insert into sessions (digest, user_id) select sha256('s'), id from users`;
  await sql`insert into chat_usage (company_id, cost_eur, occurred_at) values (${company}, 1.250, '2026-11-03T12:00Z')`;
  await sql`insert into api_usage_set_aside (record, reason) values ('{}', 'wrong')`;
  await sql`insert into budget_alerts (company_id, billing_month, threshold, budget_eur, spent_eur)
    values (${company}, '2026-11-01', '50', 12.5, 7)`;
  await addUsage(sql, [{ company, prompt: 3, input: '0.000000000001', month: '1999-05-01' }]);
});
await book(db, '2026-11-01', '2026-11-01', '2031-02-01');
await db.run(MS, (sql) => sql`select ensure_api_usage_partitions('2031-06-01', 1)`);
await book(db, '2031-06-01');

const backup = (of: Database) =>
  of.run(MS, async (sql) => {
    const pieces: Buffer[] = [];
    for await (const piece of backupOf(sql, () => {})) pieces.push(piece);
    return Buffer.concat(pieces);
  });
const load = (to: Database, bytes: Buffer, zone = 'UTC') =>
  restore(
    to,
    new BackupReader(Readable.from([bytes])),
    zone,
    () => {},
    () => {},
  );
/** A digest of all rows of each table, without transaction ids. */
const contents = (of: Database) =>
  of.run(MS, async (sql) => {
    const all: Record<string, string> = {};
    for (const table of await ownTables(sql)) {
      const [row] = await sql`
        select count(*) || ' ' || coalesce(md5(string_agg(each, ',' order by each)), '') as digest
        from (select (to_jsonb(r) - 'xid')::text as each from ${sql(table)} r) rows`;
      all[table] = row?.digest;
    }
    return all;
  });

t.test(
  'a restored database has the same rows, proofs and counters, and goes on counting',
  async (t) => {
    const bytes = await backup(db);
    const copy = (await emptyDatabase(t)).db;
    const rows = await load(copy, bytes);
    t.match(rows, {
      companies: 1,
      api_keys: 1,
      api_usage: 5,
      ledger_seals: 3,
      sessions: undefined,
      changes: undefined,
    });
    const [old, restored] = [await contents(db), await contents(copy)];
    for (const transient of ['sessions', 'changes', 'spend_changes']) {
      t.not(old[transient], restored[transient], `${transient} are not copied`);
      delete old[transient];
      delete restored[transient];
    }
    t.strictSame(restored, old);

    await t.test('ledger verify passes', async (t) => {
      t.same((await copy.run(MS, verifyLedger)).differences, []);
      for (const name of SUMS_NAMES) {
        t.equal((await copy.run(MS, (sql) => verifySums(sql, name))).total, 0, name);
      }
      t.match(await copy.run(MS, (sql) => verifySeals(sql)), {
        total: 0,
        seals: 3,
        rows: 4,
        unsealed: 1,
      });
    });
    await t.test('partitions are those of the original', async (t) => {
      const of = (each: Database) =>
        each.run(
          MS,
          (sql) => sql`
            select tableoid::regclass::text as part, count(*)::integer from api_usage group by 1
            union all select tableoid::regclass::text, count(*)::integer from upstream_costs group by 1 order by 1`,
        );
      t.same(await of(copy), await of(db));
    });
    await t.test('triggers, policies and numbers work as before', async (t) => {
      const numbers = await copy.run(
        MS,
        (sql) => sql`select max(id)::integer as id from audit_log`,
      );
      await book(copy, '2026-11-01', '2031-06-01');
      t.same((await copy.run(MS, verifyLedger)).differences, [], 'what comes now is counted');
      const [spend] = await copy.run(
        MS,
        (sql) =>
          sql`select requests::integer, chat_cost_eur::text from monthly_spend where billing_month = '2026-11-01'`,
      );
      t.same(spend, { requests: 3, chat_cost_eur: '1.250' });
      for (const table of [
        'api_usage',
        'api_usage_2031_06',
        'upstream_costs',
        'upstream_costs_2031_06',
        'audit_log',
        'ledger_seals',
      ]) {
        await t.rejects(
          copy.run(MS, (sql) => sql`delete from ${sql(table)}`),
          { code: '23001' },
          table,
        );
      }
      await copy.run(MS, (sql) => sql`update companies set name = 'New'`);
      const [entry] = await copy.run(
        MS,
        (sql) => sql`select min(id)::integer as id from audit_log where after ->> 'name' = 'New'`,
      );
      t.equal(entry?.id, numbers[0]?.id + 1, 'the audit log goes on after the last number');
      const [{ count }] = await copy.run(
        MS,
        (sql) => sql<[{ count: number }]>`select count(*) from changes where kind = 'company'`,
      );
      t.equal(count, 1, 'gateways are told');
    });
    await t.test('a database that has rows is left as it is', async (t) => {
      await t.rejects(load(copy, bytes), {
        message: /^the database is not empty \(companies has rows\)/,
      });
    });
  },
);

t.test('rows that are written meanwhile are in the copy whole or not at all', async (t) => {
  const writing = new AbortController();
  const writer = (async () => {
    while (!writing.signal.aborted) await book(db, '2026-11-01', '2026-11-01');
  })();
  const bytes = await backup(db);
  writing.abort();
  await writer;
  const copy = (await emptyDatabase(t)).db;
  await load(copy, bytes);
  t.same((await copy.run(MS, verifyLedger)).differences, []);
  t.equal((await copy.run(MS, (sql) => verifySeals(sql))).total, 0);
});

t.test('what cannot be restored is refused in words, and leaves no rows', async (t) => {
  const bytes = await backup(db);
  const text = bytes.toString('latin1');
  const altered = (from: string | RegExp, to: string) =>
    Buffer.from(text.replace(from, to), 'latin1');
  const refused: readonly (readonly [string, Buffer, RegExp])[] = [
    ['another file', Buffer.from('{"a":1}\n'), /^this file is not a backup of Tollgate$/],
    [
      'half of it',
      bytes.subarray(0, bytes.length / 2),
      /^the backup is not whole: its end is missing$/,
    ],
    ['a row less', altered(/\n[^\n]*svc_aaaa[^\n]*/, ''), /^the backup lacks rows of api_keys$/],
    [
      'a newer format',
      altered('"tollgate_backup":1', '"tollgate_backup":2'),
      /^a newer version made the backup/,
    ],
    [
      'a foreign table',
      altered('{"table":"users"', '{"table":"pg_authid"'),
      /a table that is not one of Tollgate's: pg_authid/,
    ],
    [
      'a foreign column',
      altered('"columns":["id","email"', '"columns":["id","shoe_size"'),
      /^users has a column shoe_size .*use pg_dump/,
    ],
    [
      'a foreign partition',
      altered(/"bound":"[^"]*"/, `"bound":"FOR VALUES FROM ('x'); drop"`),
      /partition that is not one of Tollgate's/,
    ],
    ['a wrong value', altered('0.0007\t', 'oops\t'), /the database refuses rows of "api_usage"/],
  ];
  const { db: target } = await emptyDatabase(t);
  await t.rejects(load(target, bytes, 'Europe/Berlin'), { message: /set BILLING_TIMEZONE=UTC$/ });
  for (const [name, wrong, reason] of refused)
    await t.rejects(load(target, wrong), { message: reason }, name);
  const [{ n }] = await target.run(
    MS,
    (sql) => sql<[{ n: number }]>`select count(*) as n from companies`,
  );
  t.equal(n, 0, 'nothing was loaded');
  await t.resolves(load(target, bytes), 'the whole backup can follow');
  const { db: newer } = await emptyDatabase(t);
  await migrate(newer, { billingTimezone: 'UTC' });
  await newer.run(
    MS,
    (sql) => sql`insert into schema_migrations (name, sha256) values ('0199_later.sql', '')`,
  );
  await t.rejects(load(newer, bytes), {
    message: /^the database was migrated to 0199_later\.sql, the backup to 01/,
  });
});

t.test(
  'a gateway that is gone with records is still waited for after a restore; those that run are not copied',
  async (t) => {
    const { db: old } = await testDatabase(t);
    await old.run(
      MS,
      (
        sql,
      ) => sql`insert into gateways (id, name, version, started_at, last_seen_at, backlog, oldest_at) values
      (gen_random_uuid(), 'gone', '1', '2026-10-01T00:00Z', '2026-10-09T00:00Z', 3, '2026-10-08T00:00Z'),
      (gen_random_uuid(), 'gone with nothing', '1', '2026-10-01T00:00Z', '2026-10-09T00:00Z', 0, null),
      (gen_random_uuid(), 'running', '1', '2026-10-01T00:00Z', now(), 7, '2026-10-08T00:00Z')`,
    );
    const copy = (await emptyDatabase(t)).db;
    await load(copy, await backup(old));
    const waited = await copy.run(MS, (sql) => sql`select name, backlog from gateways`);
    t.same(waited, [{ name: 'gone', backlog: 3 }]);
    await t.rejects(
      copy.run(MS, (sql) => requireClosable(sql, '2026-10-01')),
      { message: /on their way from gone \(seen 2026-10-09 00:00 UTC, 3 records waiting\)/ },
    );
  },
);

t.test(
  'of two restores into one database at once, one is refused, and the other one stays',
  async (t) => {
    const { db: to, url } = await emptyDatabase(t);
    const another = openDatabase({ url });
    t.teardown(() => another.close());
    const later = await testDatabase(t);
    await later.db.run(MS, (sql) => sql`insert into companies (name) values ('of another backup')`);
    const [ours, theirs] = await Promise.allSettled([
      load(to, await backup(db)),
      backup(later.db).then((bytes) => load(another, bytes)),
    ]);
    const refused = [ours, theirs].find((each) => each.status === 'rejected');
    // it finds rows, or the tables half made
    t.match(
      refused?.reason?.message,
      /^the database (?:is not empty|was migrated to) .*: restore into a new/,
    );
    const names = await to.run(MS, (sql) => sql<{ id: string }[]>`select id from companies`);
    t.equal(names.length, 1);
    t.equal(
      names[0]?.id === company,
      ours.status === 'fulfilled',
      'the one that says so is restored',
    );
  },
);

t.test('a backup keeps a billing zone that new databases are refused', async (t) => {
  const { db: old } = await testDatabase(t);
  await old.run(
    MS,
    (sql) => sql`update settings set value = 'CET' where name = 'billing_timezone'`,
  );
  const copy = (await emptyDatabase(t)).db;
  await load(copy, await backup(old), 'CET');
  const [row] = await copy.run(
    MS,
    (sql) => sql`select value from settings where name = 'billing_timezone'`,
  );
  t.equal(row?.value, 'CET');
});

t.test(
  'a ledger that is spread over several servers is not copied: rows on workers would be missing',
  async (t) => {
    const { db: spread, url } = await testDatabase(t);
    await spread.run(
      MS,
      (sql) =>
        sql`create table pg_dist_partition as select 'api_usage'::regclass as logicalrelid, 'h'::"char" as partmethod`,
    ); // as Citus says it
    const { code, err } = await tollgate(['database', 'backup', '--to', join(t.testdir(), 'b')], {
      env: { DATABASE_URL: url },
    });
    t.equal(code, 1);
    t.match(
      err,
      /^tollgate: the ledger of this database is spread over several servers.*every worker with pg_basebackup/,
    );
  },
);

t.test('a database that a newer program migrated is not copied', async (t) => {
  const { db: newer } = await testDatabase(t);
  await newer.run(
    MS,
    (sql) => sql`insert into schema_migrations (name, sha256) values ('9999_later.sql', '')`,
  );
  await t.rejects(backup(newer), { message: /newer than this program \(9999_later\.sql\)/ });
});
