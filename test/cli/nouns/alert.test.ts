import { randomUUID } from 'node:crypto';
import t from 'tap';
import { eventStore } from '../../../src/store/events/event.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const store = eventStore(db, db);

const OPERATORS = ['ops@gate.example', 'off@gate.example'];

/** A company over its budget. @returns its id */
async function company(name: string): Promise<string> {
  const [row] = await db.run(
    5000,
    (sql) =>
      sql`insert into companies (name, monthly_budget_eur) values (${name}, 10) returning id`,
  );
  await db.run(
    5000,
    (sql) => sql`insert into chat_usage (company_id, cost_eur) values (${row?.id}, 25)`,
  );
  return row?.id;
}

t.test(
  'list shows every alert and what became of it; retry sends again what did not arrive',
  async (t) => {
    t.match(await tollgate('alert', 'list'), { code: 0, out: 'There are no such alerts.\n' });
    const acme = await company('ACME');
    await store.look(null, { webhook: true, email: true, operators: OPERATORS });
    const [mail, other] = await store.due('email', 10, OPERATORS);
    const [hook] = await store.due('webhook', 10, []);
    if (mail === undefined || other === undefined || hook === undefined)
      throw new Error('nothing is due');
    await store.failed(mail, 'EENVELOPE 550', null);
    await store.delivered(other);
    await store.failed(hook, 'status 500', 30);
    const beta = await company('Beta');
    await store.look(null, { webhook: false, email: false, operators: [] });

    const list = await tollgate('alert', 'list');
    t.match(
      list.out,
      /^ID +AT \(UTC\) +COMPANY +KEY +MONTH +THRESHOLD +TO +STATE +ATTEMPTS +NEXT \(UTC\) +ERROR\n/,
    );
    t.match(
      list.out,
      new RegExp(
        `${mail.event.id} .*ACME +- +\\d{4}-\\d\\d +100 % +${mail.recipient} +dead +1 +- +EENVELOPE 550`,
      ),
    );
    t.match(list.out, /100 % +webhook +pending +1 +\d{4}-\d\d-\d\d \d\d:\d\d +status 500\n/);
    t.match(list.out, /Beta .* 50 % +- +superseded/);
    t.match(list.out, /Beta .* 100 % +- +unsent/);
    const states = async (...more: string[]) =>
      (await tollgate('alert', 'list', ...more, '--json')).json
        .map(({ state }: { state: string }) => state)
        .sort();
    t.same(await states('--company', acme), [
      'dead',
      'delivered',
      'pending',
      'superseded',
      'superseded',
    ]);
    t.same(await states('--company', beta), ['superseded', 'superseded', 'unsent']);
    t.same(await states('--undelivered'), ['dead', 'pending']);

    const again = await tollgate('alert', 'retry', mail.event.id);
    t.match(again, { code: 0, out: 'Deliveries that are tried again: 2.\n' });
    t.same(await states('--undelivered'), [], 'both are as if they were new');
    t.equal((await store.due('email', 10, OPERATORS)).length, 1);
    t.equal((await store.due('webhook', 10, [])).length, 1);
    await store.failed(mail, 'EENVELOPE 550', null);
    t.match(await tollgate('alert', 'retry', 'all', '--json'), {
      code: 0,
      json: { deliveries: 2 },
    });
    await store.delivered(mail);
    await store.delivered(hook);
    t.match(await tollgate('alert', 'retry', mail.event.id), {
      code: 0,
      out: 'Nothing is undelivered.\n',
    });
  },
);

t.test('an unknown alert exits 1, a malformed id 64', async (t) => {
  const id = randomUUID();
  const unknown = {
    code: 1,
    err: `tollgate: There is no alert ${id}. See "tollgate alert list".\n`,
  };
  t.match(await tollgate('alert', 'retry', id), unknown);
  t.match(await tollgate('alert', 'retry', 'some'), {
    code: 64,
    err: /^tollgate: ID\|all must be an id/,
  });
});
