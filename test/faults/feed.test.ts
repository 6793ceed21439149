import { readdirSync } from 'node:fs';
import t from 'tap';
import { insertToken } from '../../src/store/users/token.ts';
import { tollgate } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';
import { judge, unbooked } from './judge.ts';
import { type Journalled, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

/** The feed, read while four gateways book, one is killed, late records of a closed month come, and another program inserts rows. */

const RECORDS = LONG ? 2000 : 60;
const KILLS = LONG ? 5 : 1;

interface Fed {
  readonly request_id: string;
  readonly billing_month: string;
  readonly cursor: string;
}

const world = await faultWorld(t);
const { sql, company } = world;
const clients: Journalled[] = [];

/** Lets a gateway live in September: its clock is what its calls are booked by. */
const inSeptember = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `const now = Date.now; const shift = Date.parse('2026-09-20T12:00:00Z') - now(); Date.now = () => now() + shift;`,
  )}`,
};

/** Reads new calls, a page at a time, until it is told that no more will come. */
function follow(read: (after: string | null, limit: number) => Promise<Fed[]>) {
  const seen: Fed[] = [];
  let ending = false;
  const done = (async () => {
    for (let turn = 0; ; turn++) {
      const isLast = ending;
      const more = await read(seen.at(-1)?.cursor ?? null, 1 + ((turn * 13) % 90));
      seen.push(...more);
      if (isLast && more.length === 0) return seen;
    }
  })();
  const end = () => {
    ending = true;
    return done;
  };
  return { end, seen };
}

const parsed = (lines: string): Fed[] =>
  lines
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

t.test('each call is told once, to every reader in one order', async (t) => {
  const { token } = await sql.begin((sql) =>
    insertToken(sql as never, {
      name: 'billing',
      company_id: null,
      access: 'read',
      created_by: 'test',
      expires_at: null,
    }),
  );
  const byCommand = follow(async (after, limit) => {
    const argv = [
      'ledger',
      'feed',
      '--limit',
      String(limit),
      ...(after === null ? [] : ['--after', after]),
    ];
    const { code, out, err } = await tollgate(argv, { env: { DATABASE_URL: world.databaseUrl } });
    if (code !== 0) throw new Error(err);
    return parsed(out);
  });

  // a gateway of September is killed while the database hangs, and leaves records
  const proxy = await startFaultProxy(t, world.databaseUrl);
  const old = await world.gateway({ ...inSeptember, DATABASE_URL: proxy.url });
  const early = startLoad({ urls: () => [old.url], key: world.key, workers: 8 });
  await early.more(20, 'before the database hangs', ({ status }) => status === 200);
  proxy.freeze();
  await early.more(RECORDS, 'while the database hangs');
  old.signal('SIGKILL');
  await old.exited;
  clients.push(...(await early.stop()));

  // the month is closed; then four gateways book what it left, and their own
  const closed = await tollgate(
    ['statement', 'close', '--company', company, '--month', '2026-09', '--anyway'],
    {
      env: { DATABASE_URL: world.databaseUrl },
    },
  );
  t.equal(closed.code, 0, closed.err);
  const gateways = await Promise.all(Array.from({ length: 4 }, () => world.gateway()));
  const { adminUrl } = gateways[0] as (typeof gateways)[number];
  const byHttp = follow(async (after, limit) => {
    const query = `limit=${limit}${after === null ? '' : `&after=${after}`}`;
    const answer = await fetch(`${adminUrl}/api/v1/usage-feed?${query}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const text = await answer.text();
    if (answer.status !== 200) throw new Error(text);
    return parsed(text);
  });
  const load = startLoad({
    urls: () => gateways.map(({ url }) => url),
    key: world.key,
    workers: 16,
  });
  await load.more(RECORDS, 'by four gateways', ({ status }) => status === 200);
  for (let kill = 0; kill < KILLS; kill++) {
    const [victim] = gateways.splice(3, 1) as [(typeof gateways)[number]];
    victim.signal('SIGKILL');
    await victim.exited;
    gateways.push(await world.gateway());
    await addUsage(sql as never, [{ company, month: '2026-09-01' }, { company }]);
    await load.more(RECORDS, 'after a kill', ({ status }) => status === 200);
  }
  clients.push(...(await load.stop()));
  await until(async () => (await unbooked(sql, clients)) === 0, 'all is booked');
  await until(() => readdirSync(world.spoolDir).length <= 4, 'the spools of the dead are gone');
  for (const gateway of gateways.slice(1)) {
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0);
  }
  await until(() => readdirSync(world.spoolDir).length <= 1, 'nothing waits');
  const verdict = await judge(sql, clients, world.upstreamJournal());
  // rows of the other program have no seal
  t.match(verdict, { missing: [], duplicates: 0, unverified: 2 * KILLS });
  const [one, two] = await Promise.all([byCommand.end(), byHttp.end()]);
  const rows = await sql<{ id: string }[]>`select request_id::text as id from api_usage order by 1`;
  const ids = rows.map(({ id }) => id);
  t.same(one.map(({ request_id }) => request_id).sort(), ids, 'each call once');
  t.same(two, one, 'and all readers have one order');
  const [late] = await sql<{ n: number }[]>`select count(*)::integer as n from late_usage`;
  t.ok((late?.n as number) >= RECORDS / 2, `${late?.n} late calls`);
  note(
    'The feed tells each call once',
    `4 gateways under load, ${KILLS} of them killed (kill -9), the spool of another booked into a month that was closed, rows by SQL; two readers that never pause`,
    `${ids.length} calls, ${late?.n} of them late; ${one.length - new Set(ids).size} left out or told twice by either reader`,
  );
});
