import t from 'tap';
import { derived } from '../../../src/cli/frame/derived.ts';
import { OPERATIONS } from '../../../src/operations/list.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

/** Each command that follows from a row, once: what a rule refuses is tested where it is decided. */

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const words = (text: string) => text.split(' ');
const { id: company } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
await tollgate(
  ...words('model create --slug fast --upstream m --kind chat --eu-hosted true'),
  ...words('--input-price 1 --output-price 1'),
);
const { id: token } = (await tollgate('token', 'create', '--name', 'robot', '--json')).json;
const [{ id: person }] = await db.run(
  5000,
  (sql) =>
    sql<[{ id: string }]>`
      insert into end_users (company_id, name) values (${company}, 'Ada') returning id`,
);
await db.run(
  5000,
  (sql) => sql`
    insert into unusual_days (company_id, day, measure, subject, about, value, usual, superseded)
    select ${company}, (now() at time zone value)::date, 'refused', 'company', '', 90, 2, false
    from settings where name = 'billing_timezone'`,
);
const of = ['--company', company];
const it = { company_id: company };

/** Command, arguments, and what its JSON has at least; an id of "$" is that of the thing made before. */
const DRIVEN: readonly (readonly [name: string, args: readonly string[], json: unknown])[] = [
  [
    'assistant create',
    [
      ...of,
      '--name',
      'Helper',
      '--system-prompt',
      'Be kind',
      ...words('--model fast --max-tokens 5'),
    ],
    { ...it, system_prompt: 'Be kind', model_slug: 'fast', max_tokens: 5, visibility: 'company' },
  ],
  ['assistant list', of, [{ name: 'Helper', temperature: null }]],
  [
    'assistant set',
    ['$', ...words('--model none --max-tokens none --temperature 0.5 --visibility private')],
    { system_prompt: 'Be kind', model_slug: null, max_tokens: null, visibility: 'private' },
  ],
  ['assistant remove', ['$'], { name: 'Helper' }],
  ['group create', [...of, '--name', '/staff', '--role', 'member'], { ...it, role: 'member' }],
  ['group list', of, [{ company_name: 'Acme', users: 0 }]],
  ['group set', ['--name', '/staff', '--role', 'owner'], { ...it, role: 'owner' }],
  ['group remove', ['--name', '/staff'], { name: '/staff' }],
  ['end-user list', of, [{ id: person, name: 'Ada' }]],
  ['end-user set', [person, '--budget', '5'], { id: person, monthly_budget_eur: '5' }],
  ['end-user erase', [person], { id: person, name: null }],
  ['cost-center set', [...of, '--name', 'IT', '--monthly-budget-eur', '5'], { name: 'IT' }],
  ['cost-center list', of, [{ monthly_budget_eur: '5', spent_eur: '0' }]],
  ['cost-center remove', [...of, '--name', 'IT'], { name: 'IT' }],
  ['unusual list', of, [{ measure: 'refused', subject: 'company', value: '90', usual: '2' }]],
  ['token list', [], [{ name: 'robot', state: 'active' }]],
  ['token revoke', [token], { name: 'robot', state: 'revoked' }],
];

t.test('each command of a row asks for its operation, and prints what it answers', async (t) => {
  let made = '';
  for (const [name, args, json] of DRIVEN) {
    const argv = args.map((each) => (each === '$' ? made : each));
    const ran = await tollgate(...name.split(' '), ...argv, '--json');
    t.match(ran, { code: 0, err: '', json }, name);
    made = ran.json.id ?? made;
  }
});

t.test('without its arguments it says which are missing, and its help names them', async (t) => {
  for (const { name, operand, options } of derived(OPERATIONS)) {
    const needed = Object.values(options).filter(({ required }) => required);
    const { code, err } = await tollgate(...name.split(' '));
    const isNeeded = needed.length > 0 || operand !== undefined;
    t.equal(code, isNeeded ? 64 : 0, `${name}: ${err}`);
    const { out } = await tollgate(...name.split(' '), '--help');
    for (const { shown } of needed) t.ok(out.includes(shown), `${name}: ${shown}`);
  }
});

t.test('every command that follows from a row is driven here', async (t) => {
  t.same(
    DRIVEN.map(([name]) => name).sort(),
    derived(OPERATIONS)
      .map(({ name }) => name)
      .sort(),
  );
});
