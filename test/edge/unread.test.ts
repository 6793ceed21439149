import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { ask } from '../support/client.ts';
import { until } from '../support/until.ts';
import { type Customer, startWorld } from '../support/world.ts';

/** A connection that reads nothing. */
async function deafClient(t: Test, url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket.pause();
}

async function inFlight(adminUrl: string): Promise<number> {
  return Number(
    /^tollgate_requests_in_flight (\d+)$/m.exec((await ask(`${adminUrl}/metrics`)).text)?.[1],
  );
}

function head(line: string, url: string, { key }: Customer): string {
  return `${line} HTTP/1.1\r\nhost: ${new URL(url).host}\r\nauthorization: Bearer ${key}\r\n`;
}

function post(url: string, customer: Customer, call: object): string {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'x' }], ...call });
  const more = `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
  return head('POST /v1/chat/completions', url, customer) + more + body;
}

t.test('a client that reads no answers to lookups is disconnected', async (t) => {
  const world = await startWorld(t, { STALL_SECONDS: '1' });
  const socket = await deafClient(t, world.url);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const request = `${head(`GET /v1/models/${'x'.repeat(8000)}`, world.url, world.customer)}\r\n`;
  const requests = request.repeat(100);
  // however many answers the system takes, there are more
  const askMore = (): boolean => socket.write(requests, (error) => void (error || askMore()));
  askMore();
  await closed;
  await until(async () => (await inFlight(world.adminUrl)) === 0, 'none is in flight');
});

t.test('what pipelined requests hold is free once their client is gone', async (t) => {
  const world = await startWorld(t);
  const { customer, url } = world;
  await world.part(customer, 'waiting', 'internal-x!stall-after-1');
  const socket = await deafClient(t, url);
  socket.write(post(url, customer, { model: 'waiting', stream: true }).repeat(3));
  await until(async () => (await inFlight(world.adminUrl)) === 3, 'all three run');
  socket.destroy();
  await until(async () => (await inFlight(world.adminUrl)) === 0, 'none is in flight');
});
