import fc from 'fast-check';
import t, { type Test } from 'tap';
import { COST_PARTS } from '../../../src/domain/pricing/parts.ts';
import { parsePrices, rateOf, timesFactor } from '../../../src/domain/pricing/prices.ts';
import { mistakesOf, parseRates, type RateTexts } from '../../../src/domain/pricing/rates.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { fuzzRuns } from '../../support/fuzz.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(60_000, work);
const refused = (t: Test, work: (sql: Sql) => PromiseLike<unknown>) =>
  t.rejects(run(work), { message: /^The rates of .* are not a list of conditions and prices/ });
const RATES = [{ over: 272_000, input: '0.005', output: '0.0225' }];
const offer = (sql: Sql, slug: string, rates: unknown, cacheRead: string | null = null) => sql`
  insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, cost_eur_per_1k_cache_read, rates)
  values (${slug}, 'internal', 'chat', true, 0.0025, 0.015, ${cacheRead}, ${rates as never}::jsonb)`;
const history = (slug: string) =>
  run(
    (sql) => sql<{ input: string | null; rates: RateTexts[] | null }[]>`
      select trim_scale(input)::text as input, rates from model_prices where slug = ${slug} order by valid_from`,
  );

t.test('the parts of a price are the same in SQL and in the code', async (t) => {
  const [row] = await run((sql) => sql<[{ parts: string[] }]>`select price_parts() as parts`);
  t.strictSame(row.parts, COST_PARTS);
});

t.test(
  'rates are part of a price: their history is kept, and a change of them begins one',
  async (t) => {
    await run((sql) => offer(sql, 'long', RATES));
    await run((sql) => sql`update models set rates = null where slug = 'long'`);
    await run((sql) => sql`update models set upstream_model = 'other' where slug = 'long'`);
    t.same(await history('long'), [
      { input: '0.0025', rates: RATES },
      { input: '0.0025', rates: null },
    ]);
    await run((sql) => sql`delete from models where slug = 'long'`);
    t.same((await history('long')).at(-1), { input: null, rates: null });
  },
);

t.test(
  'rates that cannot be read, or leave out a part of the base price, are refused',
  async (t) => {
    for (const [n, rates] of [
      [],
      {},
      'text',
      [{ input: '1', output: '1' }],
      [{ over: 5, input: '1' }],
      [{ over: 5, input: 1.5e-7, output: '1' }],
      [{ over: -1, input: '1', output: '1' }],
      [{ over: 5, input: '1', output: '1', inptu: '1' }],
      [{ tier: 'over', input: '1', output: '1' }],
      [{ hours: 'at night', input: '1', output: '1' }],
      [5],
    ].entries())
      await refused(t, (sql) => offer(sql, `wrong-${n}`, rates));
    await refused(t, (sql) => offer(sql, 'cached', RATES, '0.00025'));
    const whole = [{ over: 272_000, input: '0.005', output: '0.0225', cache_read: null }];
    await run((sql) => offer(sql, 'cached', whole, '0.00025'));
    await refused(
      t,
      (sql) => sql`update models set cost_eur_per_1k_reasoning = 1 where slug = 'cached'`,
    );
    await refused(
      t,
      (sql) => sql`insert into model_cost_prices (slug, valid_from, input, output, rates)
      values ('cached', '2026-01-01', 1, 1, '[{"over":5,"input":"1"}]')`,
    );
  },
);

t.test('a price factor has to fit the prices of rates too', async (t) => {
  const rates = [{ over: 5, input: '0.000000000001', output: '1' }];
  await run((sql) => offer(sql, 'fine', rates));
  await t.rejects(
    run((sql) => sql`insert into companies (name, price_factor) values ('cheap', 0.5)`),
    { message: /times the price factor 0.5/ },
  );
});

const price = fc.bigInt(0n, 10n ** 9n).map((n) => `0.${n.toString().padStart(9, '0')}`);
const clock = fc
  .nat(24 * 60 - 1)
  .map((n) => `${String(Math.floor(n / 60)).padStart(2, '0')}:${String(n % 60).padStart(2, '0')}`);
const day = fc.constantFrom('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun');
const days = fc.option(
  fc.array(
    fc.oneof(
      day,
      fc.tuple(day, day).map((two) => two.join('-')),
    ),
    { minLength: 1, maxLength: 3 },
  ),
);
const window = fc
  .tuple(clock, fc.oneof(clock, fc.constant('24:00')))
  .filter(([from, to]) => from !== to);
const hours = fc
  .tuple(
    days,
    fc.array(window, { minLength: 1, maxLength: 3 }),
    fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kathmandu'),
  )
  .map(
    ([days, windows, zone]) =>
      `${days === null ? '' : `${days.join(',')} `}${windows.map((each) => each.join('-')).join(',')} ${zone}`,
  );
const rate = fc
  .record({
    over: fc.option(fc.nat(10)),
    tier: fc.constantFrom(null, 'flex', 'priority'),
    hours: fc.option(hours),
    input: price,
    output: price,
  })
  .filter(({ over, tier, hours }) => over !== null || tier !== null || hours !== null)
  .map(({ over, tier, hours, ...texts }) => ({
    ...(over !== null && { over }),
    ...(tier !== null && { tier }),
    ...(hours !== null && { hours }),
    ...texts,
  }));
/** Around both changes of the clock, and at any time. */
const instant = fc.oneof(
  fc.integer({ min: -7200, max: 7200 }).map((s) => Date.parse('2026-03-29T01:00:00Z') + s * 1000),
  fc.integer({ min: -7200, max: 7200 }).map((s) => Date.parse('2026-11-01T06:00:00Z') + s * 1000),
  fc.integer({ min: 0, max: 31_536_000 }).map((s) => Date.parse('2026-01-01T00:00:00Z') + s * 1000),
);

t.test(
  'SQL and the gateway find the same rate for a call, and the same price times a factor',
  async (t) => {
    const cases = fc.sample(
      fc.record({
        rates: fc.array(rate, { minLength: 1, maxLength: 5 }),
        prompt: fc.nat(11),
        tier: fc.constantFrom(null, 'flex', 'priority', 'scale'),
        at: instant,
      }),
      fuzzRuns(2000),
    );
    const rows = await run(
      (sql) => sql<{ found: RateTexts | null; priced: RateTexts[] }[]>`
      select rate_of(each.rates, each.prompt, each.tier, to_timestamp(each.at / 1000.0)) as found, times_factor(each.rates, 0.9) as priced
      from jsonb_to_recordset(${cases as never}::jsonb) as each (rates jsonb, prompt bigint, tier text, at float8)`,
    );
    t.equal(rows.length, cases.length);
    for (const [n, { found, priced }] of rows.entries()) {
      const { rates, prompt, tier, at } = cases[n] as (typeof cases)[number];
      const told = rateOf(parseRates(rates), { at, tier }, prompt);
      const same =
        told?.prices.texts.input === found?.input &&
        (told?.prices.rate ?? null) === (found && nameOf(found));
      const factored = timesFactor(parsePrices('1', '1', {}, parseRates(rates)), '0.9').rates;
      const isPriced = factored.every(({ prices }, i) => prices.texts.input === priced[i]?.input);
      if (!same && mistakesOf(rates, { input: '1', output: '1' }, at).length === 0)
        t.fail(`${JSON.stringify({ rates, prompt, tier, at })}: ${JSON.stringify(found)} in SQL`);
      if (!isPriced) t.fail(`${JSON.stringify({ rates, priced })}`);
    }
  },
);

const nameOf = ({ tier, hours, over }: RateTexts): string =>
  [tier, hours, over === undefined ? undefined : `over ${over}`]
    .filter((each) => each !== undefined)
    .join(' ');
