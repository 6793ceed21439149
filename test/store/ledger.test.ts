import { randomUUID } from 'node:crypto';
import t from 'tap';
import { parseEur } from '../../src/domain/money.ts';
import { ledgerStore } from '../../src/store/ledger.ts';
import { testDatabase } from '../support/postgres.ts';
import { addUsage } from '../support/usage.ts';

const { db } = await testDatabase(t);
const store = ledgerStore(db);
const add = (rows: Parameters<typeof addUsage>[1]) => db.run(10_000, (sql) => addUsage(sql, rows));
const [company, other, key, second] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
const NOVEMBER = '2026-11-01';
const DECEMBER = '2026-12-01';

t.test('what keys used in a month: exact sums, of each key, company and month alone', async (t) => {
  await add([
    { company, key, model: 'a', prompt: 1, completion: 1, input: '0.000000000001', output: '0.3' },
    { company, key, model: 'b', prompt: 1000, input: '0.1', endpoint: 'embeddings' },
    { company, key, month: DECEMBER, prompt: 5, input: '1' },
    { company, key: second, prompt: 7, input: '1' },
    { company: other, key, prompt: 11, input: '1' },
    { company, prompt: 13, input: '1' },
  ]);
  const of = (keyId: string, month: string, companyId = company) => ({ keyId, companyId, month });
  const found = await store.keyUsage([of(key, NOVEMBER), of(second, NOVEMBER), of(randomUUID(), NOVEMBER)]);
  t.same(
    found.map(({ eur, ...sums }) => ({ ...sums, cost: parseEur(eur) })).toSorted((a, b) => b.requests - a.requests),
    [
      {
        ...of(key, NOVEMBER),
        requests: 2,
        promptTokens: 1001,
        completionTokens: 1,
        cost: parseEur('0.100300000000001'),
      },
      { ...of(second, NOVEMBER), requests: 1, promptTokens: 7, completionTokens: 0, cost: parseEur('0.007') },
    ],
  );
  t.match(await store.keyUsage([of(key, DECEMBER)]), [{ ...of(key, DECEMBER), requests: 1 }]);
  t.match(await store.keyUsage([of(key, NOVEMBER, other)]), [{ requests: 1, promptTokens: 11 }]);
});

t.test('rows of calls: in the months that are named, of the key and company that ask', async (t) => {
  const [own, late, foreign, moved] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
  await add([
    { company, key, request: own, prompt: 20, completion: 3, input: '0.5', at: '2026-11-15T12:00:00.125Z' },
    { company, key, request: late, month: DECEMBER },
    { company, key: second, request: foreign },
    { company: other, key, request: moved },
  ]);
  const ask = async (ids: readonly string[], months: readonly string[]) => {
    const wanted = ids.map((requestId) => ({ payer: { id: key, companyId: company }, requestId, months }));
    return (await store.calls(wanted)).toSorted((a, b) => a.at - b.at);
  };
  const rows = await ask([own, late, foreign, moved], [NOVEMBER, DECEMBER]);
  t.same(
    rows.map(({ requestId }) => requestId),
    [own, late],
  );
  t.same(rows[0], {
    requestId: own,
    keyId: key,
    slug: 'fast',
    endpoint: 'chat.completions',
    promptTokens: 20,
    completionTokens: 3,
    eur: '0.01',
    source: 'upstream',
    outcome: 'completed',
    at: Date.parse('2026-11-15T12:00:00.125Z'),
    details: {
      cached_tokens: null,
      cache_write_tokens: null,
      audio_prompt_tokens: null,
      reasoning_tokens: null,
      audio_completion_tokens: null,
    },
  });
  t.same(await ask([late], [NOVEMBER]), []);
});
