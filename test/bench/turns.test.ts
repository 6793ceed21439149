import { createServer, type Socket } from 'node:net';
import t from 'tap';
import { turnBodies } from '../../bench/load/body.ts';
import { parseAddress, requestBytes } from '../../bench/load/connection.ts';
import { closedLoop } from '../../bench/load/loops.ts';
import { newTally } from '../../bench/load/tally.ts';
import { burstPackets } from '../../bench/programs/answers.ts';

t.test('each turn of a conversation sends all of the turn before, and more', async (t) => {
  const bodies = turnBodies('a-model', 40, 600 * 1024);
  t.equal(bodies.length, 40);
  const sizes = bodies.map(({ length }) => length / 1024);
  t.ok((sizes[0] as number) > 15 && (sizes[0] as number) < 25, `the first has ${sizes[0]} KiB`);
  t.ok(
    (sizes[39] as number) > 500 && (sizes[39] as number) <= 601,
    `the last has ${sizes[39]} KiB`,
  );
  const read = bodies.map((body) => JSON.parse(body.toString()));
  for (const [turn, { stream, tools, messages }] of read.entries()) {
    t.ok(stream && tools.length > 0);
    if (turn > 0)
      t.strictSame(messages.slice(0, read[turn - 1].messages.length), read[turn - 1].messages);
  }
});

t.test('an answer of a burst has as many events as are asked for', async (t) => {
  const events = (count?: number) =>
    Buffer.concat(burstPackets(true, count))
      .toString()
      .match(/data: /g)?.length;
  t.equal(events(297), 300);
  t.equal(events(), 203);
});

t.test(
  'every second connection rests between two exchanges, and each counts its own',
  async (t) => {
    const seen: string[] = [];
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('data', (data) => {
        seen.push(data.toString().split('\r\n\r\n')[1] as string);
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
        if (seen.length === 6) ended.resolve();
      });
    });
    const ended = Promise.withResolvers<void>();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const address = parseAddress(`http://127.0.0.1:${(server.address() as { port: number }).port}`);
    const request = (_n: number, k: number) => requestBytes(address, {}, Buffer.from(`${k}`));
    const load = closedLoop(address, 2, request, newTally(), { restMs: 1e9 });
    await ended.promise;
    load.stop();
    t.same(
      seen.slice(0, 6).sort(),
      ['0', '0', '1', '2', '3', '4'],
      'the second one rests after its first',
    );
  },
);
