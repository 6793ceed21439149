import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { send, startLoad } from '../faults/load.ts';
import { faultWorld } from '../faults/world.ts';
import { until } from '../support/until.ts';
import { newCluster } from './cluster.ts';

/**
 * What matters for a database that is distributed by company: which statements a serving gateway sends,
 * read from the plans the server logged, those inside functions and triggers included.
 */

interface Node {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly Alias?: string;
  readonly Plans?: readonly Node[];
  readonly [member: string]: unknown;
}

interface Statement {
  readonly text: string;
  readonly plan: Node;
}

/**
 * Rows found by something else than their company, by design; and why. A key is found by its digest, once per key and
 * replica, and then its company by the key: who asks is what has to be found out.
 */
const BY_OTHER_NAME: Readonly<Record<string, string>> = {
  'alert_receivers by nothing':
    'who is told of new budget alerts, of all companies; only where events are sent',
  'api_keys by id': 'last_used_at, every ten seconds for all keys together',
  'assistants by id':
    'the path names the assistant; that it is the company’s own is checked after; cached',
  'budget_reservations by expires_at, request_id':
    'leases of many requests kept or ended together; strict companies only',
  'budget_reservations by request_id': 'ended by the batch that books them; strict companies only',
  'company_price_factors by nothing':
    'those that begin at a date, of all companies: a few rows of an index; after changes of models and companies',
  'cost_center_budgets by nothing':
    'whether any company has one, once a minute; then of all companies: a bounded number each, and often none',
  'end_users by id':
    'those of whom nothing was booked for a week go, some thousand at a time, every five minutes',
  'events by at':
    'those that are too old are deleted, every five minutes; only where events are sent',
  'events by nothing':
    'new ones, of all companies: a few rows of an index; only where events are sent',
  'key_reveals by nothing': 'those that are over are deleted, every five minutes',
  'model_prices by nothing':
    'those that begin at a date, of all companies: a few rows of an index; after changes of models',
  'monthly_spend by billing_month':
    'the sums of all companies for the overview, once in a quarter of an hour',
  'request_days by day': 'days that are too old are deleted once an hour, a few at a time',
  'request_hours by hour': 'hours that are too old are deleted once an hour, a few at a time',
  'request_hours by nothing':
    'the hours of two days are summed up for the overview, once in a quarter of an hour',
  'spend_changes by xid': 'whose spend changed since the last look: all companies at once',
  'api_keys by end_users':
    'whether any key has budgets of end users, once a minute: an index of these alone; only where events are sent',
  'end_user_alerts by billing_month':
    'those of months that are over are deleted; only where events are sent',
  'unusual_days by day': 'those of 90 days ago are deleted; only where events are sent',
  'usage_company_days by billing_month, day':
    'who spent today as much as may be unusual, every five minutes; only where events are sent',
  'users by role': 'whether there is an operator, once at the start',
};

/** Statements about all companies, which read each table of sums by itself, and what they do with it afterwards; and the new events, of which each is told to its company's own receivers. */
const ALL_COMPANIES = [
  /^insert into usage_marks/,
  /^\s*delete from request_(hours|days)/,
  /^\s*delete from end_users where/,
  /\b(spends|changed) as materialized/,
  /\b(present|buckets) as materialized/,
  /\bwith (untold as|busy as materialized)/,
];

const server = await newCluster(t);
await server.start({
  shared_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_verbose': 'on',
  'auto_explain.log_format': 'json',
  log_line_prefix: '%a|',
});
const db = openDatabase({ url: `${server.url}?application_name=setup` });
await migrate(db, { billingTimezone: 'UTC' });
await db.close();

// plans as they would be for large tables
await server.sql`alter system set enable_seqscan = off`;
await server.sql`select pg_reload_conf()`;

const seen = new Map<string, Statement>();
let readBytes = 0; // of the log: it has megabytes, and is looked at again and again

/** Every statement that gateways sent, each once. */
function sent(): Statement[] {
  const log = readFileSync(server.log).subarray(readBytes).toString();
  let end = 0;
  for (const found of log.matchAll(
    /^tollgate\|LOG: {2}duration: [\d.]+ ms {2}plan:\n(\t\{\n(?:\t .*\n)+\t\}\n)/gm,
  )) {
    const { 'Query Text': text, Plan: plan } = JSON.parse(
      (found[1] as string).replaceAll('\n\t', '\n'),
    );
    seen.set(text, { text, plan });
    end = found.index + found[0].length;
  }
  readBytes += Buffer.byteLength(log.slice(0, end));
  return [...seen.values()];
}

function nodesOf(node: Node): Node[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** Everything that restricts or joins rows in nodes of a plan. */
function conditionsOf(nodes: readonly Node[]): string {
  const members = [
    'Index Cond',
    'Recheck Cond',
    'Filter',
    'Hash Cond',
    'Merge Cond',
    'Join Filter',
  ];
  return nodes
    .flatMap((node) => members.map((member) => node[member]))
    .filter((condition) => condition !== undefined)
    .join(' ');
}

/** Tables that hold rows of companies. */
async function tablesOfCompanies(): Promise<ReadonlySet<string>> {
  const rows = await server.sql<{ name: string }[]>`
    select c.relname as name from pg_attribute a join pg_class c on c.oid = attrelid
    where attname = 'company_id' and relkind in ('r', 'p') and not relispartition and relnamespace = 'public'::regnamespace`;
  return new Set(['companies', ...rows.map(({ name }) => name)]);
}

/** Which statements join, which of them across companies, and what is found by another name than the company's. */
function examine(statements: readonly Statement[], ofCompanies: ReadonlySet<string>) {
  const across = new Set<string>();
  const byOtherName = new Set<string>();
  let joins = 0;
  for (const { text, plan } of statements) {
    const nodes = nodesOf(plan);
    const conditions = conditionsOf(nodes);
    const read = new Map<string, string>(); // alias to table
    for (const node of nodes) {
      const table = node['Relation Name']?.replace(/^api_usage_(default|\d{4}_\d\d)$/, 'api_usage');
      if (table !== undefined && ofCompanies.has(table) && /Scan$/.test(node['Node Type'])) {
        read.set(node.Alias as string, table);
      }
    }
    // two parts of a statement may look at one table, each for itself
    const joined =
      new Set(read.values()).size > 1 ||
      (read.size > 1 && nodes.some((node) => /Join|Loop/.test(node['Node Type'])));
    if (joined) joins += 1;
    for (const [alias, table] of read) {
      const column = table === 'companies' ? 'id' : 'company_id';
      // in a plan of one table its columns stand without a name before them
      const name = `(?:${alias}\\.)${read.size === 1 ? '?' : ''}${column}`;
      const named = new RegExp(`(^|[( ])${name} (=|IS NULL)|= ${name}\\)`).test(conditions);
      // an index of the shared rows alone leaves no condition in the plan
      if (named || text.includes(`from ${table} where company_id is null`)) continue;
      if (joined) across.add(text);
      const own = conditionsOf(nodes.filter((node) => node.Alias === alias));
      const columns = [...own.matchAll(/([a-z_]+) (?:=|>=|<|<>) /g)].map(([, word]) => word);
      byOtherName.add(`${table} by ${[...new Set(columns)].sort().join(', ') || 'nothing'}`);
    }
  }
  return { joins, across: [...across], byOtherName: [...byOtherName].sort() };
}

t.test('no statement of a serving gateway joins across companies', async (t) => {
  const world = await faultWorld(t, { url: server.url, sql: server.sql });
  const strict = await world.newCompany({ budget: '100', mode: 'strict' });
  const assistant = randomUUID();
  await world.sql`insert into assistants (id, company_id, name, system_prompt, model_slug)
    values (${assistant}, ${world.company}, 'A', 'Be brief.', 'brand-chat')`;
  await world.sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('own', ${world.company}, 'internal-own', 'chat', true, 1, 1)`;
  await world.model('failing', 'internal-failing!error-500');
  const gateway = await world.gateway();

  const loads = [world.key, strict.key].map((key) =>
    startLoad({ urls: () => [gateway.url], key, workers: 2, restMs: 20, more: { max_tokens: 30 } }),
  );
  await Promise.all(
    loads.map((load) => load.more(20, 'of each company', ({ status }) => status === 200)),
  );
  const ask = (path: string, body?: object) =>
    fetch(`${gateway.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${world.key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const run = await ask(`/assistants/${assistant}/run`, {
    messages: [{ role: 'user', content: 'Hi' }],
  });
  t.equal(run.status, 200);
  t.equal((await ask('/models')).status, 200);
  t.equal((await ask('/usage')).status, 200);
  t.equal((await ask(`/usage/${run.headers.get('x-request-id')}`)).status, 200);
  t.equal((await send(undefined, gateway.url, 'plain', { key: 'svc_unknown' })).status, 401);
  t.equal(
    (await send(undefined, gateway.url, 'plain', { key: strict.key, chatModel: 'none' })).status,
    404,
  );
  const failed = await send(undefined, gateway.url, 'plain', {
    key: strict.key,
    chatModel: 'failing',
  });
  t.equal(failed.status, 502, 'what was reserved for it ends without a record');
  await world.sql`insert into chat_usage (company_id, cost_eur) values (${world.company}, 1)`;
  await world.sql`update companies set name = 'Renamed'`;
  for (const load of loads) await load.stop();
  const tables = await tablesOfCompanies();
  const known = Object.keys(BY_OTHER_NAME).sort();
  const polled = known.filter((name) => name !== 'api_keys by id'); // this one is sent at the stop as well
  const found = () => examine(sent(), tables).byOtherName;
  await until(found, 'timers have sent their statements', (names) =>
    polled.every((name) => names.includes(name)),
  );
  gateway.signal('SIGTERM');
  t.equal(await gateway.exited, 0);

  const statements = sent();
  t.ok(statements.length > 15, `${statements.length} different statements`);
  const { joins, across, byOtherName } = examine(statements, tables);
  t.same(
    across.filter((text) => !ALL_COMPANIES.some((form) => form.test(text))),
    [],
  );
  t.ok(joins >= 2, `${joins} statements read several tables, each by its company`);
  t.same(byOtherName, known, 'what is not found by company is known, and why');
});

t.test('one that did would be found', async (t) => {
  const before = sent().length;
  const gateway = openDatabase({ url: server.url });
  t.teardown(() => gateway.close());
  await gateway.run(
    5000,
    (sql) => sql`select from assistants a join models m on m.slug = a.model_slug`,
  );
  await gateway.run(
    60_000,
    (sql) => sql`select from assistants a join models m using (company_id)`,
  );
  const { joins, across } = examine(sent().slice(before), await tablesOfCompanies());
  t.equal(joins, 2);
  t.same(across, ['select from assistants a join models m on m.slug = a.model_slug']);
});

t.test(
  'unique keys that do not carry the company are known: a table spread by company would need it in them',
  async (t) => {
    const keys = await server.sql<{ key: string }[]>`
    select format('%s (%s)', c.relname, string_agg(a.attname, ', ' order by k.place)) as key
    from pg_index i join pg_class c on c.oid = i.indrelid
    cross join unnest(i.indkey) with ordinality as k (attnum, place)
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
    where i.indisunique and not c.relispartition and c.relnamespace = 'public'::regnamespace
      and exists (select from pg_attribute b where b.attrelid = c.oid and b.attname = 'company_id')
    group by c.relname, i.indexrelid having not 'company_id' = any(array_agg(a.attname::text))`;
    t.same(keys.map(({ key }) => key).sort(), [
      'admin_tokens (digest)',
      'admin_tokens (id)',
      'alert_receivers (digest)',
      'alert_receivers (id)',
      'api_keys (digest)',
      'api_keys (id)',
      'api_usage (billing_month, request_id)',
      'assistants (id)',
      'audit_log (id)',
      'budget_alerts (id)',
      'budget_reservations (request_id)',
      'chat_usage (id)',
      'company_price_factors (id)',
      'cost_center_budgets (id)',
      'end_users (id)',
      'events (id)',
      'invitations (digest)',
      'invitations (id)',
      'model_cost_prices (id)',
      'model_cost_prices (slug, valid_from)',
      'model_prices (id)',
      'model_prices (slug, valid_from)',
      'models (id)',
      'models (slug)',
      'oidc_groups (id)',
      'oidc_groups (name)',
      'users (email)',
      'users (id)',
      'users (reset_digest)',
    ]);
  },
);
