import { createHash, randomUUID } from 'node:crypto';
import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url, KEY_PREFIX: 'acme_' };
const tollgate = (...argv: string[]) => run(argv, { env });
const { id: company } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const EXPIRY = '2099-01-31T17:00:00.000Z';
const create = (...more: string[]) =>
  tollgate('key', 'create', '--company', company, '--name', 'ci', ...more);

t.test(
  'spec 2.7: a key is shown in plaintext once, at creation, and kept as its SHA-256 digest',
  async (t) => {
    const { code, err, json } = await create('--scope', 'chat', '--scope', 'embeddings', '--json');
    t.match({ code, err }, { code: 0, err: '' });
    t.match(json.key, /^acme_[a-z2-7]{32}$/);
    t.match(json, {
      company_id: company,
      name: 'ci',
      prefix: json.key.slice(0, 8),
      scopes: ['chat', 'embeddings'],
      created_by: 'cli',
      state: 'active',
    });
    const [row] = await db.run(
      5000,
      (sql) => sql`select digest from api_keys where id = ${json.id}`,
    );
    t.same(row?.digest, createHash('sha256').update(json.key).digest());

    t.match((await create('--scope', 'rerank', '--json')).json, { scopes: ['rerank'] });

    const human = await create('--scope', 'assistants');
    t.match(
      human.out,
      /^Key created\. It is shown only this once: .*\n\n {2}key +acme_[a-z2-7]{32}\n/,
    );
    const [, secret] = /key +acme_([a-z2-7]{32})/.exec(human.out) ?? [];
    for (const args of [[], ['--json']]) {
      const list = await tollgate('key', 'list', '--company', company, ...args);
      t.notOk(list.out.includes((secret as string).slice(4)));
      t.notOk(list.out.includes(json.key.slice(8)));
    }
  },
);

t.test('list shows prefix, name, scopes, created, by, last used, expires and state', async (t) => {
  const { json } = await create(
    '--scope',
    'chat',
    '--expires',
    '2099-01-31T18:00:00+01:00',
    '--json',
  );
  t.equal(json.expires_at, '2099-01-31T17:00:00.000Z');
  const { out } = await tollgate('key', 'list', '--company', company);
  t.match(
    out,
    /^ID +PREFIX +NAME +SCOPES +CREATED \(UTC\) +BY +LAST USED \(UTC\) +EXPIRES \(UTC\) +STATE\n/,
  );
  const line = out.split('\n').find((each) => each.startsWith(json.id)) as string;
  t.match(
    line,
    new RegExp(
      `${json.prefix} +ci +chat +\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d +the command line +- +2099-01-31 17:00 +active$`,
    ),
  );
});

t.test('revoking is final, and revoking again prints when it happened', async (t) => {
  const { id } = (await create('--scope', 'chat', '--json')).json;
  t.match(await tollgate('key', 'revoke', id), { code: 0, err: '', out: /was revoked at \d{4}-/ });
  t.match(await tollgate('key', 'revoke', id), {
    code: 0,
    err: '',
    out: /was already revoked at \d{4}-\d\d-\d\d \d\d:\d\d UTC\.\n$/,
  });
  t.match((await tollgate('key', 'revoke', id, '--json')).json, {
    id,
    state: 'revoked',
    already_revoked: true,
  });
  t.match(await tollgate('key', 'revoke', randomUUID()), {
    code: 1,
    out: '',
    err: /There is no key/,
  });
});

const RESTRICTED = {
  requests_per_minute: 60,
  tokens_per_minute: 1_000_000_000_000,
  max_concurrent: 1,
  allowed_model_slugs: ['a', 'b'],
  monthly_budget_eur: '9.5',
  allowed_cidrs: ['10.0.0.0/8', '2001:db8::1/128'],
};
const UNRESTRICTED = Object.fromEntries(Object.keys(RESTRICTED).map((name) => [name, null]));
// biome-ignore format: a table
const ASKED = [
  '--requests-per-minute', '60', '--tokens-per-minute', '1000000000000', '--max-concurrent', '1',
  '--model', 'b', '--model', 'a', '--model', 'b', '--budget', '9.50',
  '--cidr', '2001:DB8:0::1', '--cidr', '10.0.0.0/8', '--cidr', '2001:db8::1/128',
];

t.test(
  'contract 5: a key has limits, models, a budget and networks; repeated ones are one',
  async (t) => {
    t.match((await create('--scope', 'chat', '--json')).json, UNRESTRICTED);
    const { code, err, json } = await create('--scope', 'chat', ...ASKED, '--json');
    t.match({ code, json }, { code: 0, json: RESTRICTED });
    t.equal(
      err.match(/warning: the company has no model [ab]; /g)?.length,
      2,
      'typing errors are likely',
    );
    const card = await create('--scope', 'chat', ...ASKED);
    t.match(
      card.out,
      /requests per minute +60\n +tokens per minute +1000000000000\n +max concurrent +1\n/,
    );
    t.match(
      card.out,
      /budget +9\.5 EUR\n +model +a, b\n +cidr +10\.0\.0\.0\/8, 2001:db8::1\/128\n/,
    );
    const { out } = await tollgate('key', 'list', '--company', company);
    t.match(out, /STATE +LIMITS\n/);
    t.match(
      out.split('\n').find((line) => line.startsWith(json.id)),
      /active +60 requests a minute, 1000000000000 tokens a minute, 1 at once, 9\.5 EUR a month, 2 models, 2 networks$/,
    );
    t.match((await tollgate('key', 'list', '--company', company, '--json')).json[1], RESTRICTED);
  },
);

t.test('key set changes what is given, replaces lists, and none clears', async (t) => {
  const { json } = await create('--scope', 'chat', ...ASKED, '--json');
  const { key: _, ...made } = json;
  const set = async (...args: string[]) =>
    (await tollgate('key', 'set', made.id, ...args, '--json')).json;
  const named = { ...made, name: 'new', scopes: ['embeddings'] };
  t.same(await set('--name', 'new', '--scope', 'embeddings'), named, 'and nothing else');
  const other = {
    ...named,
    allowed_model_slugs: ['c'],
    allowed_cidrs: ['192.0.2.7/32'],
    expires_at: EXPIRY,
  };
  t.same(await set('--model', 'c', '--cidr', '192.0.2.7', '--expires', EXPIRY), other);
  t.same(await set('--max-concurrent', '7', '--budget', '0'), {
    ...other,
    max_concurrent: 7,
    monthly_budget_eur: '0',
  });
  const options = [
    'requests-per-minute',
    'tokens-per-minute',
    'max-concurrent',
    'model',
    'budget',
    'cidr',
    'expires',
  ];
  const none = options.flatMap((name) => [`--${name}`, 'none']);
  t.same(await set(...none), { ...other, ...UNRESTRICTED, expires_at: null });
  const human = await tollgate('key', 'set', made.id, '--model', 'tpyo');
  t.match(
    human.out,
    /^Key changed\.\n\n {2}id +[0-9a-f-]{36}\n.* {2}scope +embeddings\n {2}model +tpyo\n {2}end users +off\n$/s,
  );
  t.match(human.err, /^tollgate: warning: the company has no model tpyo; .*\n$/);
});

t.test(
  'key set refuses a key that is revoked or unknown, a time that has passed, and no change',
  async (t) => {
    const { id } = (await create('--scope', 'chat', '--json')).json;
    const set = (...args: string[]) => tollgate('key', 'set', ...args);
    t.match(await set(id, '--expires', '2020-01-01'), {
      code: 1,
      err: /would never work: give a later time/,
    });
    t.match(await set(id), { code: 64, err: /nothing to change/ });
    t.match(await set(randomUUID(), '--name', 'x'), { code: 1, err: /There is no key .*key list/ });
    await tollgate('key', 'revoke', id);
    t.match(await set(id, '--name', 'x'), {
      code: 1,
      err: /: This key is revoked: create a new one instead\.\n$/,
    });
  },
);

t.test(
  'values that are no limit, list or network are refused in words, and nothing changes',
  async (t) => {
    const { id } = (await create('--scope', 'chat', ...ASKED, '--json')).json;
    const before = (await tollgate('key', 'list', '--company', company, '--json')).json;
    const numbers = ['0', '-1', '1e30', 'NaN', '1.5', 'ten', '', '1000000000001', ' 5'];
    for (const [option, values, words] of [
      [
        'requests-per-minute',
        [...numbers, '1000000001'],
        /must be a whole number from 1 to 1000000000,/,
      ],
      ['tokens-per-minute', numbers, /must be a whole number from 1 to 1000000000000,/],
      ['max-concurrent', [...numbers, '1000001'], /must be a whole number from 1 to 1000000,/],
      ['budget', ['-1', '1e30', 'NaN', 'ten', ''], /must be an amount in EUR/],
      ['model', ['', 'a b', '-'], /must begin with a letter or digit/],
      [
        'cidr',
        ['', 'here', '10.0.0.1/33', '10.0.0', '::1%eth0'],
        /must be a network such as 10\.0\.0\.0\/8/,
      ],
      [
        'cidr',
        ['10.0.0.1/8'],
        /must be the network 10\.0\.0\.0\/8 or the address 10\.0\.0\.1\/32, not/,
      ],
      ['cidr', ['::ffff:10.0.0.0/104'], /must be written as IPv4, 10\.0\.0\.0\/8, not/],
    ] as const) {
      for (const value of values) {
        for (const command of [
          ['set', id],
          ['create', '--company', company, '--name', 'x', '--scope', 'chat'],
        ]) {
          const { code, out, err } = await tollgate('key', ...command, `--${option}=${value}`);
          t.match(
            { code, out, err },
            { code: 64, out: '', err: words },
            `${command[0]} --${option}=${value}`,
          );
          t.match(err, `tollgate: --${option} must `);
        }
      }
    }
    t.match(await tollgate('key', 'set', id, '--model', 'none', '--model', 'a'), {
      code: 64,
      err: /give it alone/,
    });
    t.same((await tollgate('key', 'list', '--company', company, '--json')).json, before);
  },
);

t.test(
  'rotate replaces a key: with a day of overlap, another one, or none when it leaked',
  async (t) => {
    const rotate = (...args: string[]) => tollgate('key', 'rotate', ...args, '--json');
    for (const [args, hours] of [
      [[], 24],
      [['--overlap', '1h'], 1],
      [['--overlap', '7d'], 168],
      [['--leaked'], 0],
    ] as const) {
      const { json: old } = await create('--scope', 'chat', '--max-concurrent', '3', '--json');
      const { code, json } = await rotate(old.id, ...args);
      t.equal(code, 0);
      t.match(json, {
        name: 'ci',
        scopes: ['chat'],
        max_concurrent: 3,
        expires_at: null,
        state: 'active',
      });
      t.match(json.key, /^acme_[a-z2-7]{32}$/);
      t.not(json.key, old.key);
      t.match(json.replaces, { id: old.id, state: hours === 0 ? 'revoked' : 'active' });
      if (hours > 0) {
        const left =
          (Date.parse(json.replaces.expires_at) - Date.parse(json.created_at)) / 3_600_000;
        t.equal(Math.round(left), hours);
      }
      t.match(
        await rotate(old.id, '--leaked'),
        hours === 0 ? { code: 1, err: /is revoked: create/ } : { code: 0 },
      );
    }
    const { json: last } = await create('--scope', 'chat', '--json');
    t.match(await tollgate('key', 'rotate', last.id, '--leaked', '--overlap', '1d'), {
      code: 64,
      err: /no overlap/,
    });
    t.match(await tollgate('key', 'rotate', last.id, '--overlap', '90'), {
      code: 64,
      err: /hours or days such as 1h/,
    });
    t.match(await rotate(randomUUID()), { code: 1, err: /There is no key/ });
    const human = await tollgate('key', 'rotate', last.id, '--leaked');
    t.match(
      human.out,
      /^The old key acme_...… has stopped working\. The new one .*\n\n {2}key +acme_[a-z2-7]{32}\n/,
    );
  },
);

t.test('find tells whose the keys in a text are, and prints nothing of the text', async (t) => {
  const { json: other } = await tollgate('company', 'create', '--name', 'Other', '--json');
  const { json: mine } = await create('--scope', 'chat', '--json');
  const theirs = (
    await tollgate(
      'key',
      'create',
      '--company',
      other.id,
      '--name',
      'theirs',
      '--scope',
      'chat',
      '--json',
    )
  ).json;
  await tollgate('key', 'revoke', theirs.id);
  const find = (stdin: string, ...more: string[]) =>
    run(['key', 'find', '--stdin', ...more], { env, stdin });
  const text = `export KEY=${mine.key}\n# secret remark ${theirs.key}`;
  const { code, err, json } = await find(text, '--json');
  t.match({ code, err }, { code: 0, err: '' });
  t.match(json, [
    { id: mine.id, company_id: company, company_name: 'Acme', state: 'active' },
    { id: theirs.id, company_name: 'Other', name: 'theirs', state: 'revoked' },
  ]);
  const human = await find(text);
  t.match(
    human.out,
    /^ID +PREFIX +NAME +COMPANY +LAST USED \(UTC\) +STATE\n.*ci +Acme +- +active\n.*revoked\n$/s,
  );
  for (const out of [human.out, JSON.stringify(json)]) {
    t.notMatch(out, /remark|export/);
    for (const { key } of [mine, theirs]) t.notOk(out.includes(key.slice(8)));
  }
  t.match(await find('acme_no key here'), {
    code: 0,
    out: /^No key was found; 0 parts of the text may be a key\.\n$/,
  });
  t.same((await find('', '--json')).json, []);
  t.match(await tollgate('key', 'find'), { code: 64, err: /missing --stdin/ });
});

t.test('impossible values are refused with the right exit code', async (t) => {
  const unknown = ['--company', randomUUID(), '--name', 'x'];
  t.equal((await tollgate('key', 'create', ...unknown, '--scope', 'chat')).code, 1);
  t.equal((await tollgate('key', 'list', '--company', randomUUID())).code, 1);
  t.match(await create('--scope', 'chat', '--expires', '2020-01-01'), {
    code: 1,
    err: /would never work: give a later time/,
  });
  t.match(await create(), { code: 64, err: /missing --scope/ });
  t.match(await create('--scope', 'admin'), {
    code: 64,
    err: /--scope must be chat, embeddings, assistants or rerank/,
  });
  t.match(await create('--scope', 'chat', '--expires', 'soon'), {
    code: 64,
    err: /--expires must be an ISO time/,
  });
});
