import t from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { judge } from '../faults/judge.ts';
import { send, startLoad } from '../faults/load.ts';
import { faultWorld } from '../faults/world.ts';
import { nextVersion } from '../support/next-version.ts';
import { until } from '../support/until.ts';

const ADDITIVE = `-- Companies get a region.
alter table companies add column region text not null default 'eu';
create table regions (name text primary key);
`;
const BREAKING = `-- Programs before this one would read a column that is gone.
-- needs 9002
alter table companies rename column region to home;
`;

t.test('a fleet is upgraded one replica at a time, and back', async (t) => {
  const world = await faultWorld(t);
  const next = nextVersion(t, { '9001_region.sql': ADDITIVE });
  const old = await world.gateway();
  const urls = [old.url];
  const load = startLoad({ urls: () => urls, key: world.key, workers: 8, restMs: 15 });
  await load.more(30, 'of the old version');
  const newer = await world.gateway({}, next);
  urls.push(newer.url);
  t.equal(
    (await world.sql`select from companies where region = 'eu'`).length,
    1,
    'the newer one has migrated',
  );
  await load.more(50, 'of both versions');
  const old2 = await world.gateway();
  urls.push(old2.url);
  await load.more(50, 'of three replicas');
  t.pass('the older one runs on, and another of its version starts beside it');

  const revoking = Date.now();
  await world.sql`update api_keys set revoked_at = now() where digest = decode(${digestOf(world.key)}, 'hex')`;
  const refusals = () =>
    urls.map((url) => load.journal.find((one) => one.url === url && one.status === 401));
  const first = await until(
    refusals,
    'every replica refuses the key',
    (all) => !all.includes(undefined),
  );
  await load.more(40, 'after the change');
  const clients = await load.stop();
  const after = clients.filter(({ at, url }) => at > (first[urls.indexOf(url)]?.endedAt as number));
  t.same(
    after.filter(({ status }) => status !== 401),
    [],
    'a change reaches both versions, for good',
  );
  t.same(
    clients.filter(({ endedAt, status }) => endedAt < revoking && status !== 200),
    [],
    'and no request failed before',
  );
  for (const gateway of [newer, old, old2]) gateway.signal('SIGTERM');
  t.same(await Promise.all([newer, old, old2].map(({ exited }) => exited)), [0, 0, 0]);
  const verdict = await judge(world.sql, clients, world.upstreamJournal());
  t.ok(verdict.complete > 100);
  t.match(verdict, { missing: [], duplicates: 0, wrong: [], unverified: 0 });
  t.same(
    [...(await world.sql`select distinct writer from ledger_seals`)].length,
    3,
    'all three replicas booked calls',
  );
});

t.test('a version that needs all others gone says so, and they do not start', async (t) => {
  const world = await faultWorld(t);
  const next = nextVersion(t, { '9001_region.sql': ADDITIVE });
  const breaking = nextVersion(t, { '9001_region.sql': ADDITIVE, '9002_home.sql': BREAKING });
  await world.gateway({}, next);
  const gateway = await world.gateway({}, breaking);
  for (const main of [undefined, next]) {
    await t.rejects(world.gateway({}, main), {
      message:
        /exited with 1: (?:\{.*\}\n)*tollgate: the database is newer than this program: 9002_home\.sql was applied to it/,
    });
  }
  t.equal((await send(undefined, gateway.url, 'plain', { key: world.key })).status, 200);
});
