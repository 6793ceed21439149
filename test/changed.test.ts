import { globSync } from 'node:fs';
import t from 'tap';
import { isReached, isTried, reachedBy } from './support/changed.ts';

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

t.test(
  'experiments with processes that die run where what they try changed, some of them always',
  async (t) => {
    const tried = (...changed: string[]) => TESTS.filter((test) => isTried(test, changed));
    const few = tried('src/admin/pages.ts', 'src/cli/nouns/key.ts', 'README.md', 'sql/upgrades.md');
    t.notOk(few.includes('test/faults/outage.test.ts'));
    for (const name of [
      'test/faults/kill.test.ts',
      'test/fleet/limits.test.ts',
      'test/sse/scanner.test.ts',
    ])
      t.ok(few.includes(name), name);
    for (const name of [
      'src/ledger/spool.ts',
      'src/admin/process/forward.ts',
      'src/operations/statement.ts',
      'src/cli/serve.ts',
      'sql/schema/sums.sql',
      'test/support/gateway.ts',
      'package-lock.json',
    ])
      t.same(tried('src/admin/pages.ts', name), TESTS, name);
    t.ok(isTried('test/faults/outage.test.ts', null), 'without history all run');
  },
);

t.test(
  'pages are tried in a browser where what they show changed, one file of them always',
  async (t) => {
    const isDear = (test: string) =>
      /\/(?:accessible|browser|narrow|(?!known)\w+-browser)\.test/.test(test);
    const tried = (...changed: string[]) => TESTS.filter((test) => isTried(test, changed));
    const few = tried('src/gateway/pipeline.ts', 'src/cli/nouns/key.ts', 'src/admin/README.md');
    t.same(few.filter(isDear), ['test/admin/forms-browser.test.ts']);
    for (const name of [
      'src/admin/assets/style.css',
      'src/domain/wording/alert.ts',
      'src/operations/key.ts',
      'src/store/usage/overview.ts',
      'sql/schema/sums.sql',
      'test/admin/browser.ts',
      'package-lock.json',
    ])
      t.same(tried('src/gateway/pipeline.ts', name), TESTS, name);
    const own = 'test/admin/narrow.test.ts';
    t.same(
      tried(own).filter(isDear),
      ['test/admin/forms-browser.test.ts', own],
      'or the test itself',
    );
  },
);

t.test('a test is reached by itself and by what it imports', async (t) => {
  const edge = 'test/edge/felt.test.ts';
  for (const name of [edge, 'test/edge/felt.ts', 'test/support/postgres.ts'])
    t.ok(isReached(edge, [name]), name);
  t.notOk(isReached(edge, ['test/edge/heavy.ts', 'README.md']));
});
