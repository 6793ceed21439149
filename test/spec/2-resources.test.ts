import { createHash } from 'node:crypto';
import t from 'tap';
import { endKey, insertKey, listKeys } from '../../src/store/company/key.ts';
import { chunksOf } from '../support/client.ts';
import { until } from '../support/until.ts';
import { CHAT, customerWith, EMBED, OVERSEAS, startWorld } from '../support/world.ts';

const world = await startWorld(t, { OWNED_BY: 'brand-owner', BILLING_TIMEZONE: 'Europe/Berlin' });
const { customer } = world;

t.test('2.1 model list entry', async (t) => {
  const list = (await customer.ask('/models')).json;
  const entry = list.data.find(({ id }: { id: string }) => id === CHAT);

  t.test(
    '2.1 id is the slug, and this exact value goes into the model field of a call',
    async (t) => {
      for (const { id } of list.data) {
        const { status } =
          id === EMBED ? await customer.embed({ model: id }) : await customer.chat({ model: id });
        t.equal(status, 200, id);
      }
    },
  );
  t.test('2.1 object is "model"', async (t) => {
    t.equal(entry.object, 'model');
  });
  t.test('2.1 created is a Unix timestamp in seconds', async (t) => {
    const [row] =
      await world.sql`select floor(extract(epoch from created_at))::float as at from models where slug = ${CHAT}`;
    t.equal(entry.created, row?.at);
  });
  t.test('2.1 owned_by names the operating party, the same for all entries', async (t) => {
    for (const { owned_by } of list.data) t.equal(owned_by, 'brand-owner');
  });
  t.test('2.1 an entry has no other fields', async (t) => {
    t.same(Object.keys(entry).sort(), ['created', 'id', 'object', 'owned_by']);
  });
  t.test('2.1 the list wrapper has object "list" and data', async (t) => {
    t.same(Object.keys(list).sort(), ['data', 'object']);
    t.equal(list.object, 'list');
    t.ok(Array.isArray(list.data));
  });
  t.test('2.1 slugs are specific to a company and its configuration', async (t) => {
    const other = await world.newCustomer({ disabled: [CHAT] });
    await world.part(other, 'house-model', 'internal-house');
    const ids = (await other.ask('/models')).json.data.map(({ id }: { id: string }) => id);
    t.same(ids, [EMBED, 'house-model'].sort());
  });
  t.test("2.1 a company's own model wins over a shared one of the same slug", async (t) => {
    const other = await world.newCustomer();
    await world.part(other, CHAT, 'internal-own');
    t.equal((await other.chat()).json.model, CHAT);
    t.equal(world.upstream.received().at(-1)?.body.model, 'internal-own');
    await customer.chat();
    t.equal(world.upstream.received().at(-1)?.body.model, world.upstream.parts.chat);
  });
});

t.test('2.2 chat completion', async (t) => {
  const { json } = await customer.chat();
  t.test('2.2 id identifies the completion', async (t) => {
    t.match(json.id, /^.{8,}$/);
    t.not((await customer.chat()).json.id, json.id);
  });
  t.test('2.2 object is "chat.completion"', async (t) => {
    t.equal(json.object, 'chat.completion');
  });
  t.test('2.2 created is a Unix timestamp in seconds', async (t) => {
    t.ok(Number.isInteger(json.created) && Math.abs(json.created - Date.now() / 1000) < 600);
  });
  t.test('2.2 model is the slug the client used', async (t) => {
    t.equal(json.model, CHAT);
  });
  t.test(
    '2.2 model is the slug even when the upstream fell back to another model, or names none',
    async (t) => {
      const other = await world.newCustomer();
      await world.part(other, 'fallen', 'internal-x!fallback');
      await world.part(other, 'nameless', 'internal-x!no-model');
      t.equal((await other.chat({ model: 'fallen' })).json.model, 'fallen');
      t.equal((await other.chat({ model: 'nameless' })).json.model, 'nameless');
    },
  );
  t.test(
    '2.2 choices hold index, message with role "assistant" and content, finish_reason',
    async (t) => {
      t.match(json.choices, [
        { index: 0, message: { role: 'assistant', content: /Hello there/ }, finish_reason: 'stop' },
      ]);
      t.equal(json.choices.length, 1);
    },
  );
  t.test('2.2 usage holds three integers', async (t) => {
    const { prompt_tokens, completion_tokens, total_tokens } = json.usage;
    t.ok([prompt_tokens, completion_tokens, total_tokens].every(Number.isInteger));
    t.equal(total_tokens, prompt_tokens + completion_tokens);
  });
});

t.test('2.3 chat completion chunk', async (t) => {
  const chunks = chunksOf((await customer.chat({ stream: true })).text);
  const withChoices = chunks.filter(({ choices }) => choices.length > 0);
  t.test('2.3 id is that of the completion, on every chunk', async (t) => {
    t.match(chunks[0].id, /^.{8,}$/);
    t.equal(new Set(chunks.map(({ id }) => id)).size, 1);
  });
  t.test('2.3 object is "chat.completion.chunk"', async (t) => {
    t.ok(chunks.every(({ object }) => object === 'chat.completion.chunk'));
  });
  t.test('2.3 model is the slug and present on the first chunk', async (t) => {
    t.equal(chunks[0].model, CHAT);
    t.ok(chunks.every(({ model }) => model === undefined || model === CHAT));
  });
  t.test('2.3 model is present on the first chunk even when the upstream names none', async (t) => {
    const other = await world.newCustomer();
    await world.part(other, 'nameless', 'internal-x!no-model');
    t.equal(
      chunksOf((await other.chat({ model: 'nameless', stream: true })).text)[0].model,
      'nameless',
    );
  });
  t.test(
    '2.3 delta.content is a fragment of the text and the delta of the final chunk is empty',
    async (t) => {
      const whole = (await customer.chat()).json.choices[0].message.content;
      t.equal(withChoices.map(({ choices }) => choices[0].delta.content ?? '').join(''), whole);
      t.same(withChoices.at(-1).choices[0].delta, {});
    },
  );
  t.test('2.3 finish_reason is null until the final chunk', async (t) => {
    const reasons = withChoices.map(({ choices }) => choices[0].finish_reason);
    // behind it only the chunk with the usage follows, whose choice is empty
    t.same(
      withChoices.slice(reasons.indexOf('stop') + 1).map(({ choices }) => choices[0].delta),
      [{}],
    );
    t.same(
      reasons.filter((reason) => reason !== null),
      ['stop'],
    );
  });
  t.test('2.3 usage is on the final chunk', async (t) => {
    t.same(chunks.at(-1).usage, (await customer.chat()).json.usage);
    t.notOk(chunks.slice(0, -1).some(({ usage }) => usage));
  });
});

t.test('2.4 embedding result', async (t) => {
  const { json } = await customer.embed({ input: ['one', 'two'] });
  t.test('2.4 object is "list"', async (t) => {
    t.equal(json.object, 'list');
  });
  t.test('2.4 data holds object "embedding", index and an array of numbers', async (t) => {
    t.equal(json.data.length, 2);
    for (const [at, { object, index, embedding }] of json.data.entries()) {
      t.equal(object, 'embedding');
      t.equal(index, at);
      t.ok(embedding.every((value: unknown) => typeof value === 'number'));
    }
  });
  t.test('2.4 model is the slug', async (t) => {
    t.equal(json.model, EMBED);
  });
  t.test('2.4 usage holds two integers', async (t) => {
    t.ok(Number.isInteger(json.usage.prompt_tokens) && json.usage.prompt_tokens > 0);
    t.ok(Number.isInteger(json.usage.total_tokens));
  });
  t.test('2.4 the default model makes vectors of 1024 numbers', async (t) => {
    t.equal(json.data[0].embedding.length, 1024);
  });
});

t.test('2.5 assistant run result', async (t) => {
  const assistant = await world.assistant(customer.company, { model: CHAT });
  const { status, json } = await customer.run(assistant);
  t.equal(status, 200);
  t.test('2.5 text is the generated answer', async (t) => {
    t.match(json.text, /Hello there/);
  });
  t.test('2.5 model is the slug of the model used', async (t) => {
    t.equal(json.model, CHAT);
  });
  t.test('2.5 usage holds prompt_tokens and completion_tokens, and no total', async (t) => {
    t.same(Object.keys(json.usage).sort(), ['completion_tokens', 'prompt_tokens']);
    t.ok(json.usage.prompt_tokens > 0 && json.usage.completion_tokens > 0);
  });
  t.test('2.5 a result has no other fields', async (t) => {
    t.same(Object.keys(json).sort(), ['model', 'text', 'usage']);
  });
});

t.test('2.6 assistant', async (t) => {
  const sent = () => world.upstream.received().at(-1)?.body;

  t.test('2.6 the system prompt and the current date are put before a run', async (t) => {
    const assistant = await world.assistant(customer.company, {
      model: CHAT,
      prompt: 'Answer in rhymes.',
    });
    await customer.run(assistant);
    const [system, user] = sent().messages;
    const date = new Intl.DateTimeFormat('en-CA', { timeZone: 'Europe/Berlin' }).format(new Date());
    t.equal(system.role, 'system');
    t.match(system.content, /^Answer in rhymes\./);
    t.match(system.content, date);
    t.same(user, { role: 'user', content: 'Hello there' });
  });
  t.test(
    '2.6 the default model and settings are used, and a run request overrides them',
    async (t) => {
      const assistant = await world.assistant(customer.company, {
        model: CHAT,
        temperature: 0.25,
        maxTokens: 5,
      });
      t.equal((await customer.run(assistant)).status, 200);
      t.match(sent(), { model: world.upstream.parts.chat, temperature: 0.25, max_tokens: 5 });
      const other = await world.newCustomer();
      await world.part(other, 'second', 'internal-second');
      const theirs = await world.assistant(other.company, {
        model: CHAT,
        temperature: 0.25,
        maxTokens: 5,
      });
      t.equal(
        (await other.run(theirs, { model_slug: 'second', temperature: 1.5, max_tokens: 7 })).json
          .model,
        'second',
      );
      t.match(sent(), { model: 'internal-second', temperature: 1.5, max_tokens: 7 });
    },
  );
  t.test('2.6 an assistant without settings leaves them to the model', async (t) => {
    const assistant = await world.assistant(customer.company, { model: CHAT });
    await customer.run(assistant);
    t.same(Object.keys(sent()).sort(), ['messages', 'model']);
  });
  for (const visibility of ['private', 'persons', 'teams', 'projects']) {
    t.test(`2.6 an assistant shared as "${visibility}" answers 404`, async (t) => {
      const assistant = await world.assistant(customer.company, { model: CHAT, visibility });
      t.equal((await customer.run(assistant)).status, 404);
    });
  }
  t.test('2.6 an assistant with a home project answers 404', async (t) => {
    const project = crypto.randomUUID();
    const assistant = await world.assistant(customer.company, { model: CHAT, project });
    t.equal((await customer.run(assistant)).status, 404);
  });
});

t.test('2.7 company API key', async (t) => {
  const minted = await insertKey(world.sql, 'svc_', {
    company_id: customer.company,
    name: 'a key',
    scopes: ['chat'],
    created_by: 'owner@example.com',
  });
  t.test('2.7 format: svc_ and 32 characters of the base32 alphabet', async (t) => {
    t.match(minted.key, /^svc_[a-z2-7]{32}$/);
  });
  t.test('2.7 creation: the key works', async (t) => {
    t.equal((await customerWith(world.url, customer.company, minted.key).chat()).status, 200);
  });
  t.test('2.7 display: afterwards only the first 8 characters are shown', async (t) => {
    const row = (await listKeys(world.sql, customer.company)).find(({ id }) => id === minted.id);
    t.equal(row?.prefix, minted.key.slice(0, 8));
    t.notMatch(JSON.stringify(row), minted.key.slice(8));
  });
  t.test(
    '2.7 storage: only the SHA-256 digest is stored, the key stands in no table',
    async (t) => {
      const [row] = await world.sql`select digest from api_keys where id = ${minted.id}`;
      t.same(row?.digest, createHash('sha256').update(minted.key).digest());
      const tables = await world.sql`select tablename from pg_tables where schemaname = 'public'`;
      t.ok(tables.length > 5);
      for (const { tablename } of tables) {
        const [found] = await world.sql`
        select count(*)::integer as rows from ${world.sql(tablename)} as r where r::text like ${`%${minted.key.slice(8)}%`}`;
        t.equal(found?.rows, 0, tablename);
      }
    },
  );
  t.test('2.7 loss: a revoked key is refused, and a new one works', async (t) => {
    const lost = await world.key(customer.company);
    const theirs = customerWith(world.url, customer.company, lost);
    t.equal((await theirs.chat()).status, 200);
    const digest = createHash('sha256').update(lost).digest();
    const [row] = await world.sql`select id from api_keys where digest = ${digest}`;
    await endKey(world.sql, row?.id);
    await until(async () => (await theirs.chat()).status === 401, 'the revoked key is refused');
    t.equal(
      (await customerWith(world.url, customer.company, await world.key(customer.company)).chat())
        .status,
      200,
    );
  });
  t.test('2.7 scopes: a key carries scopes, enforced by the server', async (t) => {
    t.equal((await customerWith(world.url, customer.company, minted.key).embed()).status, 403);
  });
});

t.test('2.8 usage ledger record', async (t) => {
  const other = await world.newCustomer();
  const chat = (await other.chat()).json.usage;
  const embed = (await other.embed()).json.usage;
  await other.chat({ model: 'unknown' });
  await other.chat({ messages: [] });
  const rows = await world.ledger(other.company, 2);

  t.test(
    '2.8 one record per successful completion or embedding call, none for a refused one',
    async (t) => {
      t.equal(rows.length, 2);
      t.equal(new Set(rows.map(({ request_id }) => request_id)).size, 2);
    },
  );
  t.test('2.8 a record has slug, endpoint, tokens and cost in EUR', async (t) => {
    t.match(rows[0], {
      model_slug: CHAT,
      endpoint: 'chat.completions',
      prompt_tokens: chat.prompt_tokens,
    });
    t.match(rows[0], {
      completion_tokens: chat.completion_tokens,
      usage_source: 'upstream',
      outcome: 'completed',
    });
    t.match(rows[1], {
      model_slug: EMBED,
      endpoint: 'embeddings',
      prompt_tokens: embed.prompt_tokens,
      completion_tokens: 0,
    });
    const cost = (chat.prompt_tokens * 500 + chat.completion_tokens * 1500) / 1_000_000;
    t.equal(rows[0]?.cost_eur, String(cost));
  });
});

t.test('2.9 company settings', async (t) => {
  const ids = async (customer: { ask: typeof world.customer.ask }) =>
    (await customer.ask('/models')).json.data.map(({ id }: { id: string }) => id);

  t.test('2.9 disabled_model_slugs hides a model and refuses it with 404', async (t) => {
    const other = await world.newCustomer({ disabled: [CHAT] });
    t.notOk((await ids(other)).includes(CHAT));
    t.equal((await other.chat()).status, 404);
  });
  t.test('2.9 allow_non_eu_models lists models outside the EU and makes them usable', async (t) => {
    const open = await world.newCustomer({ allowNonEu: true });
    t.ok((await ids(open)).includes(OVERSEAS));
    t.equal((await open.chat({ model: OVERSEAS })).status, 200);
    t.notOk((await ids(customer)).includes(OVERSEAS));
    t.equal((await customer.chat({ model: OVERSEAS })).status, 403);
  });
  for (const budget of [null, '0']) {
    t.test(`2.9 monthly_budget_eur ${budget} means unlimited`, async (t) => {
      const other = await world.newCustomer({ budget });
      await world.sql`insert into chat_usage (company_id, cost_eur) values (${other.company}, 1000000)`;
      t.equal((await other.chat()).status, 200);
      await world.ledger(other.company, 1);
      t.equal((await other.chat()).status, 200);
    });
  }
  t.test('2.9 prices are per model and per 1000 tokens', async (t) => {
    const other = await world.newCustomer();
    await world.model('dear', {
      upstream: 'internal-dear',
      company: other.company,
      input: '0.123456789012',
      output: '7',
    });
    const { usage } = (await other.chat({ model: 'dear' })).json;
    const [row] = await world.ledger(other.company, 1);
    t.match(row, { price_input: '0.123456789012', price_output: '7' });
    const femto =
      BigInt(usage.prompt_tokens) * 123_456_789_012n +
      BigInt(usage.completion_tokens) * 7_000_000_000_000n;
    t.equal(row?.cost_eur, decimals(femto));
  });
});

/** An amount of 10^-15 EUR as a decimal number without needless zeros. */
function decimals(femto: bigint): string {
  const digits = femto.toString().padStart(16, '0');
  return `${digits.slice(0, -15)}.${digits.slice(-15)}`.replace(/\.?0+$/, '');
}
