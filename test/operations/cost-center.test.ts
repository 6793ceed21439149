import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { MOST_COST_CENTER_BUDGETS } from '../../src/operations/cost-center.ts';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';

/** The rules of budgets of cost centres, decided once, at each face: page, command, file and HTTP. */

const office = await startOffice(t);
const { sql, databaseUrl } = office;
const { company } = office.customer;
const owner = await signedIn(office, 'owner');
const token = await newToken(office);
const list = `/companies/${company}/cost-center-budgets`;
const path = join(t.testdir({}), 'wanted.yml');
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: databaseUrl } });
const file = (text: string) => {
  writeFileSync(path, `companies:\n  - name: Nordlicht Verlag\n    cost_centers: ${text}\n`);
  return tollgate('apply', path);
};
const page = (name: string, budget: string) =>
  owner.post(`/companies/${company}/cost-centers`, { name, budget });
const command = (name: string, budget: string) =>
  tollgate(
    'cost-center',
    'set',
    '--company',
    company,
    '--name',
    name,
    '--monthly-budget-eur',
    budget,
  );
const budgets =
  () => sql`select name, trim_scale(monthly_budget_eur)::text as eur from cost_center_budgets
  where company_id = ${company} order by name`;

t.test('a name is one that calls can book, and is stored as the ledger has it', async (t) => {
  const refused = /must be the name of a cost centre/;
  const http = (name: string) =>
    send(office, token, ['POST', list], { name, monthly_budget_eur: '5' });
  for (const name of ['(others)', '=1', 'a\u200bb']) {
    const { status, body } = await http(name);
    t.match([status, body.errors[0]], [400, { pointer: '#/name', detail: refused }], name);
    t.match([(await page(name, '5')).status, (await page(name, '5')).text], [422, refused], name);
    t.match(await file(`[{ name: ${JSON.stringify(name)}, monthly_budget_eur: "5" }]`), {
      code: 1,
      err: refused,
    });
    t.match(await command(name, '5'), { code: 64, err: refused });
  }
  t.same([...(await budgets())], []);
  t.match(await http('Bu\u0308ro\u00a01'), { status: 201, body: { name: 'Büro 1' } });
  t.equal((await page(' Bu\u0308ro  2', '5,50')).status, 422, 'a number as the page writes it');
  t.equal((await page(' Bu\u0308ro  2', '5.50')).status, 303);
  t.equal((await file('[{ name: "Bu\u0308ro 3", monthly_budget_eur: "5" }]')).code, 0);
  t.equal((await command('Bu\u0308ro 4', '5')).code, 0);
  t.same(
    (await budgets()).map(({ name }) => name),
    ['Büro 1', 'Büro 2', 'Büro 3', 'Büro 4'],
  );
});

t.test('a budget is above 0', async (t) => {
  const { status, body } = await send(office, token, ['POST', list], {
    name: 'IT',
    monthly_budget_eur: '0.00',
  });
  t.match([status, body.errors[0]], [400, { pointer: '#/monthly_budget_eur', detail: /above 0/ }]);
  t.match([(await page('IT', '0')).status, (await page('IT', '0')).text], [422, /must be above 0/]);
  t.match(await file('[{ name: IT, monthly_budget_eur: "0" }]'), {
    code: 1,
    err: /monthly_budget_eur must be .*above 0/,
  });
  t.match(await command('IT', '0'), { code: 64, err: /must be above 0/ });
});

t.test(
  'the first one is not replaced by whoever creates it again, and is changed by who says so',
  async (t) => {
    const again = { name: 'Büro 1', monthly_budget_eur: '7' };
    t.match(await send(office, token, ['POST', list], again), {
      status: 409,
      body: { detail: /has a budget already/ },
    });
    t.match(
      [(await page('Büro 1', '7')).status, (await page('Büro 1', '7')).text],
      [422, /has a budget already/],
    );
    t.match(
      await file(
        '[{ name: Büro 1, monthly_budget_eur: "7" }, { name: "Bu\u0308ro 1", monthly_budget_eur: "8" }]',
      ),
      {
        code: 1,
        err: /a second time/,
      },
    );
    t.match(
      await file('[{ name: Büro 1, monthly_budget_eur: "7" }, { name: Büro 9, absent: true }]'),
      {
        code: 0,
        out: /~ budget of cost centre Büro 1 of Nordlicht Verlag\n +monthly_budget_eur: 5 -> 7\n/,
      },
    );
    t.match(
      await file('[{ name: Büro 1, monthly_budget_eur: "7.0" }]'),
      { code: 0, out: /already|Nothing/i },
      'no change',
    );
    t.match(await file('[{ name: Büro 1, absent: true }]'), {
      code: 0,
      out: /- budget of cost centre Büro 1/,
    });
    t.match(await file('[{ name: Büro 1 }]'), { code: 1, err: /needs monthly_budget_eur/ });
    const { out } = await tollgate('export-config');
    t.match(out, /cost_centers:\n +- name: Büro 2\n +monthly_budget_eur: "5\.5"\n/);
  },
);

t.test('a company has a bounded number of them, also where two come at once', async (t) => {
  await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur)
    select ${company}, 'n ' || n, 1 from generate_series(1, ${MOST_COST_CENTER_BUDGETS - 4}::integer) n`;
  const most = /A company has at most 1000 cost centres with a budget/;
  const both = await Promise.all(
    ['one', 'two'].map((name) =>
      send(office, token, ['POST', list], { name, monthly_budget_eur: '1' }),
    ),
  );
  t.same(both.map(({ status }) => status).sort(), [201, 409]);
  t.match(both.find(({ status }) => status === 409)?.body.detail, most);
  t.match(await command('three', '1'), { code: 1, err: most });
  t.equal((await command('Büro 2', '6')).code, 0, 'those that are there may be changed');
  t.match((await page('three', '1')).text, most);
  t.match(await file('[{ name: three, monthly_budget_eur: "1" }]'), { code: 1, err: most });
});

t.test('owners set them, administrators read them; every change is in the audit log', async (t) => {
  const administrator = await signedIn(office, 'administrator');
  t.equal((await administrator.get(`/companies/${company}/cost-centers`)).status, 200);
  t.equal(
    (await administrator.post(`/companies/${company}/cost-centers`, { name: 'x', budget: '1' }))
      .status,
    403,
  );
  const one = `/companies/${company}/cost-center`;
  t.equal((await administrator.post(one, { name: 'Büro 2', budget: '1' })).status, 403);
  t.equal(
    (await (await signedIn(office, 'member')).get(`/companies/${company}/cost-centers`)).status,
    403,
  );
  t.equal((await owner.post(one, { name: 'Büro 2', budget: '8' })).status, 303);
  const [last] =
    await sql`select actor, action, before ->> 'monthly_budget_eur' as was, after ->> 'monthly_budget_eur' as is,
    after ->> 'name' as name from audit_log where subject = 'cost_center_budgets' order by id desc limit 1`;
  t.match(last, {
    actor: office.people.owner,
    action: 'update',
    was: '6',
    is: '8',
    name: 'Büro 2',
  });
  t.match((await owner.get(`/companies/${company}/audit`)).text, /budget of the cost centre/i);
});
