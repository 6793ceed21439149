import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { type FaultWorld, faultWorld, LONG, until } from './world.ts';

const ROUNDS = LONG ? 40 : 4;
t.setTimeout(LONG ? 600_000 : 60_000);

/** A change by plain SQL, and the answer that shows a replica obeys it. */
interface Change {
  readonly name: string;
  readonly status: number;
  readonly chatModel?: string;
  make(world: FaultWorld, customer: { company: string; key: string }): Promise<unknown>;
}

const CHANGES: readonly Change[] = [
  {
    name: 'key revoked',
    status: 401,
    make: ({ sql }, { key }) =>
      sql`update api_keys set revoked_at = now() where digest = decode(${digestOf(key)}, 'hex')`,
  },
  {
    name: 'model disabled',
    status: 404,
    make: ({ sql }, { company }) =>
      sql`update companies set disabled_model_slugs = '{brand-chat}' where id = ${company}`,
  },
  {
    name: 'EU gate closed',
    status: 403,
    chatModel: 'abroad',
    make: ({ sql }, { company }) => sql`update companies set allow_non_eu_models = false where id = ${company}`,
  },
  {
    name: 'budget lowered',
    status: 402,
    make: ({ sql }, { company }) => sql`update companies set monthly_budget_eur = 0.000001 where id = ${company}`,
  },
];

t.test('a change stops everywhere within its bound', async (t) => {
  const world = await faultWorld(t);
  await world.sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('abroad', 'internal-abroad!events-5!pace-0', 'chat', false, 1, 1)`;
  const proxy = await startFaultProxy(t, world.databaseUrl);
  const gateways = await Promise.all([1, 2, 3].map(() => world.gateway({ DATABASE_URL: proxy.url })));
  const urls = gateways.map(({ url }) => url);

  await t.test('with notifications', async (t) => {
    for (const [n, change] of CHANGES.entries()) {
      const rounds = change.status === 401 ? ROUNDS : Math.ceil(ROUNDS / 4);
      const late = await measure(t, world, urls, change, rounds);
      t.ok((late.at(-1) as number) <= 1000, `${change.name}: the last 200 came ${late.at(-1)} ms after the commit`);
      t.ok((late[Math.floor(late.length * 0.99)] as number) <= 250, 'p99');
      note(
        30 + n,
        'A change stops everywhere',
        `${change.name} by SQL, 3 replicas under load, ${rounds} times`,
        figures(late),
      );
    }
  });

  await t.test('without', async (t) => {
    // the listening connections die again and again, and what they would have heard is lost
    let killed = 0;
    const deaf = setInterval(async () => {
      // a listener says "select 1" now and then, and nothing else
      const ended = await world.sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where (query ilike 'listen %' or query = 'select 1') and datname = current_database()`.catch(() => []);
      killed += ended.length;
    }, 20);
    const late = await measure(t, world, urls, CHANGES[0] as Change, Math.ceil(ROUNDS / 2));
    clearInterval(deaf);
    t.ok(killed > urls.length, `${killed} listening connections were killed`);
    t.ok((late.at(-1) as number) <= 2000, `the last 200 came ${late.at(-1)} ms after the commit`);
    note(
      38,
      'A change stops everywhere',
      `key revoked while every listening connection is killed within 20 ms (${killed} of them), ${Math.ceil(ROUNDS / 2)} times`,
      figures(late),
    );
  });
});

function figures(late: readonly number[]): string {
  return `last 200 after the commit: median ${late[late.length >> 1]} ms, p99 ${late[Math.floor(late.length * 0.99)]} ms, worst ${late.at(-1)} ms; none after that`;
}

/** @returns per round, how long after the commit the last request was sent that got a 200, sorted */
async function measure(
  t: Test,
  world: FaultWorld,
  urls: readonly string[],
  change: Change,
  rounds: number,
): Promise<number[]> {
  const late: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const customer = await world.newCompany({ budget: '1000' });
    await world.sql`update companies set allow_non_eu_models = true where id = ${customer.company}`;
    const load = startLoad({
      urls: () => urls,
      key: customer.key,
      workers: 12,
      kinds: ['plain'],
      restMs: 3,
      chatModel: change.chatModel ?? 'brand-chat',
      more: { max_tokens: 3 },
    });
    await until(() => load.journal.filter(({ status }) => status === 200).length >= 40);
    await change.make(world, customer);
    const committed = Date.now();
    await sleep(1200);
    const journal = await load.stop();
    // admission is what counts: a request let in before may well be answered later
    const last = journal.filter(({ status }) => status === 200).map(({ at }) => at - committed);
    late.push(Math.max(0, ...last));
    const after = journal.filter(({ at }) => at > committed + 1000);
    t.ok(after.length > 0, 'requests went on');
    t.same(
      after.filter(({ status }) => status !== change.status),
      [],
      `${change.name}: all refused`,
    );
  }
  return late.sort((a, b) => a - b);
}
