import { randomUUID } from 'node:crypto';
import { parse } from 'csv-parse/sync';
import t, { type Test } from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import type { Database, Sql } from '../../../src/store/connection/pool.ts';
import { snapshot } from '../../../src/store/connection/tenant-role.ts';
import { readCompanyMonths } from '../../../src/store/statement/month.ts';
import { readMonthOf } from '../../../src/store/statement/statement.ts';
import { copyFocus, readFocus } from '../../../src/store/usage/focus.ts';
import { testDatabase } from '../../support/postgres.ts';
import { closeStatement } from '../../support/statement.ts';
import { addUsage, type SomeUsage } from '../../support/usage.ts';

const MS = 60_000;
const NAMES = { name: 'Nordcloud', seller: ['Nordcloud GmbH', 'Kai 7, Hamburg'] };
type Row = Readonly<Record<string, string>>;

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const DECIMAL = /^-?\d+(\.\d+)?$/;
const PRICE = /^\d+(\.\d+)?$/; // not negative
const TEXT = /./s;

/**
 * The columns by the specification of FOCUS 1.2 (github.com/FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec, tag v1.2): its data
 * type, or its allowed values; whether null is allowed, and for a charge of usage that is no correction.
 */
// biome-ignore format: a table
const SPECIFIED: Readonly<Record<string, readonly [value: RegExp | readonly string[], allowsNull: boolean, nullOfUsage: boolean]>> = {
  BilledCost: [DECIMAL, false, false],
  EffectiveCost: [DECIMAL, false, false],
  ContractedCost: [DECIMAL, false, false],
  ListCost: [DECIMAL, false, false],
  BillingCurrency: [/^[A-Z]{3}$/, false, false],
  BillingPeriodStart: [INSTANT, false, false],
  BillingPeriodEnd: [INSTANT, false, false],
  ChargePeriodStart: [INSTANT, false, false],
  ChargePeriodEnd: [INSTANT, false, false],
  ChargeCategory: [['Usage', 'Purchase', 'Tax', 'Credit', 'Adjustment'], false, false],
  ChargeClass: [['Correction'], true, true],
  ChargeFrequency: [['One-Time', 'Recurring', 'Usage-Based'], false, false],
  ChargeDescription: [TEXT, true, false],
  ConsumedQuantity: [DECIMAL, true, false],
  ConsumedUnit: [['Tokens'], true, false],
  PricingQuantity: [DECIMAL, true, false],
  PricingUnit: [['1000 Tokens'], true, false],
  ListUnitPrice: [PRICE, true, false],
  ContractedUnitPrice: [PRICE, true, false],
  InvoiceId: [TEXT, true, true],
  InvoiceIssuerName: [TEXT, false, false],
  ProviderName: [TEXT, false, false],
  PublisherName: [TEXT, false, false],
  BillingAccountId: [TEXT, false, false],
  BillingAccountName: [TEXT, true, true],
  SubAccountId: [TEXT, true, false],
  SubAccountName: [TEXT, true, false],
  ServiceName: [TEXT, false, false],
  ServiceCategory: [['AI and Machine Learning', 'Analytics', 'Business Applications', 'Compute', 'Databases', 'Developer Tools', 'Multicloud', 'Identity', 'Integration', 'Internet of Things', 'Management and Governance', 'Media', 'Migration', 'Mobile', 'Networking', 'Security', 'Storage', 'Web', 'Other'], false, false],
  ServiceSubcategory: [['AI Platforms', 'Bots', 'Generative AI', 'Machine Learning', 'Natural Language Processing', 'Other (AI and Machine Learning)'], false, false],
  SkuId: [TEXT, true, false],
  SkuPriceId: [TEXT, true, false],
  SkuMeter: [['Input', 'Cache Read', 'Cache Write', 'Output'], true, false],
  SkuPriceDetails: [/^\{.*\}$/s, true, true],
  Tags: [/^\{.*\}$/s, true, true],
};
/** Columns that each data set of FOCUS 1.2 must have. */
// biome-ignore format: a list
const MANDATORY = ['BilledCost', 'BillingAccountId', 'BillingAccountName', 'BillingCurrency', 'BillingPeriodEnd', 'BillingPeriodStart',
  'ChargeCategory', 'ChargeClass', 'ChargeDescription', 'ChargePeriodEnd', 'ChargePeriodStart', 'ContractedCost', 'EffectiveCost',
  'InvoiceIssuerName', 'ListCost', 'PricingQuantity', 'PricingUnit', 'ProviderName', 'PublisherName', 'ServiceCategory', 'ServiceName'];

async function focus(
  db: Database,
  month: string,
  company: string | null,
  most?: number,
): Promise<Row[]> {
  let text = '';
  const asked = { brand: NAMES, month, company, role: 'operator', ...(most && { most }) } as const;
  await snapshot(db, null, MS, (sql) =>
    copyFocus(sql, asked, async (bytes) => {
      text += bytes;
      return true;
    }),
  );
  const rows = parse(text, { columns: true }) as Row[];
  const read: object[] = [];
  await snapshot(db, null, MS, async (sql) => {
    for await (const batch of readFocus(sql, asked, 7)) read.push(...batch);
  });
  t.same(
    rows,
    read.map((row) =>
      Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value ?? ''])),
    ),
    'as JSON the same',
  );
  return rows;
}

const sumOf = (rows: readonly Row[], column = 'BilledCost') =>
  formatEur(rows.reduce((sum, row) => sum + parseEur(row[column] as string), 0n));

/** Units of 10^-18, as costs with many decimals need. */
const exact = (text: string): bigint => {
  const [whole = '', part = ''] = text.split('.');
  return BigInt(whole + part.padEnd(18, '0'));
};

function conforms(t: Test, rows: readonly Row[]): void {
  const mistakes: string[] = [];
  for (const row of rows) {
    for (const [column, [values, allowsNull, nullOfUsage]] of Object.entries(SPECIFIED)) {
      const value = row[column] as string;
      const isRight =
        value === ''
          ? allowsNull && (nullOfUsage || row.ChargeClass === 'Correction')
          : Array.isArray(values)
            ? values.includes(value)
            : (values as RegExp).test(value);
      if (!isRight) mistakes.push(`${column}: ${JSON.stringify(value)}`);
    }
    for (const [price, cost] of [
      ['ListUnitPrice', 'ListCost'],
      ['ContractedUnitPrice', 'ContractedCost'],
    ] as const) {
      const product = exact(row[price] as string) * exact(row.PricingQuantity as string);
      if (product !== exact(row[cost] as string) * 10n ** 18n)
        mistakes.push(`${cost} is not ${price} × PricingQuantity`);
    }
    if (row.BilledCost !== row.ContractedCost || row.EffectiveCost !== row.BilledCost)
      mistakes.push('costs differ');
    if (exact(row.ConsumedQuantity as string) !== exact(row.PricingQuantity as string) * 1000n)
      mistakes.push('quantities differ');
    if (row.SkuPriceId !== row.SkuId) mistakes.push('the id of a price is not that of its SKU');
    if (!((row.ChargePeriodStart as string) < (row.ChargePeriodEnd as string)))
      mistakes.push('the end is before the start');
    JSON.parse(row.SkuPriceDetails as string);
    if (Object.keys(JSON.parse(row.Tags as string)).some((key) => !key.startsWith('tollgate/')))
      mistakes.push('a tag of the provider without its prefix');
  }
  t.same([...new Set(mistakes)], []);
}

t.test(
  'columns, types, nulls and allowed values are those of the specification; costs add up to statements',
  async (t) => {
    const { db } = await testDatabase(t);
    const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, async (sql) => work(sql));
    await run(
      (sql) => sql`update settings set value = 'Europe/Berlin' where name = 'billing_timezone'`,
    );
    const companies = await Promise.all(
      ['Alpha', '=Beta, "Söhne"'].map(async (name) => {
        const [row] = await run(
          (sql) =>
            sql<{ id: string }[]>`insert into companies (name) values (${name}) returning id`,
        );
        return row?.id as string;
      }),
    );
    const [alpha, beta] = companies as [string, string];
    const keys = [randomUUID(), randomUUID()];
    await run(
      (sql) => sql`insert into api_keys (id, company_id, name, digest, prefix, scopes)
      values (${keys[0] as string}, ${alpha}, 'agents', sha256('a'), 'svc_aaaa', '{chat}')`,
    );
    let seed = 7;
    const pick = (below: number): number => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const call = (company: string, month: string): SomeUsage => {
      const prompt = pick(100_000);
      const cached = pick(prompt + 1);
      const read = [undefined, '0.000000000001', '0.00037'][pick(3)];
      const write = [undefined, '0.00125'][pick(2)];
      return {
        company,
        month,
        prompt,
        completion: pick(5000),
        key: keys[pick(2)] as string,
        model: ['fast', 'large/v2'][pick(2)] as string,
        endpoint: ['chat.completions', 'messages'][pick(2)] as string,
        center: ['', 'R&D', 'a,=1'][pick(3)] as string,
        input: ['0.0037', '0.000000000003'][pick(2)] as string,
        output: '0.01013',
        at: `${month.slice(0, 8)}${String(1 + pick(28)).padStart(2, '0')}T${String(pick(24)).padStart(2, '0')}:30:00Z`,
        ...(read !== undefined && { cacheRead: read }),
        ...(write !== undefined && { cacheWrite: write }),
        ...(pick(2) === 0 ? {} : { cached, written: pick(prompt - cached + 1) }),
      };
    };
    const add = (count: number, company: string, month: string) =>
      run((sql) =>
        addUsage(
          sql,
          Array.from({ length: count }, () => call(company, month)),
        ),
      );
    const [august, september, october] = ['2026-08-01', '2026-09-01', '2026-10-01'] as const;
    for (const company of companies)
      for (const month of [august, september, october]) await add(60, company, month);
    await run((sql) =>
      addUsage(sql, [
        { company: alpha, month: october, at: '2026-10-25T12:00:00Z', prompt: 7, input: '0.1' },
      ]),
    );
    await closeStatement(db, alpha, august);
    await add(9, alpha, august); // corrections on the statement of September
    await closeStatement(db, alpha, september);
    await add(5, alpha, august); // these wait: on that of October
    await add(4, alpha, september);
    await closeStatement(db, beta, august);
    await add(3, beta, august);

    for (const month of [august, september, october]) {
      const all = await focus(db, month, null);
      conforms(t, all);
      for (const most of [1, 70, 130])
        t.same(await focus(db, month, null, most), all, `at most ${most} requests at once`);
      t.same(
        Object.keys(all[0] as Row).filter((column) => !(column in SPECIFIED)),
        [],
        'no column is made up',
      );
      t.same(
        MANDATORY.filter((column) => !(column in (all[0] as Row))),
        [],
        'none is missing',
      );
      for (const company of companies) {
        const rows = await focus(db, month, company);
        const { statement, stored } = await run((sql) => readMonthOf(sql, company, month));
        t.equal(sumOf(rows), statement.total_eur, `${month} of ${company}`);
        const late = rows.filter(({ ChargeClass }) => ChargeClass === 'Correction');
        t.equal(
          sumOf(rows.filter((row) => !late.includes(row))),
          statement.cost_eur,
          'without corrections the month',
        );
        t.same(
          [...new Set(rows.map(({ InvoiceId }) => InvoiceId))],
          [stored === null ? '' : String(stored.number)],
        );
        t.same(
          rows,
          all.filter(({ BillingAccountId }) => BillingAccountId === company),
        );
        t.equal(
          rows.reduce((sum, row) => sum + Number(row.ConsumedQuantity), 0),
          [statement, ...statement.corrections].reduce(
            (sum, part) => sum + part.prompt_tokens + part.completion_tokens,
            0,
          ),
        );
      }
      const end = await run((sql) => readCompanyMonths(sql, month));
      t.equal(
        sumOf(all),
        formatEur(end.reduce((sum, { total_eur }) => sum + parseEur(total_eur), 0n)),
        'all companies',
      );
    }
    const rows = await focus(db, october, alpha);
    t.match(rows[0], {
      BillingPeriodStart: '2026-09-30T22:00:00Z',
      BillingPeriodEnd: '2026-10-31T23:00:00Z',
      InvoiceIssuerName: 'Nordcloud GmbH',
      ProviderName: 'Nordcloud',
      PublisherName: 'Nordcloud',
    });
    t.match(
      rows.find(({ ChargePeriodStart }) => ChargePeriodStart === '2026-10-24T22:00:00Z'),
      { ChargePeriodEnd: '2026-10-25T23:00:00Z' },
      'a day of 25 hours',
    );
    t.ok(
      rows.some(
        ({ ChargeClass, ChargePeriodStart }) =>
          ChargeClass === 'Correction' && (ChargePeriodStart as string) < '2026-08-31',
      ),
    );
    t.match(
      new Set(rows.map(({ SubAccountName }) => SubAccountName)),
      new Set(['agents', keys[1]]),
      'a key without a name is its id',
    );
    const named = await focus(db, october, beta);
    t.match(named[0], { BillingAccountName: `'=Beta,' "Söhne"`.replace("'=Beta,' ", "'=Beta, ") });
  },
);

t.test(
  'the list price is that before the factor, and the id of a price holds no time',
  async (t) => {
    const { db } = await testDatabase(t);
    const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, async (sql) => work(sql));
    await run(
      (
        sql,
      ) => sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values ('fast', 'x', 'chat', true, 0.003, 0.01)`,
    );
    await run((sql) => sql`insert into companies (name, price_factor) values ('Acme', 0.85)`);
    const [{ id, month, at } = { id: '', month: '', at: '' }] = await run(
      (sql) => sql<{ id: string; month: string; at: string }[]>`
      select id, to_char(billing_month(now()), 'YYYY-MM-DD') as month,
        to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at from companies`,
    );
    const usage = { company: id, month, at, prompt: 1000, completion: 500 };
    await run((sql) =>
      addUsage(sql, [
        { ...usage, input: '0.00255', output: '0.0085' },
        { ...usage, model: 'gone', input: '0.0017', output: '0.0000001' }, // no list any more; the second price is no multiple
        { ...usage, company: randomUUID(), input: '0.003', output: '0.01' },
      ]),
    );
    const rows = await focus(db, month, id);
    conforms(t, rows);
    const told = rows.map(({ SkuId, ListUnitPrice, ContractedUnitPrice, ListCost, BilledCost }) => [
      SkuId,
      ListUnitPrice,
      ContractedUnitPrice,
      ListCost,
      BilledCost,
    ]);
    t.same(told, [
      ['fast:input', '0.003', '0.00255', '0.003', '0.00255'],
      ['fast:output', '0.01', '0.0085', '0.005', '0.00425'],
      ['gone:input', '0.002', '0.0017', '0.002', '0.0017'],
      ['gone:output', '0.0000001', '0.0000001', '0.00000005', '0.00000005'],
    ]);
    t.equal(rows[0]?.SkuPriceId, 'fast:input', 'the same at all times and for all companies');
    const all = await focus(db, month, null);
    t.equal(all.length, 6);
    t.match(
      all.find(({ BillingAccountId }) => BillingAccountId !== id),
      { BillingAccountName: '', ListUnitPrice: '0.003' },
    );
  },
);

t.test(
  'list prices are those that the functions of the database tell, whatever happened to prices',
  async (t) => {
    const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 1e9));
    t.comment(`FUZZ_SEED=${seed}`);
    let state = (seed % 2_147_483_646) + 1;
    const pick = <T>(values: readonly T[]): T => {
      state = (state * 48_271) % 2_147_483_647;
      return values[state % values.length] as T;
    };
    const { db } = await testDatabase(t);
    const companies = [randomUUID(), randomUUID()];
    const models = ['a', 'b', 'c'];
    const instant = () =>
      `2026-10-${pick(['01', '02', '03', '04'])}T${pick(['01', '09', '17'])}:${pick(['00', '20'])}:00Z`;
    const prices = ['0.001', '0.002', '0.00017', null];
    const histories = Array.from({ length: 60 }, () => {
      const input = pick(prices);
      return {
        slug: pick(models),
        company_id: pick([null, ...companies]),
        valid_from: instant(),
        input,
        output: input === null ? null : '0.003',
        cache_read: input === null ? null : pick(['0.0001', null]),
      };
    });
    const factors = Array.from({ length: 12 }, () => ({
      company_id: pick(companies),
      valid_from: instant(),
      factor: pick(['0.9', '1', '1.25', '0.333333']),
    }));
    const calls = Array.from({ length: 200 }, () => ({
      company: pick(companies),
      month: '2026-10-01',
      at: instant(),
      model: pick(models),
      key: randomUUID(),
      prompt: 10,
      completion: 1,
      input: pick(['0.001', '0.0009', '0.00125', '0.0025', '0.0000153']),
      output: pick(['0.003', '0.0027']),
      ...pick([{}, { cacheRead: pick(['0.0001', '0.00009']), cached: 3 }]),
    }));
    await db.transaction(MS, async (sql) => {
      await sql`alter table model_prices disable trigger user`;
      await sql`alter table company_price_factors disable trigger user`;
      await sql`insert into model_prices (slug, company_id, valid_from, input, output, cache_read, applied)
        select slug, company_id, valid_from, input, output, cache_read, true
        from json_to_recordset(${JSON.stringify(histories)}::text::json)
          as h (slug text, company_id uuid, valid_from timestamptz, input numeric, output numeric, cache_read numeric)
        on conflict do nothing`;
      await sql`insert into company_price_factors (company_id, valid_from, factor, applied)
        select company_id, valid_from, factor, true from json_to_recordset(${JSON.stringify(factors)}::text::json)
          as f (company_id uuid, valid_from timestamptz, factor numeric) on conflict do nothing`;
      await addUsage(sql, calls);
    });
    const expected = await db.run(
      MS,
      (sql) => sql<{ key: string; list: string }[]>`
        select api_key_id || ':' || part as key, trim_scale(case
          when list * f.factor = price or list * g.factor = price then list
          when round(price / f.factor, 12) * f.factor = price then round(price / f.factor, 12) else price end)::text as list
        from api_usage u
        cross join lateral price_factor(company_id, occurred_at) f
        left join lateral price_factor(company_id, f.valid_from - interval '1 microsecond') g on f.valid_from is not null
        left join lateral list_price(model_slug, u.company_id, occurred_at) l on true
        cross join lateral (values ('input', price_input, l.input), ('output', price_output, l.output),
          ('cache_read', price_cache_read, l.cache_read)) as p (part, price, list)
        where price is not null`,
    );
    const rows = await focus(db, '2026-10-01', null);
    const listed = (row: Row) => [
      `${row.SubAccountId}:${(row.SkuId as string).split(':')[1]}`,
      row.ListUnitPrice,
    ];
    const byKey = new Map(expected.map(({ key, list }) => [key, list]));
    t.equal(rows.length, byKey.size);
    t.same(
      rows.filter((row) => {
        const [key, list] = listed(row);
        return byKey.get(key as string) !== list;
      }),
      [],
    );
  },
);

t.test('a month without calls has a heading alone', async (t) => {
  const { db } = await testDatabase(t);
  t.same(await focus(db, '2020-01-01', null), []);
});
