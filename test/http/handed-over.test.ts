import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer } from 'node:net';
import t from 'tap';
import { canHandOver, type Handle, handOver, takeOver } from '../../src/http/handed-over.ts';

t.test('this Node can hand connections over', async (t) => {
  t.equal(await canHandOver(), true);
});

t.test('a process that cannot be started is told as such', async (t) => {
  const { execPath } = process;
  process.execPath = '/nonexistent/node';
  const checked = t.rejects(canHandOver(), { code: 'ENOENT' });
  process.execPath = execPath;
  await checked;
});

t.test('a server counts, limits and closes connections that were handed to it', async (t) => {
  const port = createNetServer();
  const server = createServer({ keepAliveTimeout: 60_000 }, (_req, res) => res.end('here'));
  server.maxConnections = 1;
  const take = takeOver(server);
  await once(server, 'listening');
  t.ok(server.listening);
  port.listen(0, '127.0.0.1');
  t.teardown(() => port.close());
  await once(port, 'listening');
  const held: Handle[] = [];
  handOver(
    port,
    (connection) => held.push(connection),
    () => {},
  );
  const ask = () => {
    const client = connect((port.address() as AddressInfo).port, '127.0.0.1');
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    return client;
  };
  const first = ask();
  while (held.length < 1) await new Promise(setImmediate);
  take(held[0] as Handle);
  t.match(String((await once(first, 'data'))[0]), /^HTTP\/1\.1 200 /);

  const dropped = once(server, 'drop');
  const second = ask();
  second.on('error', () => {}); // its request was not read
  const refused = new Promise((resolve) => second.on('close', resolve));
  while (held.length < 2) await new Promise(setImmediate);
  take(held[1] as Handle);
  await Promise.all([dropped, refused]);

  const closed = once(server, 'close');
  server.close();
  t.notOk(server.listening);
  server.closeAllConnections();
  await closed;
});
