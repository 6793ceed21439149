import { execFileSync } from 'node:child_process';
import t from 'tap';

/** Fills a hundred megabytes, forgets them, rests, and tells what is resident before and after. */
const PROGRAM = `
  const { reclaimAtRest } = await import(process.argv[1]);
  const { setTimeout: sleep } = await import('node:timers/promises');
  reclaimAtRest(200);
  let hoard = Array.from({ length: 1_500_000 }, (_, i) => ({ i, text: 'number ' + i }));
  const full = process.memoryUsage.rss();
  hoard = hoard.length;
  let least = full;
  for (let i = 0; i < 50 && least > full / 2; i++) {
    await sleep(200); // at rest: awake it would not collect
    least = Math.min(least, process.memoryUsage.rss());
  }
  console.log(JSON.stringify({ full, least }));
`;

t.test('a process at rest gives back what its last rush left behind', async (t) => {
  const module = new URL('../../src/runtime/collection.ts', import.meta.url).href;
  const args = ['--input-type=module', '-e', PROGRAM, module];
  const { full, least } = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
  t.ok(least < full / 2, `${full >> 20} MB, then ${least >> 20} MB`);
});
