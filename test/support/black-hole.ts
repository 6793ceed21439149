import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Test } from 'tap';
import { freePort } from './port.ts';
import { until } from './until.ts';

/** The address of a port that never completes a connection: its process is stopped and its backlog is full. */
export async function blackHole(t: Test, host = '127.0.0.1'): Promise<string> {
  const port = await freePort(); // which a caller may take at the other address of this machine
  const program = `require('net').createServer().listen({ port: ${port}, host: '${host}', backlog: 1 }, () => console.log('listening'))`;
  const child: ChildProcess = spawn(process.execPath, ['-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout as NonNullable<typeof child.stdout>, 'data');
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
