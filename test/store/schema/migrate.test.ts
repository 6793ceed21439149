import { randomUUID } from 'node:crypto';
import t from 'tap';
import { type Database, openDatabase } from '../../../src/store/connection/pool.ts';
import { BASELINE } from '../../../src/store/schema/files.ts';
import { migrate, pendingMigrations } from '../../../src/store/schema/migrate.ts';
import { emptyDatabase, inDatabase, testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';

const MS = 60_000;
const SETTINGS = `create table settings (name text primary key, value text);
  insert into settings values ('billing_timezone', 'UTC'); create table monthly_spend ();
  create table changes (xid xid8); create table spend_changes (xid xid8);
  create table gateways (name text, last_seen_at timestamptz);
  create function ensure_api_usage_partitions(date, integer) returns void language sql as '';`;

t.test('applies the files of this program in order, once', async (t) => {
  const { db } = await emptyDatabase(t);
  t.same(await pendingMigrations(db), [BASELINE], 'all are pending');
  t.same(await migrate(db, { billingTimezone: 'UTC' }), [BASELINE]);
  t.same(await migrate(db, { billingTimezone: 'UTC' }), [], 'a second time there is nothing to do');
  t.same(await pendingMigrations(db), []);
});

t.test('many replicas at once apply each file once', async (t) => {
  const { url, db } = await emptyDatabase(t);
  const replicas = Array.from({ length: 8 }, () => openDatabase({ url }));
  t.teardown(() => Promise.all(replicas.map((replica) => replica.close())));
  const applied = await Promise.all(
    replicas.map((replica) => migrate(replica, { billingTimezone: 'Europe/Berlin' })),
  );
  t.same(applied.flat(), [BASELINE]);
  const [row] = await db.run(
    MS,
    (sql) => sql`select value from settings where name = 'billing_timezone'`,
  );
  t.equal(row?.value, 'Europe/Berlin');
});

t.test(
  'a file waits until those who use its tables are done, and nobody waits behind it',
  async (t) => {
    const { url, db } = await emptyDatabase(t);
    await migrate(db, { billingTimezone: 'UTC' });
    const directory = t.testdir({
      migrations: {
        '0101_region.sql': 'alter table companies add column region text',
        '0102_next.sql': 'select 1',
      },
    });
    const dump = openDatabase({ url });
    t.teardown(() => dump.close());
    const texts: string[] = [];
    let migrated: ReturnType<typeof migrate> | undefined;
    await dump.transaction(60_000, async (sql) => {
      await sql`set local application_name = 'pg_dump'`;
      await sql`lock table companies, api_keys in access share mode`;
      migrated = migrate(db, {
        billingTimezone: 'UTC',
        directory,
        onProgress: (text) => texts.push(text),
      });
      await until(() => texts.length, 'it says whom it waits for');
      t.match(
        texts[0],
        /^0101_region\.sql is waiting for pg_dump \(process \d+ of user \w+\) to be done with its tables, for \d+ seconds so far$/,
      );
      await t.resolves(db.run(MS, (sql) => sql`select from api_keys`));
    });
    t.same(await migrated, ['0101_region.sql', '0102_next.sql']);
  },
);

t.test('a file that runs long says so, as does who waits for it; until the limit', async (t) => {
  const { url, db } = await emptyDatabase(t);
  const other = openDatabase({ url });
  t.teardown(() => other.close());
  const directory = t.testdir({
    migrations: {
      '0101_a.sql': `${SETTINGS} create table released ();`,
      '0102_b.sql': `create table b (n int);
      do $$ begin while not exists (select from released) loop perform pg_sleep(0.02); end loop; end $$`,
    },
  });
  const texts = new Map<string, Database>();
  const start = (of: Database, limitMs = 60_000) =>
    migrate(of, {
      billingTimezone: 'UTC',
      directory,
      limitMs,
      onProgress: (text) => texts.set(text, of),
    });
  await t.rejects(start(db, 500), { code: 'DEADLINE' });
  t.same(
    await pendingMigrations(db, directory),
    ['0102_b.sql'],
    'what was cut leaves nothing behind',
  );
  const both = Promise.all([start(db, Number.POSITIVE_INFINITY), start(other)]);
  await until(() => texts.size === 2, 'both say what they do');
  t.match([...texts.keys()].sort(), [
    /^0102_b.sql is running, for \d+ seconds so far$/,
    /^waiting for another program that changes the tables of this database, for \d+ seconds so far$/,
  ]);
  t.equal(new Set(texts.values()).size, 2);
  await db.run(MS, (sql) => sql`insert into released default values`);
  t.same((await both).flat(), ['0102_b.sql']);
});

t.test('a file that fails leaves nothing behind, and those before it stay', async (t) => {
  const { db } = await emptyDatabase(t);
  const files = {
    '0101_a.sql': SETTINGS,
    '0102_b.sql': 'create table b (n int); select wrong;',
    '0103_c.sql': 'select 1',
  };
  const options = { directory: t.testdir({ migrations: files }), billingTimezone: 'UTC' };
  await t.rejects(migrate(db, options), { code: '42703' });
  t.same(await pendingMigrations(db, options.directory), ['0102_b.sql', '0103_c.sql']);
  const [row] = await db.run(MS, (sql) => sql`select to_regclass('b') is null as gone`);
  t.equal(row?.gone, true);
  const mended = {
    ...options,
    directory: t.testdir({ migrations: { ...files, '0102_b.sql': 'create table b (n int)' } }),
  };
  t.same(await migrate(db, mended), ['0102_b.sql', '0103_c.sql']);
});

t.test('a database that is not of this program is refused and left as it is', async (t) => {
  const { db } = await emptyDatabase(t);
  const files = {
    '0101_a.sql': `${SETTINGS}\n-- end\n`,
    '0102_b.sql': '-- needs 0102\ncreate table b (n int)',
  };
  const of = (given: Record<string, string>) => ({
    directory: t.testdir({ migrations: given }),
    billingTimezone: 'UTC',
  });
  await migrate(db, of(files));
  const refused = async (given: Record<string, string>, message: RegExp) => {
    const options = of(given);
    await t.rejects(migrate(db, options), { message });
    await t.rejects(pendingMigrations(db, options.directory), { message });
  };
  await refused({ '0101_a.sql': files['0101_a.sql'] }, /newer than this program: 0102_b.sql/);
  await refused(
    { ...files, '0102_b.sql': 'create table b (n bigint)', '0103_c.sql': 'create table c (n int)' },
    /0102_b.sql changed/,
  );
  const [row] = await db.run(MS, (sql) => sql`select to_regclass('c') is null as untouched`);
  t.equal(row?.untouched, true);
  const crlf = {
    ...files,
    '0101_a.sql': files['0101_a.sql'].replaceAll('\n', '\r\n'),
    'README.md': 'no migration',
  };
  t.same(await migrate(db, of(crlf)), [], 'other line ends are no change');
});

t.test(
  'a database is refused where who waits for a lock would not see what was committed meanwhile',
  async (t) => {
    const { url, db } = await emptyDatabase(t);
    const database = (await db.run(MS, (sql) => sql`select current_database() as name`))[0]?.name;
    for (const level of ['repeatable read', 'serializable']) {
      await db.run(MS, (sql) =>
        sql.unsafe(`alter database ${database} set default_transaction_isolation = '${level}'`),
      );
      const replica = openDatabase({ url });
      t.teardown(() => replica.close());
      await t.rejects(migrate(replica, { billingTimezone: 'UTC' }), {
        message: new RegExp(
          `^the database begins transactions at "${level}", .*: run "alter role \\S+ in database ${database} set default_transaction_isolation = 'read committed'"$`,
        ),
      });
      t.equal((await pendingMigrations(replica))[0], BASELINE, 'nothing was done');
    }
    const mend = `alter role current_user in database ${database} set default_transaction_isolation = 'read committed'`;
    await db.run(MS, (sql) => sql.unsafe(mend));
    const replica = openDatabase({ url });
    t.teardown(() => replica.close());
    t.same(
      await migrate(replica, { billingTimezone: 'UTC' }),
      [BASELINE],
      'what the message says helps',
    );
  },
);

t.test('a database whose triggers are off for the user is refused', async (t) => {
  const { url, db } = await emptyDatabase(t);
  const database = (await db.run(MS, (sql) => sql`select current_database() as name`))[0]?.name;
  await db.run(MS, (sql) =>
    sql.unsafe(`alter database ${database} set session_replication_role = replica`),
  );
  const replica = openDatabase({ url });
  t.teardown(() => replica.close());
  const refusal = await migrate(replica, { billingTimezone: 'UTC' }).catch((error) => error);
  const [, advised = ''] =
    /^triggers are off .*: let an administrator of the server run "(.+)"$/.exec(refusal.message) ??
    [];
  await db.run(MS, (sql) => sql.unsafe(advised));
  const mended = openDatabase({ url });
  t.teardown(() => mended.close());
  t.same(
    await migrate(mended, { billingTimezone: 'UTC' }),
    [BASELINE],
    'what the message says helps',
  );
});

t.test('a database whose encoding cannot hold all texts is refused', async (t) => {
  const { url, db } = await emptyDatabase(t);
  for (const encoding of ['SQL_ASCII', 'LATIN1']) {
    const name = `tollgate_test_${process.pid}_${randomUUID().slice(0, 8)}`;
    await db.run(MS, (sql) =>
      sql.unsafe(`create database ${name} template template0 encoding '${encoding}' locale 'C'`),
    );
    const other = openDatabase({ url: inDatabase(url, name) });
    t.teardown(async () => {
      await other.close();
      await db.run(MS, (sql) => sql.unsafe(`drop database ${name} with (force)`));
    });
    await t.rejects(migrate(other, { billingTimezone: 'UTC' }), {
      message: new RegExp(
        `^the encoding of the database is ${encoding}, which cannot hold all texts: `,
      ),
    });
    t.equal((await pendingMigrations(other))[0], BASELINE, 'nothing was done');
  }
});

t.test('a database in which "I" is no capital "i" is refused, as in Turkish', async (t) => {
  const { url, db } = await emptyDatabase(t);
  const [{ able }] = await db.run(
    MS,
    (sql) => sql<
      [{ able: boolean }]
    >`select current_setting('server_version_num')::integer >= 150000
      and exists (select from pg_collation where collname = 'tr-x-icu') as able`,
  );
  if (!able) return t.comment('this server has no such language');
  const make = async (options: string) => {
    const name = `tollgate_test_${process.pid}_${randomUUID().slice(0, 8)}`;
    await db.run(MS, (sql) =>
      sql.unsafe(`create database ${name} template template0 encoding 'UTF8' ${options}`),
    );
    const made = openDatabase({ url: inDatabase(url, name) });
    t.teardown(async () => {
      await made.close();
      await db.run(MS, (sql) => sql.unsafe(`drop database ${name} with (force)`));
    });
    return made;
  };
  const turkish = await make(`locale_provider icu icu_locale 'tr-TR' locale 'C'`);
  const refusal = await migrate(turkish, { billingTimezone: 'UTC' }).catch(
    (error: Error) => error.message,
  );
  t.match(refusal, /^the database makes "ı" of "I" in small letters, as Turkish does/);
  t.equal((await pendingMigrations(turkish))[0], BASELINE, 'nothing was done');
  const [, advised = ''] = /encoding 'UTF8' ([^"]+)"$/.exec(`${refusal}`) ?? [];
  const other = await make(advised.replace('C.UTF-8', 'C')); // a server on another system may name it otherwise
  t.same(await migrate(other, { billingTimezone: 'UTC' }), [BASELINE]);
});

t.test(
  'a program runs on with files it does not know, unless one needs a newer program',
  async (t) => {
    const { db } = await emptyDatabase(t);
    const files: Record<string, string> = {
      '0101_a.sql': SETTINGS,
      '0102_b.sql': 'create table b (n int, old int)',
      '0103_c.sql':
        '-- Nobody reads b.old from here on.\nalter table b alter column old drop not null',
      '0104_d.sql':
        '-- Drops it. Written by programs\n-- needs 0103 only.\nalter table b drop column old',
    };
    const upTo = (count: number) => ({
      directory: t.testdir({
        migrations: Object.fromEntries(Object.entries(files).slice(0, count)),
      }),
      billingTimezone: 'UTC',
    });
    t.same(await migrate(db, upTo(3)), ['0101_a.sql', '0102_b.sql', '0103_c.sql']);
    t.same(await migrate(db, upTo(2)), [], 'the version before starts');
    t.same(await migrate(db, upTo(4)), ['0104_d.sql']);
    t.same(await migrate(db, upTo(3)), [], 'the one before that is the oldest that may');
    await t.rejects(migrate(db, upTo(2)), {
      message:
        'the database is newer than this program: 0104_d.sql was applied to it, and only programs that have file 0103 can run with it; run the newer version',
    });
  },
);

t.test('a billing zone that Postgres takes for another one is refused', async (t) => {
  const { db } = await testDatabase(t);
  for (const zone of ['CET', '+02:00', 'IST']) {
    await t.rejects(migrate(db, { billingTimezone: zone }), {
      message: `BILLING_TIMEZONE is ${zone}, which Postgres takes for another zone: name the zone by a city, such as Europe/Berlin, or bring the time zones of Postgres up to date`,
    });
  }
  await t.rejects(migrate(db, { billingTimezone: 'AET' }), {
    message: /time zone "AET" not recognized/,
  });
  for (const zone of [
    'Asia/Kathmandu',
    'Australia/Lord_Howe',
    'America/St_Johns',
    'Europe/Berlin',
  ]) {
    await migrate(db, { billingTimezone: zone });
  }
  const chosen = (value: string) => db.run(MS, (sql) => sql`update settings set value = ${value}`);
  await chosen('CET');
  t.same(
    await migrate(db, { billingTimezone: 'CET' }),
    [],
    'a database that has such a zone keeps it',
  );
});

t.test('the billing zone can be chosen until there is usage', async (t) => {
  const { db } = await testDatabase(t);
  const zone = async () => {
    const [row] = await db.run(
      MS,
      (sql) => sql`select value from settings where name = 'billing_timezone'`,
    );
    return row?.value;
  };
  await migrate(db, { billingTimezone: 'Europe/Berlin' });
  t.equal(await zone(), 'Europe/Berlin');
  await db.run(
    MS,
    (sql) => sql`insert into chat_usage (company_id, cost_eur) values (${randomUUID()}, 1)`,
  );
  await t.rejects(migrate(db, { billingTimezone: 'UTC' }), {
    message:
      'BILLING_TIMEZONE is UTC, but this database already counts usage in Europe/Berlin: keep Europe/Berlin',
  });
  t.equal(await zone(), 'Europe/Berlin');
  t.same(await migrate(db, { billingTimezone: 'Europe/Berlin' }), []);
});

t.test(
  'the billing zone stays while a gateway runs, which would go on in the former one',
  async (t) => {
    const { db } = await testDatabase(t);
    const id = randomUUID();
    await db.run(
      MS,
      (sql) => sql`insert into gateways (id, name, version) values (${id}, 'pod-7', '1')`,
    );
    await t.rejects(migrate(db, { billingTimezone: 'Europe/Berlin' }), {
      message:
        'BILLING_TIMEZONE is Europe/Berlin, but the gateway pod-7 runs and counts in UTC: keep UTC, or stop all gateways first (one that was killed counts as running for a minute)',
    });
    t.same(
      await migrate(db, { billingTimezone: 'UTC' }),
      [],
      'another one of the same zone starts',
    );
    await db.run(
      MS,
      (sql) =>
        sql`update gateways set last_seen_at = now() - interval '61 seconds' where id = ${id}`,
    );
    t.same(await migrate(db, { billingTimezone: 'Europe/Berlin' }), []);
  },
);

t.test('the partitions of the coming months are made in time', async (t) => {
  const { db } = await testDatabase(t);
  const ahead = async () => {
    const [row] = await db.run(
      MS,
      (sql) => sql<{ n: number }[]>`select count(*) as n from pg_class where relkind = 'r'
        and relname ~ '^api_usage_[0-9]' and relname > 'api_usage_' || to_char(now(), 'YYYY_MM')`,
    );
    return row?.n;
  };
  const make = () => migrate(db, { billingTimezone: 'UTC' });
  const dropFrom = (months: number) =>
    db.run(MS, (sql) =>
      sql.unsafe(`do $$ declare part text; begin
        for part in select relname from pg_class where relkind = 'r' and relname ~ '^api_usage_[0-9]'
          and relname >= 'api_usage_' || to_char(now() + interval '${months} months', 'YYYY_MM')
        loop execute 'drop table ' || part; end loop; end $$`),
    );
  await dropFrom(4);
  await make();
  t.equal(await ahead(), 3, 'three are enough');
  await dropFrom(3);
  await db.transaction(MS, async (sql) => {
    await sql`select from api_usage limit 0`; // a reader
    await make();
  });
  t.equal(await ahead(), 2, 'nobody waits for a reader of the ledger');
  await make();
  t.equal(await ahead(), 14);
});

t.test('the baseline is one transaction, and is applied once', async (t) => {
  const { db } = await emptyDatabase(t);
  await db.run(MS, (sql) => sql`create table upstream_costs (n integer)`); // the schema has one too
  await t.rejects(migrate(db, { billingTimezone: 'UTC' }), {
    message: /relation "upstream_costs" already exists/,
  });
  const tables = await db.run(
    MS,
    (sql) => sql`select from pg_class where relname in ('settings', 'companies')`,
  );
  t.equal(tables.length, 0, 'what came before the failure is not there');
  await db.run(MS, (sql) => sql`drop table upstream_costs`);
  t.same(await migrate(db, { billingTimezone: 'UTC' }), [BASELINE]);
});
