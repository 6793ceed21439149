import { globSync } from 'node:fs';
import t from 'tap';
import { reachedBy } from './support/changed.ts';

const TESTS = globSync('test/**/*.test.ts');

t.test(
  'a change reaches the tests of its room, those that import it, and those of the whole tree',
  async (t) => {
    const reached = reachedBy(['src/sse/scanner.ts'], TESTS);
    for (const name of [
      'test/sse/scanner.test.ts',
      'test/sse/events.test.ts',
      'test/floors.test.ts',
    ])
      if (TESTS.includes(name)) t.ok(reached.includes(name), name);
    t.notOk(reached.includes('test/store/company/key.test.ts'));
    t.ok(reached.length < TESTS.length / 10, `${reached.length} of ${TESTS.length}`);
  },
);

t.test('what tests share reaches those that use it, also through another helper', async (t) => {
  const reached = reachedBy(['test/support/postgres.ts'], TESTS);
  t.ok(reached.includes('test/store/schema/migrate.test.ts'));
  t.ok(reached.includes('test/operations/rules.test.ts'), 'by the office of the pages');
  t.notOk(reached.includes('test/sse/scanner.test.ts'));
});

t.test('the schema reaches its own tests', async (t) => {
  t.ok(reachedBy(['sql/schema/sums.sql'], TESTS).includes('test/store/schema/schema.test.ts'));
});
