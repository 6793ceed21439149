import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Test } from 'tap';
import { until } from './until.ts';

/** The address of a port that never completes a connection: its process is stopped and its backlog is full. */
export async function blackHole(t: Test, host = '127.0.0.1'): Promise<string> {
  const program = `const s = require('net').createServer().listen({ port: 0, host: '${host}', backlog: 1 }, () => console.log(s.address().port))`;
  const child: ChildProcess = spawn(process.execPath, ['-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(child.stdout as NonNullable<typeof child.stdout>, 'data');
  const port = Number(String(line));
  child.kill('SIGSTOP');
  const fillers = Array.from({ length: 4 }, () => connect(port, host).on('error', () => {}));
  t.teardown(() => {
    for (const filler of fillers) filler.destroy();
    child.kill('SIGKILL');
  });
  const connected = () => fillers.filter(({ readyState }) => readyState === 'open').length;
  await until(connected, 'the backlog is full', (count) => count >= 2);
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}/v1`;
}
