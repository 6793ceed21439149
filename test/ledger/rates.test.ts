import { randomUUID } from 'node:crypto';
import t from 'tap';
import { type Model, modelAt, withFactors } from '../../src/domain/model.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { parseRates, type RateTexts, tierOf } from '../../src/domain/pricing/rates.ts';
import { chargeOf } from '../../src/domain/tokens/charged-tokens.ts';
import { keepPrompt } from '../../src/domain/tokens/prompt.ts';
import { usageRecord } from '../../src/domain/usage.ts';
import {
  chatUsage,
  inputUsage,
  messagesUsage,
  responsesUsage,
  type ToldUsage,
} from '../../src/json/usage.ts';
import { BatchLedger } from '../../src/ledger/batch-ledger.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import {
  SUMS_NAMES,
  verifyLedger,
  verifySeals,
  verifySums,
} from '../../src/store/statement/verify.ts';
import { summarizeUsage } from '../../src/store/usage/summary.ts';
import { note } from '../faults/results.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { testDatabase } from '../support/postgres.ts';
import { readUsage } from '../support/told-usage.ts';
import { until } from '../support/until.ts';
import { decimal } from './oracle.ts';
import {
  ALONE,
  type Counts,
  DAY,
  HOUR,
  OF_COMPLETION,
  OF_PROMPT,
  type Price,
  priceOf,
  type Rated,
  type Texts,
  ZONES,
} from './rate-oracle.ts';

/**
 * Money with rates and parts: random calls of models with all conditions, of shared and own ones, with factors that switch and
 * prices that change, against an oracle that shares no code with the gateway: whole numbers of 10^-15 EUR, and clocks by
 * the rules of three zones.
 */

const ROWS = fuzzRuns(24_000);
/** How many of them are booked, at even distances: Postgres takes longer for one than all else together. */
const MOST_BOOKED = 20_000;
const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
t.comment(`SEED=${seed}`);
let state = seed;
/** A whole number below. */
function random(below: number): number {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
}
const oneOf = <T>(from: readonly T[]): T => from[random(from.length)] as T;
const maybe = () => random(2) === 0;

// ------------------------------------------------------------------ what is priced

const OVERS = [0, 1000, 200_000];
const TIERS = ['priority', 'flex'];
const clock = (minute: number) =>
  `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;

/** Windows that do not meet each other: about the change of the clock, across midnight, and any. */
function randomHours(): string[] {
  const zone = oneOf(ZONES);
  const days = oneOf(['', '', 'Mon-Fri ', 'Sat-Sun ', 'Sun ', 'Fri-Mon ']);
  const [a, b, c, d] = [random(300), 300 + random(300), 700 + random(300), 1100 + random(300)];
  return oneOf([
    [`${days}01:30-02:30 ${zone}`],
    [`${days}02:00-03:00 ${zone}`],
    [`${days}23:00-01:30 ${zone}`],
    [`${days}18:00-24:00 ${zone}`],
    [`${days}${clock(a)}-${clock(b)},${clock(c)}-${clock(d)} ${zone}`],
    [`${days}${clock(a)}-${clock(b)} ${zone}`, `${days}${clock(c)}-${clock(d)} ${zone}`],
    [`${days}${clock(d)}-${clock(a)} ${zone}`],
  ]);
}

const digits = () => `${random(3)}.${String(random(10 ** 9)).padStart(9, '0')}`;
const sometimes = (part: string, isThere: boolean): Texts => (isThere ? { [part]: digits() } : {});

/** A price, with rates of all combinations of some conditions, so that no two could win at once. */
function randomPrice(): Price {
  const parts = [...OF_PROMPT, ...OF_COMPLETION, ...ALONE];
  const texts: Texts = { input: digits(), output: digits() };
  for (const part of parts) Object.assign(texts, sometimes(part, maybe()));
  const some = <T>(all: readonly T[]): (T | undefined)[] => [undefined, ...(maybe() ? all : [])];
  const rates = some(OVERS).flatMap((over) =>
    some(TIERS).flatMap((tier) =>
      some(randomHours()).flatMap((hours) => {
        if (over === undefined && tier === undefined && hours === undefined) return [];
        const prices: Texts = { input: digits(), output: digits() };
        for (const part of parts) {
          if (texts[part] !== undefined) prices[part] = random(5) === 0 ? null : digits();
          else Object.assign(prices, sometimes(part, random(4) === 0));
        }
        return [
          {
            ...(over !== undefined && { over }),
            ...(tier && { tier }),
            ...(hours && { hours }),
            ...prices,
          },
        ];
      }),
    ),
  ) as Rated[];
  return { texts, rates: rates.slice(0, 64) };
}

function pricesOf({ texts, rates }: Price) {
  const { input, output, ...others } = texts;
  return parsePrices(
    input as string,
    output as string,
    others,
    parseRates(rates as unknown as RateTexts[]),
  );
}

/** Instants about which much changes: the clocks in both zones, and midnights. */
const EDGES = [
  ...['2026-03-08T07:00Z', '2026-03-29T01:00Z', '2026-10-25T01:00Z', '2026-11-01T06:00Z'],
  ...['2026-10-31T18:15Z', '2026-10-31T23:00Z', '2026-11-01T00:00Z', '2026-11-15T05:00Z'],
].map((text) => Date.parse(text));
function randomAt(): number {
  const edge = oneOf(EDGES);
  const near = edge + (random(49) - 24) * (HOUR / 4) + random(3) - 1;
  if (maybe()) return near;
  return maybe() ? edge + random(6 * HOUR) - 3 * HOUR : Date.parse('2026-10-01') + random(60 * DAY);
}
const SWITCHES = ['2026-10-25T01:00Z', '2026-11-02T12:34Z'].map((text) => Date.parse(text));
const PRICE_CHANGE = Date.parse('2026-11-01T00:00Z');

const upTo = (whole: number) =>
  random(12) === 0 ? whole + random(50) : random(Math.max(1, whole >> 1));
function randomCounts(): Counts {
  const prompt = Math.max(
    1,
    random(3) === 0 ? oneOf(OVERS) + random(3) - 1 : random(2 ** (1 + random(18))),
  );
  const completion = random(2 ** random(14));
  const units: Record<string, number | null> = {};
  for (const part of [...OF_PROMPT, ...OF_COMPLETION])
    units[part] = maybe() ? null : upTo(OF_PROMPT.includes(part) ? prompt : completion);
  units.search_unit = random(4) === 0 ? random(20) : null;
  const { cache_write: write, cache_write_1h: hour } = units;
  if (hour != null) units.cache_write = Math.max(write ?? 0, hour); // what is written for an hour is written
  return { prompt, completion, units };
}

const DIALECTS = ['chat', 'responses', 'messages', 'rerank'] as const;

/** The counts as an upstream of one of the dialects tells them; null: it cannot. */
function toldIn(
  dialect: (typeof DIALECTS)[number],
  { prompt, completion, units }: Counts,
): ToldUsage | null {
  const { cache_read, cache_write, cache_write_1h, search_unit } = units;
  const kept = cache_write_1h === null ? {} : { ephemeral_1h_input_tokens: cache_write_1h };
  const ofPrompt = {
    cached_tokens: cache_read,
    cache_write_tokens: cache_write,
    cache_creation_token_details: kept,
    audio_tokens: units.audio_input,
    image_tokens: units.image_input,
  };
  const ofCompletion = {
    reasoning_tokens: units.reasoning,
    audio_tokens: units.audio_output,
    image_tokens: units.image_output,
  };
  const details = { prompt_tokens_details: ofPrompt, completion_tokens_details: ofCompletion };
  const read = (usage: object, reader: typeof chatUsage) =>
    readUsage(JSON.stringify({ ...usage, search_units: search_unit }), reader);
  if (dialect === 'chat')
    return read({ prompt_tokens: prompt, completion_tokens: completion, ...details }, chatUsage);
  if (dialect === 'responses') {
    const typed = { input_tokens_details: ofPrompt, output_tokens_details: ofCompletion };
    return read({ input_tokens: prompt, output_tokens: completion, ...typed }, responsesUsage);
  }
  if (dialect === 'messages') {
    const rest = prompt - (cache_read ?? 0) - (cache_write ?? 0);
    if (rest <= 0) return null;
    const { cached_tokens: _, cache_write_tokens: __, ...others } = ofPrompt;
    const usage = {
      input_tokens: rest,
      output_tokens: completion,
      cache_read_input_tokens: cache_read,
      cache_creation_input_tokens: cache_write,
      cache_creation: kept,
      input_tokens_details: others,
      output_tokens_details: ofCompletion,
    };
    return read(usage, messagesUsage);
  }
  return completion === 0
    ? read({ total_tokens: prompt, prompt_tokens: prompt, ...details }, inputUsage)
    : null;
}

const prompt = keepPrompt([Buffer.from('{"messages":[]}')]);
const noEstimate = () => {
  throw new Error('nothing is estimated');
};
const NAMES = {
  cached_tokens: 'cache_read',
  cache_write_tokens: 'cache_write',
  cache_write_1h_tokens: 'cache_write_1h',
  audio_prompt_tokens: 'audio_input',
  image_prompt_tokens: 'image_input',
  reasoning_tokens: 'reasoning',
  audio_completion_tokens: 'audio_output',
  image_completion_tokens: 'image_output',
  search_units: 'search_unit',
} as const;

/** A model, shared or of one company, with a price that changes, at the prices of a company whose factor switches. */
function randomModel(slug: string, isOwn: boolean) {
  const [first, second] = [randomPrice(), randomPrice()];
  const factors = maybe() ? [100n] : [oneOf([50n, 125n, 100n]), 200n, 75n];
  const names = { slug, upstream: `internal/${slug}`, kind: 'chat', euHosted: true } as const;
  const base = { ...names, acceptsTokens: false, created: 0 };
  const coming: Model = { ...base, prices: pricesOf(second), next: null };
  const model: Model = {
    ...base,
    prices: pricesOf(first),
    next: { from: PRICE_CHANGE, model: coming },
  };
  const dated = factors.map((factor, n) => ({
    from: n === 0 ? 0 : (SWITCHES[n - 1] as number),
    factor: String(Number(factor) / 100),
  }));
  return {
    model: isOwn ? model : withFactors(model, dated),
    priceAt: (at: number) => (at >= PRICE_CHANGE ? second : first),
    factorAt: (at: number): bigint =>
      isOwn ? 100n : (factors[dated.findLastIndex(({ from }) => from <= at)] as bigint),
  };
}

t.test('rows, counters and summary agree with an oracle to the last digit', async (t) => {
  const { db } = await testDatabase(t);
  const run = <T>(work: (sql: Sql) => PromiseLike<T>): Promise<T> => db.run(600_000, work);
  const rows = await run(
    (sql) => sql<{ id: string }[]>`
      insert into companies (name) select 'Company ' || n from generate_series(1, 3) n returning id`,
  );
  const companies = rows.map(({ id }) => id);
  const key = randomUUID();
  const log = { warn: () => {}, error: (_fields: object, text: string) => t.fail(text) };
  const calendar = { date: (at: number) => new Date(at).toISOString().slice(0, 10) };
  const ledger = new BatchLedger({
    store: ledgerStore(db),
    clock: Date.now,
    calendar,
    log,
    maxUnspooled: 50_000,
  });
  ledger.start();
  const sums = new Map<string, bigint>();
  const counts = new Map<string, bigint>();
  const add = (to: Map<string, bigint>, name: string, more: bigint) =>
    to.set(name, (to.get(name) ?? 0n) + more);
  const wrong: string[] = [];
  const expected = new Map<string, string>();
  const every = Math.ceil(ROWS / MOST_BOOKED);
  let booked = 0;
  const seen = { rates: 0, parts: 0, cut: 0 };
  let models = new Map<string, ReturnType<typeof randomModel>>();
  for (let n = 0; n < ROWS; n++) {
    if (n % 250 === 0) {
      models = new Map(
        companies.flatMap((company) =>
          ['shared', 'own', 'other'].map((slug) => [
            company + slug,
            randomModel(slug, slug === 'own'),
          ]),
        ),
      );
      await until(() => ledger.backlog <= 20_000, 'the ledger catches up');
      await new Promise((resolve) => setImmediate(resolve));
    }
    const company = oneOf(companies);
    const slug = oneOf(['shared', 'own', 'other']);
    const made = models.get(company + slug) as ReturnType<typeof randomModel>;
    const at = randomAt();
    const told = randomCounts();
    const usage = toldIn(oneOf(DIALECTS), told) ?? (toldIn('chat', told) as ToldUsage);
    const model = modelAt(made.model, at);
    const asked = oneOf([null, null, 'priority', 'flex']);
    const said = oneOf([undefined, 'default', 'priority', 'flex', 'unheard', 'standard']);
    const tier = said === undefined ? asked : tierOf(said);
    const bounds = {
      limit: null,
      prompt,
      isTextAlone: false,
      reserved: null,
      prices: model.prices,
      facts: { at, tier },
      askedTier: asked,
    };
    const { tokens, details, isBeyond, prices } = chargeOf(bounds, usage, noEstimate);
    const month = `${calendar.date(at).slice(0, 7)}-01`;
    const admission = {
      requestId: randomUUID(),
      payer: { id: key, companyId: company },
      model,
      endpoint: 'chat.completions',
      at,
      month,
      costCenter: '',
    } as const;
    const source = isBeyond ? 'estimated' : 'upstream';
    const record = usageRecord(admission, tokens, source, 'completed', details, '', prices);
    const servedBy = said === undefined ? asked : TIERS.includes(said) ? said : null;
    const right = priceOf(made.priceAt(at), made.factorAt(at), told, at, servedBy);
    if (right.rate !== null) seen.rates++;
    if (right.units !== null) seen.parts++;
    if (right.isCut) seen.cut++;
    const parts = Object.fromEntries((record.parts ?? []).map(({ part, units }) => [part, units]));
    const ofParts = Object.fromEntries(
      Object.entries(right.units ?? {}).filter(([, units]) => units > 0),
    );
    const same =
      record.cost === right.cost &&
      record.prices.rate === right.rate &&
      isBeyond === right.isCut &&
      JSON.stringify(Object.entries(parts).sort()) ===
        JSON.stringify(Object.entries(ofParts).sort());
    if (!same && wrong.length < 3)
      wrong.push(
        JSON.stringify(
          {
            told,
            at,
            tier,
            price: made.priceAt(at),
            factor: made.factorAt(at),
            right,
            cost: record.cost,
            parts,
            isBeyond,
            rate: record.prices.rate,
          },
          (_, value) => (typeof value === 'bigint' ? `${value}` : value),
        ),
      );
    if (n % every !== 0) continue;
    booked++;
    ledger.book(record, null);
    const of = Object.entries(NAMES).map(
      ([name, part]) => [name, right.details[part] ?? null] as const,
    );
    expected.set(
      admission.requestId,
      [
        decimal(right.cost),
        right.rate ?? '-',
        told.prompt,
        told.completion,
        ...of.map(([, count]) => count ?? '-'),
      ].join(' '),
    );
    add(sums, `${company} ${month}`, right.cost);
    add(
      sums,
      `${company} ${calendar.date(at)} ${slug} ${right.isCut ? 'estimated' : 'upstream'}`,
      right.cost,
    );
    for (const [name, count] of of) add(counts, `${company} ${month} ${name}`, BigInt(count ?? 0));
  }
  t.equal(await ledger.close(600_000), 0);
  t.strictSame(wrong, [], `records, SEED=${seed}`);
  t.ok(seen.rates > 0 && seen.parts > 0 && seen.cut > 0, JSON.stringify(seen));

  const columns = Object.keys(NAMES)
    .map((name) => `coalesce(${name}::text, '-')`)
    .join(', ');
  const stored = await run(
    (sql) => sql<{ id: string; row: string }[]>`
      select request_id::text as id, concat_ws(' ', trim_scale(cost_eur)::text, coalesce(rate, '-'), prompt_tokens,
        completion_tokens, ${sql.unsafe(columns)}) as row
      from api_usage where request_id = any(${[...expected.keys()]}::uuid[])`,
  );
  t.strictSame(
    stored
      .filter(({ id, row }) => expected.get(id) !== row)
      .slice(0, 3)
      .map(({ id, row }) => [row, expected.get(id)]),
    [],
    'rows',
  );
  t.equal(stored.length, expected.size);
  const [uneven] = await run(
    (sql) => sql<{ rows: number }[]>`
      select count(*)::integer as rows from api_usage where parts is not null and cost_eur <>
        (select sum((p ->> 'units')::numeric * (p ->> 'price')::numeric) / 1000 from jsonb_array_elements(parts) p)`,
  );
  t.equal(uneven?.rows, 0, 'the cost is the sum of its parts');

  const spend = await run(
    (sql) => sql<{ name: string; cost: string }[]>`
      select concat_ws(' ', company_id, billing_month) as name, trim_scale(api_cost_eur)::text as cost from monthly_spend
      where api_cost_eur <> 0
      union all select concat_ws(' ', company_id, day, model_slug, usage_source), trim_scale(sum(cost_eur))::text
      from usage_daily group by 1 having sum(cost_eur) <> 0`,
  );
  const shown = (from: Iterable<readonly [string, string]>) =>
    [...from].map(([name, value]) => `${name} = ${value}`).sort();
  t.strictSame(
    shown(spend.map(({ name, cost }) => [name, cost])),
    shown([...sums].filter(([, sum]) => sum !== 0n).map(([name, sum]) => [name, decimal(sum)])),
    'counters',
  );
  const sumOf = Object.keys(NAMES)
    .map((name) => `'${name}', sum(${name})::text`)
    .join(', ');
  const units = await run(
    (sql) => sql<{ place: string; counts: Record<string, string> }[]>`
      select concat_ws(' ', company_id, billing_month) as place, json_build_object(${sql.unsafe(sumOf)}) as counts
      from usage_details group by 1`,
  );
  t.strictSame(
    shown(
      units.flatMap(({ place, counts }) =>
        Object.entries(counts).map(([name, sum]) => [`${place} ${name}`, sum] as const),
      ),
    ),
    shown([...counts].map(([name, sum]) => [name, `${sum}`])),
    'units',
  );
  t.same((await run(verifyLedger)).differences, []);
  for (const name of SUMS_NAMES)
    t.equal((await run((sql) => verifySums(sql, name))).total, 0, name);
  t.match(await run((sql) => verifySeals(sql)), { rows: booked, unsealed: 0, total: 0 });
  for (const company of companies) {
    for (const month of ['2026-10-01', '2026-11-01']) {
      const summary = await run((sql) => summarizeUsage(sql, company, month));
      t.match(JSON.stringify(summary), decimal(sums.get(`${company} ${month}`) ?? 0n), 'summary');
    }
  }
  note(
    'Money is exact',
    `${ROWS} random calls with rates and parts of all kinds, ${booked} of them booked, against a big-number oracle`,
    '0 differences in rows, counters and summary, to 10^-15 EUR; all seals hold',
  );
});
