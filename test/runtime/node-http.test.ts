import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import t from 'tap';
import { closeWithConnection, networkOf } from '../../src/runtime/node-http.ts';

t.test(
  'clients are counted by their IPv4 address, or by the 64 bits of their IPv6 network however they are written',
  async (t) => {
    for (const [network, ...addresses] of [
      ['192.0.2.1', '192.0.2.1'],
      ['::ffff:192.0.2.1', '::ffff:192.0.2.1'],
      [
        '2001:db8:1:2',
        '2001:db8:1:2:3:4:5:6',
        '2001:db8:1:2::',
        '2001:db8:1:2::6',
        '2001:db8:1:2:3::',
      ],
      ['2001:db8:0:0', '2001:db8::1', '2001:db8::2', '2001:db8::a:b:c:d', '2001:db8:0:0:a:b:c:d'],
      ['2001:db8:1:0', '2001:db8:1::1', '2001:db8:1:0:a:b:c:d'],
      ['2001:0:0:1', '2001:0:0:1::5', '2001::1:0:0:0:5'],
      [':0:0:0', '::1', '::5:6:7:8'],
      ['a:b:c:d', 'a:b:c:d:e:f:::g:h:i:j', 'a:b:c:d:'], // whatever a proxy wrote
      ['', ''],
    ]) {
      for (const address of addresses) t.equal(networkOf(address), network, address);
    }
  },
);

t.test(
  'each response on a connection is closed once, and with the connection where it waits for others',
  async (t) => {
    const closed: string[] = [];
    const waiting: ServerResponse[] = [];
    const { promise: allCame, resolve } = Promise.withResolvers<void>();
    const { promise: allClosed, resolve: onLast } = Promise.withResolvers<void>();
    const server = createServer((req, res) => {
      closeWithConnection(res);
      res.on('close', () => {
        if (closed.push(req.url as string) === 4) onLast();
      });
      if (req.url === '/answered') res.end();
      else if (waiting.push(res) === 3) resolve();
    });
    server.listen(0, '127.0.0.1');
    t.teardown(() => server.close());
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    for (const path of ['answered', 'first', 'second', 'third'])
      client.write(`GET /${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
    await allCame;
    waiting[2]?.destroy(); // which can only be done once its turn comes
    client.destroy();
    await allClosed;
    await new Promise(setImmediate);
    t.same(closed.sort(), ['/answered', '/first', '/second', '/third']);
    t.ok(
      waiting.every(({ destroyed }) => destroyed),
      'nobody writes to them any more',
    );
  },
);
