import t from 'tap';
import {
  completion,
  finish,
  message,
  messageEvents,
  response,
  token,
} from '../../support/answers.ts';
import { dataOf } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { customerWith } from '../../support/world.ts';

/** What the upstream tells of the tokens, and of its own cost, beside the price. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);

async function customerOf() {
  const company = await gateway.company();
  await gateway.model('brand', { upstream: 'internal-chat', company });
  await gateway.model('brand-embed', { upstream: 'internal-embed', kind: 'embedding', company });
  return customerWith(gateway.url, company, await gateway.key(company));
}

/** The rows of a company with their details, oldest first, once there are so many. */
async function told(company: string, rows: number) {
  await gateway.ledger(company, rows);
  return gateway.sql`
    select prompt_tokens::integer, completion_tokens::integer, cached_tokens::integer, cache_write_tokens::integer,
      audio_prompt_tokens::integer, reasoning_tokens::integer, audio_completion_tokens::integer,
      trim_scale(cost)::text as cost, currency
    from api_usage left join upstream_costs using (company_id, billing_month, request_id)
    where company_id = ${company} order by occurred_at, request_id`;
}

const CHAT = {
  prompt_tokens: 100,
  completion_tokens: 50,
  total_tokens: 150,
  prompt_tokens_details: { cached_tokens: 64, audio_tokens: 3 },
  completion_tokens_details: { reasoning_tokens: 40, audio_tokens: 5 },
};
const TOLD_CHAT = {
  prompt_tokens: 100,
  completion_tokens: 50,
  cached_tokens: 64,
  cache_write_tokens: null,
  audio_prompt_tokens: 3,
  reasoning_tokens: 40,
  audio_completion_tokens: 5,
};
const RESPONSE = {
  input_tokens: 20,
  output_tokens: 30,
  total_tokens: 50,
  input_tokens_details: { cached_tokens: 16 },
  output_tokens_details: { reasoning_tokens: 25 },
};
const MESSAGE = {
  input_tokens: 7,
  cache_read_input_tokens: 80,
  cache_creation_input_tokens: 13,
  output_tokens: 9,
};
const NOTHING = {
  cached_tokens: null,
  cache_write_tokens: null,
  audio_prompt_tokens: null,
  reasoning_tokens: null,
  audio_completion_tokens: null,
  cost: null,
  currency: null,
};
const COST_HEADER = 'x-litellm-response-cost';

t.test('whole answers and streams of every dialect', async (t) => {
  const customer = await customerOf();
  const chat = {
    model: 'brand',
    messages: [{ role: 'user', content: 'Hi' }],
    max_tokens: 90,
    input: 'Hi',
  };
  upstream.answerJson(completion({ ...CHAT, cost: 0.00012 }));
  const whole = await customer.chat({ model: 'brand' });
  upstream.answerEvents(
    [token, finish, { choices: [], usage: { ...CHAT, cost: 0.00013 } }, '[DONE]'],
    {
      [COST_HEADER]: '9',
    },
  );
  const streamed = await customer.chat({
    model: 'brand',
    stream: true,
    stream_options: { include_usage: true },
  });
  t.same(dataOf(streamed.text).at(-1), '[DONE]');

  upstream.answerJson(response({ usage: { ...RESPONSE, cost: 2e-7 } }));
  const responded = await customer.ask('/responses', { body: chat });
  upstream.answerEvents([
    { type: 'response.created', response: response({ status: 'in_progress', usage: null }) },
    { type: 'response.completed', response: response({ usage: RESPONSE }) },
  ]);
  t.equal((await customer.ask('/responses', { body: { ...chat, stream: true } })).status, 200);

  upstream.answerJson(message(MESSAGE), { [COST_HEADER]: '0.0004' });
  const messaged = await customer.ask('/messages', { body: chat });
  upstream.answerEvents(messageEvents({ ...MESSAGE, output_tokens: 1 }, { output_tokens: 9 }));
  t.equal((await customer.ask('/messages', { body: { ...chat, stream: true } })).status, 200);

  upstream.answerJson(
    { object: 'list', data: [], usage: { prompt_tokens: 4, total_tokens: 4 } },
    { [COST_HEADER]: '0.000001' },
  );
  t.equal((await customer.embed({ model: 'brand-embed' })).status, 200);
  upstream.answerJson(completion({ prompt_tokens: 4, completion_tokens: 1 }));
  await customer.chat({ model: 'brand' });

  t.same(await told(customer.company, 8), [
    { ...TOLD_CHAT, cost: '0.00012', currency: 'USD' },
    { ...TOLD_CHAT, cost: '0.00013', currency: 'USD' },
    {
      ...NOTHING,
      prompt_tokens: 20,
      completion_tokens: 30,
      cached_tokens: 16,
      reasoning_tokens: 25,
      cost: '0.0000002',
      currency: 'USD',
    },
    {
      ...NOTHING,
      prompt_tokens: 20,
      completion_tokens: 30,
      cached_tokens: 16,
      reasoning_tokens: 25,
    },
    {
      ...NOTHING,
      prompt_tokens: 100,
      completion_tokens: 9,
      cached_tokens: 80,
      cache_write_tokens: 13,
      cost: '0.0004',
      currency: 'USD',
    },
    {
      ...NOTHING,
      prompt_tokens: 100,
      completion_tokens: 9,
      cached_tokens: 80,
      cache_write_tokens: 13,
    },
    { ...NOTHING, prompt_tokens: 4, completion_tokens: 0, cost: '0.000001', currency: 'USD' },
    { ...NOTHING, prompt_tokens: 4, completion_tokens: 1 },
  ]);
  const answers = [whole, streamed, responded, messaged];
  for (const { text, headers } of answers) {
    t.notMatch(text, /"cost/, 'no client sees what it cost the upstream');
    t.notOk([...headers.keys()].some((name) => name.includes('litellm')));
  }
});

t.test('what cannot be right is left out, and changes no booking', async (t) => {
  const customer = await customerOf();
  const bad = [-1, 1.5, 1e30, '7', null, 101, {}];
  for (const value of bad) {
    upstream.answerJson(
      completion({
        prompt_tokens: 100,
        completion_tokens: 100,
        cost: value === 101 ? -101 : value === 1.5 ? null : value,
        prompt_tokens_details: { cached_tokens: value, audio_tokens: value },
        completion_tokens_details: { reasoning_tokens: value, audio_tokens: value },
      }),
      { [COST_HEADER]: 'None' },
    );
    const answer = await customer.chat({ model: 'brand' });
    t.equal(answer.headers.get('x-cost-eur'), '0.2');
  }
  const rows = await told(customer.company, bad.length);
  t.same(
    rows,
    bad.map(() => ({ prompt_tokens: 100, completion_tokens: 100, ...NOTHING })),
  );
});

t.test('a message whose client leaves keeps the details of its prompt', async (t) => {
  const customer = await customerOf();
  upstream.answerEvents([
    ...messageEvents({ ...MESSAGE, output_tokens: 1 }, {}).slice(0, 3),
    { type: 'error', error: { type: 'overloaded_error', message: 'busy' } },
  ]);
  const body = {
    model: 'brand',
    messages: [{ role: 'user', content: 'Hi' }],
    max_tokens: 9,
    stream: true,
  };
  await customer.ask('/messages', { body });
  const [row] = await told(customer.company, 1);
  t.match(row, {
    prompt_tokens: 100,
    cached_tokens: 80,
    cache_write_tokens: 13,
    reasoning_tokens: null,
    cost: null,
  });
});

t.test('GET /usage/{id} tells the details, and not the cost of the upstream', async (t) => {
  const customer = await customerOf();
  upstream.answerJson(completion({ ...CHAT, cost: 0.5 }));
  const id = (await customer.chat({ model: 'brand' })).headers.get('x-request-id') as string;
  const { json } = await customer.ask(`/usage/${id}`);
  t.match(json, TOLD_CHAT);
  t.notMatch(Object.keys(json), ['upstream_cost', 'cost']);
});
