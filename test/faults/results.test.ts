import { readFileSync } from 'node:fs';
import t from 'tap';
import { type Measured, noted, pageOf } from './results.ts';

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');
const ROWS: readonly Measured[] = JSON.parse(read('results.json'));

t.test('the page shows the first experiment of each promise as results.json has it', async (t) => {
  const page = read('RESULTS.md');
  t.equal(page, pageOf(page, ROWS));
  for (const { promise } of ROWS) t.equal(page.split(`| ${promise} |`).length, 2, promise);
});

t.test('a run replaces the row of its own experiment, whatever its numbers', async (t) => {
  const row = {
    promise: 'Stop loses nothing',
    experiment: 'SIGTERM under load, 3 times',
    measured: 'as it was here',
    machine: '8 × Another CPU, Node 30.0.0',
  };
  const rows = noted(ROWS, row);
  t.equal(rows.length, ROWS.length);
  t.same(
    rows.filter((each) => !ROWS.includes(each)),
    [row],
  );
  t.match(pageOf(read('RESULTS.md'), rows), `: ${row.machine}\n`);
});

t.test(
  'a new experiment stands behind those of its promise, a new promise at the end',
  async (t) => {
    const row = (promise: string, experiment: string): Measured => {
      return { promise, experiment, measured: 'c', machine: 'm' };
    };
    const rows = [row('P', 'b 1'), row('Q', 'd')];
    const names = (all: readonly Measured[]) =>
      all.map(({ promise, experiment }) => `${promise} ${experiment}`);
    t.same(names(noted(rows, row('P', 'e'))), ['P b 1', 'P e', 'Q d']);
    t.same(names(noted(rows, row('R', 'b 2'))), ['P b 1', 'Q d', 'R b 2']);
  },
);
