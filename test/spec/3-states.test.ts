import { once } from 'node:events';
import { request } from 'node:http';
import t from 'tap';
import { until } from '../support/until.ts';
import { CHAT, startWorld } from '../support/world.ts';

const world = await startWorld(t);

t.test('3 a key is accepted from its creation to its revocation, and refused with 401 ever after', async (t) => {
  const customer = await world.newCustomer();
  const revoked = (at: Date | null) =>
    world.sql`update api_keys set revoked_at = ${at} where company_id = ${customer.company}`;
  t.equal((await customer.chat()).status, 200);
  await revoked(new Date());
  await until(async () => (await customer.chat()).status === 401, 'the revoked key is refused');
  for (const answer of [await customer.chat(), await customer.embed(), await customer.ask('/models')]) {
    t.equal(answer.status, 401);
  }
});

t.test('3 a key revoked while the body is under way is refused: a head that came before buys nothing', async (t) => {
  const customer = await world.newCustomer();
  const headers = { 'content-type': 'application/json', expect: '100-continue' };
  const begin = (path: string, key: object) => {
    const req = request(`${world.url}${path}`, { method: 'POST', headers: { ...headers, ...key } });
    req.flushHeaders();
    return req;
  };
  const bearer = { authorization: `Bearer ${customer.key}` };
  const begun = [begin('/chat/completions', bearer), begin('/messages', { 'x-api-key': customer.key })];
  await Promise.all(begun.map((req) => once(req, 'continue')));
  await world.sql`update api_keys set revoked_at = now() where company_id = ${customer.company}`;
  await until(async () => (await customer.ask('/models')).status === 401, 'the revoked key is refused');
  for (const req of begun) {
    req.end(JSON.stringify({ model: CHAT, max_tokens: 9, messages: [{ role: 'user', content: 'x' }] }));
    const [res] = await once(req, 'response');
    t.equal(res.statusCode, 401);
    res.resume();
  }
});

t.test('3 a key revoked before it was ever used is refused from the first request', async (t) => {
  const customer = await world.newCustomer();
  await world.sql`update api_keys set revoked_at = now() where company_id = ${customer.company}`;
  t.equal((await customer.ask('/models')).status, 401);
});
