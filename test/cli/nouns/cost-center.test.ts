import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const { json: company } = await tollgate('company', 'create', '--name', 'Acme', '--json');
const of = ['--company', company.id];
const set = (name: string, eur: string, ...more: string[]) =>
  tollgate('cost-center', 'set', ...of, '--name', name, '--monthly-budget-eur', eur, ...more);

t.test(
  'a cost centre gets a budget, another one, and none; what it spent is listed beside it',
  async (t) => {
    t.match(await tollgate('cost-center', 'list', ...of), {
      code: 0,
      out: /No cost centre has a budget/,
    });
    t.match((await set('  Bu\u0308ro', '99.50', '--json')).json, {
      name: 'Büro',
      monthly_budget_eur: '99.5',
    });
    t.match(await set('Büro', '20'), { code: 0, out: /Budget set\.[\s\S]*Büro[\s\S]*20/ });
    await set('Sales', '1');
    const [{ month }] = await db.run(
      5000,
      (sql) => sql<[{ month: string }]>`select billing_month(now())::text as month`,
    );
    const at = new Date().toISOString();
    await db.run(60_000, (sql) =>
      addUsage(sql, [{ company: company.id, month, at, prompt: 1500, input: '1', center: 'Büro' }]),
    );
    t.match((await tollgate('cost-center', 'list', ...of)).out, /Büro +20 +1\.5\nSales +1 +0/);
    t.match(
      (await tollgate('cost-center', 'remove', ...of, '--name', 'Sales')).out,
      /Budget removed/,
    );
    t.match((await tollgate('cost-center', 'list', ...of, '--json')).json, [
      { name: 'Büro', monthly_budget_eur: '20', spent_eur: '1.5' },
    ]);
  },
);

t.test('what makes no sense is refused in words', async (t) => {
  for (const name of ['=1', '(others)', 'x'.repeat(65)])
    t.match(
      await set(name, '5'),
      { code: 64, err: /--name must be the name of a cost centre/ },
      name.slice(0, 20),
    );
  for (const eur of ['0', '0.00'])
    t.match(await set('IT', eur), { code: 64, err: /must be above 0/ });
  t.match(await set('IT', 'much'), { code: 64, err: /must be an amount in EUR/ });
  t.match(await tollgate('cost-center', 'remove', ...of, '--name', 'IT'), {
    code: 1,
    err: /The cost centre IT has no budget/,
  });
  const nowhere = ['--company', '00000000-0000-4000-8000-000000000000'];
  t.match(await tollgate('cost-center', 'list', ...nowhere), {
    code: 1,
    err: /There is no company/,
  });
  t.match(
    await tollgate('cost-center', 'set', ...nowhere, '--name', 'IT', '--monthly-budget-eur', '5'),
    {
      code: 1,
      err: /There is no company/,
    },
  );
});
