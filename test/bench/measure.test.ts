import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t from 'tap';
import { newTally, summarize } from '../../bench/load/tally.ts';
import { addedRatio, record, type SectionResults } from '../../bench/results.ts';
import { cpuMicros, serverMicros } from '../../bench/run/process.ts';
import { loadOf, type Rig, underLoad } from '../../bench/run/rig.ts';
import { type Bench, runSection, type Section } from '../../bench/run/rounds.ts';
import { NOTHING } from '../../bench/run/targets.ts';
import { latency } from '../../bench/sections/latency.ts';
import { uploads } from '../../bench/sections/uploads.ts';

/** A rig whose last answer comes when its load was looked at a few times after its end, and is the slowest. */
function rigWithLateAnswer(error = ''): Rig {
  let [done, drained, looks] = [0, false, 0];
  const load: Rig['load'] = async (order) => {
    if (order === 'drain') drained = true;
    if (order === 'read') done += drained && ++looks < 3 ? 0 : 1;
    const errors = error === '' ? {} : { [error]: 1 };
    return {
      ...summarize(newTally()),
      done,
      errors,
      max: looks < 3 ? 1 : 3000,
      open: looks < 3 ? 1 : 0,
    };
  };
  return { routerPort: 0, load, hold: load, mode: async () => {}, stop: async () => [] };
}

t.test('answers that are late at the end of a pace count: they are the slowest', async (t) => {
  const load = { ...loadOf(NOTHING, 1), rate: 100 };
  const { whole, done } = await underLoad(rigWithLateAnswer(), NOTHING, load, 0.01, 0);
  t.equal(whole.max, 3000);
  t.equal(done, 1, 'the rate is that of the window');
  await t.rejects(underLoad(rigWithLateAnswer('HTTP 503'), NOTHING, load, 0.01, 0), /1 × HTTP 503/);
});

t.test('CPU of a server is also that of its processes that have ended', async (t) => {
  const shell = spawn('sh', [
    '-c',
    'sh -c "i=0; while [ \\$i -lt 200000 ]; do i=\\$((i+1)); done"; echo ended; read line',
  ]);
  await once(shell.stdout, 'data');
  const pid = shell.pid as number;
  t.ok(serverMicros(pid) > cpuMicros([pid]) + 10_000);
  shell.kill();
});

t.test('a round in which the gateway alone adds latency counts against it', async (t) => {
  const series = {};
  for (const [proxy, gateway] of [
    [2, 3],
    [1, 4],
    [3, 2],
    [0.5, 0.5],
  ] as const) {
    for (const [name, p99] of Object.entries({ direct: 1, proxy, gateway }))
      record(series, 'a pace', name, { p99 });
  }
  const results: SectionResults = {
    taken: '',
    rounds: 4,
    seconds: 1,
    notes: [],
    machine: '',
    versions: '',
    series,
  };
  t.same(addedRatio(results, 'a pace', 'p99'), {
    median: 2,
    low: 0.5,
    high: Number.POSITIVE_INFINITY,
  });
});

t.test(
  'CPU beside uploads is not compared: it is that of as many uploads as each program took',
  async (t) => {
    const series = {};
    const times = { p50: 1, p99: 2, p999: 3, max: 4 };
    record(series, 'alone', 'proxy', { cpu: 1, ...times });
    const beside = 'beside eight uploads as fast as the machine takes them';
    record(series, beside, 'proxy', { ...times, uploads: 40 });
    const text = uploads
      .table({ taken: '', rounds: 1, seconds: 1, notes: [], machine: '', versions: '', series })
      .join('\n\n');
    t.match(
      text,
      '| alone | CPU µs per request | ÷ do-nothing proxy | p50 ms | p99 ms | p99.9 ms | highest ms |',
    );
    t.match(text, `| ${beside} | p50 ms | p99 ms | p99.9 ms | highest ms | uploads/s |`);
  },
);

t.test(
  'a step in fresh processes starts its targets anew before each round, the first included',
  async (t) => {
    let started = 0;
    const seen: number[] = [];
    const step = { name: 'a step', measure: async () => ({}) };
    const section: Section = {
      heading: '',
      start: async () => [{ ...NOTHING, name: `${++started}` }],
      steps: () => [
        step,
        {
          ...step,
          fresh: true,
          async measure({ name }) {
            seen.push(Number(name));
            return {};
          },
        },
      ],
      note: () => '',
      table: () => [],
    };
    await runSection(section, {
      rounds: 2,
      seconds: 0,
      quick: true,
      say: () => {},
    } as unknown as Bench);
    t.same(seen, [2, 3]);
  },
);

t.test(
  'only the warm-up of a rate is faster than the rate, however many seconds a round has',
  async (t) => {
    const rates: unknown[] = [];
    const rig = rigWithLateAnswer();
    const load: Rig['load'] = (order) => {
      if (typeof order === 'object') rates.push(order.rate);
      return rig.load(order);
    };
    const server = { behind: (work: () => unknown) => work() };
    const [slowest] = latency.steps({
      rig: { ...rig, load },
      server,
      quick: true,
    } as unknown as Bench);
    for (const warmsUp of [true, false]) await slowest?.measure(NOTHING, 0.001, warmsUp);
    t.same(rates, [3000, 100]);
  },
);
