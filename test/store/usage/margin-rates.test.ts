import { randomInt, randomUUID } from 'node:crypto';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { COST_PARTS, type CostPart } from '../../../src/domain/pricing/parts.ts';
import {
  costOf,
  parsePrices,
  partsWithin,
  ratedPrices,
} from '../../../src/domain/pricing/prices.ts';
import { parseRates, type RateTexts } from '../../../src/domain/pricing/rates.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { readMargin } from '../../../src/store/usage/margin.ts';
import { testDatabase } from '../../support/postgres.ts';

const MS = 60_000;
const oneOf = <T>(from: readonly T[]): T => from[randomInt(from.length)] as T;
const price = () => `0.${String(randomInt(10 ** 9)).padStart(9, '0')}`;
const MORE = COST_PARTS.filter((part) => part !== 'input' && part !== 'output');

/** Prices of input, output and some other parts; each rate names them all. */
function randomPrices(): Partial<Record<CostPart, string>> {
  const some = MORE.filter((part) => part !== 'cache_write_1h' && randomInt(2) === 0);
  if (some.includes('cache_write')) some.push('cache_write_1h');
  return Object.fromEntries(['input', 'output', 'request', ...some].map((part) => [part, price()]));
}

t.test('a cost price with parts and rates holds for each call as a price would', async (t) => {
  const { db } = await testDatabase(t);
  const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
  const companies = await run(
    (sql) => sql<{ id: string }[]>`insert into companies (name) values ('A'), ('B') returning id`,
  );
  const base = randomPrices();
  const rates = [
    { over: 500 },
    { tier: 'priority' },
    { tier: 'priority', over: 500 },
    { hours: 'Mon-Fri 08:00-20:00 Europe/Berlin' },
    { hours: 'Mon-Fri 08:00-20:00 Europe/Berlin', tier: 'priority' },
  ].map((conditions) => ({
    ...conditions,
    ...Object.fromEntries(Object.keys(base).map((part) => [part, price()])),
  })) as unknown as RateTexts[];
  const prices = parsePrices(base.input as string, base.output as string, base, parseRates(rates));
  await run(
    (sql) =>
      sql`insert into model_cost_prices select (jsonb_populate_record(null::model_cost_prices, ${
        {
          ...base,
          rates,
          id: randomUUID(),
          slug: 'rated',
          valid_from: '2026-01-01',
          changed_by: 'x',
          created_at: '2026-01-01',
        } as never
      }::jsonb)).*`,
  );
  await run(
    (sql) =>
      sql`insert into model_cost_prices (slug, valid_from, input, output) values ('plain', '2026-01-01', 0.5, 0.25)`,
  );
  const rows = Array.from({ length: 600 }, () => {
    const [prompt, completion] = [randomInt(1000), randomInt(1000)];
    const count = (most: number) => (randomInt(2) === 0 ? null : randomInt(most + 1));
    const written = count(prompt);
    return {
      billing_month: '2026-09-01',
      request_id: randomUUID(),
      company_id: oneOf(companies).id,
      api_key_id: randomUUID(),
      model_slug: oneOf(['rated', 'plain', 'without']),
      upstream_model: 'u',
      endpoint: 'chat.completions',
      prompt_tokens: prompt,
      completion_tokens: completion,
      cost_eur: formatEur(BigInt(prompt) * 10n ** 12n),
      price_input: '1',
      price_output: '0',
      usage_source: 'upstream',
      outcome: 'completed',
      occurred_at: new Date(Date.UTC(2026, 8, 1) + randomInt(29 * 86_400_000)).toISOString(),
      cost_center: '',
      cached_tokens: count(prompt),
      cache_write_tokens: written,
      cache_write_1h_tokens: written === null ? null : count(written),
      audio_prompt_tokens: count(prompt),
      image_prompt_tokens: count(prompt),
      reasoning_tokens: count(completion),
      audio_completion_tokens: count(completion),
      image_completion_tokens: count(completion),
      search_units: count(50),
      rate: oneOf([null, 'priority', 'priority over 7', 'over 400']),
    };
  });
  await run(
    (sql) =>
      sql`insert into api_usage select (jsonb_populate_record(null::api_usage, each)).* from jsonb_array_elements(${rows as never}::jsonb) as each`,
  );
  const costOfRow = (row: (typeof rows)[number]): bigint => {
    const { prompt_tokens: prompt, completion_tokens: completion } = row;
    if (row.model_slug === 'plain')
      return (BigInt(prompt) * parseEur('0.5') + BigInt(completion) * parseEur('0.25')) / 1000n;
    const facts = {
      at: Date.parse(row.occurred_at),
      tier: row.rate?.startsWith('priority') ? 'priority' : null,
    };
    const rated = ratedPrices(prices, facts, prompt);
    const counts = {
      cached: row.cached_tokens,
      cacheWrite: row.cache_write_tokens,
      cacheWriteHour: row.cache_write_1h_tokens,
      audioPrompt: row.audio_prompt_tokens,
      imagePrompt: row.image_prompt_tokens,
      reasoning: row.reasoning_tokens,
      audioCompletion: row.audio_completion_tokens,
      imageCompletion: row.image_completion_tokens,
      searchUnits: row.search_units,
    };
    const fitting = partsWithin(rated, { prompt, completion }, counts);
    return costOf(rated, prompt, completion, fitting);
  };
  const margin = await run((sql) => readMargin(sql, '2026-09-01'));
  const sumOf = (of: typeof rows) => formatEur(of.reduce((sum, row) => sum + costOfRow(row), 0n));
  const costed = rows.filter(({ model_slug }) => model_slug !== 'without');
  t.equal(margin.total.cost_eur, sumOf(costed), JSON.stringify({ base, rates }));
  t.equal(margin.total.requests, rows.length);
  for (const { model, cost_eur, requests } of margin.by_model) {
    const own = rows.filter(({ model_slug }) => model_slug === model);
    t.equal(requests, own.length);
    t.equal(cost_eur, model === 'without' ? null : sumOf(own), model);
  }
  for (const { model, company_id, cost_eur } of margin.lines) {
    const own = rows.filter((row) => row.model_slug === model && row.company_id === company_id);
    t.equal(cost_eur, model === 'without' ? null : sumOf(own));
  }
});
