import { randomUUID } from 'node:crypto';
import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });
const { id: company } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const create = (...more: string[]) =>
  tollgate(
    'assistant',
    'create',
    '--company',
    company,
    '--name',
    'Helper',
    '--system-prompt',
    'Be kind',
    ...more,
  );
await tollgate(
  'model',
  'create',
  '--slug',
  'fast',
  '--upstream',
  'm',
  '--kind',
  'chat',
  '--eu-hosted',
  'true',
  '--input-price',
  '1',
  '--output-price',
  '1',
);

t.test('create, set, list and remove', async (t) => {
  const project = randomUUID();
  const settings = [
    '--model',
    'fast',
    '--temperature',
    '0.7',
    '--max-tokens',
    '500',
    '--visibility',
    'projects',
    '--project',
    project,
  ];
  const made = await create(...settings, '--json');
  t.match(made, {
    code: 0,
    err: '',
    json: {
      company_id: company,
      name: 'Helper',
      system_prompt: 'Be kind',
      model_slug: 'fast',
      temperature: 0.7,
      max_tokens: 500,
      visibility: 'projects',
      project_id: project,
    },
  });
  const { id } = made.json;
  t.match(
    (await tollgate('assistant', 'list', '--company', company)).out,
    /Helper +fast +0\.7 +500 +projects +no\n$/,
  );

  const emptied = [
    '--model',
    'none',
    '--temperature',
    'none',
    '--max-tokens',
    'none',
    '--project',
    'none',
    '--visibility',
    'company',
  ];
  t.match((await tollgate('assistant', 'set', id, ...emptied, '--json')).json, {
    model_slug: null,
    temperature: null,
    max_tokens: null,
    project_id: null,
    visibility: 'company',
    system_prompt: 'Be kind',
  });
  t.match(
    (await tollgate('assistant', 'list', '--company', company)).out,
    /Helper +- +- +- +company +yes\n$/,
  );
  t.match(await tollgate('assistant', 'remove', id), { code: 0, out: /^Assistant removed\./ });
  t.match(await tollgate('assistant', 'remove', id), {
    code: 1,
    err: /See "tollgate assistant list --company ID"\./,
  });
  t.equal((await tollgate('assistant', 'list', '--company', company, '--json')).out, '[]\n');
});

t.test('a default model that the company does not have gives a warning', async (t) => {
  const { code, err, json } = await create('--model', 'fasst', '--json');
  t.match({ code, err }, { code: 0, err: /^tollgate: warning: the company has no model fasst/ });
  t.equal((await tollgate('assistant', 'set', json.id, '--model', 'fast')).err, '');
});

t.test('spec 8: limits of the settings are kept, and wrong usage stores nothing', async (t) => {
  const before = (await tollgate('assistant', 'list', '--company', company, '--json')).json;
  for (const args of [
    ['--temperature', '2.1'],
    ['--temperature=-1'],
    ['--max-tokens', '0'],
    ['--max-tokens', '32001'],
    ['--visibility', 'public'],
    ['--project', 'x'],
    ['--model', 'a b'],
  ]) {
    t.match(await create(...args), { code: 64, out: '' }, args.join(' '));
  }
  t.match(await tollgate('assistant', 'set', before[0].id), { code: 64, err: /nothing to change/ });
  t.same((await tollgate('assistant', 'list', '--company', company, '--json')).json, before);
});
