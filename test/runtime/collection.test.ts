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

/** Rests once, has the same rush, works for 3 % of the time, and tells how often it was made to collect after the rest. */
const BUSY_PROGRAM = `
  const { reclaimAtRest } = await import(process.argv[1]);
  const { PerformanceObserver, constants } = await import('node:perf_hooks');
  const { setTimeout: sleep } = await import('node:timers/promises');
  let collected = 0;
  new PerformanceObserver((list) => {
    const asked = list.getEntries().filter(
      ({ detail }) => detail.flags & constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE,
    );
    collected += asked.length;
  }).observe({ entryTypes: ['gc'] });
  reclaimAtRest(200);
  let before;
  do {
    before = collected;
    await sleep(300);
  } while (before === 0 || collected > before);
  let hoard = Array.from({ length: 1_500_000 }, (_, i) => ({ i, text: 'number ' + i }));
  hoard = hoard.length;
  for (let i = 0; i < 30; i++) {
    const used = process.cpuUsage();
    while (process.cpuUsage(used).user + process.cpuUsage(used).system < 3000);
    await sleep(97);
  }
  console.log(collected - before);
`;

const tellsWhy = Number.parseInt(process.versions.v8, 10) >= 14; // an older V8 does not say that it was asked
t.test(
  'a process that works, however little, is not made to collect',
  { skip: !tellsWhy },
  async (t) => {
    t.equal(run(BUSY_PROGRAM), 0);
  },
);

t.test('a process at rest gives back what its last rush left behind', async (t) => {
  const { full, least } = run<{ full: number; least: number }>(PROGRAM);
  t.ok(least < full / 2, `${full >> 20} MB, then ${least >> 20} MB`);
});

function run<Result>(program: string): Result {
  const module = new URL('../../src/runtime/collection.ts', import.meta.url).href;
  return JSON.parse(
    execFileSync(process.execPath, ['--input-type=module', '-e', program, module], {
      encoding: 'utf8',
    }),
  );
}
