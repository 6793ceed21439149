import { randomUUID } from 'node:crypto';
import t from 'tap';
import { parseEur } from '../../../src/domain/pricing/money.ts';
import { ledgerStore } from '../../../src/store/gateway/ledger.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const store = ledgerStore(db);
const add = (rows: Parameters<typeof addUsage>[1]) => db.run(60_000, (sql) => addUsage(sql, rows));
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
  const found = await store.keyUsage([
    of(key, NOVEMBER),
    of(second, NOVEMBER),
    of(randomUUID(), NOVEMBER),
  ]);
  t.same(
    found
      .map(({ eur, ...sums }) => ({ ...sums, cost: parseEur(eur) }))
      .toSorted((a, b) => b.requests - a.requests),
    [
      {
        ...of(key, NOVEMBER),
        requests: 2,
        promptTokens: 1001,
        completionTokens: 1,
        cost: parseEur('0.100300000000001'),
      },
      {
        ...of(second, NOVEMBER),
        requests: 1,
        promptTokens: 7,
        completionTokens: 0,
        cost: parseEur('0.007'),
      },
    ],
  );
  t.match(await store.keyUsage([of(key, DECEMBER)]), [{ ...of(key, DECEMBER), requests: 1 }]);
  t.match(await store.keyUsage([of(key, NOVEMBER, other)]), [{ requests: 1, promptTokens: 11 }]);
});

t.test(
  'rows of calls: in the months that are named, of the key and company that ask',
  async (t) => {
    const [own, late, foreign, moved] = [randomUUID(), randomUUID(), randomUUID(), randomUUID()];
    await add([
      {
        company,
        key,
        request: own,
        prompt: 20,
        completion: 3,
        input: '0.5',
        at: '2026-11-15T12:00:00.125Z',
      },
      { company, key, request: late, month: DECEMBER },
      { company, key: second, request: foreign },
      { company: other, key, request: moved },
    ]);
    const ask = async (ids: readonly string[], months: readonly string[]) => {
      const wanted = ids.map((requestId) => ({
        payer: { id: key, companyId: company },
        requestId,
        months,
      }));
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
        cache_write_1h_tokens: null,
        audio_prompt_tokens: null,
        image_prompt_tokens: null,
        reasoning_tokens: null,
        audio_completion_tokens: null,
        image_completion_tokens: null,
        search_units: null,
      },
    });
    t.same(await ask([late], [NOVEMBER]), []);
  },
);

t.test(
  'a key that somebody is changing is passed over when uses are stored, and nobody waits for it',
  async (t) => {
    const [changed, free] = await db.run(
      10_000,
      (sql) => sql<{ id: string }[]>`
      with company as (insert into companies (name, monthly_budget_eur) values ('used', 1) returning id)
      insert into api_keys (company_id, name, digest, prefix, scopes)
      select id, 'key ' || n, sha256(convert_to('used' || n, 'UTF8')), 'svc_xxxx', array['chat'] from company, generate_series(1, 2) n
      returning id::text`,
    );
    const at = Date.parse('2026-11-21T10:15:30Z');
    const used = [changed, free].map((row) => [(row as { id: string }).id, at] as const);
    await db.transaction(60_000, async (sql) => {
      await sql`update api_keys set name = 'renamed' where id = ${used[0]?.[0] as string}`;
      await store.touchKeys(used);
    });
    const told = () =>
      db.run(
        10_000,
        (sql) =>
          sql`select name from api_keys where last_used_at is not null and name like any('{renamed,key %}')`,
      );
    t.same(await told(), [{ name: 'key 2' }]);
    await store.touchKeys(used);
    t.equal((await told()).length, 2);
  },
);

t.test(
  'a reservation that expired and was deleted is made again when its lease is renewed',
  async (t) => {
    const [writer, requestId, ended] = [randomUUID(), randomUUID(), randomUUID()];
    const reservation = {
      requestId,
      companyId: company,
      month: NOVEMBER,
      amount: parseEur('1.5'),
      bounded: true,
    };
    const kept = () =>
      db.run(
        10_000,
        (sql) => sql`
        select request_id::text as id, owner::text, amount_eur::float8 as eur, expires_at > now() + interval '50 s' as lasts
        from budget_reservations where company_id = ${company}`,
      );
    const row = { id: requestId, owner: writer, eur: 1.5, lasts: true };
    await store.keepReservations(
      writer,
      [],
      [reservation, { ...reservation, requestId: ended }],
      60,
    );
    t.equal((await kept()).length, 2);
    await store.keepReservations(writer, [ended], [reservation], 60);
    t.same(await kept(), [row]);
    await db.run(
      10_000,
      (sql) => sql`update budget_reservations set expires_at = now() - interval '1 s'`,
    );
    await store.keepReservations(writer, [], [], 60);
    t.same(await kept(), [], 'another gateway found it expired');
    await store.keepReservations(writer, [], [reservation], 60);
    t.same(await kept(), [row]);
  },
);
