import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/**
 * Runs the tests under tap, shows a line per file as it ends (and all that failed in it),
 * and closes with the line `N passed, N failed`. Arguments go to tap: files, --grep=…
 */
const tap = spawn('tap', ['run', '--reporter=tap', ...process.argv.slice(2)], { stdio: ['ignore', 'pipe', 'inherit'] });
const totals = { pass: 0, fail: 0, skip: 0, todo: 0 };
let block: string[] = [];
for await (const line of createInterface({ input: tap.stdout })) {
  const file = /^(not )?ok \d+ - (.*?)(?: # time=([\d.]+)ms)?$/.exec(line);
  const total = /^# \{ (total: .*) \}$/.exec(line)?.[1];
  if (file !== null) {
    const seconds = (Number(file[3] ?? 0) / 1000).toFixed(1);
    console.log(`${file[1] === undefined ? 'ok    ' : 'FAILED'} ${file[2]} (${seconds} s)`);
    if (file[1] !== undefined) console.log(failures(block).join('\n'));
    block = [];
  } else if (total !== undefined) {
    for (const [, name, count] of total.matchAll(/(\w+): (\d+)/g)) totals[name as keyof typeof totals] = Number(count);
  } else {
    block.push(line);
  }
}
const code = tap.exitCode ?? ((await once(tap, 'exit'))[0] as number | null);

// a run that tap calls failed has failed, whatever it counted: a file that crashed before its first test, say
const failed = code === 0 ? totals.fail : Math.max(totals.fail, 1);
const skipped = totals.skip + totals.todo;
console.log(`${totals.pass} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = failed > 0 || totals.pass === 0 ? 1 : 0;

/** The failed assertions of a file with their diagnostics, and whatever it printed that is no TAP. */
function failures(lines: readonly string[]): string[] {
  const shown: string[] = [];
  let within = false; // a failed assertion's block
  for (const line of lines) {
    if (/^\s*(not )?ok \d/.test(line)) within = line.trimStart().startsWith('not ok');
    const structure = /^\s*(ok \d|# |\d+\.\.\d+|TAP version|$)/.test(line);
    if (within || !structure) shown.push(line);
    if (/^\s*\.\.\.$/.test(line)) within = false;
  }
  return shown;
}
