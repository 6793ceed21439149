import { hash, randomBytes, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { unpackTar } from 'modern-tar';
import t, { type Test } from 'tap';
import { fillPages, idOf } from '../../bench/run/pages-data.ts';
import { pathsOf } from '../../bench/sections/pages.ts';
import { ROUTES } from '../../src/admin/pages.ts';
import { allCommands } from '../../src/cli/commands.ts';
import { addDays, addMonths } from '../../src/domain/reports/day-range.ts';
import type { Role } from '../../src/domain/user.ts';
import { PERMISSIONS } from '../../src/operations/frame/permission.ts';
import { OPERATIONS } from '../../src/operations/list.ts';
import { type Database, openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { distribute } from '../../src/store/schema/distribution.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { verifyStill, verifySums } from '../../src/store/statement/verify.ts';
import { insertSession } from '../../src/store/users/session.ts';
import { insertToken } from '../../src/store/users/token.ts';
import { insertUser } from '../../src/store/users/user.ts';
import { paint, paintOthers } from '../admin/paint.ts';
import { type GatewayProcess, startProcess } from '../faults/gateway.ts';
import { tollgate } from '../support/cli.ts';
import { freezeTemplate, join as joinServers, onEach } from '../support/distributed.ts';
import { holds, inDatabase } from '../support/postgres.ts';
import { closeStatement } from '../support/statement.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';
import { type CitusCluster, CitusUnobtainable, missing, startCitus } from './citus.ts';

const COMMANDS = await allCommands();

/**
 * Every page, every question over HTTP and every command that reads: over a ledger on one server, and over a copy of it
 * that was spread when it was full. Both say the same, to the last digit.
 */

const wanted = process.env.ALL !== undefined || process.env.FAULTS === 'citus';
const skip = wanted
  ? missing.length > 0 && `not installed: ${missing.join(', ')}`
  : 'runs with ALL=1 or FAULTS=citus';
const DATA = { companies: 60, keys: 30, ledgerRows: 6000 };
const SHARDS = 8;
/** How often what differs is asked again: the overview is of this instant. */
const ATTEMPTS = 5;
const ROLES = ['operator', 'owner', 'member'] as const;
const COMPANY = idOf('company 0');
const TODAY = new Date().toISOString().slice(0, 10);
const LAST_MONTH = addMonths(TODAY, -1).slice(0, 7);
/** The month whose statement is closed. */
const CLOSED = addMonths(TODAY, -4).slice(0, 7);
const RANGE = { from: addDays(TODAY, -29), to: TODAY };
const DAYS = ['--from', RANGE.from, '--to', RANGE.to];
const OF = ['--company', COMPANY];
/** Another currency than that of budgets. */
const ENV = { UPSTREAM_URL: 'http://127.0.0.1:1', SPOOL_DIR: '', UPSTREAM_RATE: '0.9' };

/** A page that runs a model when it is read. */
const MAKES_A_CALL = '/companies/:company/playground/:request';
/** Pages of a text that was shown once, and of a token of another company: both gateways say so. */
const NOT_THERE = /\/shown$|\/company\/tokens\/|\/:company\/tokens\/:token\/revoke$/;
const MONTHLY = /\/statements\/(month|close)/;
/** What operations have to be asked with. */
const QUERIES: Readonly<Record<string, string>> = {
  focus: `?month=${LAST_MONTH}`,
  'models/{model}/prices/on': `?at=${TODAY}`,
  'price-factors/preview': '?factor=1.1',
  'requests/sums': `?from=${RANGE.from}T00:00:00Z&to=${RANGE.to}T00:00:00Z`,
  'statements/month': `?month=${CLOSED}`,
};
/** A company that is open is not erased. */
const REFUSED = '/companies/{company}/erasure';
const CHANGES =
  /^(migrate|apply|gateway forget|demo remove|database .*|.* (create|onboard|set|close|reopen|erase|remove|withdraw|cost|import|rotate|revoke|pause|resume|litellm|invite|set-password|reset-factor|retry|replay))$/;

const BILL = `model,prompt_tokens,completion_tokens,time\ninternal,200,100,${LAST_MONTH}-15T12:00:00Z\n`;
/** The arguments of each command that reads. */
const READS: Readonly<Record<string, readonly string[]>> = {
  status: [],
  'company list': [],
  'model list': OF,
  'model offered': [],
  'model price': ['model-02', ...OF],
  'company export': [COMPANY, '--to', 'ARCHIVE'],
  'key find': ['--stdin'],
  request: ['REQUEST'],
  'ledger reconcile': ['--upstream', '-'],
  'key list': OF,
  'assistant list': OF,
  'user list': OF,
  'group list': [],
  'usage summary': OF,
  'usage change': [...OF, ...DAYS],
  'usage table': ['--rows', 'key', '--columns', 'day', ...OF, ...DAYS],
  'cost-center list': OF,
  'usage margin': ['--month', LAST_MONTH],
  'ledger verify': [],
  'ledger export': [...OF, '--month', LAST_MONTH],
  'ledger feed': ['--limit', '2000'],
  'company factor': [COMPANY],
  'end-user list': OF,
  'statement month': ['--month', CLOSED],
  'ledger focus': ['--month', LAST_MONTH],
  'statement list': OF,
  statement: [...OF, '--month', CLOSED],
  'alert list': [],
  'event list': [],
  'token list': [],
  'export-config': [],
};

t.test(
  'every page and command says on several servers what it says on one',
  { skip },
  async (t) => {
    const cluster = await startCitus(t, 2).catch((error: unknown) => {
      if (error instanceof CitusUnobtainable && process.env.FAULTS !== 'citus')
        return error.message;
      throw error;
    });
    if (typeof cluster === 'string') t.pass('Citus is there', { skip: cluster });
    else await comparePages(t, cluster);
  },
);

async function comparePages(t: Test, cluster: CitusCluster): Promise<void> {
  const { urls, ids, tokens } = await fillBoth(t, cluster);
  const gateways = (await Promise.all(
    urls.map((url) => startProcess(t, { ...ENV, DATABASE_URL: url })),
  )) as [GatewayProcess, GatewayProcess];
  const same = async (t: Test, name: string, ask: (of: 0 | 1) => Promise<Said>) => {
    let said: [Said, Said] | undefined;
    for (
      let tried = 0;
      tried < ATTEMPTS && (said === undefined || said[0].text !== said[1].text);
      tried++
    )
      said = await Promise.all([ask(0), ask(1)]);
    t.same(said?.[1], said?.[0], name);
    return said?.[0].status;
  };
  const fetched = (path: string, headers: Record<string, string>) => (of: 0 | 1) =>
    until(async () => {
      const { adminUrl, url } = gateways[of];
      const response = await fetch(adminUrl + path, { headers, redirect: 'manual' });
      const text = (
        response.headers.get('content-type') === 'application/gzip'
          ? await textOf(response)
          : await response.text()
      )
        .replaceAll(url, '')
        .replaceAll(adminUrl, '')
        // ranges that end now
        .replaceAll(/from=\d[^&"]*/g, '')
        // what is drawn by lot for each form
        .replaceAll(/name="(?:id|claim|csrf)" value="[^"]*"/g, '');
      return text !== 'too many requests\n' && { status: response.status, text: ofEither(text) };
    }, `an answer of ${path}`) as Promise<Said>;
  // the first page starts the pages' process
  for (const which of [0, 1] as const) {
    await until(async () => (await fetched('/sign-in', {})(which)).status === 200, 'the pages');
  }
  for (const role of ROLES) {
    await t.test(`pages of the ${role}`, async (t) => {
      const headers = { cookie: `tollgate=${tokens[role]}` };
      const own: typeof ids = role === 'member' ? { ...ids, key: ids.ownKey as string } : ids;
      const routes = ROUTES.filter(
        ({ method, action, path }) =>
          method === 'GET' &&
          (PERMISSIONS[action] as readonly Role[]).includes(role) &&
          path !== MAKES_A_CALL,
      ).map(
        ({ path }) =>
          [
            path,
            path.replaceAll(/:(\w+)/g, (_, param) => own[param] as string) +
              (MONTHLY.test(path) ? `?month=${CLOSED}` : ''),
          ] as const,
      );
      const more = role === 'operator' ? Object.entries(pathsOf(TODAY)) : [];
      for (const [name, path] of [...routes, ...more]) {
        const status = await same(t, name, fetched(path, headers));
        t.ok((status as number) < 400 || NOT_THERE.test(name), `${path}: ${status}`);
      }
    });
  }
  await t.test('answers over HTTP', async (t) => {
    const headers = { authorization: `Bearer ${tokens.api}` };
    for (const { method, path } of OPERATIONS) {
      if (method !== 'get') continue;
      const status = await same(t, path, fetched(addressOf(path, ids), headers));
      t.equal(status, path === REFUSED ? 409 : 200, `${path}: ${status}`);
    }
  });
  await t.test('commands', async (t) => {
    const folder = t.testdir();
    for (const { name } of COMMANDS) {
      const args = READS[name];
      t.equal(args === undefined, CHANGES.test(name), `${name} reads, or changes something`);
      if (args === undefined) continue;
      for (const form of [[], ['--json']]) {
        const line = [...name.split(' '), ...args, ...form];
        const status = await same(t, line.join(' '), async (of) => {
          const archive = join(folder, randomUUID());
          const words = line.map(
            (word) => ({ REQUEST: ids.request, ARCHIVE: archive })[word] ?? word,
          );
          const env = { ...ENV, DATABASE_URL: urls[of] as string };
          const { code, out } = await tollgate(words, { env, stdin: BILL });
          return {
            status: code,
            text: ofEither(out)
              .replaceAll(archive, '')
              .replace(/as of \S+Z/, ''),
          };
        });
        t.ok([0, 1].includes(status as number), `${line.join(' ')}: ${status}`);
      }
    }
  });
  await t.test('ledger verify looks again while nothing is booked', (t) => lookAgain(t, urls[1]));
  await t.test('ledger verify finds nothing beside bookings but what is wrong', (t) =>
    verifyBesideBookings(t, urls[1]),
  );
}

/** An answer without what is of one copy alone: its gateways, and when a token was used or an archive made. */
function ofEither(text: string): string {
  if (!/^[[{]/.test(text)) return text.replace(/<section id="gateways">.*?<\/section>/s, '');
  const ofOne = ['gateways', 'last_used_at', 'taken_at'];
  return text.replace(/^.*$/gm, (line) => {
    try {
      return JSON.stringify(
        JSON.parse(line, (name, value) => (ofOne.includes(name) ? undefined : value)),
      );
    } catch {
      return line; // of a value that takes several lines
    }
  });
}

function addressOf(path: string, ids: Readonly<Record<string, string>>): string {
  const named = path.replaceAll(/\{(\w+)\}/g, (_, param) => ids[param] as string);
  return `/api/v1${named}${
    QUERIES[
      path
        .split('/')
        .slice(path.startsWith('/companies/') ? 3 : 1)
        .join('/')
    ] ?? ''
  }`;
}

/** The files of an archive, without the instant at which it was made. */
async function textOf(response: Response): Promise<string> {
  const files = await unpackTar(gunzipSync(Buffer.from(await response.arrayBuffer())));
  return files
    .map(({ header, data }) => `${header.name}\n${Buffer.from(data ?? []).toString()}`)
    .join('\n')
    .replace(/"taken_at": "[^"]*"/, '');
}

/** What differs is looked at again, from its month on, while nothing is booked. */
async function lookAgain(t: Test, url: string): Promise<void> {
  const [db, writer, watcher] = [1, 2, 3].map(() => openDatabase({ url, maxConnections: 1 })) as [
    Database,
    Database,
    Database,
  ];
  for (const each of [db, writer, watcher]) t.teardown(() => each.close());
  const month = TODAY.slice(0, 7);
  let booked: Promise<void> | undefined;
  const found = await verifyStill(
    (work) => db.transaction(60_000, work),
    async (sql, since) => {
      if (since === null) return { checked: 7, total: 1, differences: [{ month }] };
      t.equal(since, month);
      booked = writer.run(60_000, (sql) =>
        addUsage(sql, [{ company: COMPANY, month: `${month}-01`, prompt: 1 }]),
      );
      await until(
        () => holds(watcher, 'exists (select from pg_locks where not granted)'),
        'the booking waits',
      );
      return verifySums(sql, 'daily', 10, since);
    },
  );
  t.match(found, { checked: 7, total: 0, differences: [] });
  await booked;
}

async function verifyBesideBookings(t: Test, url: string): Promise<void> {
  const db = openDatabase({ url });
  t.teardown(() => db.close());
  let isOver = false;
  const rows = Array.from({ length: 100 }, (_, n) => ({
    company: idOf(`company ${n % DATA.companies}`),
    prompt: 10,
    input: '0.1',
    month: `${TODAY.slice(0, 7)}-01`,
  }));
  const writing = (async () => {
    while (!isOver) await db.run(60_000, (sql) => addUsage(sql, rows));
  })();
  const verify = () =>
    tollgate(['ledger', 'verify', '--json'], { env: { ...ENV, DATABASE_URL: url } });
  for (let round = 0; round < 3; round++) {
    const { code, json, out } = await verify();
    t.equal(code, 0, out.slice(0, 2000));
    t.match(json, { differences: [], daily: { total: 0 }, total: 0 });
  }
  await db.run(
    60_000,
    (sql) => sql`update usage_key_months set requests = requests + 1
    where company_id = ${COMPANY} and api_key_id = ${idOf('key 1')} and billing_month = ${`${LAST_MONTH}-01`} and cost_center = 'Sales'`,
  );
  const { code, json } = await verify();
  t.equal(code, 1);
  t.match(json.key_months, { total: 1, differences: [{ counter: 'requests', month: LAST_MONTH }] });
  isOver = true;
  await writing;
}

interface Said {
  readonly status: number;
  readonly text: string;
}

/** Fills a database, copies it, and spreads the copy. @returns addresses of both, ids of what is in them, and who may ask */
async function fillBoth(t: Test, { coordinator, workers }: CitusCluster) {
  const urls = ['pages_one', 'pages_spread'].map((name) => inDatabase(coordinator.url, name)) as [
    string,
    string,
  ];
  const [one, several] = urls;
  await coordinator.sql`create database pages_one`;
  const db = openDatabase({ url: one });
  t.teardown(() => db.close());
  await migrate(db, { billingTimezone: 'UTC' });
  await fillPages(db, DATA, () => {});
  const filled = await db.run(600_000, fillMore);
  await closeStatement(db, COMPANY, `${CLOSED}-01`);
  await db.run(
    60_000,
    (sql) => sql`update statements set opened_at = now(), opened_by = 'owner@example.com'`,
  );
  // late: its month is closed
  await db.run(60_000, (sql) =>
    addUsage(sql, [{ company: COMPANY, month: `${CLOSED}-01`, prompt: 77, input: '0.5' }]),
  );
  await db.close();
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
  await joinServers(servers);
  const copy = openDatabase({ url: several });
  t.teardown(() => copy.close());
  await distribute(copy, { shards: SHARDS, dryRun: false });
  t.same(
    (await distribute(copy, { shards: SHARDS, dryRun: true })).statements,
    [],
    'nothing is left to do',
  );
  await onEach(servers, async (sql: Sql) => {
    const [row] = await sql<[{ jit: string }]>`select current_setting('jit') as jit`;
    t.equal(row.jit, 'off', 'no server compiles statements');
  });
  return { urls, ...filled };
}

/** What the pages of the benchmark have no need of: every kind of thing that a page is about. */
async function fillMore(sql: Sql) {
  await sql`set session_replication_role = origin`;
  // the gateways look for no alerts: each would find its own
  await sql`update alert_lease set holder = null, expires_at = 'infinity'`;
  await paint(sql, COMPANY);
  await paintOthers(sql, COMPANY);
  const id = async (query: PromiseLike<readonly { id: string }[]>) =>
    (await query)[0]?.id as string;
  const tokens: Record<string, string> = {};
  const people: Record<string, string> = {};
  for (const role of ROLES) {
    const company_id = role === 'operator' ? null : COMPANY;
    const user = await insertUser(sql, { email: `${role}@example.com`, role, company_id }, null);
    const token = randomBytes(32).toString('base64url');
    await insertSession(sql, { digest: hash('sha256', token, 'buffer'), userId: user.id });
    tokens[role] = token;
    people[role] = user.id;
  }
  const token = { company_id: null, access: 'read', created_by: null, expires_at: null } as const;
  const ofAll = await insertToken(sql, { ...token, name: 'reads all' });
  tokens.api = ofAll.token;
  await insertToken(sql, { ...token, name: 'reads', company_id: COMPANY });
  const ownKey = idOf('own key');
  await sql`
    insert into api_keys (id, company_id, name, digest, prefix, scopes, user_id, created_by)
    values (${ownKey}, ${COMPANY}, 'Mine', sha256('own'), 'svc_mine', '{chat}', ${people.member as string}, 'member@example.com')`;
  await sql`update companies set member_max_keys = 3, member_playground = true where id = ${COMPANY}`;
  const at = Date.now() - 3_600_000;
  const request = at
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})(.{4})$/, '$1-$2-7000-8000-000000000001');
  await addUsage(sql, [
    {
      company: COMPANY,
      key: ownKey,
      request,
      month: `${TODAY.slice(0, 7)}-01`,
      at: new Date(at).toISOString(),
      prompt: 9,
      input: '0.1',
    },
  ]);
  await sql`
    insert into request_trail (company_id, occurred_at, request_id, api_key_id, status, duration_ms, added_us, endpoint, model_slug, outcome, prompt_tokens, cost_eur)
    select company_id, occurred_at, request_id, api_key_id, 200, 77, 80, endpoint, model_slug, outcome, prompt_tokens, cost_eur
    from api_usage where request_id = ${request}`;
  await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${COMPANY}, 'Sales', 5)`;
  await addUsage(sql, [
    {
      company: COMPANY,
      key: idOf('key 1'),
      month: `${LAST_MONTH}-01`,
      center: 'Sales',
      prompt: 999,
      completion: 10,
      input: '0.01',
      cached: 7,
      reasoning: 3,
    },
    {
      company: idOf('company 1'),
      month: `${LAST_MONTH}-01`,
      center: 'Sales',
      prompt: 10,
      input: '0.01',
    },
  ]);
  await sql`
    insert into budget_alerts (company_id, api_key_id, billing_month, threshold, budget_eur, spent_eur)
    values (${COMPANY}, null, billing_month(now()), '50', 100, 51)`;
  const person = await id(
    sql`insert into end_users (company_id, name) values (${COMPANY}, 'ann@front.example') returning id`,
  );
  await addUsage(sql, [
    {
      company: COMPANY,
      key: idOf('key 1'),
      month: `${TODAY.slice(0, 7)}-01`,
      endUser: person,
      prompt: 5,
      input: '0.01',
    },
  ]);
  await sql`update companies set daily_budget_eur = 20 where id = ${COMPANY}`;
  const ids: Record<string, string> = {
    person,
    end_user: person,
    company: COMPANY,
    key: idOf('key 1'),
    model: idOf('model 1'),
    request,
    ownKey,
    assistant: await id(sql`select id from assistants where name = 'Headline coach'`),
    user: people.member as string,
    token: ofAll.id,
    receiver: await id(sql`
      insert into alert_receivers (company_id, email, percents, forecast) values (${COMPANY}, 'buch@example.com', '{50,90}', true) returning id`),
    group: await id(
      sql`insert into oidc_groups (name, role) values ('reads', 'operator') returning id`,
    ),
    budget: await id(sql`select id from cost_center_budgets`),
    cost: await id(
      sql`select id from model_cost_prices where slug = 'model-02' order by valid_from desc limit 1`,
    ),
    price: await id(sql`select id from model_prices where slug = 'model-02' limit 1`),
    invitation: idOf('nobody'),
  };
  return { ids, tokens };
}
