import t from 'tap';
import { until } from '../../support/until.ts';
import { CHAT, OVERSEAS, startWorld } from '../../support/world.ts';

/** What operators set above a company's own settings holds, whatever its row says, by whatever tool. */

const world = await startWorld(t);
const { sql } = world;
const statusOf = async (asked: Promise<{ status: number }>) => (await asked).status;

t.test('the credit limit holds with a higher budget, with none, and with 0', async (t) => {
  for (const budget of ['1000000', null, '0']) {
    const one = await world.newCustomer();
    t.equal(await statusOf(one.chat()), 200);
    await sql`insert into chat_usage (company_id, cost_eur) values (${one.company}, 5)`;
    await sql`update companies set monthly_budget_eur = ${budget}, credit_limit_eur = 5 where id = ${one.company}`;
    await until(
      () => statusOf(one.chat()),
      `402 with a budget of ${budget}`,
      (status) => status === 402,
    );
    await sql`update companies set monthly_budget_eur = 999999 where id = ${one.company}`;
    await world.ledger(one.company, 1);
    const { status, json } = await one.chat();
    t.match(
      { status, json },
      { status: 402, json: { error: { code: 'insufficient_quota' } } },
      'plain SQL does not help',
    );
    await sql`update companies set credit_limit_eur = 500 where id = ${one.company}`;
    await until(
      () => statusOf(one.chat()),
      'a higher ceiling lets calls pass',
      (status) => status === 200,
    );
  }
});

t.test('a budget below the credit limit holds as before', async (t) => {
  const one = await world.newCustomer({ budget: '1' });
  await sql`update companies set credit_limit_eur = 500 where id = ${one.company}`;
  await sql`insert into chat_usage (company_id, cost_eur) values (${one.company}, 1)`;
  t.ok(
    await until(
      () => statusOf(one.chat()),
      '402 at the budget',
      (status) => status === 402,
    ),
  );
});

t.test('a strict company reserves up to the credit limit', async (t) => {
  const one = await world.newCustomer({ budget: '1000000' });
  // at most 1000 tokens of answer cost 1.5 EUR, and those of the prompt less than 0.1
  const bounded = { max_tokens: 1000 };
  await sql`update companies set budget_mode = 'strict', credit_limit_eur = 1.4 where id = ${one.company}`;
  await until(
    () => statusOf(one.chat(bounded)),
    '402 for what could cost more than the ceiling',
    (status) => status === 402,
  );
  t.equal(await statusOf(one.chat({ max_tokens: 5 })), 200, 'and less passes');
  await sql`update companies set credit_limit_eur = 100 where id = ${one.company}`;
  await until(
    () => statusOf(one.chat(bounded)),
    'a higher ceiling lets it pass',
    (status) => status === 200,
  );
});

t.test('a locked EU gate is closed, whatever the company allows', async (t) => {
  const one = await world.newCustomer({ allowNonEu: true });
  const ask = () => statusOf(one.chat({ model: OVERSEAS }));
  const listed = async () =>
    ((await one.ask('/models')).json.data as { id: string }[]).map(({ id }) => id);
  t.equal(await ask(), 200);
  await sql`update companies set eu_locked = true where id = ${one.company}`;
  await until(ask, 'the lock holds', (status) => status === 403);
  await sql`update companies set allow_non_eu_models = true where id = ${one.company}`;
  t.match((await one.chat({ model: OVERSEAS })).json, { error: { code: 'non_eu_model_blocked' } });
  t.notOk((await listed()).includes(OVERSEAS));
  t.ok((await listed()).includes(CHAT));
  await sql`update companies set eu_locked = false where id = ${one.company}`;
  await until(ask, 'unlocked, the company decides again', (status) => status === 200);
});

t.test(
  'a gate that closes while a run waits for its assistant is closed for that run',
  async (t) => {
    const one = await world.newCustomer({ allowNonEu: true });
    const assistant = await world.assistant(one.company, { model: OVERSEAS });
    let run = one.chat({ model: OVERSEAS });
    t.equal((await run).status, 200);
    await sql.begin(async (holder) => {
      await holder`lock table assistants in access exclusive mode`;
      run = one.run(assistant);
      const waiting = () =>
        holder`select from pg_locks where not granted and relation = 'assistants'::regclass`;
      await until(async () => (await waiting()).length > 0, 'the run waits');
      await sql`update companies set allow_non_eu_models = false where id = ${one.company}`;
      await until(
        async () => (await one.chat({ model: OVERSEAS })).status === 403,
        'the gate is closed',
      );
    });
    t.match(await run, { status: 403, json: { error: { code: 'non_eu_model_blocked' } } });
  },
);
