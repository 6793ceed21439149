import { readFileSync } from 'node:fs';
import t from 'tap';
import { noted } from './results.ts';

const PAGE = readFileSync(new URL('RESULTS.md', import.meta.url), 'utf8');
const linesOf = (page: string) => page.split('\n');
const ELSEWHERE = { measured: 'as it was here', machine: '8 × Another CPU, Node 30.0.0' };

t.test('a run of one experiment on another machine keeps what others measured', async (t) => {
  const letter = String.fromCharCode(65 + (PAGE.match(/^- [A-Z]: /gm)?.length ?? 0));
  const page = noted(PAGE, {
    promise: 'Stop loses nothing',
    experiment: 'SIGTERM under load, 3 times',
    ...ELSEWHERE,
  });
  t.equal(linesOf(page).length, linesOf(PAGE).length + 1, 'it replaces its own row');
  t.same(
    linesOf(page).filter((line) => !linesOf(PAGE).includes(line)),
    [
      `- ${letter}: ${ELSEWHERE.machine}`,
      `| SIGTERM under load, 3 times | as it was here | ${letter} |`,
    ],
  );
});

t.test('a new experiment ends the table of its promise, a new promise the page', async (t) => {
  const table = '| experiment | measured | on |\n|---|---|---|\n';
  const page = `# Title\n\n- A: f\n\n## P\n\nWhat is measured.\n\n${table}| b 1 | c | A |\n\n## Q\n\nmore\n`;
  const measured = { promise: 'P', experiment: 'b 2', measured: 'e', machine: 'f' };
  t.equal(noted(page, measured), page.replace('b 1 | c', 'b 2 | e'), 'other numbers');
  t.equal(
    noted(page, { ...measured, experiment: 'd' }),
    page.replace('| b 1 | c | A |\n', '$&| d | e | A |\n'),
    'another experiment',
  );
  t.equal(
    noted(page, { ...measured, promise: 'R', machine: 'g' }),
    `${page.replace('- A: f\n', '$&- B: g\n')}\n## R\n\n${table}| b 2 | e | B |\n`,
    'another promise, another machine',
  );
});
