import { randomBytes, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ASSISTANT } from '../../src/domain/settings/assistant.ts';
import { COMPANY, DISABLED } from '../../src/domain/settings/company.ts';
import { KEY } from '../../src/domain/settings/key.ts';
import { MODEL } from '../../src/domain/settings/model.ts';
import { neededOf, type Settings } from '../../src/domain/settings/setting.ts';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';

/** Nothing is opened that nobody asked for: of no setting, at no face. Forms: test/admin/page/setting.test.ts. */

const SETTINGS: Readonly<Record<string, Settings>> = {
  companies: { ...COMPANY, ...DISABLED },
  api_keys: KEY,
  models: MODEL,
  assistants: ASSISTANT,
};

/** Settings that open something: what a new thing has of which nobody says it; null: it is asked. */
const CLOSED: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  companies: { allow_non_eu_models: false, member_max_keys: 0, member_playground: false },
  api_keys: { scopes: null, end_users: 'off' },
  models: { eu_hosted: null, token_input: 'refuse' },
  assistants: { visibility: 'company' },
};

/** All others: they name, price, describe or limit. */
const OTHERS =
  /^(name|customer_number|billing_|vat_id|language|unusual_times|slug|upstream_model|kind|cost_eur_per_1k_|rates|context_length|max_|price_factor|system_prompt|model_slug|temperature|project_id|expires_at|allowed_|disabled_|eu_locked|budget_mode|credit_limit_eur|member_key_budget_eur|monthly_budget_eur|daily_budget_eur|end_user_budget_eur|end_user_alerts|(requests|tokens)_per_minute)/;

const office = await startOffice(t);
const { sql, databaseUrl } = office;
const { company } = office.customer;
const token = await newToken(office);
const tollgate = (...argv: string[]) =>
  run([...argv, '--json'], { env: { DATABASE_URL: databaseUrl } });
const folder = t.testdir({});
const apply = (text: string) => {
  const path = join(folder, 'wanted.yml');
  writeFileSync(path, text);
  return run(['apply', path], {
    env: { DATABASE_URL: databaseUrl, FILE_KEY: `svc_${'f'.repeat(32)}` },
  });
};

const PRICES = { cost_eur_per_1k_input: '1', cost_eur_per_1k_output: '1' };
/** The least that each thing needs besides what is asked, and what is answered there. */
const LEAST = {
  companies: {},
  api_keys: {},
  models: { upstream_model: 'internal', kind: 'chat', ...PRICES },
  assistants: { system_prompt: 'Be short' },
};
const ANSWERS: Readonly<Record<string, unknown>> = { scopes: ['chat'], eu_hosted: false };
type Table = keyof typeof LEAST;
const TABLES = Object.keys(LEAST) as Table[];
const nameOf = (table: Table) => (table === 'models' ? 'slug' : 'name');
const askedOf = (table: Table) =>
  Object.entries(CLOSED[table] ?? {}).flatMap(([column, closed]) =>
    closed === null ? column : [],
  );

async function isClosed(t: Test, table: Table, name: string): Promise<void> {
  const [row] = await sql`select * from ${sql(table)} where ${sql(nameOf(table))} = ${name}`;
  const wanted = Object.entries(CLOSED[table] ?? {}).map(([column, closed]) => [
    column,
    closed ?? ANSWERS[column],
  ]);
  t.match(row, Object.fromEntries(wanted), name);
}

t.test('every setting is known to open something or nothing', async (t) => {
  for (const [table, settings] of Object.entries(SETTINGS)) {
    for (const [column, setting] of Object.entries(settings)) {
      const opens = Object.keys(CLOSED[table] ?? {}).includes(column);
      t.ok(
        opens !== OTHERS.test(column),
        `${table}.${column}: say in this test whether it opens something, and what a new thing has`,
      );
      if (opens)
        t.equal(setting.isNeeded === true, CLOSED[table]?.[column] === null, `${column} is asked`);
    }
  }
});

t.test('over HTTP', async (t) => {
  const paths = {
    companies: '/companies',
    api_keys: `/companies/${company}/keys`,
    models: '/models',
    assistants: `/companies/${company}/assistants`,
  };
  for (const table of TABLES) {
    const asked = askedOf(table);
    const answers = Object.fromEntries(asked.map((column) => [column, ANSWERS[column]]));
    const body = { ...LEAST[table], [nameOf(table)]: `http-${table}` };
    for (const column of asked) {
      const { [column]: _, ...others } = answers;
      const refused = await send(office, token, ['POST', paths[table]], { ...body, ...others });
      t.match(refused, { status: 400, body: { errors: [{ pointer: `#/${column}` }] } });
    }
    t.equal(
      (await send(office, token, ['POST', paths[table]], { ...body, ...answers })).status,
      201,
    );
    await isClosed(t, table, `http-${table}`);
  }
});

t.test('by command', async (t) => {
  const commands = {
    companies: ['company', 'create'],
    api_keys: ['key', 'create', '--company', company],
    models: ['model', 'create'],
    assistants: ['assistant', 'create', '--company', company],
  };
  for (const table of TABLES) {
    const optionOf = (column: string) => SETTINGS[table]?.[column]?.option.split(' ')[0] as string;
    const least = neededOf(SETTINGS[table] as Settings)
      .filter((column) => Object.hasOwn(LEAST[table], column))
      .flatMap((column) => [
        optionOf(column),
        String((LEAST[table] as Record<string, string>)[column]),
      ]);
    const argv = [...commands[table], `--${nameOf(table)}`, `command-${table}`, ...least];
    const answers = askedOf(table).flatMap((column) => [optionOf(column), String(ANSWERS[column])]);
    if (answers.length > 0)
      t.match(await tollgate(...argv), { code: 64, err: new RegExp(`${answers[0]}`) });
    t.equal((await tollgate(...argv, ...answers)).code, 0);
    await isClosed(t, table, `command-${table}`);
  }
});

t.test('from a file', async (t) => {
  const model =
    'models: [{ slug: file-models, upstream_model: i, kind: chat, cost_eur_per_1k_input: "1", cost_eur_per_1k_output: "1"';
  const unasked = await apply(`${model} }]\n`);
  t.match(unasked, { code: 1, err: /eu_hosted/ });
  const of = 'companies: [{ name: file-companies, keys: [{ name: file-api_keys';
  t.match(await apply(`${of}, value: { env: FILE_KEY } }] }]\n`), { code: 1, err: /scopes/ });
  const keys = `${of}, scopes: [chat], value: { env: FILE_KEY } }], assistants: [{ name: file-assistants, system_prompt: x }] }]`;
  const applied = await apply(`${model}, eu_hosted: false }]\n${keys}\n`);
  t.equal(applied.code, 0, applied.err);
  for (const table of TABLES) await isClosed(t, table, `file-${table}`);
});

t.test('on pages', async (t) => {
  const operator = await signedIn(office, 'operator');
  const priced = { '0-input': '1', '0-output': '1', '0-kind': 'chat', '0-slug': 'page-models' };
  const claim = randomBytes(32).toString('base64url');
  for (const [path, fields, table, isMade] of [
    ['/companies/new', { name: 'page-companies', claim, id: randomUUID() }, 'companies', true],
    [`/companies/${company}/keys/create`, { name: 'page-api_keys' }, 'api_keys', false],
    ['/models/new', { upstream: 'internal', ...priced }, 'models', false],
    ['/models/new', { upstream: 'internal', ...priced, '0-eu_hosted': 'false' }, 'models', true],
  ] as const) {
    const { status } = await operator.post(path, fields);
    const made =
      await sql`select from ${sql(table)} where ${sql(nameOf(table))} = ${`page-${table}`}`;
    t.equal(made.count === 1, isMade, `${path}: ${status}`);
  }
  for (const table of ['companies', 'models'] as const) await isClosed(t, table, `page-${table}`);
});
