import t from 'tap';
import { allCommands } from '../../src/cli/commands.ts';
import { derived } from '../../src/cli/frame/derived.ts';
import { OPERATIONS } from '../../src/operations/list.ts';

const COMMANDS = await allCommands();

/** All places where a command takes or does something else than HTTP: a new one needs a reason, here and in its row. */
const OVERRIDES = {
  listTokens: 'HTTP has an address for the tokens of one company, for its owners',
  createGroup: 'a command also names the groups that make operators, which have no company',
  createCostCenterBudget:
    'a command names a cost centre, and gives it a budget whether it has one or not',
};

t.test('a command follows from the row of its operation, but for these overrides', async (t) => {
  const differing = OPERATIONS.flatMap(({ id, command }) =>
    command?.differs === undefined ? [] : [[id, command.differs.because] as const],
  );
  t.same(Object.fromEntries(differing), OVERRIDES);
});

t.test('a row that has a command is listed among the commands, once', async (t) => {
  const names = COMMANDS.map(({ name }) => name);
  t.equal(new Set(names).size, names.length, 'no name is taken twice');
  for (const { name } of derived(OPERATIONS)) t.ok(names.includes(name), name);
});

t.test('an id names one operation', async (t) => {
  t.equal(new Set(OPERATIONS.map(({ id }) => id)).size, OPERATIONS.length);
});
