import { randomUUID } from 'node:crypto';
import t from 'tap';
import { PLAIN_CSV } from '../../../src/domain/documents/csv.ts';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { addDays, type DayRange, intervalOf } from '../../../src/domain/reports/day-range.ts';
import type { Sql, Work } from '../../../src/store/connection/pool.ts';
import { SUMS_NAMES, verifySums } from '../../../src/store/statement/verify.ts';
import { readCompanyUsage } from '../../../src/store/usage/company-usage.ts';
import { NO_FILTERS, type UsageFilters } from '../../../src/store/usage/cube.ts';
import { copyLedger } from '../../../src/store/usage/export.ts';
import { insertUsage } from '../../admin/rows.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

/** Usage of any range and filter is the sum of its ledger rows, in every table; days and hours are those of the zone. */

const ZONE = 'Europe/Berlin';
const { db } = await testDatabase(t);
const run = <T>(work: Work<T>) => db.run(60_000, work);
await run((sql) => sql`update settings set value = ${ZONE} where name = 'billing_timezone'`);
const newCompany = async (): Promise<string> =>
  (await run((sql) => sql`insert into companies (name) values ('Acme') returning id`))[0]?.id;

const company = await newCompany();
const other = await newCompany();
const keys = [randomUUID(), randomUUID(), randomUUID()];
for (const [seed, month] of [
  '2025-12-01',
  '2026-01-01',
  '2026-03-01',
  '2026-04-01',
  '2026-10-01',
].entries()) {
  await run((sql) =>
    insertUsage(sql, { companies: [company, other], keys, rows: 1500, seed, month }),
  );
}

await run((sql) => sql`analyze`);

let seed = 7;
const random = (below: number): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((seed / 2_147_483_648) * below);
};
const oneOf = <T>(...from: readonly T[]): T => from[random(from.length)] as T;

function randomRange(): DayRange {
  const from = addDays('2025-11-28', random(340));
  return { from, to: addDays(from, oneOf(0, 0, random(7), random(31), random(62), random(400))) };
}

function randomFilters(): UsageFilters {
  const none = random(3) === 0;
  return {
    model: none || random(2) === 0 ? null : oneOf('swift', 'solid', 'vectors', 'absent'),
    key: none || random(3) > 0 ? null : oneOf(...keys),
    endpoint: none || random(3) > 0 ? null : oneOf('chat.completions', 'embeddings'),
    cost_center:
      none || random(2) === 0 ? null : oneOf('', 'Einkauf', 'R&D', "IT's", "x' or true --", '\\'),
    keys: none || random(3) > 0 ? null : keys.filter(() => random(2) === 0),
  };
}

/** The sums of the ledger rows themselves, of each value of a column, the most expensive first. */
async function linesOf(range: DayRange, filters: UsageFilters, column: string) {
  return run(
    (sql) => sql`
      select ${sql(column)} as name, count(*)::integer as requests, sum(prompt_tokens)::integer as prompt_tokens,
        sum(completion_tokens)::integer as completion_tokens, trim_scale(sum(cost_eur))::text as cost_eur,
        (count(*) filter (where usage_source = 'estimated'))::integer as estimated,
        (count(*) filter (where outcome <> 'completed'))::integer as unfinished
      from api_usage where ${chosenOf(sql, range, filters)}
      group by 1 order by sum(cost_eur) desc, 1`,
  );
}

const chosenOf = (
  sql: Sql,
  { from, to }: DayRange,
  { model, key, endpoint, cost_center, keys }: UsageFilters,
) => sql`
  company_id = ${company} and (occurred_at at time zone ${ZONE})::date between ${from}::date and ${to}::date
  and model_slug = coalesce(${model}, model_slug) and api_key_id = coalesce(${key}::uuid, api_key_id)
  and endpoint = coalesce(${endpoint}, endpoint) and cost_center = coalesce(${cost_center}, cost_center)
  and (${keys === null} or api_key_id = any(${[...(keys ?? [])]}::uuid[]))`;

/** The sums of the ledger rows themselves. */
async function ledgerOf(range: DayRange, filters: UsageFilters) {
  const [row] = await run(
    (sql) => sql`
      select count(*)::integer as requests, coalesce(sum(prompt_tokens), 0)::integer as prompt_tokens,
        coalesce(sum(completion_tokens), 0)::integer as completion_tokens,
        trim_scale(coalesce(sum(cost_eur), 0))::text as cost_eur
      from api_usage where ${chosenOf(sql, range, filters)}`,
  );
  return row;
}

const sumsOf = (
  lines: readonly {
    requests: number;
    prompt_tokens: number;
    completion_tokens: number;
    cost_eur: string;
  }[],
) => ({
  requests: lines.reduce((sum, line) => sum + line.requests, 0),
  prompt_tokens: lines.reduce((sum, line) => sum + line.prompt_tokens, 0),
  completion_tokens: lines.reduce((sum, line) => sum + line.completion_tokens, 0),
  cost_eur: formatEur(lines.reduce((sum, line) => sum + parseEur(line.cost_eur), 0n)) || '0',
});

t.test(
  'every table of any range with any filter adds up to the ledger rows, and so do their exports',
  async (t) => {
    const steps = new Set<string>();
    let filled = 0;
    for (let round = 0; round < 40; round++) {
      const range = randomRange();
      const filters = randomFilters();
      const usage = await run((sql) => readCompanyUsage(sql, company, range, filters));
      const ledger = await ledgerOf(range, filters);
      const what = JSON.stringify({ ...range, ...filters });
      for (const [name, lines] of Object.entries({
        total: [{ ...usage, cost_eur: usage.api_cost_eur }],
        time: usage.by_time,
        model: usage.by_model.lines,
        key: usage.by_key.lines,
        endpoint: usage.by_endpoint.lines,
        cost_center: usage.by_cost_center.lines,
        ending: usage.by_ending,
      })) {
        t.same(sumsOf(lines), ledger, `${what} ${name}`);
      }
      const tables = {
        model_slug: usage.by_model.lines,
        api_key_id: usage.by_key.lines.map(({ id, prefix, ...line }) => ({ ...line, name: id })),
        endpoint: usage.by_endpoint.lines,
        cost_center: usage.by_cost_center.lines,
      };
      for (const [column, lines] of Object.entries(tables)) {
        t.same(lines, await linesOf(range, filters, column), `${what} each ${column}`);
      }
      const short = await run((sql) => readCompanyUsage(sql, company, range, filters, 2));
      t.same(short.by_model.lines, usage.by_model.lines.slice(0, 2));
      t.equal(short.by_model.count, usage.by_model.lines.length);
      t.same(short.by_key.lines, usage.by_key.lines.slice(0, 2));
      t.equal(short.by_key.count, usage.by_key.lines.length);
      if (round % 4 === 0) {
        let csv = '';
        await run((sql) =>
          copyLedger(
            sql,
            { companyId: company, range, filters, internal: false, form: PLAIN_CSV },
            async (bytes) => {
              csv += bytes;
              return true;
            },
          ),
        );
        const [heading = '', ...lines] = csv.trim().split('\n');
        const at = heading.split(',').indexOf('cost_eur');
        t.equal(lines.length, ledger?.requests, `${what} export`);
        t.equal(
          sumsOf(lines.map((line) => ({ ...usage, cost_eur: line.split(',')[at] as string })))
            .cost_eur,
          ledger?.cost_eur,
        );
      }
      steps.add(intervalOf(range));
      if (ledger?.requests > 0) filled++;
    }
    t.same([...steps].sort(), ['day', 'hour', 'month']);
    t.ok(filled > 10, `${filled} of them had calls`);
  },
);

t.test('a key with free calls alone is shown on the days of its calls', async (t) => {
  const own = await newCompany();
  await run((sql) =>
    addUsage(sql, [
      { company: own, at: '2026-02-14T12:00:00Z', month: '2026-02-01', prompt: 5, input: '0' },
    ]),
  );
  const keysOf = async (from: string, to: string) => {
    const { by_key } = await run((sql) => readCompanyUsage(sql, own, { from, to }, NO_FILTERS, 50));
    t.equal(by_key.lines.length, by_key.count);
    return by_key.count;
  };
  for (const [from, to] of [
    ['2026-02-14', '2026-02-14'],
    ['2026-02-11', '2026-02-28'],
    ['2026-02-01', '2026-02-28'],
    ['2026-01-30', '2026-03-02'],
  ] as const) {
    t.equal(await keysOf(from, to), 1, `${from} ${to}`);
  }
  t.equal(await keysOf('2026-02-01', '2026-02-13'), 0);
  t.equal(await keysOf('2026-02-15', '2026-03-14'), 0);
});

t.test('in-app chat is known for whole months without a filter', async (t) => {
  await run(
    (sql) => sql`insert into chat_usage (company_id, occurred_at, cost_eur) values
    (${company}, '2026-01-10T00:00:00Z', 1.5), (${company}, '2026-03-10T00:00:00Z', 2)`,
  );
  const chat = async (from: string, to: string, filters = NO_FILTERS) =>
    (await run((sql) => readCompanyUsage(sql, company, { from, to }, filters))).chat_cost_eur;
  t.equal(await chat('2026-01-01', '2026-01-31'), '1.5');
  t.equal(await chat('2026-01-01', '2026-03-31'), '3.5');
  t.equal(await chat('2026-01-01', '2026-03-30'), null);
  t.equal(await chat('2026-01-01', '2026-01-31', { ...NO_FILTERS, model: 'swift' }), null);
});

t.test(
  'a day has as many hours as its clocks show: one is skipped in spring, one is there twice in autumn',
  async (t) => {
    const own = await newCompany();
    const at = (time: string, prompt: number) => ({
      company: own,
      at: time,
      month: `${time.slice(0, 7)}-01`,
      prompt,
      input: '1',
    });
    await run((sql) =>
      addUsage(sql, [
        at('2026-10-24T21:59:59Z', 1), // 23:59 of the day before
        at('2026-10-24T22:00:00Z', 10), // midnight
        at('2026-10-25T00:30:00Z', 100), // 2:30 in summer
        at('2026-10-25T01:30:00Z', 200), // 2:30 again, in winter
        at('2026-10-25T22:59:59Z', 1000), // 23:59
        at('2026-10-25T23:00:00Z', 2), // the next day
        at('2026-03-29T00:59:00Z', 7), // 1:59, and a minute later it is 3:00
        at('2026-03-29T01:00:00Z', 8),
      ]),
    );
    const day = (date: string) =>
      run((sql) => readCompanyUsage(sql, own, { from: date, to: date }, NO_FILTERS));
    const autumn = await day('2026-10-25');
    t.equal(autumn.hours.length, 25);
    t.same(
      autumn.hours.slice(0, 5).map(({ label }) => label),
      ['00:00', '01:00', '02:00', '02:00', '03:00'],
    );
    t.same(
      autumn.by_time.map((line) => [line.at, line.prompt_tokens]),
      [
        ['2026-10-24T22:00:00Z', 10],
        ['2026-10-25T00:00:00Z', 100],
        ['2026-10-25T01:00:00Z', 200],
        ['2026-10-25T22:00:00Z', 1000],
      ],
    );
    const spring = await day('2026-03-29');
    t.same(
      spring.hours.slice(0, 4).map(({ label }) => label),
      ['00:00', '01:00', '03:00', '04:00'],
    );
    t.equal(spring.hours.length, 23);
    t.same(
      spring.by_time.map((line) => line.at),
      ['2026-03-29T00:00:00Z', '2026-03-29T01:00:00Z'],
    );
    for (const { by_time, hours } of [autumn, spring]) {
      const known = hours.map(({ at }) => at);
      t.ok(
        by_time.every((line) => known.includes(line.at)),
        'every call is in an hour that is shown',
      );
    }
  },
);

t.test(
  'days and hours hold in zones with odd offsets and with midnights that do not exist',
  async (t) => {
    await run(async (sql) => {
      for (const zone of [
        'Asia/Kolkata',
        'Australia/Lord_Howe',
        'America/Havana',
        'Atlantic/Azores',
        'America/Sao_Paulo',
        'Africa/Cairo',
        'UTC',
      ]) {
        await sql`begin`;
        await sql`update settings set value = ${zone} where name = 'billing_timezone'`;
        const [own] = await sql`insert into companies (name) values ('Odd') returning id`;
        // each half hour of a day and of those about the clock changes of a year
        await sql`
        insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
          prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
        select date_trunc('month', at at time zone ${zone})::date, gen_random_uuid(), ${own?.id}, ${own?.id}, 'm', 'i', 'messages',
          1, 0, 0, 0, 0, 'upstream', 'completed', at
        from generate_series('2018-01-01T00:00Z'::timestamptz, '2018-12-31T00:00Z', '30 minutes') at
        where (at at time zone ${zone})::date = '2018-06-15' or (at + interval '36 hours') at time zone ${zone}
          - (at - interval '36 hours') at time zone ${zone} <> interval '72 hours'`;
        const days = await sql`
        select (occurred_at at time zone ${zone})::date::text as day, count(*)::integer as requests,
          count(distinct date_trunc('hour', occurred_at, ${zone}))::integer as hours
        from api_usage where company_id = ${own?.id} group by 1 order by 1`;
        const odd = days
          .filter(({ hours }) => hours !== 24)
          .map(({ day }) => day)
          .slice(0, 6);
        for (const date of [...odd, '2018-06-15']) {
          const usage = await readCompanyUsage(sql, own?.id, { from: date, to: date }, NO_FILTERS);
          const known = usage.hours.map(({ at }) => at);
          const wanted = days.find(({ day }) => day === date);
          t.equal(usage.requests, wanted?.requests, `${zone} ${date}`);
          t.same(
            usage.by_time.map(({ at }) => at).filter((at) => !known.includes(at)),
            [],
            `${zone} ${date}`,
          );
          t.equal(sumsOf(usage.by_time).requests, usage.requests);
          let csv = '';
          const range = { from: date, to: date };
          const asked = {
            companyId: own?.id,
            range,
            filters: NO_FILTERS,
            internal: false,
            form: PLAIN_CSV,
          };
          await copyLedger(sql, asked, async (bytes) => {
            csv += bytes;
            return true;
          });
          t.equal(csv.trim().split('\n').length - 1, usage.requests, `${zone} ${date} export`);
        }
        await sql`rollback`;
      }
    });
  },
);

t.test('a figure by day or by month that is off is named', async (t) => {
  for (const name of SUMS_NAMES) {
    t.equal((await run((sql) => verifySums(sql, name))).total, 0, name);
  }
  await run(
    (sql) => sql`update usage_company_days set cost_eur = cost_eur + 1
    where company_id = ${company} and day = '2026-01-05' and model_slug = 'swift'`,
  );
  await run(
    (sql) =>
      sql`update usage_key_months set estimated = estimated + 1 where api_key_id = ${keys[0] as string}`,
  );
  await run(
    (sql) => sql`update usage_key_months set day_31 = 0, day_01 = day_01 + 1
    where company_id = ${company} and billing_month = '2026-04-01' and api_key_id = ${keys[0] as string}`,
  );
  await run(
    (sql) =>
      sql`insert into usage_model_days values ('2026-01-01', '2026-01-05', 'swift', 7, 1, 0, 0, 0, 0, 0)`,
  );
  await run(
    (sql) =>
      sql`delete from usage_daily where company_id = ${company} and billing_month = '2026-01-01' and cost_center = 'R&D'`,
  );
  const daily = await run((sql) => verifySums(sql, 'daily', 5));
  t.ok(daily.total > 5);
  t.equal(daily.differences.length, 5);
  t.match(daily.differences[0], { company_id: company, counted: '0' });
  const days = await run((sql) => verifySums(sql, 'company_days'));
  t.match(days.differences[0], {
    company_id: company,
    day: '2026-01-05',
    model_slug: 'swift',
    counter: 'cost_eur',
  });
  const months = await run((sql) => verifySums(sql, 'key_months'));
  t.match(months.differences[0], { month: '2025-12', model_slug: null, counter: 'estimated' });
  const ofDays = months.differences.filter(({ counter }) => counter !== 'estimated');
  t.match(ofDays[0], { company_id: company, month: '2026-04', model_slug: null });
  t.same(new Set(ofDays.map(({ counter }) => counter)), new Set(['day_31', 'day_01']));
  t.match(await run((sql) => verifySums(sql, 'model_days')), {
    total: 1,
    differences: [
      { company_id: null, day: '2026-01-05', model_slug: 'swift', counter: 'requests' },
    ],
  });
});
