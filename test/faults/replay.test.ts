import { randomUUID } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { until } from '../support/until.ts';
import { metric } from './gateway.ts';
import { judge } from './judge.ts';
import { type Journalled, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

const SEGMENTS = LONG ? 10 : 2;
const RECORDS = LONG ? 2000 : 100;
const REPLAYS = 3;
const LOST = LONG ? 30 : 8;

t.test('spool files replayed by two writers at once, again and again, count once', async (t) => {
  const world = await faultWorld(t);
  const folder = (): string => {
    const path = mkdtempSync(join(tmpdir(), 'tollgate-replay-'));
    t.teardown(() => rmSync(path, { recursive: true, force: true }));
    return path;
  };

  // gateways killed while the database hangs leave their records in the spool
  const clients: Journalled[] = [];
  const left: string[] = [];
  for (let n = 0; n < SEGMENTS; n++) {
    const proxy = await startFaultProxy(t, world.databaseUrl);
    const spool = folder();
    const gateway = await world.gateway({ DATABASE_URL: proxy.url, SPOOL_DIR: spool });
    const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 16 });
    await load.more(20, 'before the database hangs', ({ status }) => status === 200);
    proxy.freeze();
    await load.more(RECORDS, 'while the database hangs');
    gateway.signal('SIGKILL');
    await gateway.exited;
    clients.push(...(await load.stop()));
    left.push(...readdirSync(spool).map((name) => join(spool, name)));
  }
  t.equal(left.length, SEGMENTS);

  // each writer gets three copies of every spool
  const spools = [folder(), folder()];
  for (const spool of spools) {
    for (const dead of left) {
      for (let n = 0; n < REPLAYS; n++)
        cpSync(dead, join(spool, randomUUID()), { recursive: true });
    }
  }
  const proxy = await startFaultProxy(t, world.databaseUrl);
  proxy.loseAnswers(LONG ? 0.6 : 1); // of few batches a share might lose none
  const writers = await Promise.all(
    spools.map((spool) =>
      world.gateway({ DATABASE_URL: proxy.url, SPOOL_DIR: spool, LOG_LEVEL: 'error' }),
    ),
  );
  await until(() => proxy.lost >= LOST, `${LOST} acknowledgements are lost`);
  proxy.loseAnswers(0);
  await until(async () => {
    const backlogs = await Promise.all(
      writers.map((writer) => metric(writer, 'tollgate_ledger_backlog')),
    );
    return backlogs.every((records) => records === 0);
  }, 'both writers have booked everything');
  for (const writer of writers) writer.signal('SIGTERM');
  t.same(await Promise.all(writers.map(({ exited }) => exited)), [0, 0]);
  t.same(
    spools.flatMap((spool) => readdirSync(spool)),
    [],
    'both have emptied their spool',
  );
  t.same(
    writers.map(({ log }) => log.join('')),
    ['', ''],
    'and logged no error',
  );
  const verdict = await judge(world.sql, clients, world.upstreamJournal());
  t.ok(
    verdict.complete > SEGMENTS * RECORDS * 0.9,
    `${verdict.complete} complete answers, ${verdict.rows} rows`,
  );
  t.match(verdict, { missing: [], duplicates: 0, wrong: [], unverified: 0 });
  t.equal((await world.sql`select from api_usage_set_aside`).length, 0);
  const [{ deadlocks } = { deadlocks: 0 }] = await world.sql<{ deadlocks: number }[]>`
    select deadlocks::integer from pg_stat_database where datname = current_database()`;
  note(
    'A late or repeated batch changes nothing',
    `${SEGMENTS} spool files of killed gateways, each replayed ${REPLAYS} times by each of two writers at once, acknowledgements lost`,
    `${verdict.complete} complete answers, ${verdict.rows} rows, ${verdict.missing.length} missing, ${verdict.duplicates} duplicates, ${proxy.lost} acknowledgements lost, ${verdict.unverified} differences in counters and seals; ${deadlocks} deadlocks, none reached a caller`,
  );
});
