import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { metric } from '../faults/gateway.ts';
import { judge } from '../faults/judge.ts';
import { send, startLoad } from '../faults/load.ts';
import { connect, faultWorld } from '../faults/world.ts';
import { tollgate } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { newCluster, type SystemPrograms, systemPrograms } from './cluster.ts';

const programs = systemPrograms();

t.test(
  'a dump restored into a new server serves on: budgets, changes and late records included',
  { skip: programs === null && 'no pg_dump here' },
  async (t) => {
    const { dump, restore, ...binaries } = programs as SystemPrograms;
    const old = await newCluster(t, binaries);
    await old.start();
    const db = openDatabase({ url: old.url });
    await migrate(db, { billingTimezone: 'Europe/Berlin' });
    await db.close();
    const world = await faultWorld(t, { url: old.url, sql: connect(old.url) });
    t.teardown(() => world.sql.end({ timeout: 1 }));
    const env = { BILLING_TIMEZONE: 'Europe/Berlin' };
    const poor = await world.newCompany({ budget: '0.0001' });

    // the old server's transaction ids are far ahead of a new one's
    await world.sql.unsafe(`create temp table past (n integer); do $$ begin for i in 1 .. 5000 loop
    begin insert into past values (i); exception when others then null; end; end loop; end $$`);
    const before = await world.gateway(env);
    const load = startLoad({ urls: () => [before.url], key: world.key, workers: 8, restMs: 5 });
    await load.more(40, 'before the dump');
    await world.sql`update companies set name = 'Renamed' where id = ${world.company}`;
    await send(undefined, before.url, 'plain', { key: poor.key });
    const clients = await load.stop();
    await until(
      async () => (await metric(before, 'tollgate_ledger_backlog')) === 0,
      'every record is booked',
    );

    const folder = mkdtempSync(join(tmpdir(), 'tollgate-dump-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, 'tollgate.dump');
    execFileSync(dump, ['--format=custom', `--file=${file}`, old.url]);

    // then the server dies, and a gateway with records that the dump does not have
    old.signal('SIGKILL');
    const orphans = startLoad({ urls: () => [before.url], key: world.key, workers: 8, restMs: 5 });
    await orphans.more(30, 'that no dump has');
    clients.push(...(await orphans.stop()));
    before.signal('SIGKILL');
    await before.exited;
    const fresh = await newCluster(t, binaries);
    await fresh.start();
    await fresh.sql`create role tollgate_tenant nologin`; // the dump's grants name it, and it belongs to the server
    execFileSync(restore, ['--exit-on-error', '--no-owner', `--dbname=${fresh.url}`, file]);
    const ahead = async (): Promise<number[]> => {
      const [row] = await fresh.sql`
      select (select count(*)::integer from changes where xid >= pg_snapshot_xmax(pg_current_snapshot())) as changes,
        (select count(*)::integer from spend_changes where xid >= pg_snapshot_xmax(pg_current_snapshot())) as spend`;
      return [row?.changes, row?.spend];
    };
    const [changes = 0, spend = 0] = await ahead();
    t.ok(changes > 0 && spend > 0, 'the change feed names transactions this server has never had');

    const cli = { env: { DATABASE_URL: fresh.url, ...env } };
    t.match(await tollgate(['ledger', 'verify', '--json'], cli), {
      code: 0,
      json: { differences: [], total: 0, unsealed: 0 },
    });
    t.ok(world.spoolFiles().length > 0);
    const gateway = await world.gateway({ DATABASE_URL: fresh.url, ...env });
    t.same(await ahead(), [0, 0], 'a replica that starts repairs that');

    const again = startLoad({ urls: () => [gateway.url], key: world.key, workers: 8, restMs: 5 });
    await again.more(40, 'at the restored database');
    t.equal(
      (await send(undefined, gateway.url, 'plain', { key: poor.key })).status,
      402,
      'a budget used up stays used up',
    );
    await fresh.sql`update api_keys set revoked_at = now() where digest = decode(${digestOf(world.key)}, 'hex')`;
    const refused = await until(
      () => again.journal.find(({ status }) => status === 401),
      'the key is refused',
    );
    await again.more(20, 'after the first refusal');
    const later = await again.stop();
    t.same(
      later.filter(({ at, status }) => at > (refused?.endedAt ?? 0) && status !== 401),
      [],
      'changes arrive',
    );
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0);
    const verdict = await judge(fresh.sql, [...clients, ...later], world.upstreamJournal());
    t.same(verdict.missing, [], 'what waited in the spool is booked, too');
    t.match(verdict, { duplicates: 0, wrong: [], unverified: 0 });
    t.match(await tollgate(['ledger', 'verify', '--json'], cli), {
      code: 0,
      json: { differences: [], total: 0 },
    });
  },
);
