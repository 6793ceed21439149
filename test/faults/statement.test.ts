import { readdirSync } from 'node:fs';
import t, { type Test } from 'tap';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { tollgate } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { metric } from './gateway.ts';
import { judge } from './judge.ts';
import { type Journalled, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

/** Months that are closed while records of them are in the spool of a gateway that was killed. */

const ROUNDS = LONG ? 10 : 1;
const RECORDS = LONG ? 500 : 60;

const world = await faultWorld(t);
const { sql } = world;
const run = (...argv: string[]) => tollgate(argv, { env: { DATABASE_URL: world.databaseUrl } });
const clients: Journalled[] = [];
let corrected = 0;

/** Lets a gateway live in September: its clock is what its calls are booked by. */
const inSeptember = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `const now = Date.now; const shift = Date.parse('2026-09-20T12:00:00Z') - now(); Date.now = () => now() + shift;`,
  )}`,
};

/** A gateway serves a new company, is killed while the database hangs, and leaves records in its spool. */
async function killedWithSpool(t: Test): Promise<{ company: string; records: number }> {
  const { company, key } = await world.newCompany();
  const proxy = await startFaultProxy(t, world.databaseUrl);
  const gateway = await world.gateway({ ...inSeptember, DATABASE_URL: proxy.url });
  const load = startLoad({ urls: () => [gateway.url], key, workers: 8 });
  await load.more(20, 'before the database hangs', ({ status }) => status === 200);
  proxy.freeze();
  await load.more(RECORDS, 'while the database hangs');
  gateway.signal('SIGKILL');
  await gateway.exited;
  clients.push(...(await load.stop()));
  t.ok(readdirSync(world.spoolDir).length > 0, 'it left a spool');
  const [row] = await sql<
    { n: number }[]
  >`select count(*)::integer as n from api_usage where company_id = ${company}`;
  return { company, records: row?.n ?? 0 };
}

/** Another gateway takes the spool over and books what is in it. */
async function spoolFound(): Promise<void> {
  const gateway = await world.gateway();
  await until(
    async () =>
      readdirSync(world.spoolDir).length <= 1 &&
      (await metric(gateway, 'tollgate_ledger_backlog')) === 0,
    'the spool is booked',
  );
  gateway.signal('SIGTERM');
  await gateway.exited;
}

const close = (company: string, month: string, ...more: string[]) =>
  run('statement', 'close', '--company', company, '--month', month, '--json', ...more);

/** Sums of all statements of a company and of its rows in the ledger. */
async function agree(t: Test, company: string): Promise<{ requests: number; late: number }> {
  const { statements } = (await run('statement', 'list', '--company', company, '--json')).json;
  const [row] = await sql<{ n: number; cost: string }[]>`
    select count(*)::integer as n, sum(cost_eur)::text as cost from api_usage where company_id = ${company}`;
  type Told = { requests: number; corrections: number; total_eur: string };
  const [requests, late] = (['requests', 'corrections'] as const).map((name) =>
    statements.reduce((sum: number, each: Told) => sum + each[name], 0),
  ) as [number, number];
  const total = statements.reduce((sum: bigint, each: Told) => sum + parseEur(each.total_eur), 0n);
  t.equal(requests + late, row?.n, 'each row is in one statement');
  t.equal(formatEur(total), formatEur(parseEur(row?.cost as string)), 'to the last digit');
  const verified = await run('ledger', 'verify');
  t.match(verified, { code: 0, out: /Every statement is proven by its rows/ });
  return { requests, late };
}

t.test(
  'a month is closed, then the spool of a killed gateway is found: its records are a named correction',
  async (t) => {
    for (let round = 0; round < ROUNDS; round++) {
      const { company, records } = await killedWithSpool(t);
      const closed = await close(company, '2026-09');
      t.match(closed, { code: 0, json: { requests: records } });
      await spoolFound();
      const [list] = (await run('statement', 'list', '--company', company, '--json')).json
        .statements;
      t.match(list, { number: 1, later: [{ statement: null }] }, 'the closed month tells of it');
      t.ok(list.later[0].requests >= RECORDS / 2);
      t.equal(
        (await close(company, '2026-09')).out,
        closed.out,
        'and is printed in the same bytes',
      );

      const next = (await close(company, '2026-10')).json;
      const { late } = await agree(t, company);
      t.match(next, {
        number: 2,
        requests: 0,
        corrections: [{ month: '2026-09', statement: 1, requests: late }],
      });
      const ids = await sql<{ id: string }[]>`
      select request_id::text as id from api_usage where company_id = ${company} order by 1`;
      t.ok(next.corrections[0].request_ids.every((id: string) => ids.some((row) => row.id === id)));
      corrected += late;
    }
  },
);

t.test(
  'a month is not closed while records of it wait: at an heir of the spool, and after its stop',
  async (t) => {
    const { company } = await killedWithSpool(t);
    await sql.unsafe(`
    alter function book_usage(uuid, json) rename to book_later;
    create function book_usage(uuid, json) returns table (company_id uuid, billing_month date, cost_eur numeric)
      language plpgsql as $$ begin raise exception 'no space' using errcode = 'disk_full'; end $$`);
    const heir = await world.gateway();
    const rows = () => sql`select from gateways where backlog > 0 and oldest_at < '2026-10-01'`;
    await until(async () => (await rows()).length === 1, 'the heir tells since when records wait');
    t.ok((await metric(heir, 'tollgate_ledger_lag_seconds')) > 86_400);
    const refused = {
      code: 1,
      err: /Records of 2026-09 may still be on their way from .* records waiting/,
    };
    t.match(await close(company, '2026-09'), refused);
    heir.signal('SIGTERM');
    await heir.exited;
    t.equal((await rows()).length, 1);
    t.match(await close(company, '2026-09'), refused, 'a clean stop that leaves records says so');
    await sql.unsafe(
      'drop function book_usage(uuid, json); alter function book_later(uuid, json) rename to book_usage',
    );
    await spoolFound();
    t.equal((await rows()).length, 0, 'who takes a spool over takes the row with it');
    t.equal((await close(company, '2026-09')).code, 0);
  },
);

t.test(
  'a month is closed while the spool of a killed gateway is booked: each record is in it or late',
  async (t) => {
    for (let round = 0; round < ROUNDS; round++) {
      const { company } = await killedWithSpool(t);
      const found = spoolFound();
      await until(
        async () =>
          (await sql`select from gateways where last_seen_at > now() - interval '5 seconds'`)
            .length > 0,
        'the other gateway runs',
      );
      t.equal((await close(company, '2026-09', '--anyway')).code, 0);
      await found;
      await close(company, '2026-10');
      corrected += (await agree(t, company)).late;
    }
    const verdict = await judge(sql, clients, world.upstreamJournal());
    t.match(verdict, { missing: [], duplicates: 0, wrong: [], unverified: 0 });
    note(
      'Nothing enters a closed month unseen',
      `gateways killed (SIGKILL) with records in their spools, ${2 * ROUNDS} times; their month is closed before the spool is found, and while it is booked`,
      `${verdict.complete} complete answers, ${verdict.rows} rows, ${verdict.missing.length} missing, ${verdict.duplicates} duplicates; ${corrected} rows became named corrections; statements and ledger agree to the last digit`,
    );
  },
);
