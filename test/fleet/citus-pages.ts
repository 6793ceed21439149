import type { Test } from 'tap';
import { fillPages, idOf } from '../../bench/run/pages-data.ts';
import { pathsOf, signIn } from '../../bench/sections/pages.ts';
import { addMonths } from '../../src/domain/text/day-range.ts';
import { openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { distribute } from '../../src/store/schema/distribution.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { type GatewayProcess, startProcess } from '../faults/gateway.ts';
import { freezeTemplate, join, onEach } from '../support/distributed.ts';
import { inDatabase } from '../support/postgres.ts';
import type { CitusCluster } from './citus.ts';

const DATA = { companies: 200, keys: 100, ledgerRows: 50_000 };
const SHARDS = 8;
const ROUNDS = 3;
const UPSTREAM = 'http://127.0.0.1:1';

/** Every page over a ledger on one server, and over a copy of it that was spread when it was full: both say the same. */
export async function comparePages(t: Test, cluster: CitusCluster): Promise<void> {
  const { cookie, urls } = await fillBoth(t, cluster);
  const [one, several] = (await Promise.all(
    urls.map((url) => startProcess(t, { DATABASE_URL: url, UPSTREAM_URL: UPSTREAM, SPOOL_DIR: '' })),
  )) as [GatewayProcess, GatewayProcess];
  const fetchPage = async ({ adminUrl, url }: GatewayProcess, path: string) => {
    const began = performance.now();
    const response = await fetch(adminUrl + path, { headers: { cookie } });
    // the gateway's own address, and what is drawn by lot for each form
    const text = (await response.text()).replaceAll(url, '').replaceAll(/name="(?:id|claim)" value="[^"]*"/g, '');
    return { status: response.status, text, ms: performance.now() - began };
  };
  const today = new Date().toISOString().slice(0, 10);
  const company = `/companies/${idOf('company 0')}`;
  const paths = {
    ...pathsOf(today),
    'its statements': `${company}/statements`,
    'a statement': `${company}/statements/month?month=${addMonths(today, -1).slice(0, 7)}`,
    'its usage as CSV': `${company}/usage.csv`,
    'its ledger as CSV': `${company}/ledger.csv`,
  };
  for (const [name, path] of Object.entries(paths)) {
    const times: [number, number][] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const [first, second] = [await fetchPage(one, path), await fetchPage(several, path)];
      times.push([first.ms, second.ms]);
      if (round < ROUNDS - 1) continue;
      t.same([first.status, second.status], [200, 200], `both answer: ${name}`);
      // the overview is of this instant, and of the gateways that run
      if (name !== 'overview') t.equal(second.text, first.text, `both say the same: ${name}`);
    }
    const median = (of: 0 | 1) =>
      times
        .map((time) => time[of])
        .sort((x, y) => x - y)
        [ROUNDS >> 1]?.toFixed(0);
    t.comment(`${name}: ${median(0)} ms on one server, ${median(1)} ms on several`);
  }
}

/** Fills a database, copies it, and spreads the copy. @returns addresses of both, and the cookie of an operator */
async function fillBoth(t: Test, { coordinator, workers }: CitusCluster) {
  const [one, several] = ['pages_one', 'pages_spread'].map((name) => inDatabase(coordinator.url, name)) as [
    string,
    string,
  ];
  await coordinator.sql`create database pages_one`;
  const db = openDatabase({ url: one });
  await migrate(db, { billingTimezone: 'UTC' });
  await fillPages(db, DATA, () => {});
  await db.close();
  const cookie = await signIn(one);
  await onEach([coordinator.url], async (sql) => {
    await freezeTemplate(sql, 'pages_one');
    await sql`create database pages_spread template pages_one`;
    await sql`alter database pages_one allow_connections true`;
  });
  await onEach(
    workers.map(({ url }) => url),
    (sql) => sql`create database pages_spread`,
  );
  const servers = [several, ...workers.map(({ url }) => inDatabase(url, 'pages_spread'))];
  await join(servers);
  const copy = openDatabase({ url: several });
  const began = performance.now();
  await distribute(copy, { shards: SHARDS, dryRun: false });
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  t.comment(`spread ${DATA.ledgerRows} rows and their sums in ${seconds} s`);
  t.same((await distribute(copy, { shards: SHARDS, dryRun: true })).statements, [], 'nothing is left to do');
  await copy.close();
  await onEach(servers, async (sql: Sql) => {
    const [row] = await sql<[{ jit: string }]>`select current_setting('jit') as jit`;
    t.equal(row.jit, 'off', 'no server compiles statements');
  });
  return { cookie, urls: [one, several] };
}
