import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import t from 'tap';
import { formatEur } from '../../src/domain/pricing/money.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { RecordWriter, readRecordCost } from '../../src/domain/record.ts';
import { type UsageRecord, usageRecord } from '../../src/domain/usage.ts';

const name = fc.oneof(
  fc.constantFrom('demo-chat', 'a/b:c@1'),
  fc.string({ unit: 'grapheme', minLength: 1 }),
);
const price = fc
  .tuple(fc.bigInt(0n, 10n ** 9n), fc.bigInt(0n, 10n ** 12n - 1n))
  .map(([whole, decimals]) => `${whole}.${`${decimals}`.padStart(12, '0')}`);
const count = fc.oneof(fc.nat(1000), fc.maxSafeNat());
const model = fc
  .record({
    slug: name,
    upstream: name,
    input: price,
    output: price,
    cacheRead: fc.option(price),
    cacheWrite: fc.option(price),
  })
  .map(({ input, output, cacheRead, cacheWrite, ...names }) => ({
    ...names,
    kind: 'chat' as const,
    euHosted: true,
    acceptsTokens: false,
    prices: parsePrices(input, output, { cache_read: cacheRead, cache_write: cacheWrite }),
    created: 0,
    next: null,
  }));
const record = fc
  .record({
    model,
    endpoint: fc.constantFrom('chat.completions', 'embeddings', 'assistants.run'),
    at: fc.nat(4e12),
    prompt: count,
    completion: count,
    source: fc.constantFrom('upstream', 'estimated'),
    outcome: fc.constantFrom('completed', 'client_aborted', 'upstream_failed'),
    details: fc.option(
      fc.record({
        cached: fc.option(count),
        cacheWrite: fc.option(count),
        audioPrompt: fc.option(count),
        reasoning: fc.option(count),
        audioCompletion: fc.option(count),
        cacheWriteHour: fc.option(count),
        imagePrompt: fc.option(count),
        imageCompletion: fc.option(count),
        searchUnits: fc.option(count),
        cost: fc.option(fc.double({ min: 1e-15, max: 1e6, noNaN: true }).map(String)),
      }),
    ),
    costCenter: fc.oneof(
      fc.constant(''),
      fc.constant('Marketing'),
      fc.string({ unit: 'grapheme', maxLength: 64 }),
    ),
    endUser: fc.option(fc.record({ id: fc.uuid(), budget: fc.constant(null) })),
  })
  .map(
    ({
      model,
      endpoint,
      at,
      prompt,
      completion,
      source,
      outcome,
      costCenter,
      endUser,
      details,
    }) => {
      const payer = { id: randomUUID(), companyId: randomUUID() };
      const named = { costCenter, endUser };
      const admission = {
        requestId: randomUUID(),
        payer,
        model,
        endpoint,
        at,
        month: '2026-11-01',
        ...named,
      } as const;
      // as a charge does
      const cached = details && Math.min(details.cached ?? 0, prompt);
      const cache = {
        cached,
        cacheWrite: details && Math.min(details.cacheWrite ?? 0, prompt - (cached ?? 0)),
      };
      const charged = details && model.prices.apart.length > 0 ? { ...details, ...cache } : details;
      return usageRecord(admission, { prompt, completion }, source, outcome, charged, 'USD');
    },
  );

/** The text of a record, put together another way. */
function expected({ admission, tokens, cost, source, outcome, details }: UsageRecord): string {
  const { model, payer } = admission;
  const members: [column: string, value: string][] = [
    ['billing_month', `"${admission.month}"`],
    ['request_id', `"${admission.requestId}"`],
    ['company_id', `"${payer.companyId}"`],
    ['api_key_id', `"${payer.id}"`],
    ['model_slug', asciiOnly(model.slug)],
    ['upstream_model', asciiOnly(model.upstream)],
    ['endpoint', `"${admission.endpoint}"`],
    ['prompt_tokens', `${tokens.prompt}`],
    ['completion_tokens', `${tokens.completion}`],
    ['cost_eur', formatEur(cost)],
    ['price_input', model.prices.texts.input],
    ...priceMembers(model.prices.texts.cache_read, 'price_cache_read'),
    ...priceMembers(model.prices.texts.cache_write, 'price_cache_write'),
    ['price_output', model.prices.texts.output],
    ['usage_source', `"${source}"`],
    ['outcome', `"${outcome}"`],
    ['occurred_at', `"${new Date(admission.at).toISOString()}"`],
    ...toldMembers(details),
    ...(admission.costCenter === ''
      ? []
      : [['cost_center', asciiOnly(admission.costCenter)] as [string, string]]),
    ...(admission.endUser == null
      ? []
      : [['end_user_id', `"${admission.endUser.id}"`] as [string, string]]),
  ];
  return `{${members.map(([column, value]) => `"${column}":${value}`)}}`;
}

function priceMembers(price: string | null, column: string): [column: string, value: string][] {
  return price === null ? [] : [[column, price]];
}

function toldMembers(details: UsageRecord['details']): [column: string, value: string][] {
  if (details === null) return [];
  const { cached, cacheWrite, audioPrompt, reasoning, audioCompletion, cost } = details;
  const members: [string, number | string | null][] = [
    ['cached_tokens', cached],
    ['cache_write_tokens', cacheWrite],
    ['audio_prompt_tokens', audioPrompt],
    ['reasoning_tokens', reasoning],
    ['audio_completion_tokens', audioCompletion],
    ['cache_write_1h_tokens', details.cacheWriteHour],
    ['image_prompt_tokens', details.imagePrompt],
    ['image_completion_tokens', details.imageCompletion],
    ['search_units', details.searchUnits],
    ['upstream_cost', cost],
    ['upstream_currency', cost === null ? null : '"USD"'],
  ];
  return members.flatMap(([column, value]) =>
    value === null ? [] : [[column, `${value}`] as [string, string]],
  );
}

function asciiOnly(text: string): string {
  const codes = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
  const escaped = codes.map((code) =>
    code > 0x7e
      ? `\\u${code.toString(16).padStart(4, '0')}`
      : JSON.stringify(String.fromCharCode(code)).slice(1, -1),
  );
  return `"${escaped.join('')}"`;
}

t.test('a record is a JSON object of ASCII in one line, to the byte', async () => {
  const writer = new RecordWriter(); // one for all: what calls of a model share is kept
  const models = fc.sample(model, 3);
  fc.assert(
    fc.property(record, fc.option(fc.constantFrom(...models)), (made, again) => {
      const record =
        again === null
          ? made
          : { ...made, admission: { ...made.admission, model: again }, prices: again.prices };
      const room = writer.room(record);
      const bytes = Buffer.alloc(room + 20, '.');
      const end = writer.write(record, bytes, 10);
      const text = bytes.toString('latin1', 10, end);
      assert.equal(text, expected(record));
      assert.ok(end - 10 <= room, 'fits in its room');
      assert.equal(
        bytes.toString('latin1', 0, 10) + bytes.toString('latin1', end),
        '.'.repeat(bytes.length - text.length),
      );
      assert.match(text, /^[\x20-\x7e]+$/);
    }),
    { numRuns: 500 },
  );
});

t.test('a record read back tells whose it is and what it costs', async () => {
  const writer = new RecordWriter();
  fc.assert(
    fc.property(record, (record) => {
      const { requestId, payer, month } = record.admission;
      const bytes = Buffer.alloc(writer.room(record));
      const text = bytes.toString('latin1', 0, writer.write(record, bytes, 0));
      const { prompt: promptTokens, completion: completionTokens } = record.tokens;
      assert.deepEqual(readRecordCost(text), {
        requestId,
        companyId: payer.companyId,
        keyId: payer.id,
        month,
        promptTokens,
        completionTokens,
        cost: record.cost,
      });
    }),
  );
  assert.equal(readRecordCost('{}'), null);
});

t.test(
  'an id that is none becomes a record that no database takes, and no other member suffers',
  async (t) => {
    const [made] = fc.sample(record, 1) as [UsageRecord];
    for (const id of ['', 'short', 'x'.repeat(100)]) {
      const record = { ...made, admission: { ...made.admission, requestId: id } };
      const writer = new RecordWriter();
      const bytes = Buffer.alloc(writer.room(record));
      const text = bytes.toString('latin1', 0, writer.write(record, bytes, 0));
      const { request_id, ...others } = JSON.parse(text) as Record<string, unknown>;
      t.equal(request_id, id.slice(0, 36).padEnd(36));
      const { request_id: _, ...same } = JSON.parse(expected(made)) as Record<string, unknown>;
      t.same(others, same);
    }
  },
);
