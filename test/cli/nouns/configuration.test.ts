import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { apply as applyWanted } from '../../../src/cli/apply/apply.ts';
import { readWanted } from '../../../src/cli/apply/read.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';

const { db, url } = await testDatabase(t);
const folder = t.testdir({ password: 'correct horse battery staple\n' });
const env = {
  DATABASE_URL: url,
  OLD: `svc_${'o'.repeat(32)}`,
  WEBSITE_KEY: `svc_${'k'.repeat(32)}`,
  ZEROS: `svc_${'z'.repeat(32)}`,
};
const path = join(folder, 'tollgate.yml');
const query = <T>(text: string) =>
  db.run(60_000, (sql) => sql.unsafe(text) as never as Promise<T[]>);

const FILE = `
models:
  - slug: brand-chat
    upstream_model: internal-chat
    kind: chat
    eu_hosted: true
    cost_eur_per_1k_input: "0.10"
    cost_eur_per_1k_output: "0.25"
companies:
  - name: Nordlicht Verlag
    monthly_budget_eur: "250.00"
    requests_per_minute: 600
    models:
      - { slug: own-chat, upstream_model: internal-own, kind: chat, eu_hosted: false, cost_eur_per_1k_input: "1", cost_eur_per_1k_output: "2" }
    disabled_model_slugs: [brand-chat]
    assistants:
      - { name: Summary, system_prompt: Sum up., model_slug: own-chat, temperature: 0.5 }
    keys:
      - { name: Website, scopes: [chat, rerank], value: { env: WEBSITE_KEY }, allowed_model_slugs: [own-chat], expires_at: 2099-01-31T00:00:00Z }
    users:
      - { email: Owen@customer.example, role: owner }
operators:
  - { email: olga@gate.example, password: { file: ${folder}/password } }
`;

async function apply(text: string, ...more: string[]) {
  writeFileSync(path, text);
  return run(['apply', path, ...more], { env });
}

t.test(
  'a dry run says what would be done and does nothing; then it is done; a second run changes nothing',
  async (t) => {
    const dry = await apply(FILE, '--dry-run');
    t.equal(dry.code, 0, dry.err);
    t.match(dry.out, /^\+ model brand-chat\n {4}upstream_model: internal-chat\n/);
    t.match(
      dry.out,
      /\+ key Website of Nordlicht Verlag\n {4}name: Website\n {4}scopes: \["chat","rerank"\]/,
    );
    t.match(dry.out, /\n8 changes would be made\.\n$/);
    t.same(await query('select from companies'), []);

    const done = await apply(FILE);
    t.equal(done.code, 0, done.err);
    t.equal(done.out.replace('made.', 'would be made.'), dry.out);
    t.notMatch(done.out, /correct horse|svc_k/, 'secrets are not printed');
    t.match(await apply(FILE), { code: 0, out: 'Nothing to change.\n' });
    t.match(await query('select prefix, scopes, allowed_model_slugs from api_keys'), [
      { prefix: 'svc_kkkk', scopes: ['chat', 'rerank'], allowed_model_slugs: ['own-chat'] },
    ]);
    t.match(
      await query('select email, role, password_hash is null as bare from users order by email'),
      [
        { email: 'olga@gate.example', role: 'operator', bare: false },
        { email: 'owen@customer.example', role: 'owner', bare: true },
      ],
    );
  },
);

t.test('what differs is changed and printed; what the file does not name stays', async (t) => {
  const more = `
companies:
  - name: Nordlicht Verlag
    monthly_budget_eur: "300"
    assistants: [{ name: Summary, absent: true }]
    keys: [{ name: Website, monthly_budget_eur: "5" }]
`;
  const { out } = await apply(more);
  t.equal(
    out,
    `~ company Nordlicht Verlag
    monthly_budget_eur: 250 -> 300
- assistant Summary of Nordlicht Verlag
~ key Website of Nordlicht Verlag
    monthly_budget_eur: none -> 5

3 changes made.
`,
  );
  t.match(await query('select requests_per_minute from companies'), [{ requests_per_minute: 600 }]);
  t.match(
    await apply(more),
    { out: 'Nothing to change.\n' },
    'what is absent already is no change',
  );
  const renewed = await run(['apply', path], {
    env: { ...env, WEBSITE_KEY: `svc_${'n'.repeat(32)}` },
  });
  t.match(renewed, { out: 'Nothing to change.\n' }, 'no value, no new text');
  writeFileSync(path, FILE);
  const { out: rotated } = await run(['apply', path], {
    env: { ...env, WEBSITE_KEY: `svc_${'n'.repeat(32)}` },
  });
  t.match(rotated, /~ key Website of Nordlicht Verlag\n {4}its text: another one/);
});

t.test('ceilings are written, and exported', async (t) => {
  const capped = `
companies:
  - { name: Nordlicht Verlag, credit_limit_eur: "200.50", eu_locked: true }
`;
  t.match(await apply(capped), {
    code: 0,
    out: /credit_limit_eur: none -> 200\.50\n {4}eu_locked: false -> true/,
  });
  t.match(await apply(capped), { out: 'Nothing to change.\n' });
  t.match(await query('select credit_limit_eur::float8 as top, eu_locked from companies'), [
    { top: 200.5, eu_locked: true },
  ]);
  t.match(
    (await run(['export-config'], { env })).out,
    /credit_limit_eur: "200\.5"\n.*eu_locked: true/s,
  );
});

const PRICED = `
models:
  - slug: dated
    upstream_model: internal-dated
    kind: chat
    eu_hosted: true
    cost_eur_per_1k_input: "1"
    cost_eur_per_1k_output: "2"
    prices:
      - { valid_from: 2098-01-01, input: "0.50", output: "1.123456789012" }
      - { valid_from: 2099-01-01T12:00:00Z, input: "0.25", output: "1" }
    cost_prices:
      - { valid_from: 2026-11-01, input: "0.10", output: "0.20" }
`;
const coming = () =>
  query(`select valid_from::text as at, input, output from model_prices
  where slug = 'dated' and not applied order by valid_from`);

t.test('prices that begin at a date, and cost prices: scheduled, changed, withdrawn', async (t) => {
  const dry = await apply(PRICED, '--dry-run');
  t.match(
    dry.out,
    /price from 2098-01-01: none -> 0\.50 and 1\.123456789012\n.*\n {4}cost price from 2026-11-01: none -> 0\.10/s,
  );
  t.same(await coming(), []);
  t.match(await apply(PRICED), { code: 0, out: /1 change made/ });
  t.match(await coming(), [
    { at: '2098-01-01 00:00:00+00', input: '0.50', output: '1.123456789012' },
    { at: '2099-01-01 12:00:00+00', input: '0.25', output: '1' },
  ]);
  t.match(await apply(PRICED), { out: 'Nothing to change.\n' });
  const changed = PRICED.replace('"0.50"', '"0.40"')
    .replace('input: "0.25", output: "1"', 'absent: true')
    .replace('"0.20"', '"0.3"');
  t.equal(
    (await apply(changed)).out,
    `~ model dated
    price from 2098-01-01: 0.5 and 1.123456789012 -> 0.40 and 1.123456789012
    price from 2099-01-01T12:00:00Z: 0.25 and 1 -> none
    cost price from 2026-11-01: 0.1 and 0.2 -> 0.10 and 0.3

1 change made.
`,
  );
  t.match(await apply(changed), { out: 'Nothing to change.\n' });
  const { out } = await run(['export-config'], { env });
  t.match(
    out,
    /prices:\n +- valid_from: 2098-01-01T00:00:00\.000Z\n +input: "0\.4"\n.*cost_prices:\n +- valid_from: 2026-11-01/s,
  );
  t.match(await apply(out), { code: 0, out: 'Nothing to change.\n' });
});

t.test('a file means the same after a date of its prices is over', async (t) => {
  const later = PRICED.replaceAll('dated', 'later').replaceAll('2098-01-01', '2026-01-01');
  t.match(
    await apply(later),
    { code: 0, out: /\+ model later\n.*cost_eur_per_1k_input: 0\.50\n/s },
    'of two prices the one that holds',
  );
  t.match(await apply(later), { out: 'Nothing to change.\n' });
  t.match(await query(`select cost_eur_per_1k_input as input from models where slug = 'later'`), [
    { input: '0.50' },
  ]);
});

t.test('mistakes of prices have a place too', async (t) => {
  const soon = new Date(Date.now() + 20_000).toISOString();
  const { code, err } = await apply(`models:
  - slug: dated
    prices:
      - { valid_from: 2027-02-30, input: "1", output: "1" }
`);
  t.match(
    { code, err },
    {
      code: 1,
      err: /tollgate\.yml:4:23: models\[0\]\.prices\[0\]\.valid_from must be an ISO time/,
    },
  );
  const more = await apply(`models:
  - slug: dated
    prices:
      - { valid_from: ${soon}, input: "1", output: "1" }
      - { valid_from: 2097-01-01, input: "1" }
      - { valid_from: 2097-01-01, input: "1", output: "1" }
`);
  t.match(more.err, /4:\d+: models\[0\]\.prices\[0\]\.valid_from is less than a minute away/);
  t.match(more.err, /5:\d+: models\[0\]\.prices\[1\] needs output/);
  t.match(more.err, /6:\d+: models\[0\]\.prices\[2\] names "2097-01-01" a second time/);
  const twice = await apply(`models:
  - slug: dated
    prices:
      - { valid_from: 2097-01-01, input: "1", output: "1" }
      - { valid_from: 2097-01-01T01:00:00+01:00, input: "2", output: "2" }
`);
  t.match(twice, {
    code: 1,
    err: /5:\d+: models\[0\]\.prices\[1\] names "2097-01-01T01:00:00\+01:00" a second time/,
  });
});

t.test(
  'amounts and networks are compared however they are written, and names are not',
  async (t) => {
    const written = (amount: string, name = 'Zeros GmbH') => `
models:
  - { slug: zeros, upstream_model: u, kind: chat, eu_hosted: true, cost_eur_per_1k_input: "${amount}", cost_eur_per_1k_output: "0",
      prices: [{ valid_from: 2097-01-01, input: "${amount}", output: "000" }],
      cost_prices: [{ valid_from: 2097-01-01, input: "${amount}", output: "1" }] }
companies: [{ name: ${name}, monthly_budget_eur: "${amount}", credit_limit_eur: "${amount}", keys: [{ name: "1.0", scopes: [chat], value: { env: ZEROS }, monthly_budget_eur: "${amount}", allowed_cidrs: [10.1.2.3, "2001:DB8:0::/32"] }] }]
`;
    t.match(await apply(written('077.50')), { code: 0, out: /3 changes made/ });
    for (const same of ['077.50', '77.5', '77.500', '0077.50']) {
      t.match(await apply(written(same)), { code: 0, out: 'Nothing to change.\n' }, same);
    }
    t.match(await apply(written('77.51')), { code: 0, out: /monthly_budget_eur: 77\.5 -> 77\.51/ });
    const [{ id }] = (await query<{ id: string }>(
      "select id from api_keys where name = '1.0'",
    )) as [{ id: string }];
    const renamed = await apply(
      `companies: [{ name: Zeros GmbH, keys: [{ id: ${id}, name: "1.00" }] }]`,
    );
    t.match(renamed, { code: 0, out: /name: 1\.0 -> 1\.00/ });
  },
);

t.test('a file that cannot be meant is refused in one line, and nothing is done', async (t) => {
  const before = await query('select name from companies order by 1');
  for (const [text, reason] of [
    ['', 'tollgate.yml is empty'],
    ['\n\n', 'tollgate.yml is empty'],
    ['companies: *those\n', 'Unresolved alias (the anchor must be set before the alias): those'],
    ['companies:\n  - name: !env NAME\n', 'Unresolved tag: !env'],
    [
      'companies: []\n---\nmodels: []\n',
      'tollgate.yml:2:1: a second document begins here: apply takes one',
    ],
    ['companies: [{ name: "Half \\ud83d" }]\n', 'companies[0].name has half a character'],
    [
      Buffer.from('companies:\n  - name: Müller\n', 'latin1'),
      'is not in UTF-8: save it with this encoding',
    ],
    [
      Buffer.from('\ufeffcompanies:\n  - name: Müller\n', 'utf16le'),
      'is not in UTF-8: save it with this encoding',
    ],
  ] as const) {
    writeFileSync(path, text);
    const { code, err } = await run(['apply', path], { env });
    t.equal(code, 1);
    t.match(err, reason);
    t.match(err, /^tollgate: [^\n]*\n$/);
  }
  t.same(await query('select name from companies order by 1'), before);
});

t.test('all mistakes of the form are told at once, with line and column', async (t) => {
  const { code, err } = await apply(`models:
  - slug: "bad slug"
    kind: image
    price: 5
companies:
  - name: ""
    monthly_budget_eur: -5
    keys:
      - { name: K, value: { env: A, file: b } }
`);
  t.equal(code, 1);
  const places = err
    .split('\n')
    .map((line) => /tollgate\.yml:(\d+:\d+): (\S+)/.exec(line)?.slice(1).join(' '));
  for (const wanted of [
    '2:11 models[0].slug',
    '3:11 models[0].kind',
    '4:12 models[0].price',
    '6:11 companies[0].name',
    '7:25 companies[0].monthly_budget_eur',
  ]) {
    t.ok(places.includes(wanted), `${wanted} of ${places.join(', ')}`);
  }
  t.match((await apply('companies: [')).err, /tollgate\.yml:1:\d+: /);
  t.match((await apply('a: 1\na: 2')).err, /tollgate\.yml:2:1: Map keys must be unique\n$/);
  t.match((await apply('a: 1\nb: [')).err, /tollgate\.yml:2:5: Flow sequence .* end with a \]\n$/);
  t.match(await run(['apply', join(folder, 'missing.yml')], { env }), {
    code: 1,
    err: /cannot read .*ENOENT/,
  });
});

t.test(
  'a value of the wrong kind is told in words and with an example, mistakes in the order of the file',
  async (t) => {
    const { err } = await apply(`
companies:
  - name: Numbers
    monthly_budget_eur: 250
    budget: 3
    allow_non_eu_models: please
    requests_per_minute: many
    keys: none
`);
    t.match(err.split('\n'), [
      / companies\[0\]\.monthly_budget_eur must be an amount in EUR as exact decimal text, such as "99\.50"/,
      / companies\[0\]\.budget is not known/,
      / must be true or false$/,
      / must be a whole number or null$/,
      / must be a list$/,
    ]);
  },
);

t.test(
  'names and addresses with characters that nobody sees are refused, with their places',
  async (t) => {
    const { err } = await apply(String.raw`
models: [{ slug: fast, upstream_model: "up\u200bstream" }]
companies:
  - name: "Ac\u00adme"
    keys: [{ name: "web\u202esite", scopes: [chat] }]
    assistants: [{ name: "\u3164" }]
    users: [{ email: "op@ga\u200bte.example", role: owner }, { email: "op\u200b@gate.example", role: owner }]
operators: [{ email: "\u212aim@gate.example" }, { email: "kïm@gate.example" }]
`);
    for (const [at, code] of [
      ['models[0].upstream_model', 'U+200B'],
      ['companies[0].name', 'U+00AD'],
      ['companies[0].keys[0].name', 'U+202E'],
      ['companies[0].assistants[0].name', 'U+3164'],
      ['companies[0].users[0].email', 'U+200B'],
      ['companies[0].users[1].email', 'U+200B'],
    ])
      t.match(err, `${at} must not hold ${code}: it is invisible`);
    t.match(
      err,
      'operators[0].email must be an address such as ada@example.com',
      'the sign of Kelvin is no K',
    );
    t.match(err, 'operators[1].email must be an address such as ada@example.com');
  },
);

t.test(
  'all that the present state does not allow is told at once, and nothing is done',
  async (t) => {
    const { code, err } = await apply(`
models: [{ slug: new }, { slug: new }]
companies:
  - name: Elsewhere
    keys:
      - { name: A, scopes: [chat] }
      - { name: B, scopes: [chat], value: { env: NOT_SET } }
      - { name: C, scopes: [chat], value: { file: /nowhere } }
    assistants: [{ name: X, system_prompt: x, model_slug: none-such }]
    users: [{ email: olga@gate.example, role: owner }]
`);
    t.equal(code, 1);
    for (const wanted of [
      /models\[0\] does not exist yet, and needs upstream_model, kind/,
      /models\[1\] names "new" a second time/,
      /keys\[0\] does not exist yet, and needs value/,
      /keys\[1\]\.value needs the environment variable NOT_SET, which is not set/,
      /keys\[2\]\.value needs the file \/nowhere, which cannot be read: ENOENT/,
      /assistants\[0\]\.model_slug must be one of the company’s models, not "none-such"/,
      /users\[0\]\.email is the address of a user elsewhere/,
    ]) {
      t.match(err, wanted);
    }
    t.same(await query(`select from companies where name = 'Elsewhere'`), []);
  },
);

t.test(
  'closed companies that a file would change are told by name and place, and the others do not hide them',
  async (t) => {
    const named = (name: string, budget: string) =>
      `  - { name: ${name}, monthly_budget_eur: "${budget}" }\n`;
    const file = (budget: string) =>
      `companies:\n${['Gone A', 'Open GmbH', 'Gone B'].map((name) => named(name, name.startsWith('Gone') ? budget : '7')).join('')}`;
    await apply(file('1'));
    await query("update companies set closed_at = now() where name like 'Gone _'");
    t.match(
      await apply(file('1')),
      { code: 0, out: 'Nothing to change.\n' },
      'what is so already is no change',
    );
    const { code, err } = await apply(file('2'));
    t.equal(code, 1);
    const told = (line: number, n: number, name: string) =>
      `tollgate\\.yml:${line}:\\d+: companies\\[${n}\\] differs from ${name}: The company was closed on \\S+ \\S+ UTC, and nothing of it can be changed\\. Reopen it first, or leave it out\n`;
    t.match(err, new RegExp(`${told(2, 0, 'Gone A')}.*${told(4, 2, 'Gone B')}$`));
  },
);

t.test(
  'what export-config prints is what is there: applied again it changes nothing',
  async (t) => {
    await query(`insert into companies (name) values ('Twice'), ('Twice')`);
    await query(`insert into assistants (company_id, name, system_prompt)
    select id, 'Same', 'Sum up.' from companies, generate_series(1, 2) where name = 'Nordlicht Verlag'`);
    await query(
      `update api_keys set allowed_model_slugs = '{own-chat,gone}' where revoked_at is null`,
    );
    const [key] = await query<{ id: string }>(
      `select id from api_keys where revoked_at is null limit 1`,
    );
    t.equal((await run(['key', 'rotate', key?.id as string, '--overlap', '7d'], { env })).code, 0);
    const { out } = await run(['export-config'], { env });
    t.notMatch(out, /svc_|\$scrypt/);
    t.match(await apply(out), { code: 0, out: 'Nothing to change.\n' });
    const { json } = await run(['export-config', '--json'], { env });
    t.match(await apply(JSON.stringify(json)), { code: 0, out: 'Nothing to change.\n' }, 'as JSON');
  },
);

t.test('a key or an assistant is renamed by its id', async (t) => {
  const [assistant] = await query<{ id: string }>(
    `select id from assistants where name = 'Same' limit 1`,
  );
  const id = assistant?.id as string;
  const file = `companies: [{ name: Nordlicht Verlag, assistants: [{ id: ${id}, name: Other }] }]`;
  t.match(await apply(file), { out: /name: Same -> Other/ });
  t.match(await apply(file), { out: 'Nothing to change.\n' });
  t.match(await apply(file.replace(id, id.replace(/^.{8}/, '00000000'))), {
    code: 1,
    err: /assistants\[0\]\.id is the id of no assistant of the company/,
  });
});

t.test(
  'an entry without an id does not mean what another renames by its id: the second run changes nothing',
  async (t) => {
    await apply(`companies:
  - name: Renaming
    assistants: [{ name: Old, system_prompt: Sum up. }]
    keys: [{ name: Old, scopes: [chat], value: { env: OLD } }]
`);
    const [ids] = await query<
      Record<string, string>
    >(`select c.id as company, k.id as key, a.id as assistant
    from companies c join api_keys k on k.company_id = c.id join assistants a on a.company_id = c.id where c.name = 'Renaming'`);
    const { company, key, assistant } = ids as Record<string, string>;
    const renamed = `companies:
  - { name: Renaming }
  - id: ${company}
    name: Renamed
    assistants: [{ name: Old, system_prompt: Another. }, { id: ${assistant}, name: New }]
    keys: [{ id: ${key}, name: New }, { name: Old, scopes: [chat], value: { env: WEBSITE_KEY } }]
`;
    const { code, err, out } = await apply(renamed);
    t.same([code, err], [0, '']);
    for (const made of [
      /\+ company Renaming/,
      /\+ assistant Old/,
      /\+ key Old/,
      /name: Renaming -> Renamed/,
    ])
      t.match(out, made);
    t.match(await apply(renamed), { code: 0, out: 'Nothing to change.\n' });

    const twice = `companies:
  - { name: Same }
  - id: ${company}
    name: Same
    assistants: [{ name: Both }, { id: ${assistant}, name: Both }]
`;
    t.match(await apply(twice), {
      code: 1,
      err: /:2:5: companies\[0\] names "Same" a second time\n.*assistants\[0\] names "Both"/s,
    });
    const gone = `companies: [{ id: ${company}, name: Renamed, assistants: [{ id: ${assistant}, name: New, absent: true }] }]`;
    t.match(await apply(gone), { code: 0, out: /- assistant New of Renamed/ });
    t.match(
      await apply(gone),
      { code: 0, out: 'Nothing to change.\n' },
      'what is gone already is no change',
    );
  },
);

t.test('what the database refuses has a place, behind the mistakes before it', async (t) => {
  const { code, err } = await apply(`
companies:
  - { id: 00000000-0000-0000-0000-000000000000, name: Nobody }
  - { name: First, keys: [{ name: K, scopes: [chat] }] }
  - name: Third
    keys:
      - { name: K, scopes: [chat], value: { env: ZEROS } }
`);
  t.equal(code, 1);
  t.match(err.split('\n'), [
    /tollgate\.yml:3:11: companies\[0\]\.id is the id of no company$/,
    /companies\[1\]\.keys\[0\] does not exist yet, and needs value$/,
    /tollgate\.yml:7:9: companies\[2\]\.keys\[0\] is refused: There is a key with this text already\.$/,
    /^$/,
  ]);
  t.same(await query(`select from companies where name in ('First', 'Third')`), []);
});

t.test(
  'one operator takes the place of the last one in one file, in whichever order',
  async (t) => {
    const only = (gone: string, come: string) =>
      apply(`operators: [{ email: ${gone}, absent: true }, { email: ${come} }]\n`);
    t.match(await only('olga@gate.example', 'otto@gate.example'), { code: 0, err: '' });
    t.match(await query("select email from users where role = 'operator'"), [
      { email: 'otto@gate.example' },
    ]);
    t.match(await apply('operators: [{ email: otto@gate.example, absent: true }]\n'), {
      code: 1,
      err: /This is the last operator/,
    });
  },
);

t.test(
  'the order of a file has no meaning: keys swap their texts, or one takes what another had',
  async (t) => {
    const texts = Object.fromEntries(
      'ABCDE'.split('').map((name) => [`TEXT_${name}`, `svc_${name.toLowerCase().repeat(32)}`]),
    );
    const of = (company: string, keys: readonly string[]) =>
      `  - name: ${company}\n    keys:\n${keys.map((key) => `      - { name: K${key[0]}, scopes: [chat], value: { env: TEXT_${key[1]} } }\n`).join('')}`;
    const file = (...keys: readonly (readonly string[])[]) =>
      `companies:\n${keys.map((each, n) => of(`Order ${n}`, each)).join('')}`;
    const applied = (text: string) => {
      writeFileSync(path, text);
      return run(['apply', path], { env: { ...env, ...texts } });
    };
    const now = async () => {
      const rows = await query<{ key: string }>(
        `select substr(k.name, 2) || upper(substr(prefix, 5, 1)) as key from api_keys k join companies c on c.id = company_id where c.name like 'Order %' order by k.name`,
      );
      return rows.map(({ key }) => key).join();
    };
    await applied(file(['1A', '2B'], ['3C']));
    for (const [what, keys, expected] of [
      ['a swap', [['1B', '2A'], ['3C']], '1B,2A,3C'],
      ['a swap of two companies', [['1C', '2A'], ['3B']], '1C,2A,3B'],
      ['a circle', [['1A', '2B'], ['3C']], '1A,2B,3C'],
      ['the first takes the old one of the second', [['1B', '2D'], ['3C']], '1B,2D,3C'],
      ['the second takes the old one of the first', [['1A', '2B'], ['3C']], '1A,2B,3C'],
      ['a new one takes an old one', [['4A', '1E', '2B'], ['3C']], '1E,2B,3C,4A'],
      ['again', [['4A', '1E', '2B'], ['3C']], '1E,2B,3C,4A'],
    ] as const) {
      const { code, err, out } = await applied(file(...keys));
      t.same([code, err], [0, ''], what);
      t.equal(await now(), expected, what);
      if (what === 'again') t.equal(out, 'Nothing to change.\n');
    }
    t.match(await applied(file(['1B', '2B'], ['3C'])), {
      code: 1,
      err: /:4:9: companies\[0\]\.keys\[0\] is refused: There is a key with this text already\.\n/,
    });
    t.equal(await now(), '1E,2B,3C,4A');
  },
);

t.test(
  'the order of a file has no meaning: names are swapped, persons and groups go elsewhere',
  async (t) => {
    await apply(
      `companies:
  - name: Left
    models: [{ slug: l, upstream_model: i, kind: chat, eu_hosted: true, cost_eur_per_1k_input: "1", cost_eur_per_1k_output: "2" }]
    assistants: [{ name: One, system_prompt: '1' }, { name: Two, system_prompt: '2' }]
    keys: [{ name: One, scopes: [chat], value: { env: L1 } }, { name: Two, scopes: [embeddings], value: { env: L2 } }]
    users: [{ email: moves@x.example, role: owner }]
    oidc_groups: [{ name: moving, role: owner }]
  - name: Right
    users: [{ email: back@x.example, role: owner }]
operators: [{ email: down@x.example }]
`.replaceAll(
        /env: L(\d)/g,
        (_, n) =>
          `file: ${t.testdir({ 1: `svc_${'l'.repeat(32)}`, 2: `svc_${'m'.repeat(32)}` })}/${n}`,
      ),
    );
    const ids = Object.fromEntries(
      (
        await query<{
          name: string;
          id: string;
        }>(`select 'company ' || name as name, id from companies where name in ('Left', 'Right')
      union all select 'key ' || name, id from api_keys where prefix in ('svc_llll', 'svc_mmmm')
      union all select 'assistant ' || name, id from assistants where name in ('One', 'Two') order by name`)
      ).map(({ name, id }) => [name, id]),
    );
    const moved = [
      `  - id: ${ids['company Left']}
    name: Right
    assistants: [{ id: ${ids['assistant One']}, name: Two }, { id: ${ids['assistant Two']}, name: One }]
    keys: [{ id: ${ids['key One']}, name: Two }, { id: ${ids['key Two']}, name: One }]
    users: [{ email: moves@x.example, absent: true }, { email: back@x.example, role: member }, { email: down@x.example, role: owner }]
    oidc_groups: [{ name: moving, absent: true }]
`,
      `  - id: ${ids['company Right']}
    name: Left
    users: [{ email: moves@x.example, role: member }, { email: back@x.example, absent: true }]
    oidc_groups: [{ name: moving, role: member }]
`,
    ];
    const operators = 'operators: [{ email: down@x.example, absent: true }]\n';
    const { code, err } = await apply(`companies:\n${moved.join('')}${operators}`);
    t.same([code, err], [0, '']);
    for (const file of [
      `companies:\n${moved.join('')}${operators}`,
      `${operators}companies:\n${moved.reverse().join('')}`,
    ])
      t.match(await apply(file), { code: 0, err: '', out: 'Nothing to change.\n' });
    t.match(
      await query(
        "select u.email, u.role, c.name from users u join companies c on c.id = company_id where u.email like '%@x.example' order by 1",
      ),
      [
        { email: 'back@x.example', role: 'member', name: 'Right' },
        { email: 'down@x.example', role: 'owner', name: 'Right' },
        { email: 'moves@x.example', role: 'member', name: 'Left' },
      ],
    );
    t.match(
      await query(
        "select c.name from oidc_groups g join companies c on c.id = company_id where g.name = 'moving'",
      ),
      [{ name: 'Left' }],
    );
    t.match(await query("select name from assistants where system_prompt = '1'"), [
      { name: 'Two' },
    ]);
  },
);

t.test('of two files at once the second waits, and finds what the first created', async (t) => {
  const text =
    'companies:\n  - { name: Twice GmbH, assistants: [{ name: Helper, system_prompt: Be kind. }] }\n';
  const second = await db.transaction(60_000, async (sql) => {
    await applyWanted(sql, readWanted(text, 'first.yml'), { keyPrefix: 'svc_', env });
    let isDone = false;
    const running = apply(text).finally(() => {
      isDone = true;
    });
    const waits = () =>
      query(
        "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
    await until(async () => isDone || (await waits()).length > 0, 'the second waits');
    return { running };
  });
  t.match(await second.running, { code: 0, out: 'Nothing to change.\n' });
  t.match(await query("select count(*) from companies where name = 'Twice GmbH'"), [
    { count: '1' },
  ]);
});

t.test(
  'groups of the identity provider are added, changed, removed and exported, those of operators by their own list',
  async (t) => {
    const file = (acme: string, operators: string) => `
companies:
  - name: Grouped
    oidc_groups: [${acme}]
  - name: Other grouped
oidc_groups: [${operators}]
`;
    const [staff, ops] = [
      '{ name: /grouped/staff, role: member }',
      '{ name: ops, role: operator }',
    ];
    t.match(await apply(file(staff, ops)), {
      code: 0,
      out: /\+ group \/grouped\/staff of Grouped\n {4}role: member\n.*\+ group ops\n {4}role: operator\n/s,
    });
    t.equal((await apply(file(staff, ops))).out, 'Nothing to change.\n');
    await query(`insert into users (email, role, company_id, oidc_group)
    select 'ann@grouped.example', 'member', id, '/grouped/staff' from companies where name = 'Grouped'`);
    const { out } = await run(['export-config'], { env });
    t.match(out, / {4}oidc_groups:\n {6}- name: \/grouped\/staff\n {8}role: member\n/);
    t.match(out, /\noidc_groups:\n {2}- name: ops\n {4}role: operator\n/);
    t.notMatch(out, 'ann@grouped.example', 'who has a role by a group is no entry of the file');
    const same = await apply(out);
    t.match(same, { code: 0, out: 'Nothing to change.\n' }, same.err);

    t.match(
      (await apply(file(staff.replace('member', 'owner'), ops))).out,
      'role: member -> owner',
    );
    const role = () => query("select role from users where email = 'ann@grouped.example'");
    t.same([...(await role())], [{ role: 'owner' }], 'for all who have it by the group');
    const byHand =
      'companies: [{ name: Grouped, users: [{ email: ann@grouped.example, role: member }] }]';
    t.match(
      (await apply(byHand)).err,
      /users\[0\] is refused: .*by a group of the identity provider, “\/grouped\/staff”/,
    );

    for (const [wrong, said] of [
      [file('{ name: x, role: operator }', ops), 'companies[0].oidc_groups[0].role must be'],
      [file(staff, '{ name: x, role: owner }'), 'oidc_groups[0].role must be'],
      [file(staff, '{ name: x }'), 'oidc_groups[0] does not exist yet, and needs role'],
      [
        file(ops.replace('operator', 'owner'), ''),
        'companies[0].oidc_groups[0].name is a group that gives a role elsewhere',
      ],
      [file(`${staff}, ${staff}`, ''), 'names "/grouped/staff" a second time'],
      [file('{ name: "a\u200bb", role: owner }', ''), 'must not hold U+200B'],
    ] as const) {
      const { code, err } = await apply(wrong);
      t.match([code, err], [1, said]);
    }
    const gone = (group: string) => group.replace(/role: \w+/, 'absent: true');
    t.match(await apply(file(gone(staff), gone(ops))), {
      code: 0,
      out: /- group \/grouped\/staff of Grouped\n- group ops\n/,
    });
    t.same([...(await role())], []);
  },
);
