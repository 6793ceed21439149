import { randomInt, randomUUID } from 'node:crypto';
import t from 'tap';
import { PLAIN_CSV } from '../../src/domain/documents/csv.ts';
import { readCsv } from '../../src/domain/documents/read-csv.ts';
import { statementCsv } from '../../src/domain/documents/statement.ts';
import { COLUMN_PARTS, type ColumnPart } from '../../src/domain/pricing/parts.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { PARTS } from '../../src/domain/reports/usage-change.ts';
import { chargeOf } from '../../src/domain/tokens/charged-tokens.ts';
import { keepPrompt } from '../../src/domain/tokens/prompt.ts';
import { usageRecord } from '../../src/domain/usage.ts';
import {
  chatUsage,
  inputUsage,
  messagesUsage,
  responsesUsage,
  type ToldUsage,
  type UsageReader,
} from '../../src/json/usage.ts';
import { BatchLedger } from '../../src/ledger/batch-ledger.ts';
import { insertCostPrice } from '../../src/store/company/cost-price.ts';
import { insertModel } from '../../src/store/company/model.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { previewStatement, readMonthOf } from '../../src/store/statement/statement.ts';
import {
  SUMS_NAMES,
  verifyLedger,
  verifySeals,
  verifySums,
} from '../../src/store/statement/verify.ts';
import { verifyStatements } from '../../src/store/statement/verify-statements.ts';
import { readAllChange } from '../../src/store/usage/all-usage.ts';
import { readUsageChange } from '../../src/store/usage/change.ts';
import { NO_FILTERS } from '../../src/store/usage/cube.ts';
import { exportLedger } from '../../src/store/usage/export.ts';
import { readMargin } from '../../src/store/usage/margin.ts';
import { note } from '../faults/results.ts';
import { LONG } from '../faults/world.ts';
import { testDatabase } from '../support/postgres.ts';
import { closeStatement } from '../support/statement.ts';
import { readUsage } from '../support/told-usage.ts';
import { until } from '../support/until.ts';
import { decimal, randomPrice, rate, whole } from './oracle.ts';

/**
 * Money with prices of cached input: what upstreams tell in all dialects goes the way of a call, and all that is told of it
 * is compared with an oracle that shares no code with the gateway: whole numbers of 10^-15 EUR.
 */

const ROWS = LONG ? 1_000_000 : 6000;
const MONTHS = ['2026-09-01', '2026-10-01'] as const;
const SLUGS = ['swift', 'solid', 'plain', 'vectors'] as const;
const CENTERS = ['', 'Einkauf'] as const;

interface Counts {
  readonly prompt: number;
  readonly cached: number | null;
  readonly written: number | null;
  readonly completion: number;
}

/** EUR per 1000 tokens with 12 decimals is a whole number of 10^-15 EUR per token. */
type Rates = { readonly [part in ColumnPart]: bigint | null };

interface Row extends Counts {
  readonly id: string;
  readonly company: string;
  readonly key: string;
  readonly slug: string;
  readonly center: string;
  readonly month: string;
  readonly at: number;
  readonly rates: Rates;
  readonly parts: {
    readonly [part in ColumnPart]: { readonly tokens: bigint; readonly cost: bigint };
  };
  readonly cost: bigint;
}

const oneOf = <T>(from: readonly T[]): T => from[randomInt(from.length)] as T;
const rateOf = (price: string | null) => (price === null ? null : rate(price));

/** How an upstream may tell counts; null: it cannot in this form. */
type Form = readonly [reader: UsageReader, usage: (counts: Counts) => object | null];
const within = ({ cached, written }: Counts) => ({
  cached_tokens: cached,
  cache_write_tokens: written,
});
const chat = ({ prompt, completion }: Counts) => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
});
const besides = ({ prompt, cached, written }: Counts) => prompt - (cached ?? 0) - (written ?? 0);
const isWithin = (counts: Counts) => besides(counts) > 0;
const FORMS: readonly Form[] = [
  [chatUsage, (c) => ({ ...chat(c), prompt_tokens_details: within(c) })],
  [
    chatUsage,
    (c) => ({
      ...chat(c),
      total_tokens: c.prompt + c.completion,
      prompt_tokens_details: within(c),
    }),
  ],
  [
    chatUsage,
    (c) => ({
      ...chat(c),
      prompt_tokens_details: { cached_tokens: c.cached, cache_creation_tokens: c.written },
    }),
  ],
  [
    chatUsage,
    (c) => (c.written === null ? { ...chat(c), prompt_cache_hit_tokens: c.cached } : null),
  ],
  [
    chatUsage,
    (c) => ({
      ...chat(c),
      prompt_tokens_details: within(c),
      cache_read_input_tokens: c.cached,
      cache_creation_input_tokens: c.written,
    }),
  ],
  [
    chatUsage,
    (c) =>
      isWithin(c)
        ? {
            ...chat(c),
            prompt_tokens: besides(c),
            total_tokens: c.prompt + c.completion,
            prompt_tokens_details: within(c),
          }
        : null,
  ],
  [
    responsesUsage,
    (c) => ({
      input_tokens: c.prompt,
      output_tokens: c.completion,
      input_tokens_details: within(c),
    }),
  ],
  [
    messagesUsage,
    (c) =>
      isWithin(c)
        ? {
            input_tokens: besides(c),
            output_tokens: c.completion,
            cache_read_input_tokens: c.cached,
            cache_creation_input_tokens: c.written,
          }
        : null,
  ],
  [
    messagesUsage,
    (c) =>
      isWithin(c) && c.written !== null
        ? {
            input_tokens: besides(c),
            output_tokens: c.completion,
            cache_read_input_tokens: c.cached,
            cache_creation: {
              ephemeral_5m_input_tokens: c.written >> 1,
              ephemeral_1h_input_tokens: (c.written + 1) >> 1,
            },
          }
        : null,
  ],
  [
    inputUsage,
    (c) => (c.completion === 0 ? { ...chat(c), prompt_tokens_details: within(c) } : null),
  ],
];

function randomCounts(): Counts {
  const prompt = 1 + randomInt(2 ** (1 + randomInt(20)));
  const kind = randomInt(8);
  const completion = randomInt(6) === 0 ? 0 : randomInt(2 ** (1 + randomInt(16)));
  if (kind === 0) return { prompt, cached: null, written: null, completion };
  if (kind === 1)
    return { prompt, cached: prompt + randomInt(1000), written: randomInt(prompt + 1), completion }; // beyond
  const cached = randomInt(prompt + 1);
  const written = kind < 4 ? null : randomInt(prompt - cached + 1);
  return { prompt, cached: kind === 4 ? null : cached, written, completion };
}

function told(counts: Counts): ToldUsage {
  for (;;) {
    const [reader, form] = oneOf(FORMS);
    const usage = form(counts);
    if (usage !== null) return readUsage(JSON.stringify(usage), reader) as ToldUsage;
  }
}

/** What is booked of counts: without prices of the cache a count beyond the prompt is left out, with them it is cut. */
function bookedOf({ cached, written, ...counts }: Counts, rates: Rates): Counts {
  const { prompt } = counts;
  const isPriced = rates.cache_read !== null || rates.cache_write !== null;
  if (!isPriced) {
    const part = (count: number | null) => (count === null || count > prompt ? null : count);
    return { ...counts, cached: part(cached), written: part(written) };
  }
  const read = cached === null ? null : Math.min(cached, prompt);
  return {
    ...counts,
    cached: read,
    written: written === null ? null : Math.min(written, prompt - (read ?? 0)),
  };
}

function partsOf({ prompt, cached, written, completion }: Counts, rates: Rates): Row['parts'] {
  const part = (tokens: number, price: bigint | null) => ({
    tokens: BigInt(tokens),
    cost: BigInt(tokens) * (price ?? 0n),
  });
  const read = rates.cache_read === null ? 0 : (cached ?? 0);
  const write = rates.cache_write === null ? 0 : (written ?? 0);
  return {
    input: part(prompt - read - write, rates.input),
    cache_read: part(read, rates.cache_read),
    cache_write: part(write, rates.cache_write),
    output: part(completion, rates.output),
  };
}

const costOf = (parts: Row['parts']) =>
  COLUMN_PARTS.reduce((sum, part) => sum + parts[part].cost, 0n);

/** A model with prices, the same as rates. @param isPriced whether tokens of the cache have prices */
function pricedModel(slug: string, isPriced: boolean) {
  const cache = () => (isPriced && randomInt(4) > 0 ? randomPrice(2) : null);
  const texts = {
    input: randomPrice(),
    cache_read: cache(),
    cache_write: cache(),
    output: randomPrice(),
  };
  const prices = parsePrices(texts.input, texts.output, texts);
  const names = {
    slug,
    upstream: `internal/${slug}`,
    kind: 'chat',
    euHosted: true,
    acceptsTokens: false,
  } as const;
  const rates = Object.fromEntries(
    COLUMN_PARTS.map((part) => [part, rateOf(texts[part])]),
  ) as Rates;
  return { model: { ...names, prices, created: 0, next: null }, rates };
}

const prompt = keepPrompt([Buffer.from('{"messages":[]}')]);
const noEstimate = () => {
  throw new Error('nothing is estimated');
};

t.test(
  'row, sums, statement, export, margin and change agree with an oracle to the last digit',
  async (t) => {
    const { db } = await testDatabase(t);
    const read = <T>(work: (sql: Sql) => PromiseLike<T>): Promise<T> => db.run(600_000, work);
    const companies = await read(
      (sql) =>
        sql<
          { id: string }[]
        >`insert into companies (name) select 'Company ' || n from generate_series(1, 3) n returning id`,
    );
    const keys = [randomUUID(), randomUUID()];
    // the prices that changes are explained by; that of calls is another one every 250 calls
    const references = new Map<string, Rates>();
    const costs = new Map<string, readonly (readonly [from: string, rates: Rates])[]>();
    for (const slug of SLUGS) {
      const { rates, model } = pricedModel(slug, slug !== 'plain');
      references.set(slug, rates);
      const text = (part: ColumnPart) => model.prices.texts[part];
      await read((sql) =>
        insertModel(sql, {
          slug,
          company_id: null,
          upstream_model: `internal/${slug}`,
          kind: 'chat',
          eu_hosted: true,
          cost_eur_per_1k_input: text('input') as string,
          cost_eur_per_1k_output: text('output') as string,
          cost_eur_per_1k_cache_read: text('cache_read'),
          cost_eur_per_1k_cache_write: text('cache_write'),
        }),
      );
      const dated: [string, Rates][] = [];
      for (const from of ['2026-01-01', '2026-10-11']) {
        const [input, output] = [randomPrice(), randomPrice()];
        const [cache_read, cache_write] = [
          randomInt(2) ? randomPrice() : null,
          randomInt(2) ? randomPrice() : null,
        ];
        await read((sql) =>
          insertCostPrice(
            sql,
            { slug, company_id: null, input, output, cache_read, cache_write },
            from,
          ),
        );
        dated.push([
          from,
          {
            input: rateOf(input),
            output: rateOf(output),
            cache_read: rateOf(cache_read),
            cache_write: rateOf(cache_write),
          },
        ]);
      }
      costs.set(slug, dated);
    }

    const log = { warn: () => {}, error: (_fields: object, text: string) => t.fail(text) };
    const ledger = new BatchLedger({
      store: ledgerStore(db),
      clock: Date.now,
      calendar: { date: () => '2026-10-01' },
      log,
      maxUnspooled: 50_000,
    });
    ledger.start();
    const rows: Row[] = [];
    let models = new Map<string, ReturnType<typeof pricedModel>>();
    let cut = 0;
    for (let n = 0; n < ROWS; n++) {
      if (n % 250 === 0) {
        models = new Map(
          SLUGS.map((slug) => [slug, pricedModel(slug, slug !== 'plain' && randomInt(3) > 0)]),
        );
        await until(() => ledger.backlog <= 20_000, 'the ledger catches up');
        await new Promise((resolve) => setImmediate(resolve));
      }
      const slug = oneOf(SLUGS);
      const { model, rates } = models.get(slug) as ReturnType<typeof pricedModel>;
      const counts = randomCounts();
      const bounds = {
        limit: null,
        prompt,
        isTextAlone: false,
        reserved: null,
        prices: model.prices,
        facts: { at: 0, tier: null },
        askedTier: null,
      };
      const { tokens, details, isBeyond } = chargeOf(bounds, told(counts), noEstimate);
      if (isBeyond) cut++;
      const month = oneOf(MONTHS);
      const [company, key, center] = [oneOf(companies).id, oneOf(keys), oneOf(CENTERS)];
      const at = Date.parse(month) + randomInt(29 * 86_400_000);
      const admission = {
        requestId: randomUUID(),
        payer: { id: key, companyId: company },
        model,
        endpoint: 'chat.completions',
        at,
        month,
        costCenter: center,
      } as const;
      ledger.book(
        usageRecord(admission, tokens, isBeyond ? 'estimated' : 'upstream', 'completed', details),
        null,
      );
      const booked = bookedOf(counts, rates);
      const parts = partsOf(booked, rates);
      rows.push({
        ...booked,
        id: admission.requestId,
        company,
        key,
        slug,
        center,
        month,
        at,
        rates,
        parts,
        cost: costOf(parts),
      });
    }
    t.equal(await ledger.close(600_000), 0);
    t.ok(cut > 0, 'some told more of the cache than the prompt has');

    // rows
    const every = Math.ceil(ROWS / 20_000);
    const sample = rows.filter((_, n) => n % every === 0);
    const stored = await read(
      (sql) => sql<{ id: string; booked: string }[]>`
      select request_id::text as id, concat_ws(' ', trim_scale(cost_eur)::text, prompt_tokens, coalesce(cached_tokens::text, '-'),
        coalesce(cache_write_tokens::text, '-'), completion_tokens) as booked
      from api_usage where request_id = any(${sample.map(({ id }) => id)}::uuid[])`,
    );
    t.equal(stored.length, sample.length);
    const byId = new Map(stored.map(({ id, booked }) => [id, booked]));
    const wrong = sample.filter(
      (row) =>
        byId.get(row.id) !==
        `${decimal(row.cost)} ${row.prompt} ${row.cached ?? '-'} ${row.written ?? '-'} ${row.completion}`,
    );
    t.equal(
      wrong.length,
      0,
      JSON.stringify([wrong[0], byId.get(wrong[0]?.id ?? '')], (_, value) =>
        typeof value === 'bigint' ? `${value}` : value,
      ),
    );

    // sums
    const spend = await read(
      (sql) => sql<{ key: string; cost: string }[]>`
      select concat_ws(' ', company_id, billing_month, model_slug, api_key_id, cost_center) as key, trim_scale(sum(cost_eur))::text as cost
      from usage_daily group by 1`,
    );
    const place = (row: Row) => [row.company, row.month, row.slug, row.key, row.center].join(' ');
    t.same(
      sorted(spend.map(({ key, cost }) => [key, cost])),
      sorted(summed(rows, place, ({ cost }) => cost)),
      'sums',
    );

    for (const { id } of companies) {
      const own = rows.filter(({ company }) => company === id);
      for (const month of MONTHS) {
        const ofMonth = own.filter((row) => row.month === month);
        const total = ofMonth.reduce((sum, { cost }) => sum + cost, 0n);

        // statement
        const { lines, cost_eur } = await read((sql) => previewStatement(sql, id, month));
        t.equal(cost_eur, decimal(total), 'statement');
        const partSums = (of: (parts: Row['parts'][ColumnPart]) => bigint) =>
          COLUMN_PARTS.flatMap((part) =>
            summed(
              ofMonth,
              (row) => `${row.slug} ${row.key} ${row.center} ${part}`,
              ({ parts }) => of(parts[part]),
            ),
          );
        const toldParts = lines.flatMap(({ model, key, cost_center, parts = [] }) =>
          parts.map((each) => [`${model} ${key} ${cost_center} ${each.part}`, each] as const),
        );
        t.equal(toldParts.length, lines.length * COLUMN_PARTS.length, 'every line tells its parts');
        t.same(
          sorted(toldParts.map(([key, each]) => [key, each.cost_eur])),
          sorted(partSums(({ cost }) => cost)),
        );
        t.same(
          sorted(toldParts.map(([key, each]) => [key, `${each.tokens}`])),
          sorted(partSums(({ tokens }) => tokens * 10n ** 15n)),
        );
        for (const { cost_eur, parts = [] } of lines) {
          t.equal(
            decimal(parts.reduce((sum, part) => sum + whole(part.cost_eur), 0n)),
            cost_eur,
            'the parts of a line',
          );
        }
        await closeStatement(db, id, month, undefined, 600_000);
        const shown = await read((sql) => readMonthOf(sql, id, month));
        const [heading, ...cells] = readCsv(
          statementCsv(shown.statement, shown.names, PLAIN_CSV),
        ).lines;
        const column = (name: string) => heading?.cells.indexOf(name) as number;
        const ofCsv = (name: string) => cells.map((line) => line.cells[column(name)] as string);
        t.equal(
          decimal(ofCsv('cost_eur').reduce((sum, text) => sum + whole(text), 0n)),
          decimal(total),
          'its CSV',
        );
        t.equal(
          ofCsv('requests').reduce((sum, text) => sum + Number(text), 0),
          ofMonth.length,
        );
        const tokens = ['prompt_tokens', 'completion_tokens']
          .flatMap(ofCsv)
          .reduce((sum, text) => sum + Number(text), 0);
        t.equal(
          tokens,
          ofMonth.reduce((sum, row) => sum + row.prompt + row.completion, 0),
        );
        t.same(new Set(ofCsv('part')), new Set(COLUMN_PARTS));

        // export
        const exported = { all: 0n, parts: 0n };
        await read(async (sql) => {
          for await (const batch of exportLedger(sql, id, month)) {
            for (const row of batch) {
              const parts = COLUMN_PARTS.map((part) => whole(String(row[`cost_${part}`])));
              exported.all += whole(String(row.cost_eur));
              exported.parts += parts.reduce((sum, each) => sum + each);
            }
          }
        });
        t.same(exported, { all: total, parts: total }, 'export');
      }
    }

    // margin, by the cost price of the day
    for (const month of MONTHS) {
      const margin = await read((sql) => readMargin(sql, month));
      const ofMonth = rows.filter((row) => row.month === month);
      const paid = (row: Row) => {
        const day = new Date(row.at).toISOString().slice(0, 10);
        const dated = costs.get(row.slug) ?? [];
        const [, rates] = dated.findLast(([from]) => from <= day) as readonly [string, Rates];
        return costOf(partsOf(row, rates));
      };
      t.same(
        sorted(margin.by_model.map(({ model, cost_eur }) => [model, cost_eur as string])),
        sorted(summed(ofMonth, ({ slug }) => slug, paid)),
        'margin by model',
      );
      t.same(
        sorted(
          margin.by_company.map(({ company_id, cost_eur }) => [company_id, cost_eur as string]),
        ),
        sorted(summed(ofMonth, ({ company }) => company, paid)),
        'margin by company',
      );
    }

    // change
    const [september, october] = [
      { from: '2026-09-01', to: '2026-09-30' },
      { from: '2026-10-01', to: '2026-10-31' },
    ];
    const times = { before: september, after: october };
    for (const key of [null, ...keys]) {
      for (const { id } of companies) {
        const of = rows.filter((row) => row.company === id && (key === null || row.key === key));
        const change = await read((sql) => readUsageChange(sql, id, times, { ...NO_FILTERS, key }));
        compareChange(change, of);
      }
    }
    compareChange(await read((sql) => readAllChange(sql, times, null)), rows);
    function compareChange(
      { total, by_model }: Pick<Awaited<ReturnType<typeof readUsageChange>>, 'total' | 'by_model'>,
      of: readonly Row[],
    ) {
      t.equal(
        PARTS.reduce((sum, part) => sum + whole(total[part]), 0n),
        whole(total.difference_eur),
        'the parts add up',
      );
      const cost = (month: string) =>
        of.reduce((sum, row) => sum + (row.month === month ? row.cost : 0n), 0n);
      t.equal(total.difference_eur, decimal(cost('2026-10-01') - cost('2026-09-01')), 'change');
      for (const { model, more_cached_eur } of by_model) {
        const rates = references.get(model) as Rates;
        const sums = MONTHS.map((month) => {
          const own = of.filter((row) => row.slug === model && row.month === month);
          const cheaper = own.reduce((sum, { cached, written }) => {
            const [read, write] = [
              rates.cache_read ?? rates.input,
              rates.cache_write ?? rates.input,
            ] as [bigint, bigint];
            const input = rates.input as bigint;
            return (
              sum + BigInt(cached ?? 0) * (read - input) + BigInt(written ?? 0) * (write - input)
            );
          }, 0n);
          return { cheaper, prompt: own.reduce((sum, { prompt }) => sum + BigInt(prompt), 0n) };
        });
        const [before, after] = sums as [(typeof sums)[number], (typeof sums)[number]];
        const expected =
          before.prompt === 0n
            ? 0n
            : after.cheaper - rounded(after.prompt * before.cheaper, before.prompt);
        t.equal(more_cached_eur, decimal(expected), `more of ${model} cached`);
      }
    }

    // proof
    t.same((await read(verifyLedger)).differences, []);
    for (const name of SUMS_NAMES)
      t.equal((await read((sql) => verifySums(sql, name))).total, 0, name);
    const seals = await read((sql) => verifySeals(sql));
    t.match(seals, { rows: ROWS, unsealed: 0, total: 0 });
    t.match(await read(verifyStatements), {
      statements: companies.length * MONTHS.length,
      total: 0,
    });
    note(
      'Money is exact',
      `${ROWS} random rows of all dialects with prices of cached input, against a big-number oracle`,
      '0 differences in rows, sums, statements, exports, margins and changes, to 10^-15 EUR; all seals hold',
    );
  },
);

/** Sums of rows by a key, as decimal text. */
function summed(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
  amount: (row: Row) => bigint,
): [string, string][] {
  const sums = new Map<string, bigint>();
  for (const row of rows) sums.set(keyOf(row), (sums.get(keyOf(row)) ?? 0n) + amount(row));
  return [...sums].map(([key, sum]) => [key, decimal(sum)]);
}

function sorted(entries: readonly (readonly [string, string])[]): string[] {
  return entries.map((entry) => entry.join(' = ')).sort();
}

/** The nearest whole number; halves go away from zero. */
function rounded(dividend: bigint, divisor: bigint): bigint {
  const [size, sign] = dividend < 0n ? [-dividend, -1n] : [dividend, 1n];
  return sign * ((2n * size + divisor) / (2n * divisor));
}
