import t from 'tap';
import { openApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { FAST_HTTP } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { judge } from './judge.ts';
import { send, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { faultWorld } from './world.ts';

/** Two gateways under load, whose clocks run ahead of the database's, when prices begin while the database is away. */

const AHEAD_MS = 8000; // a price has to be known to the database five seconds before it begins
const world = await faultWorld(t);
const proxy = await startFaultProxy(t, world.databaseUrl);
const clock = (): number => Date.now() + AHEAD_MS;

async function startOne(): Promise<string> {
  const env = {
    PORT: '0',
    ADMIN_PORT: 'off',
    DATABASE_URL: proxy.url,
    UPSTREAM_URL: world.demo.url,
  };
  const config = readConfig({ ...env, FAST_HTTP, SPOOL_DIR: world.spoolDir });
  const app = await openApp(config, createLog({ level: 'silent' }, process.stderr), { clock });
  await app.listen();
  t.teardown(async () => {
    proxy.thaw();
    await app.drain(1);
    await app.close();
  });
  return app.apiUrl;
}

const urls = [await startOne(), await startOne()];
const history = [
  ['0.37', '1.013'],
  ['0.00000000001', '2.5'],
  ['3.75', '0'],
] as const;

t.test('every call costs the price that is in force when it is admitted, on both', async (t) => {
  const load = startLoad({
    urls: () => urls,
    key: world.key,
    workers: 8,
    kinds: ['stream', 'plain'],
    isRated: false, // prices that come have no rates
    restMs: 3,
  });
  await load.more(40, 'at the first price');
  const began = clock() + 4000; // on a loud machine both know it by then
  const dates = [began, began + 400];
  for (const [i, [input, output]] of history.slice(1).entries()) {
    await world.sql`insert into model_prices (slug, valid_from, input, output)
      values ('brand-chat', ${new Date(dates[i] as number)}, ${input}, ${output})`;
  }
  // what the feed tells later, it has told earlier
  await world.model('told', 'internal-chat');
  for (const url of urls) await world.served({ url }, 'told');
  t.ok(clock() < began, 'both know the prices before they begin');
  proxy.freeze();
  await until(clock, 'the last price begins', (now) => now > (dates[1] as number) + 100);
  await load.more(60, 'at the last price');
  const clients = await load.stop();
  proxy.thaw();
  const answered = clients.filter(({ status }) => status === 200);
  t.equal(answered.length, clients.length, 'no request was refused');
  const rows = await until(
    () => world.sql<{ at: Date; input: string; output: string }[]>`
      select occurred_at as at, trim_scale(price_input)::text as input, trim_scale(price_output)::text as output from api_usage`,
    'the ledger has every call',
    ({ length }) => length >= answered.length,
  );
  const seen = new Map<number, number>();
  for (const { at, input, output } of rows) {
    const price = dates.filter((date) => date <= at.getTime()).length;
    seen.set(price, 1 + (seen.get(price) ?? 0));
    if (input !== history[price]?.[0] || output !== history[price]?.[1])
      t.fail(`${at.toISOString()}: ${input}, ${output}`);
  }
  t.same([...seen.keys()].sort(), [0, 1, 2], `calls at each price: ${[...seen.values()]}`);
  const { missing, duplicates, wrong, unverified } = await judge(
    world.sql,
    clients,
    world.upstreamJournal(),
  );
  t.same(
    { missing, duplicates, wrong, unverified },
    { missing: [], duplicates: 0, wrong: [], unverified: 0 },
  );
  const [{ shown }] =
    (await world.sql`select trim_scale(cost_eur_per_1k_input)::text as shown from models where slug = 'brand-chat'`) as unknown as [
      { shown: string },
    ];
  t.equal(shown, '0.37', "the database's clock has not reached the dates");
});

t.test('the factor of a company begins at its date likewise, on both', async (t) => {
  const [{ rows: earlier }] = await world.sql<
    [{ rows: number }]
  >`select count(*)::integer as rows from api_usage`;
  const load = startLoad({
    urls: () => urls,
    key: world.key,
    workers: 8,
    kinds: ['stream', 'plain'],
    isRated: false, // prices that come have no rates
    restMs: 3,
  });
  await load.more(40, 'without a factor');
  const began = clock() + 4000; // on a loud machine both know it by then
  const dates = [began, began + 400];
  for (const [i, factor] of ['0.9', '1.2'].entries()) {
    await world.sql`insert into company_price_factors (company_id, valid_from, factor)
      values (${world.company}, ${new Date(dates[i] as number)}, ${factor})`;
  }
  await world.model('told-too', 'internal-chat');
  for (const url of urls) await world.served({ url }, 'told-too');
  t.ok(clock() < began, 'both know the factors before they begin');
  proxy.freeze();
  await until(clock, 'the last factor begins', (now) => now > (dates[1] as number) + 100);
  await load.more(60, 'at the last factor');
  const answered = (await load.stop()).filter(({ status }) => status === 200).length;
  proxy.thaw();
  const rows = await until(
    () => world.sql<{ at: Date; input: string; list: string; factor: string; cost: string }[]>`
      select occurred_at as at, trim_scale(price_input)::text as input, f.factor::text as factor
      from api_usage, price_factor(company_id, occurred_at) f where company_id = ${world.company} order by occurred_at offset ${earlier}`,
    'the ledger has every call',
    ({ length }) => length >= answered,
  );
  const seen = new Set<number>();
  for (const { at, input, factor } of rows) {
    const n = dates.filter((date) => date <= at.getTime()).length;
    seen.add(n);
    const expected = [
      ['3.75', '1'],
      ['3.375', '0.9'],
      ['4.5', '1.2'],
    ][n];
    if (input !== expected?.[0] || factor !== expected[1])
      t.fail(`${at.toISOString()}: ${input}, ${factor}`);
  }
  t.same([...seen].sort(), [0, 1, 2], 'calls at each factor');
});

t.test('a strict budget reserves with the price of the admission', async (t) => {
  await world.model('strict', 'internal-chat', { input: '0', output: '0.001' });
  const { key } = await world.newCompany({ budget: '1', mode: 'strict' });
  const ask = () =>
    send(undefined, urls[0] as string, 'plain', {
      key,
      chatModel: 'strict',
      more: { max_tokens: 600 },
    });
  await world.served({ url: urls[0] as string }, 'strict');
  const first = await until(ask, 'the model is served', ({ status }) => status !== 404);
  t.equal(first.status, 200, '0.0006 of 1 EUR');
  const at = clock() + 500;
  await world.sql`insert into model_prices (slug, valid_from, input, output) values ('strict', ${new Date(at)}, 0, 2)`;
  t.equal(
    (await until(ask, 'the price has begun', ({ status }) => status !== 200)).status,
    402,
    '1.2 of 1 EUR',
  );
  t.ok(clock() >= at);
});
