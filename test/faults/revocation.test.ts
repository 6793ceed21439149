import t, { type Test } from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { cheapHash, PASSWORD, Person } from '../admin/people.ts';
import { tollgate } from '../support/cli.ts';
import { until } from '../support/until.ts';
import type { GatewayProcess } from './gateway.ts';
import { type Journalled, startLoad } from './load.ts';
import { installed, startPooler } from './pooler.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { type FaultWorld, faultWorld, LONG } from './world.ts';

const ROUNDS = LONG ? 40 : 1;
const REPLICAS = LONG ? 3 : 2;
const AROUND = LONG ? 40 : 16; // requests before a change, and after all replicas obey it

interface Customer {
  readonly company: string;
  readonly key: string;
}

/** A change, and the answer that shows that a replica knows of it. */
interface Change {
  readonly name: string;
  /** Status of every answer from then on. */
  readonly status: number;
  readonly chatModel?: string;
  bySql(world: FaultWorld, customer: Customer): Promise<unknown>;
  /** The command line that makes the same change; null: there is none. */
  byCommand: ((world: FaultWorld, customer: Customer) => Promise<string[]>) | null;
  /** The form of the administration area that makes the same change: its path and fields. */
  byPage(
    world: FaultWorld,
    customer: Customer,
  ): Promise<[path: string, fields: Record<string, string>]>;
  /** Answers given as before the change; default: those with status 200. */
  asBefore?(
    world: FaultWorld,
    customer: Customer,
    journal: readonly Journalled[],
  ): Promise<Journalled[]>;
}

type By = 'SQL' | 'command' | 'page';

let price = 0;

const OPERATOR = 'operator@tollgate.example';

const CHANGES: readonly Change[] = [
  {
    name: 'key revoked',
    status: 401,
    bySql: ({ sql }, { key }) =>
      sql`update api_keys set revoked_at = now() where digest = decode(${digestOf(key)}, 'hex')`,
    async byCommand({ sql }, { key }) {
      const [row] =
        await sql`select id from api_keys where digest = decode(${digestOf(key)}, 'hex')`;
      return ['key', 'revoke', row?.id];
    },
    async byPage({ sql }, { company, key }) {
      const [row] =
        await sql`select id from api_keys where digest = decode(${digestOf(key)}, 'hex')`;
      return [`/companies/${company}/keys/${row?.id}/revoke`, {}];
    },
  },
  {
    name: 'model disabled',
    status: 404,
    bySql: ({ sql }, { company }) =>
      sql`update companies set disabled_model_slugs = '{brand-chat}' where id = ${company}`,
    byCommand: async (_world, { company }) => [
      'company',
      'set',
      company,
      '--disable-model',
      'brand-chat',
    ],
    byPage: async (_world, { company }) => [
      `/companies/${company}/models/disable`,
      { slug: 'brand-chat' },
    ],
  },
  {
    name: 'EU gate closed',
    status: 403,
    chatModel: 'abroad',
    bySql: ({ sql }, { company }) =>
      sql`update companies set allow_non_eu_models = false where id = ${company}`,
    byCommand: async (_world, { company }) => [
      'company',
      'set',
      company,
      '--allow-non-eu',
      'false',
    ],
    byPage: async (_world, { company }) => [`/companies/${company}/settings`, { budget: '1000' }], // its box not ticked
  },
  {
    name: 'price changed',
    status: 200,
    chatModel: 'priced',
    bySql: ({ sql }) =>
      sql`update models set cost_eur_per_1k_input = ${`1.${++price}`} where slug = 'priced'`,
    byCommand: async () => ['model', 'set', 'priced', '--input-price', `1.${++price}`],
    async byPage({ sql }) {
      const [row] = await sql`select id from models where slug = 'priced'`;
      const fields = {
        upstream: 'internal-priced',
        kind: 'chat',
        eu_hosted: 'true',
        input: `1.${++price}`,
        output: '1',
      };
      return [`/models/${row?.id}`, fields];
    },
    // the ledger tells which price was paid
    async asBefore({ sql }, { company }, journal) {
      const served = journal.filter(({ status }) => status === 200);
      const prices = async (): Promise<Map<string | null, string>> => {
        const rows =
          await sql`select request_id::text as id, price_input from api_usage where company_id = ${company}`;
        return new Map(rows.map((row) => [row.id, row.price_input]));
      };
      // each by its id: calls that are not in the journal yet are booked too
      const areBooked = (booked: Map<string | null, string>) =>
        served.every(({ requestId }) => booked.has(requestId));
      const booked = await until(prices, 'every call is booked', areBooked);
      return served.filter(({ requestId }) => booked.get(requestId) !== `1.${price}`);
    },
  },
  {
    name: 'budget lowered',
    status: 402,
    bySql: ({ sql }, { company }) =>
      sql`update companies set monthly_budget_eur = 0.000001 where id = ${company}`,
    byCommand: null,
    byPage: async (_world, { company }) => [
      `/companies/${company}/settings`,
      { budget: '0.000001', allow_non_eu: 'on', confirmed: 'monthly budget 0.000001' }, // it is used up already
    ],
  },
  {
    name: 'key paused',
    status: 403,
    bySql: ({ sql }, { key }) =>
      sql`update api_keys set paused_at = now() where digest = decode(${digestOf(key)}, 'hex')`,
    async byCommand({ sql }, { key }) {
      const [row] =
        await sql`select id from api_keys where digest = decode(${digestOf(key)}, 'hex')`;
      return ['key', 'pause', row?.id, '--reason', 'unpaid'];
    },
    async byPage({ sql }, { company, key }) {
      const [row] =
        await sql`select id from api_keys where digest = decode(${digestOf(key)}, 'hex')`;
      return [`/companies/${company}/keys/${row?.id}/pause`, { reason: 'unpaid' }];
    },
  },
  {
    name: 'company paused',
    status: 403,
    bySql: ({ sql }, { company }) =>
      sql`update companies set paused_at = now() where id = ${company}`,
    byCommand: async (_world, { company }) => ['company', 'pause', company, '--reason', 'unpaid'],
    byPage: async (_world, { company }) => [`/companies/${company}/pause`, { reason: 'unpaid' }],
  },
];

t.test('a change is obeyed by every replica, for good', async (t) => {
  const world = await faultWorld(t);
  await world.sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('abroad', 'internal-abroad!events-5!pace-0', 'chat', false, 1, 1), ('priced', 'internal-priced', 'chat', true, 1, 1)`;
  const replicas = (url: string) =>
    Promise.all(Array.from({ length: REPLICAS }, () => world.gateway({ DATABASE_URL: url })));
  await world.sql`insert into users (email, role, password_hash) values (${OPERATOR}, 'operator', ${cheapHash(PASSWORD)})`;
  /** Makes every change by SQL, by command and by page. @param bound in ms, asserted in long runs */
  const all = async (
    t: Test,
    gateways: readonly GatewayProcess[],
    how: string,
    bound: number,
    share: number,
  ) => {
    const person = new Person(gateways[0]?.adminUrl as string);
    t.equal((await person.signIn(OPERATOR)).status, 303);
    for (const change of CHANGES) {
      const rounds = Math.ceil((change.status === 401 ? ROUNDS : ROUNDS / 4) * share);
      const figures: string[] = [];
      for (const by of ['SQL', 'command', 'page'] as const) {
        if (by === 'command' && change.byCommand === null) continue;
        // once each is enough of a short run
        if (
          !LONG &&
          bound > 1000 &&
          by !== (['command', 'SQL', 'page'] as const)[CHANGES.indexOf(change) % 3]
        )
          continue;
        const late = await measure(t, world, gateways, person, change, by, rounds, bound);
        const last = late.at(-1) as number;
        if (LONG)
          t.ok(
            last <= bound,
            `${change.name} by ${by}: the last answer as before came ${last} ms after the commit`,
          );
        if (LONG && bound === 1000)
          t.ok((late[Math.floor(late.length * 0.99)] as number) <= 250, 'p99');
        figures.push(`${by} ${late[late.length >> 1]}, ${last}`);
      }
      const experiment = `${change.name}${how}, ${rounds} times each way`;
      note('A change stops everywhere', experiment, figures.join('; '));
    }
  };

  await t.test('with notifications', async (t) => {
    const proxy = await startFaultProxy(t, world.databaseUrl);
    await all(t, await replicas(proxy.url), '', 1000, 1);
  });

  await t.test('without', async (t) => {
    const gateways = await replicas(world.databaseUrl);
    // listening connections are killed again and again, so notifications are lost
    let killed = 0;
    const deaf = setInterval(async () => {
      // of a listener "listen" and its heartbeat "select 1" are the only statements
      const ended = await world.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where (query ilike 'listen %' or query = 'select 1') and datname = current_database()`.catch(
        () => [],
      );
      killed += ended.length;
    }, 20);
    t.teardown(() => clearInterval(deaf));
    await all(t, gateways, ' without notifications', 2000, 0.5);
    clearInterval(deaf);
    t.ok(killed > gateways.length, `${killed} listening connections were killed`);
  });

  const pgbouncer = installed('pgbouncer');
  await t.test(
    'behind a transaction pooler',
    { skip: pgbouncer === null && 'no pgbouncer here' },
    async (t) => {
      const gateways = await replicas(await startPooler(t, pgbouncer as string, world.databaseUrl));
      await all(t, gateways, ' through PgBouncer', 2000, 0.5);
    },
  );
});

/**
 * Makes a change under load, and asserts that each replica obeys it from its first answer that shows it.
 * @returns per round, how long after the commit the last request was sent that was answered as before; sorted
 */
async function measure(
  t: Test,
  world: FaultWorld,
  gateways: readonly GatewayProcess[],
  person: Person,
  change: Change,
  by: By,
  rounds: number,
  bound: number,
): Promise<number[]> {
  const late: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const customer = await world.newCompany({ budget: '1000' });
    await world.sql`update companies set allow_non_eu_models = true where id = ${customer.company}`;
    const load = startLoad({
      urls: () => gateways.map(({ url }) => url),
      key: customer.key,
      workers: LONG ? 12 : 8,
      kinds: ['plain'],
      restMs: LONG ? 3 : 40,
      chatModel: change.chatModel ?? 'brand-chat',
      more: { max_tokens: 3 },
    });
    await load.more(AROUND, 'before the change', ({ status }) => status === 200);
    if (by === 'SQL') await change.bySql(world, customer);
    else if (by === 'page') {
      const answer = await person.post(...(await change.byPage(world, customer)));
      t.match([answer.status, answer.headers.get('location')], [303, /\?done=/], answer.text);
    } else {
      const argv = (await change.byCommand?.(world, customer)) ?? [];
      const { code, err } = await tollgate(argv, { env: { DATABASE_URL: world.databaseUrl } });
      t.equal(code, 0, err);
    }
    const committed = Date.now();
    const asBefore = async (journal: readonly Journalled[]) =>
      (await change.asBefore?.(world, customer, journal)) ??
      journal.filter(({ status }) => status === 200);
    /** Of each replica, when it first answered as it does after the change; null: not yet. */
    const obeyed = async () => {
      const journal = [...load.journal];
      const before = new Set(await asBefore(journal));
      const firsts = gateways.map(({ url }) =>
        journal.find((one) => one.url === url && one.status === change.status && !before.has(one)),
      );
      return firsts.map((one) => one?.endedAt ?? null);
    };
    const since = await until(
      obeyed,
      `${change.name} by ${by}: all obey`,
      (times) => !times.includes(null),
    );
    if (LONG) await load.more(1, 'after the bound', ({ at }) => at > committed + bound);
    else await load.more(AROUND, 'after the change');
    const journal = await load.stop();
    // admission is what counts: a request admitted before the change may well be answered later
    const before = await asBefore(journal);
    late.push(Math.max(0, ...before.map(({ at }) => at - committed)));
    const ofReplica = new Map(gateways.map(({ url }, n) => [url, since[n] as number]));
    const after = journal.filter(({ url, at }) => at > (ofReplica.get(url) as number));
    t.ok(after.length > 0, 'requests went on');
    t.same(
      after.filter((one) => one.status !== change.status || before.includes(one)),
      [],
      `${change.name} by ${by}: nobody goes back`,
    );
    const overdue = journal.filter(({ at }) => LONG && at > committed + bound);
    t.same(
      overdue.filter((one) => one.status !== change.status || before.includes(one)),
      [],
      `${change.name} by ${by}: all obey within ${bound} ms`,
    );
  }
  return late.sort((a, b) => a - b);
}
