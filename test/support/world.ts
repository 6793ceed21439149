import { randomUUID } from 'node:crypto';
import type { Sql } from 'postgres';
import type { Test } from 'tap';
import { rootOf } from './at-end.ts';
import { type Answer, type Ask, ask } from './client.ts';
import { startGateway, type TestGateway } from './gateway.ts';
import { until } from './until.ts';
import { demoUpstream, MASTER_KEY, type TestUpstream } from './upstream.ts';

/** Slugs of the models every company of a world may use; OVERSEAS is hosted outside the EU. */
export const CHAT = 'brand-chat';
export const EMBED = 'brand-embed';
export const OVERSEAS = 'brand-overseas';

/** A gateway in front of an upstream, with shared models and one customer to begin with. */
export interface World extends TestGateway {
  readonly upstream: TestUpstream;
  readonly customer: Customer;
  /** Adds a company with a key of all scopes. */
  newCustomer(settings?: Parameters<TestGateway['company']>[0]): Promise<Customer>;
  /** Adds a model of one company alone, in front of a misbehaving model of the upstream. @returns its slug */
  part(customer: Customer, slug: string, upstream: string): Promise<string>;
}

export interface Customer {
  readonly company: string;
  readonly key: string;
  ask(path: string, ask?: Ask): Promise<Answer>;
  /** A chat request with one user message, unless `more` says otherwise. */
  chat(more?: object): Promise<Answer>;
  embed(more?: object): Promise<Answer>;
  run(assistant: string, more?: object): Promise<Answer>;
}

type Prepare = NonNullable<Parameters<typeof startGateway>[3]>;

/** Starts a world for the length of a test; its upstream is the demo unless one is given. @param prepare as for `startGateway` */
export async function startWorld(
  t: Test,
  env: Record<string, string> = {},
  given?: TestUpstream,
  prepare?: Prepare,
): Promise<World> {
  const upstream = given ?? (await demoUpstream(t));
  const gateway = await startGateway(t, upstream.url, env, prepare);
  await gateway.model(CHAT, { upstream: upstream.parts.chat });
  await gateway.model(EMBED, {
    upstream: upstream.parts.embedding,
    kind: 'embedding',
    input: '0.1',
    output: '0',
  });
  await gateway.model(OVERSEAS, { upstream: upstream.parts.chat, eu: false });
  const company = await gateway.company();
  return worldOf(gateway, upstream, customerWith(gateway.url, company, await gateway.key(company)));
}

function worldOf(gateway: TestGateway, upstream: TestUpstream, customer: Customer): World {
  return {
    ...gateway,
    upstream,
    customer,
    async newCustomer(settings = {}) {
      const company = await gateway.company(settings);
      return customerWith(gateway.url, company, await gateway.key(company));
    },
    async part(customer, slug, model) {
      await gateway.model(slug, { upstream: model, company: customer.company });
      // a company that is in memory gets it a moment later
      await until(
        async () => (await customer.ask(`/models/${slug}`)).status === 200,
        `the gateway serves model ${slug}`,
      );
      return slug;
    },
  };
}

/** A world beyond the test that uses it, and how it was at first. */
interface SharedWorld {
  readonly world: World;
  /** Tables with rows that no test wrote. */
  readonly kept: readonly string[];
  /** The models of all companies. */
  readonly models: string;
}

/** Those that nobody uses now, by what prepared their databases. */
const idle = new Map<Prepare | undefined, SharedWorld[]>();
/** What the gateway itself has there as long as it runs. */
const OF_GATEWAY = [
  'changes',
  'gateways',
  'limit_owners',
  'limit_slots',
  'limit_windows',
  'models',
  'model_prices',
];

/**
 * A world as `startWorld` makes it, lent for the length of a test: it is used again by later tests of this process, with
 * another customer and without the rows of the test before. One whose shared models were changed is not lent again.
 * Take a world of your own for what its processes keep in memory, such as attempts to guess a password.
 * @param furnish adds what the test begins with, in the transaction that removes the rows: no one sees the world empty
 */
export async function borrowWorld(
  t: Test,
  prepare: Prepare | undefined,
  furnish: (sql: Sql, company: string) => PromiseLike<unknown>,
): Promise<World> {
  const shared = idle.get(prepare)?.pop() ?? (await startShared(rootOf(t), prepare));
  const { world, models, kept } = shared;
  const company = randomUUID();
  await world.sql.begin(async (transaction) => {
    const sql = transaction as unknown as Sql; // to the library a transaction is none, since it cannot be ended
    await empty(sql, kept);
    await prepare?.(sql);
    await sql`insert into companies (id, name) values (${company}, 'Test company')`;
    await furnish(sql, company);
  });
  world.logged.length = 0;
  const before = world.upstream.received().length;
  t.teardown(async () => {
    if ((await sharedModels(world.sql)) !== models) return;
    idle.set(prepare, [...(idle.get(prepare) ?? []), shared]);
  });
  const upstream = { ...world.upstream, received: () => world.upstream.received().slice(before) };
  await world.scout(); // as in a new world
  return worldOf(world, upstream, customerWith(world.url, company, await world.key(company)));
}

async function startShared(t: Test, prepare: Prepare | undefined): Promise<SharedWorld> {
  let kept: string[] = [];
  const world = await startWorld(t, {}, undefined, async (sql) => {
    await prepare?.(sql);
    kept = await tablesWithRows(sql);
  });
  return { world, kept: [...kept, ...OF_GATEWAY], models: await sharedModels(world.sql) };
}

async function sharedModels(sql: Sql): Promise<string> {
  const [{ models }] = await sql<[{ models: string }]>`
    select concat((select json_agg(m order by slug) from models m where company_id is null),
      (select json_agg(p order by id) from model_prices p where company_id is null)) as models`;
  return models;
}

async function tablesWithRows(sql: Sql): Promise<string[]> {
  const found: string[] = [];
  for (const { name } of await tablesOf(sql)) {
    const rows = await sql`select from ${sql(name)} limit 1`;
    if (rows.length > 0) found.push(name);
  }
  return found;
}

function tablesOf(sql: Sql) {
  return sql<{ name: string }[]>`
    select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`;
}

/** Removes all rows of all tables but some, as nobody else could: what is append-only too, and without a trace. */
async function empty(sql: Sql, kept: readonly string[]): Promise<void> {
  await sql`delete from models where company_id is not null`;
  await sql`set local session_replication_role = replica`;
  await sql`delete from model_prices where company_id is not null`;
  for (const { name } of await tablesOf(sql))
    if (!kept.includes(name)) await sql`delete from ${sql(name)}`;
  await sql`set local session_replication_role = origin`;
}

export function customerWith(url: string, company: string, key: string): Customer {
  const call: Customer['ask'] = async (path, more = {}) => {
    const answer = await ask(url + path, { key, ...more });
    // whatever a test asks for, no answer of the API may be kept by a cache
    const kept = answer.headers.get('cache-control');
    if (kept !== 'no-store') throw new Error(`${path}: cache-control is ${kept}`);
    return answer;
  };
  const post = (path: string, body: object) => call(path, { body });
  const messages = [{ role: 'user', content: 'Hello there' }];
  return {
    company,
    key,
    ask: call,
    chat: (more = {}) => post('/chat/completions', { model: CHAT, messages, ...more }),
    embed: (more = {}) => post('/embeddings', { model: EMBED, input: 'Hello there', ...more }),
    run: (assistant, more = {}) => post(`/assistants/${assistant}/run`, { messages, ...more }),
  };
}

/** All of an answer that a client can read, except the status line. */
export function visible({ headers, text }: Answer): string {
  return [...headers].map(([name, value]) => `${name}: ${value}\n`).join('') + text;
}

/** What clients must never see: internal model names, the master key, hosts, provider headers. */
export const INTERNAL = new RegExp(
  `internal|${MASTER_KEY}|sk-internal|litellm|x-ms-|openai-|Traceback`,
  'i',
);
