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
