import t from 'tap';
import { allCommands, commandsOfNoun } from '../../../src/cli/commands.ts';
import { derived } from '../../../src/cli/frame/derived.ts';
import * as schema from '../../../src/domain/settings/schema.ts';
import { noun } from '../../../src/operations/frame/noun.ts';
import type { Operation } from '../../../src/operations/frame/row.ts';
import { keyOperations } from '../../../src/operations/key.ts';
import { OPERATIONS } from '../../../src/operations/list.ts';

const COMMANDS = await allCommands();

t.test('each row with a command is one of the program, in whatever noun it is', (t) => {
  const names = COMMANDS.map(({ name }) => name);
  for (const { name } of derived(OPERATIONS)) t.ok(names.includes(name), name);
  t.equal(new Set(names).size, names.length, 'no name twice');
  t.end();
});

t.test(
  'a row with a command is one beside those of its noun that are written by hand',
  async (t) => {
    const [row] = keyOperations;
    const rows = keyOperations as Operation[];
    const before = (await commandsOfNoun('key')).length;
    rows.push({ ...row, command: { noun: 'key', verb: 'label' } } as Operation);
    t.teardown(() => rows.pop());
    const names = (await commandsOfNoun('key')).map(({ name }) => name);
    t.ok(names.includes('key create') && names.includes('key label'));
    t.equal(names.length, before + 1);
  },
);

t.test('an act is called by its word, and says that it is done', (t) => {
  const { act } = noun({
    name: 'Key',
    path: '/companies/{company}/keys',
    param: 'key',
    table: 'api_keys',
    answer: schema.object({}),
    reads: 'key.read',
    writes: 'key.write',
    find: () => Promise.reject(new Error('nobody looks')),
  });
  const label = act('label')({
    command: { noun: 'key' },
    summary: 'Label a key. It is for people alone',
    body: schema.object({ label: schema.presentName }),
    run: () => Promise.resolve({}),
  });
  t.match(label, { id: 'labelKey', method: 'post', path: '/companies/{company}/keys/{key}/label' });
  t.match(derived([label]), [
    { name: 'key label', summary: 'label a key', notes: 'It is for people alone.' },
  ]);
  t.end();
});
