import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { url, db } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });
const { id } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const NEW =
  '--upstream internal/gpt --kind chat --eu-hosted true --input-price 1 --output-price 2'.split(
    ' ',
  );
const create = (slug: string, ...more: string[]) =>
  tollgate('model', 'create', '--slug', slug, ...NEW, ...more);

t.test('a price from a date is set, shown, answered for a day and withdrawn', async (t) => {
  await create('dated');
  const set = (...more: string[]) =>
    tollgate('model', 'set', 'dated', '--from', '2099-01-01', ...more);
  t.match((await set('--input-price', '0.5', '--json')).json, {
    slug: 'dated',
    input: '0.5',
    output: '2',
    valid_from: '2099-01-01T00:00:00.000Z',
    begun: false,
  });
  t.match(
    await set('--output-price', '3', '--json'),
    {
      json: { input: '1', output: '3' },
      err: /it takes the place of 0\.5 and 2, set by the command line/,
    },
    'set again: what is not given is as before that date',
  );
  t.match(
    (await tollgate('model', 'price', 'dated')).out,
    /^FROM.*\n2099-01-01T00:00:00\.000Z +1 +3 +all +to come +the command line\n.* +1 +2 +all +begun +the command line\n$/,
  );
  const at = async (...more: string[]) =>
    (await tollgate('model', 'price', 'dated', '--json', ...more)).json;
  t.match(await at('--at', '2098-12-31'), [{ input: '1', output: '2', company_id: null }]);
  t.match(await at('--at', '2099-01-01'), [{ input: '1', output: '3' }]);
  t.match(await at('--at', '2098-12-31T23:59:59Z'), [{ output: '2' }]);
  t.match(await at('--at', '2000-01-01'), [{ input: null, valid_from: null }]);
  await create('dated', '--company', id);
  t.match(await at('--at', '2099-06-01', '--company', id), [{ company_id: id, output: '2' }]);
  t.match(
    (await tollgate('model', 'price', 'dated', '--at', '2099-06-01', '--company', id)).out,
    /the company's own/,
  );
  t.match(await tollgate('model', 'withdraw', 'dated', '--from', '2099-01-01'), {
    code: 0,
    out: /^The price is withdrawn\./,
  });
  t.match(await tollgate('model', 'withdraw', 'dated', '--from', '2099-01-01'), {
    code: 1,
    err: /no such price to come\. See "tollgate model price SLUG"/,
  });
  t.match(await tollgate('model', 'price', 'nothing'), { code: 0, out: /There was never a model/ });
});

t.test(
  'a price that SQL let begin within a millisecond is withdrawn by the time that is shown',
  async (t) => {
    await create('fine');
    await db.run(
      5000,
      (sql) =>
        sql`insert into model_prices (slug, valid_from, input, output) values ('fine', '2099-01-01T00:00:00.123456Z', 3, 4)`,
    );
    const [{ valid_from }] = (await tollgate('model', 'price', 'fine', '--json')).json;
    t.match(await tollgate('model', 'withdraw', 'fine', '--from', valid_from), {
      code: 0,
      err: '',
    });
  },
);

t.test('what cannot begin at a date, or in the past, is refused', async (t) => {
  await create('strict');
  const set = (...more: string[]) => tollgate('model', 'set', 'strict', ...more);
  t.match(await set('--from', '2099-01-01', '--kind', 'embedding', '--input-price', '1'), {
    code: 64,
    err: /only --input-price, --output-price, .*--rates can begin at a date/,
  });
  t.match(await set('--from', '2099-01-01'), { code: 64, err: /nothing to change/ });
  t.match(await set('--from', '2099-02-30', '--input-price', '1'), {
    code: 64,
    err: /--from must be an ISO time/,
  });
  t.match(await set('--from', '2020-01-01', '--input-price', '1'), {
    code: 1,
    err: /begins five seconds from now or later/,
  });
  t.match(await tollgate('model', 'set', 'nothing', '--from', '2099-01-01', '--input-price', '1'), {
    code: 1,
    err: /There is no shared model nothing/,
  });
});

t.test('a cost price of a model that never was is told: the slug may be a mistake', async (t) => {
  const cost = (slug: string, ...more: string[]) =>
    tollgate(
      'model',
      'cost',
      slug,
      '--input-price',
      '0.25',
      '--output-price',
      '0',
      '--from',
      '2025-01-01',
      ...more,
    );
  await create('costed');
  t.match(await cost('costed'), { code: 0, err: '' });
  t.match(await cost('coasted'), {
    code: 0,
    err: /^tollgate: warning: there was never a shared model coasted; [^\n]+\n$/,
  });
  t.match(await cost('costed', '--company', id), {
    code: 0,
    err: /never a model of the company alone costed/,
  });
  const since = async (...more: string[]) =>
    (
      await tollgate(
        'model',
        'cost',
        'costed',
        '--input-price',
        '1',
        '--output-price',
        '1',
        '--json',
        ...more,
      )
    ).json.valid_from;
  t.equal(await since('--from', '2099-01-01'), '2099-01-01');
  t.match(await since(), /^20\d\d-\d\d-\d\d$/, 'from today, as it is stored');
});

t.test('a company that is none has no prices', async (t) => {
  await create('nobodys');
  const nobody = '3f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21';
  const refused = {
    code: 1,
    err: `tollgate: There is no company ${nobody}. See "tollgate company list".\n`,
  };
  const ofNobody = (verb: string, ...more: string[]) =>
    tollgate('model', verb, 'nobodys', '--company', nobody, ...more);
  t.match(await ofNobody('price'), refused);
  t.match(await ofNobody('price', '--at', '2099-01-01'), refused);
  t.match(await ofNobody('cost', '--input-price', '1', '--output-price', '1'), refused);
  const [row] = await db.run(
    5000,
    (sql) => sql`select from model_cost_prices where company_id = ${nobody}`,
  );
  t.equal(row, undefined, 'nothing is stored');
});

t.test('usage margin shows cost and margin, and names models without a cost price', async (t) => {
  await db.run(60_000, (sql) =>
    addUsage(sql, [
      { company: id, month: '2026-03-01', prompt: 2000, cached: 500, input: '1' },
      { company: id, month: '2026-03-01', model: 'a,b', prompt: 1000, input: '1' },
    ]),
  );
  t.equal(
    (
      await tollgate(
        'model',
        'cost',
        'fast',
        '--input-price',
        '0.25',
        '--output-price',
        '0',
        '--from',
        '2026-01-01',
      )
    ).code,
    0,
  );
  await db.run(
    10_000,
    (sql) => sql`
      insert into upstream_cost_monthly values (${id}, '2026-03-01', 'fast', 'USD', 1, 0.4, 2)`,
  );
  const margin = (...more: string[]) => tollgate('usage', 'margin', '--month', '2026-03', ...more);
  t.match((await margin('--json')).json, {
    total: {
      revenue_eur: '3',
      cost_eur: '0.5',
      margin_eur: '1.5',
      margin_percent: 75,
      uncosted_eur: '1',
    },
    without_cost: ['a,b'],
  });
  t.match(
    (await margin()).out,
    /% +WITHOUT COST +UPSTREAM'S COST +IN EUR +OF CALLS +MARGIN BY UPSTREAM'S COST +CACHED %.*fast +1 +2 +0\.5 +1\.5 +75 +0 +0\.4 USD +- +1 +- +25\n.*Without a cost price: a,b\. Set it with "tollgate model cost"\./s,
  );
  t.equal(
    (await margin('--csv')).out,
    `month,company_id,company_name,model,requests,revenue_eur,cost_eur,margin_eur,margin_percent,uncosted_eur,cached_percent,upstream_requests,upstream_revenue_eur,upstream_cost,upstream_cost_eur\n2026-03,${id},Acme,"a,b",1,1,,,,1,,,,,\n2026-03,${id},Acme,fast,1,2,0.5,1.5,75,0,25,1,2,0.4 USD,\n`,
  );
  t.match(await margin('--csv', '--json'), { code: 64, err: /exclude each other/ });
  await tollgate('company', 'set', id, '--name', '=1+1');
  t.match((await margin('--csv')).out, `,'=1+1,fast,`, 'a name is no formula');
  await tollgate('company', 'set', id, '--name', 'Acme');
  const ledger = await tollgate('ledger', 'export', '--company', id, '--month', '2026-03', '--csv');
  t.notMatch(ledger.out, /0\.25|margin/);
});

t.test(
  'a price is shown on the clock of the billing time zone, and withdrawn as shown',
  async (t) => {
    const berlin = { DATABASE_URL: (await testDatabase(t)).url, BILLING_TIMEZONE: 'Europe/Berlin' };
    const inBerlin = (...argv: string[]) => run(['model', ...argv], { env: berlin });
    await run(['migrate'], { env: berlin }); // which sets the zone
    const prices = ['--input-price', '1', '--output-price', '2'];
    await inBerlin(
      'create',
      '--slug',
      'far',
      '--upstream',
      'x',
      '--kind',
      'chat',
      '--eu-hosted',
      'true',
      ...prices,
    );
    const shown = '2099-07-01T00:00:00.000+02:00';
    const at = shown.replace(/[.+]/g, '\\$&');
    const { out } = await inBerlin('set', 'far', '--input-price', '3', '--from', '2099-07-01');
    t.match(out, ` from              ${shown}\n`);
    t.match((await inBerlin('price', 'far')).out, `\n${shown} `);
    t.match(
      (await inBerlin('price', 'far', '--at', '2099-07-01')).out,
      new RegExp(`\n${at} .* ${at}\n`),
    );
    t.match((await inBerlin('price', 'far', '--json')).json, [
      { valid_from: '2099-06-30T22:00:00.000Z' },
      {},
    ]);
    t.match(await inBerlin('withdraw', 'far', '--from', shown), { code: 0, out: shown });
  },
);

t.test('demo remove says when there is nothing', async (t) => {
  t.match(await tollgate('demo', 'remove'), { code: 0, out: 'There is nothing of the demo.\n' });
});
