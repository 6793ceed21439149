import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type Database, openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import {
  ChangeFeed,
  type ChangeFeedOptions,
  type Follower,
} from '../../../src/store/gateway/change-feed.ts';
import { startEmbedded } from '../../../src/store/schema/embedded.ts';
import { migrate } from '../../../src/store/schema/migrate.ts';
import { deaf } from '../../support/database.ts';
import { holds, testDatabase } from '../../support/postgres.ts';
import { startProxy } from '../../support/proxy.ts';
import { until } from '../../support/until.ts';

const log = pino({ level: 'silent' });
const QUERY_MS = 10_000;
const POLL_ONLY_AT_START = { pollMs: 2 ** 31 - 1 };

/** A follower that records what it is told. */
class Journal implements Follower {
  readonly told: string[] = [];
  gaps = 0;
  polls = 0;
  changed(kind: string, subject: string): void {
    this.told.push(`${kind}:${subject}`);
  }
  missed(): void {
    this.gaps++;
  }
  polled(): void {
    this.polls++;
  }
  times(change: string): number {
    return this.told.filter((each) => each === change).length;
  }
  hears(change: string): Promise<unknown> {
    return until(() => this.told.includes(change), `the feed tells ${change}`);
  }
  async morePolls(count: number): Promise<void> {
    const before = this.polls;
    await until(() => this.polls >= before + count, `${count} more polls`);
  }
}

/** Starts a journal that follows the feed. */
async function follow(t: Test, db: Database, options: ChangeFeedOptions = {}): Promise<Journal> {
  const journal = new Journal();
  const changes = new ChangeFeed(db, [journal], log, options);
  t.teardown(() => changes.close());
  await journal.morePolls(1);
  return journal;
}

function open(t: Test, url: string): Database {
  const db = openDatabase({ url, maxConnections: 4 });
  t.teardown(() => db.close());
  return db;
}

const { url, db: direct } = await testDatabase(t);

const announce = (db: Database, kind: string, subject: string) =>
  db.run(QUERY_MS, (sql) => sql`select announce_change(${kind}, ${subject})`);

t.test('a change is told by notification alone', async (t) => {
  const db = open(t, url);
  const journal = await follow(t, db, POLL_ONLY_AT_START);
  const listening = `exists (select from pg_stat_activity where query ilike 'listen%' and datname = current_database())`;
  await until(() => holds(db, listening), 'the gateway listens');
  // the poll that follows LISTEN may tell the first change; only a notification can tell the second
  await announce(db, 'key', 'ab');
  await journal.hears('key:ab');
  await announce(db, 'key', 'ab:cd');
  await journal.hears('key:ab:cd');
});

t.test('each poll tells whether there is spend the one before did not see', async (t) => {
  const db = open(t, url);
  const told: boolean[] = [];
  const journal = await follow(t, deaf(db), {
    pollMs: 20,
    onSpend: (changed) => told.push(changed),
  });
  await journal.morePolls(2);
  t.ok(told.shift(), 'at first, all of it');
  t.notOk(told.includes(true), 'then nothing new');
  const spend = (sql: Sql) => sql`
    insert into chat_usage (company_id, cost_eur)
    select id, 1 from companies limit 1`;
  await db.run(QUERY_MS, (sql) => sql`insert into companies (name) values ('ACME')`);
  for (const round of [1, 2]) {
    told.length = 0;
    await db.run(QUERY_MS, spend);
    await until(() => told.includes(true), 'a poll tells of spend');
    await journal.morePolls(3);
    t.equal(told.filter((changed) => changed).length, 1, `once, round ${round}`);
  }

  // a long transaction holds back the snapshot: nothing is told twice, and what it wrote is told after its commit
  told.length = 0;
  await db.transaction(QUERY_MS, async (sql) => {
    await spend(sql);
    await journal.morePolls(3);
    t.notOk(told.includes(true), 'not before the commit');
  });
  await until(() => told.includes(true), 'a poll tells of spend');
  await journal.morePolls(3);
  t.equal(told.filter((changed) => changed).length, 1);
});

t.test('a change is told by poll alone, once', async (t) => {
  const db = open(t, url);
  const journal = await follow(t, deaf(db), { pollMs: 20 });
  await announce(db, 'model', '');
  await journal.hears('model:');
  await journal.morePolls(3);
  t.equal(journal.times('model:'), 1);
});

t.test(
  'a change that was notified is not told again by poll: what was read since may be unreadable by then',
  async (t) => {
    const db = open(t, url);
    const journal = await follow(t, db, { pollMs: 20 });
    for (let i = 0; i < 20; i++) {
      await announce(db, 'key', `notified${i}`);
      await journal.hears(`key:notified${i}`);
    }
    await journal.morePolls(3);
    t.same([...new Set(journal.told.map((change) => journal.times(change)))], [1]);
  },
);

t.test('what changed before the feed was followed is not told, but a gap is', async (t) => {
  const db = open(t, url);
  await announce(db, 'key', 'early');
  const journal = await follow(t, deaf(db), { pollMs: 20 });
  await journal.morePolls(2);
  t.same(journal.told, []);
  t.equal(journal.gaps, 1);
});

t.test('the changes of a transaction that began first and commits last are told', async (t) => {
  const db = open(t, url);
  const journal = await follow(t, deaf(db), { pollMs: 20 });
  const written = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  const first = db.transaction(QUERY_MS, async (sql) => {
    await sql`select announce_change('key', 'first')`;
    written.resolve();
    await mayCommit.promise;
  });
  await written.promise;
  await announce(db, 'key', 'second');
  await journal.hears('key:second');
  await journal.morePolls(3);
  t.equal(journal.times('key:first'), 0);
  t.equal(journal.times('key:second'), 1, 'told once, though an older transaction still runs');
  mayCommit.resolve();
  await first;
  await journal.hears('key:first');
  await journal.morePolls(3);
  t.equal(journal.times('key:first'), 1);
  t.equal(journal.times('key:second'), 1);
});

t.test('a change that is rolled back is not told', async (t) => {
  const db = open(t, url);
  const journal = await follow(t, db, { pollMs: 20 });
  const failing = db.transaction(QUERY_MS, async (sql) => {
    await sql`select announce_change('key', 'undone')`;
    throw new Error('changed my mind');
  });
  await t.rejects(failing, { message: 'changed my mind' });
  await announce(db, 'key', 'done');
  await journal.hears('key:done');
  await journal.morePolls(2);
  t.equal(journal.times('key:undone'), 0);
});

t.test('more changes than are worth naming are told as a change of everything', async (t) => {
  const db = open(t, url);
  const journal = await follow(t, deaf(db), { pollMs: 20 });
  await db.run(
    QUERY_MS,
    (sql) =>
      sql`insert into changes (kind, subject) select 'key', n::text from generate_series(1, 10001) as n`,
  );
  await journal.hears('all:');
  t.same(journal.told, ['all:']);
});

t.test('changes made while the database was out of reach are told when it is back', async (t) => {
  const proxy = await startProxy(t, url);
  const journal = await follow(t, open(t, proxy.url), { pollMs: 20 });
  await proxy.cut();
  await announce(direct, 'company', 'meanwhile');
  await proxy.restore();
  await journal.hears('company:meanwhile');
  t.equal(journal.gaps, 1, 'no more than the one at the start');
});

t.test('a change is told though the listening connection is killed again and again', async (t) => {
  const db = open(t, url);
  const journal = await follow(t, db, { pollMs: 50 });
  for (let i = 0; i < 5; i++) {
    await db.run(
      QUERY_MS,
      (sql) => sql`select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()`,
    );
    await announce(db, 'key', String(i));
    await journal.hears(`key:${i}`);
  }
});

t.test(
  'a poll follows every LISTEN: it finds what was committed while nobody listened',
  async (t) => {
    const proxy = await startProxy(t, url);
    const journal = await follow(t, open(t, proxy.url), POLL_ONLY_AT_START);
    await until(() => journal.polls === 2, 'the first poll and the one that follows LISTEN');
    await proxy.cut();
    await announce(direct, 'key', 'missed');
    await proxy.restore();
    await journal.hears('key:missed');
  },
);

t.test('an interruption longer than changes are kept is a gap', async (t) => {
  const proxy = await startProxy(t, url);
  const journal = await follow(t, open(t, proxy.url), { pollMs: 20, keepSeconds: 1 });
  await journal.morePolls(3);
  await proxy.cut();
  const { gaps } = journal;
  const now = () =>
    direct.run(
      QUERY_MS,
      (sql) => sql<[{ at: number }]>`select extract(epoch from now())::float8 as at`,
    );
  const [{ at }] = await now();
  await until(now, 'the database is a second older', ([later]) => later.at > at + 1);
  await proxy.restore();
  await until(() => journal.gaps > gaps, 'the gap is told');
});

t.test('rows are deleted once they are old enough, however many there are', async (t) => {
  const { url } = await testDatabase(t); // it counts rows
  const db = open(t, url);
  const rows = () =>
    db.run(
      QUERY_MS,
      (sql) => sql<[{ count: number }]>`
        select (select count(*) from changes) + (select count(*) from spend_changes) as count`,
    );
  const insert = () =>
    db.run(QUERY_MS, async (sql) => {
      await sql`insert into changes (kind, subject) select 'key', n::text from generate_series(1, 9000) as n`;
      await sql`insert into spend_changes (company_id, xid, billing_month)
        select gen_random_uuid(), (3 + n % 9000)::text::xid8, '2026-05-01' from generate_series(1, 9000) as n
        where (3 + n % 9000)::text::xid8 < pg_snapshot_xmin(pg_current_snapshot())`;
      await sql`insert into spend_changes (company_id, billing_month) values (gen_random_uuid(), '2026-05-01')`;
    });
  await insert();
  const patient = await follow(t, deaf(db), { pollMs: 20 });
  await patient.morePolls(5);
  t.ok((await rows())[0].count > 9000, 'not yet');
  await follow(t, deaf(db), { pollMs: 20, keepSeconds: -60 });
  await until(rows, 'all rows are deleted', ([{ count }]) => count === 0);
  await insert();
  await until(rows, 'all rows are deleted again', ([{ count }]) => count === 0);
});

t.test(
  'a restart of the database is a gap: it may be another one, or have lost changes',
  async (t) => {
    const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-changes-'));
    chmodSync(dataDir, 0o755);
    const settings = { dataDir, log };
    let server = await startEmbedded(settings);
    t.teardown(async () => {
      await server.stop();
      rmSync(dataDir, { recursive: true, force: true });
    });
    const db = open(t, server.url);
    await migrate(db, { billingTimezone: 'UTC' });
    const journal = await follow(t, db, { pollMs: 20 });
    t.equal(journal.gaps, 1);
    await server.stop();
    server = await startEmbedded(settings);
    await until(() => journal.gaps === 2, 'the restart is told as a gap');
    await announce(open(t, server.url), 'key', 'after');
    await journal.hears('key:after');
  },
);

t.test(
  'a poll that ends after closing began is passed to nobody: the database may be closed by then',
  async (t) => {
    const db = open(t, url);
    const journal = new Journal();
    const feed = new ChangeFeed(db, [journal], log, {});
    await feed.close(); // its first poll is under way
    t.match(journal, { polls: 0, gaps: 0, told: [] });
  },
);

t.test('closing ends every query, even while the database hangs', async (t) => {
  const proxy = await startProxy(t, url);
  const db = openDatabase({ url: proxy.url, maxConnections: 2 });
  const journal = new Journal();
  const changes = new ChangeFeed(db, [journal], log, { pollMs: 20 });
  await journal.morePolls(1);
  t.equal(changes.available, true);
  proxy.freeze();
  await until(() => !changes.available, 'a poll fails');
  await changes.close();
  await db.close();
  const { polls } = journal;
  await proxy.restore();
  const other = await follow(t, open(t, proxy.url), { pollMs: 20 });
  await other.morePolls(3);
  t.equal(journal.polls, polls, 'while another one polls');
});
