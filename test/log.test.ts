import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { reasonOf } from '../src/log.ts';

const LINES = 4000;
const MODULE = new URL('../src/log.ts', import.meta.url).href;
/** Logs so many lines, more than a pipe holds, and ends as the gateway does. */
const PROGRAM = `
  const { flushLog, openLog } = await import(${JSON.stringify(MODULE)});
  const log = openLog('info');
  for (let n = 0; n < ${LINES}; n++) log.info({ n, filler: 'x'.repeat(50) }, 'a line');
  setTimeout(async () => {
    log.info('stopped');
    await flushLog(log);
    process.exit(0);
  }, 20); // some of the lines are written meanwhile
`;

function run(stderr: 'pipe' | number) {
  return spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
    stdio: ['ignore', 'inherit', stderr],
  });
}

function check(t: Test, text: string): void {
  const lines = text.trimEnd().split('\n');
  t.equal(lines.length, LINES + 1);
  t.ok(
    lines.slice(0, LINES).every((line, n) => JSON.parse(line).n === n),
    'in order, each once',
  );
  t.match(lines.at(-1), /"msg":"stopped"/);
}

t.test('every line reaches a file before the process ends', async (t) => {
  const path = join(t.testdir(), 'log');
  const file = openSync(path, 'w');
  const [code] = await once(run(file), 'exit');
  closeSync(file);
  t.equal(code, 0);
  check(t, readFileSync(path, 'utf8'));
});

t.test('every line reaches a reader that begins late', async (t) => {
  const child = run('pipe');
  const exited = once(child, 'exit');
  const stderr = child.stderr as NonNullable<typeof child.stderr>;
  await once(stderr, 'readable'); // the pipe fills meanwhile
  let text = '';
  for await (const piece of stderr.setEncoding('utf8')) text += piece;
  t.equal((await exited)[0], 0);
  check(t, text);
});

t.test('a reader that takes nothing does not keep the process', async (t) => {
  const program = PROGRAM.replace('flushLog(log)', 'flushLog(log, 100)').replace(
    'const {',
    'process.stderr;\nconst {',
  );
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'inherit', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  t.equal((await once(child, 'exit'))[0], 0); // its standard error is never read
});

t.test('lines of several workers in one pipe stay whole', async (t) => {
  const program = `
    import { spawn } from 'node:child_process';
    const work = ${JSON.stringify(PROGRAM.replace("openLog('info')", "openLog('info', Number(process.argv[1]))"))};
    for (const worker of ['1', '2', '3']) {
      spawn(process.execPath, ['--input-type=module', '--eval', work, worker], { stdio: ['ignore', 'ignore', 'inherit'] });
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let text = '';
  for await (const piece of child.stderr.setEncoding('utf8')) text += piece;
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { worker: number });
  for (const worker of [1, 2, 3])
    t.equal(lines.filter((line) => line.worker === worker).length, LINES + 1);
});

t.test(
  'lines beyond what may wait for a reader are dropped, and a line of the same form says so',
  async (t) => {
    const program = `
    const { flushLog, openLog } = await import(${JSON.stringify(MODULE)});
    const log = openLog('info', 3);
    for (let n = 0; n < 70; n++) log.info({ filler: 'x'.repeat(1048576) }, 'a line'); // at once: nothing is written meanwhile
    process.stdin.once('data', async () => {
      log.info('stopped');
      await flushLog(log);
      process.exit(0);
    });`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
      stdio: ['pipe', 'inherit', 'pipe'],
    });
    let text = '';
    for await (const piece of child.stderr.setEncoding('utf8')) {
      text += piece;
      if (text.length > 10_000_000 && !child.stdin.writableEnded)
        child.stdin.end('there is room again');
    }
    const lines = text.trimEnd().split('\n');
    t.ok(lines.length < 70);
    const same = { level: Number, time: /^20.*Z$/, worker: 3 };
    t.match(
      lines.slice(-2).map((line) => JSON.parse(line)),
      [
        { ...same, msg: /^\d+ bytes of log were dropped$/ },
        { ...same, msg: 'stopped' },
      ],
    );
  },
);

t.test('a connection that fails at every address of a name has a reason', async (t) => {
  const addresses = [1, 2].map((n) => ({ address: `127.0.0.${n}`, family: 4 }));
  const socket = connect({
    host: 'collector.example',
    port: 1,
    lookup: (_host, _options, done) => done(null, addresses),
  });
  const [error] = await once(socket, 'error');
  t.equal(error.message, '');
  t.equal(reasonOf(error), 'ECONNREFUSED');
});
