import t from 'tap';
import { until } from '../support/until.ts';
import { startWorld } from '../support/world.ts';

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

t.test('3 a key revoked before it was ever used is refused from the first request', async (t) => {
  const customer = await world.newCustomer();
  await world.sql`update api_keys set revoked_at = now() where company_id = ${customer.company}`;
  t.equal((await customer.ask('/models')).status, 401);
});
