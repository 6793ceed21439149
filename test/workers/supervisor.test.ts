import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Metrics } from '../../src/metrics.ts';
import { Supervisor } from '../../src/workers/supervisor.ts';
import { until } from '../support/until.ts';

/** A supervisor of one worker that says what it is told to say and does nothing: a program in place of Node. */

const { execPath } = process;
t.afterEach(() => {
  process.execPath = execPath;
});

interface Line {
  readonly msg: string;
  readonly pid?: number;
  readonly reason?: string;
}

/** @param onLeave what the worker does when it is told to leave */
async function supervised(t: Test, onLeave: string, hasSpool = false) {
  const program = join(t.testdir(), 'worker');
  const script = `process.send('ready'); process.on('message', (m) => { if (m.leave !== undefined) { ${onLeave} } })`;
  writeFileSync(program, `#!/bin/sh\nexec '${execPath}' --eval "${script}"\n`);
  chmodSync(program, 0o700);
  const lines: Line[] = [];
  const log = pino({ base: null }, { write: (line) => void lines.push(JSON.parse(line)) });
  const start = {
    databaseUrl: null,
    upstreamUrl: null,
    maxConnections: 100,
    maxRequests: 1,
    maxMemoryBytes: 1,
    ticketKeys: '',
  };
  const startOf = (worker: number) => ({ worker, ...start });
  const options = {
    count: 1,
    startOf,
    drainSeconds: 0,
    maxConnections: 1,
    hasSpool,
    metrics: new Metrics(),
    log,
  };
  const supervisor = new Supervisor(options);
  t.teardown(() => supervisor.kill());
  process.execPath = program;
  await supervisor.start();
  return {
    supervisor,
    program,
    lines,
    pid: () => lines.findLast(({ pid }) => pid !== undefined)?.pid as number,
  };
}

const LEFT = `process.send({ left: { cut: 0, lost: 0, families: [] } }, () => process.exit())`;

t.test(
  'while no process can be started the old worker stays, and one that dies is replaced later',
  async (t) => {
    const { supervisor, program, lines, pid } = await supervised(t, LEFT);
    for (const [path, reason] of [
      ['/nonexistent/node', /worker 1 could not be started \(spawn \/nonexistent\/node ENOENT\)/],
      ['refused at once\0', /null bytes/],
    ] as const) {
      process.execPath = path;
      await supervisor.replace();
      t.match(lines.at(-1), { msg: 'a worker was not replaced', reason });
      t.ok(supervisor.isReady);
    }
    const first = pid();
    process.kill(first, 'SIGKILL');
    await until(() => lines.at(-1)?.msg === 'a worker cannot start', 'no other can be started');
    process.execPath = program;
    await until(() => supervisor.isReady, 'another takes its place');
    t.not(pid(), first);
    t.equal(await supervisor.close(), 0);
  },
);

for (const [hasSpool, fate] of [
  [false, 'they may be lost'],
  [true, 'those on disk are booked later'],
] as const) {
  t.test(
    `what a worker lost is not known when it ends without a word in a stop: ${fate}`,
    async (t) => {
      const { supervisor, lines } = await supervised(t, 'process.exit(1)', hasSpool);
      t.equal(await supervisor.close(), null);
      t.match(lines.at(-1), {
        code: 1,
        msg: `a worker ended before its last records were written: ${fate}`,
      });
    },
  );
}
