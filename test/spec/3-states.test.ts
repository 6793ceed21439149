import { once } from 'node:events';
import { request } from 'node:http';
import t from 'tap';
import { chunksOf, dataOf } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';
import { CHAT, customerWith, startWorld } from '../support/world.ts';

const world = await startWorld(t);

t.test(
  '3 a key is accepted from its creation to its revocation, and refused with 401 ever after',
  async (t) => {
    const customer = await world.newCustomer();
    const revoked = (at: Date | null) =>
      world.sql`update api_keys set revoked_at = ${at} where company_id = ${customer.company}`;
    t.equal((await customer.chat()).status, 200);
    await revoked(new Date());
    await until(async () => (await customer.chat()).status === 401, 'the revoked key is refused');
    for (const answer of [
      await customer.chat(),
      await customer.embed(),
      await customer.ask('/models'),
    ]) {
      t.equal(answer.status, 401);
    }
  },
);

t.test(
  '3 a key revoked while the body is under way is refused: a head that came before buys nothing',
  async (t) => {
    const customer = await world.newCustomer();
    const headers = { 'content-type': 'application/json', expect: '100-continue' };
    const begin = (path: string, key: object) => {
      const req = request(`${world.url}${path}`, {
        method: 'POST',
        headers: { ...headers, ...key },
      });
      req.flushHeaders();
      return req;
    };
    const bearer = { authorization: `Bearer ${customer.key}` };
    const begun = [
      begin('/chat/completions', bearer),
      begin('/messages', { 'x-api-key': customer.key }),
    ];
    await Promise.all(begun.map((req) => once(req, 'continue')));
    await world.sql`update api_keys set revoked_at = now() where company_id = ${customer.company}`;
    await until(
      async () => (await customer.ask('/models')).status === 401,
      'the revoked key is refused',
    );
    for (const req of begun) {
      req.end(
        JSON.stringify({ model: CHAT, max_tokens: 9, messages: [{ role: 'user', content: 'x' }] }),
      );
      const [res] = await once(req, 'response');
      t.equal(res.statusCode, 401);
      res.resume();
    }
  },
);

t.test('3 a key revoked before it was ever used is refused from the first request', async (t) => {
  const customer = await world.newCustomer();
  await world.sql`update api_keys set revoked_at = now() where company_id = ${customer.company}`;
  t.equal((await customer.ask('/models')).status, 401);
});

t.test(
  '3 a stream that was admitted goes on as it began: with its slug and price, whatever is changed or revoked',
  async (t) => {
    const upstream = await scriptedUpstream(t);
    const gateway = await startGateway(t, upstream.url);
    const company = await gateway.company();
    await gateway.model('brand', { upstream: 'internal-x', company, input: '1', output: '2' });
    const customer = customerWith(gateway.url, company, await gateway.key(company));
    const began = Promise.withResolvers<void>();
    const changed = Promise.withResolvers<void>();
    const chunk = (more: object) => `data: ${JSON.stringify({ model: 'internal-x', ...more })}\n\n`;
    upstream.answer(async (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write(
        chunk({ choices: [{ index: 0, delta: { content: 'Hello' }, finish_reason: null }] }),
      );
      began.resolve();
      await changed.promise;
      const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
      res.end(
        `${chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage })}data: [DONE]\n\n`,
      );
    });
    const answer = customer.chat({ model: 'brand', stream: true });
    await began.promise;
    await gateway.sql`update models set slug = 'other', eu_hosted = false, cost_eur_per_1k_input = 9 where company_id = ${company}`;
    await gateway.sql`update companies set disabled_model_slugs = '{brand}', monthly_budget_eur = 0.001 where id = ${company}`;
    await gateway.sql`update api_keys set revoked_at = now() where company_id = ${company}`;
    await until(
      async () => (await customer.ask('/models')).status === 401,
      'the revoked key is refused',
    );
    changed.resolve();
    const { text } = await answer;
    t.same(
      chunksOf(text).map(({ model }) => model),
      ['brand', 'brand'],
    );
    t.equal(dataOf(text).at(-1), '[DONE]');
    const [row] = await gateway.ledger(company, 1);
    t.match(row, { model_slug: 'brand', price_input: '1', cost_eur: '0.02', outcome: 'completed' });
  },
);
