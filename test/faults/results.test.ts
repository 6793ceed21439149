import { readFileSync } from 'node:fs';
import t from 'tap';
import { noted } from './results.ts';

const PAGE = readFileSync(new URL('RESULTS.md', import.meta.url), 'utf8');
const rowsOf = (page: string) => page.split('\n').filter((line) => line.startsWith('| '));
const ELSEWHERE = { measured: 'as it was here', machine: '8 × Another CPU, Node 30.0.0' };

t.test('a run of one experiment on another machine keeps what others measured', async (t) => {
  const page = noted(PAGE, {
    promise: 'Stop loses nothing',
    experiment: 'SIGTERM under load, 3 times',
    ...ELSEWHERE,
  });
  const [before, after] = [rowsOf(PAGE), rowsOf(page)];
  t.equal(after.length, before.length, 'it replaces its own row');
  t.same(
    after.filter((row, at) => row !== before[at]),
    ['| Stop loses nothing | SIGTERM under load, 3 times | as it was here | 8 × Another CPU, Node 30.0.0 |'],
  );
  t.equal(page.split('\n## ')[1], PAGE.split('\n## ')[1], 'what stands below stays');
});

t.test('a new experiment stands behind those of its promise, or at the end', async (t) => {
  const promise = 'Stop loses nothing';
  const behind = rowsOf(noted(PAGE, { promise, experiment: 'SIGINT', ...ELSEWHERE }));
  const at = behind.findIndex((row) => row.includes('| SIGINT |'));
  t.match(behind[at - 1], /^\| Stop loses nothing \| SIGTERM/);
  t.equal(behind.length, rowsOf(PAGE).length + 1);

  const table = '| promise | experiment | measured | machine |\n|---|---|---|---|\n';
  const row = '| A | b 1 | c | d |\n';
  const measured = { promise: 'A', experiment: 'b 2', measured: 'e', machine: 'f' };
  t.equal(noted(`${table}\nmore`, measured), `${table}| A | b 2 | e | f |\n\nmore`, 'the first');
  t.equal(noted(table + row, measured), `${table}| A | b 2 | e | f |\n`, 'nothing below');
  t.equal(noted(table + row, { ...measured, promise: 'B' }), `${table}${row}| B | b 2 | e | f |\n`);
});
