import { randomUUID } from 'node:crypto';
import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });

t.test('create prints the company, as JSON with its id', async (t) => {
  const made = await tollgate(
    'company',
    'create',
    '--name',
    'Acme',
    '--budget',
    '25.50',
    '--allow-non-eu',
    '--json',
  );
  t.match(made, {
    code: 0,
    err: '',
    json: { name: 'Acme', monthly_budget_eur: '25.5', allow_non_eu_models: true },
  });
  t.match(made.json.id, /^[0-9a-f-]{36}$/);
  t.equal(made.out.trimEnd().split('\n').length, 1);

  const human = await tollgate('company', 'create', '--name', 'Human');
  t.match(human, { code: 0, err: '', out: /^Company created\.\n\n {2}id +[0-9a-f-]{36}\n/ });
  t.match(human.out, /budget in effect +unlimited\n/);
  const { out } = await run(['company', 'list'], { env, columns: 80 });
  t.match(
    out,
    /^ID +NAME +EUR PER MONTH +NON-EU\n[^ ]+ +Acme +25\.5 +yes\n/,
    'one line for each, without empty columns',
  );
});

t.test('set changes budget, gate and models; none lifts the budget', async (t) => {
  const { id } = (await tollgate('company', 'create', '--name', 'Changing', '--json')).json;
  const set = async (...args: string[]) => tollgate('company', 'set', id, ...args, '--json');
  t.match((await set('--budget', '10', '--allow-non-eu', 'true')).json, {
    monthly_budget_eur: '10',
    allow_non_eu_models: true,
  });
  t.match((await set('--budget', 'none', '--allow-non-eu', 'false')).json, {
    monthly_budget_eur: null,
    allow_non_eu_models: false,
  });
  t.same((await set('--disable-model', 'b', '--disable-model', 'a')).json.disabled_model_slugs, [
    'a',
    'b',
  ]);
  t.same((await set('--enable-model', 'b', '--disable-model', 'c')).json.disabled_model_slugs, [
    'a',
    'c',
  ]);
});

t.test(
  'ceilings are set, shown and lifted; what holds is the smaller of budget and credit limit',
  async (t) => {
    const made = await tollgate(
      'company',
      'create',
      '--name',
      'Low',
      '--credit-limit',
      '500.50',
      '--eu-locked',
      '--json',
    );
    const ceilings = {
      credit_limit_eur: '500.5',
      eu_locked: true,
      effective_budget_eur: '500.5',
      monthly_budget_eur: null,
    };
    t.match(made, { code: 0, err: '', json: ceilings });
    const { id } = made.json;
    const higher = await tollgate(
      'company',
      'create',
      '--name',
      'High',
      '--budget',
      '20',
      '--credit-limit',
      '10',
    );
    t.match(higher, { code: 0, err: /warning: the budget is above the credit limit: 10 EUR hold/ });
    const set = (...args: string[]) => tollgate('company', 'set', id, ...args);
    const above = await set('--budget', '1000', '--allow-non-eu', 'true');
    t.match(above, {
      code: 0,
      err: /warning: the budget is above the credit limit: 500\.5 EUR hold/,
    });
    t.match(
      above.out,
      /budget in effect +500\.5 EUR per month\n.* budget +1000 EUR\n.*credit limit +500\.5 EUR\n/s,
    );
    t.match(above.out, /non-EU models +refused\n.*allow non eu +yes\n.*eu locked +yes\n/s);
    t.match((await tollgate('company', 'list')).out, /Low +500\.5 +no /, 'the list says the same');
    t.match((await tollgate('usage', 'summary', '--company', id)).out, /EUR budget +500\.5\n/);
    t.match(await set('--credit-limit', 'none', '--eu-locked', 'false', '--json'), {
      code: 0,
      err: '',
      json: {
        credit_limit_eur: null,
        eu_locked: false,
        effective_budget_eur: '1000',
        allow_non_eu_models: true,
      },
    });
    for (const wrong of ['0', '0.0', '1e3', '-5']) {
      t.match(
        await set(`--credit-limit=${wrong}`),
        { code: 64, out: '', err: /--credit-limit must be/ },
        wrong,
      );
    }
  },
);

t.test('disabling an unknown model works and gives a warning', async (t) => {
  const { id } = (await tollgate('company', 'create', '--name', 'Typing', '--json')).json;
  const { code, err, json } = await tollgate(
    'company',
    'set',
    id,
    '--disable-model',
    'tpyo',
    '--json',
  );
  t.match({ code, json }, { code: 0, json: { disabled_model_slugs: ['tpyo'] } });
  t.match(err, /^tollgate: warning: the company has no model tpyo.*\n$/);
});

t.test('a list that is wider than the terminal is folded, not broken at its edge', async (t) => {
  await tollgate('company', 'create', '--name', 'A company with a long name', '--budget', '12.5');
  for (const columns of [80, 100]) {
    const { out } = await run(['company', 'list'], { env, columns });
    t.notOk(
      out.split('\n').find((line) => line.length > columns),
      String(columns),
    );
    t.match(
      out,
      columns === 80
        ? /A company with a long name +12\.5\n {4}no +-\n/
        : /A company .* 12\.5 +no +-\n/,
    );
  }
  t.equal(
    (await run(['company', 'list'], { env, columns: 0 })).out,
    (await tollgate('company', 'list')).out,
    'of a terminal that does not know',
  );
});

t.test('list shows all companies as a table or as JSON', async (t) => {
  const list = await tollgate('company', 'list');
  t.match(list, { code: 0, err: '', out: /^ID +NAME +EUR PER MONTH +NON-EU +DISABLED MODELS\n/ });
  t.match(list.out, /Acme +25\.5 +yes +-\n/);
  t.ok(
    (await tollgate('company', 'list', '--json')).json.some(
      ({ name }: { name: string }) => name === 'Acme',
    ),
  );
});

t.test(
  'a list of a company that does not exist is refused; it looked like one of a company without any',
  async (t) => {
    const { json: company } = await tollgate('company', 'create', '--name', 'Bare', '--json');
    const replay = ['event', 'replay', '--dead'];
    for (const list of [
      ...['alert', 'event', 'model', 'token', 'user'].map((noun) => [noun, 'list']),
      replay,
    ]) {
      t.match(
        await tollgate(...list, '--company', company.id),
        { code: 0, err: '' },
        list.join(' '),
      );
      const unknown = await tollgate(...list, '--company', randomUUID());
      t.match(
        unknown,
        { code: 1, out: '', err: /There is no company .* See "tollgate company list"/ },
        list.join(' '),
      );
    }
    t.match(
      (await tollgate('user', 'list', '--company', company.id)).out,
      /no users; "tollgate user invite"/,
    );
  },
);

t.test('contract 5: limits are set, shown and lifted', async (t) => {
  const asked = [
    '--requests-per-minute',
    '60',
    '--tokens-per-minute',
    '1000000000000',
    '--max-concurrent',
    '5',
  ];
  const limits = {
    requests_per_minute: 60,
    tokens_per_minute: 1_000_000_000_000,
    max_concurrent: 5,
  };
  const { json: made } = await tollgate(
    'company',
    'create',
    '--name',
    'Limited',
    ...asked,
    '--json',
  );
  t.match(made, limits);
  const set = (...args: string[]) => tollgate('company', 'set', made.id, ...args);
  t.match(
    (await set('--requests-per-minute', '1')).out,
    /requests per minute +1\n +tokens per minute +1000000000000\n +max concurrent +5\n/,
  );
  t.match(
    (await tollgate('company', 'list')).out,
    /LIMITS\n.*Limited .* 1 request a minute, 1000000000000 tokens/s,
  );
  const none = [
    '--requests-per-minute',
    'none',
    '--tokens-per-minute',
    'none',
    '--max-concurrent',
    'none',
  ];
  t.same((await set(...none, '--json')).json, {
    ...made,
    requests_per_minute: null,
    tokens_per_minute: null,
    max_concurrent: null,
  });
  t.match((await tollgate('company', 'list')).out, /DISABLED MODELS\n/, 'no column without any');
  for (const value of ['0', '-1', '1e30', 'NaN', '1.5', 'ten', '']) {
    for (const name of ['requests-per-minute', 'tokens-per-minute', 'max-concurrent']) {
      t.match(await set(`--${name}=${value}`), {
        code: 64,
        err: `--${name} must be a whole number from 1 to 1`,
      });
    }
  }
});

t.test('an unknown company exits 1, a malformed id 64, and neither changes anything', async (t) => {
  const before = await tollgate('company', 'list', '--json');
  t.match(await tollgate('company', 'set', randomUUID(), '--budget', '5'), {
    code: 1,
    out: '',
    err: /^tollgate: There is no company .* See "tollgate company list"\.\n$/,
  });
  const { id } = before.json[0];
  for (const args of [
    ['set', '', '--budget', '5'],
    ['set', id],
    ['set', id, '--budget', '1e3'],
    ['set', id, '--budget', '-5'],
    ['set', id, '--allow-non-eu'],
    ['set', id, '--disable-model', 'a b'],
    ['set', id, '--disable-model', 'a', '--enable-model', 'a'],
    ['create', '--name', 'x', '--budget', 'lots'],
    ['create', '--name', 'x', '--allow-non-eu', 'false'],
    ['create', '--name', 'x', '--allow-non-eu=false'],
  ]) {
    const { code, out, err } = await tollgate('company', ...args);
    t.match(
      { code, out, err },
      {
        code: 64,
        out: '',
        err: /^tollgate: [^\n]+; see "tollgate company (set|create) --help"\n$/,
      },
      args.join(' '),
    );
  }
  t.same((await tollgate('company', 'list', '--json')).json, before.json);
});

t.test('the audit log names the command line', async (t) => {
  const rows = await db.run(
    5000,
    (sql) => sql`select distinct actor from audit_log where subject = 'companies'`,
  );
  t.same([...rows], [{ actor: 'cli' }]);
});

t.test('the budget mode is standard unless it is set to strict', async (t) => {
  const { json } = await tollgate(
    'company',
    'create',
    '--name',
    'Careful',
    '--budget',
    '5',
    '--json',
  );
  t.equal(json.budget_mode, 'standard');
  const set = (mode: string) =>
    tollgate('company', 'set', json.id, '--budget-mode', mode, '--json');
  t.match((await set('strict')).json, { budget_mode: 'strict', monthly_budget_eur: '5' });
  t.equal((await set('lenient')).code, 64);
  t.match((await tollgate('company', 'set', json.id, '--name', 'Same', '--json')).json, {
    budget_mode: 'strict',
  });
});

t.test('a company has a language of its own, or none', async (t) => {
  const made = await tollgate(
    'company',
    'create',
    '--name',
    'Sprache',
    '--language',
    'de',
    '--json',
  );
  t.equal(made.json.language, 'de');
  const set = (language: string) =>
    tollgate('company', 'set', made.json.id, '--language', language);
  t.match(await set('fr'), { code: 64, err: /--language must be en or de, not "fr"/ });
  t.match((await set('en')).out, /language +en\n/);
  t.notMatch((await set('none')).out, /language/);
  const [row] = await db.run(
    5000,
    (sql) => sql`select language from companies where id = ${made.json.id}`,
  );
  t.equal(row?.language, null);
});
