import { createServer, type Server } from 'node:net';
import t from 'tap';
import { Connection, parseAddress, requestBytes } from '../../bench/load/connection.ts';
import { newTally, type Tally } from '../../bench/load/tally.ts';
import { answerBytes, BURST_EVENTS, burstPackets } from '../../bench/programs/answers.ts';

/** A server that answers every request with these pieces, each in a packet of its own, and then closes or stays. */
async function answering(pieces: readonly Buffer[], close = false): Promise<{ server: Server; url: string }> {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {});
    socket.on('data', async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (close) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return { server, url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/v1` };
}

async function exchanges(pieces: readonly Buffer[], count: number, close = false): Promise<Tally> {
  const { server, url } = await answering(pieces, close);
  const tally = newTally();
  const address = parseAddress(url);
  const connection = new Connection(address, tally);
  const request = requestBytes(address, '/chat/completions', {}, Buffer.from('{}'));
  for (let i = 0; i < count; i++) await new Promise((resolve) => connection.send(request, resolve));
  connection.close();
  server.close();
  return tally;
}

const cut = (bytes: Buffer, at: number): Buffer[] => [bytes.subarray(0, at), bytes.subarray(at)];

t.test('counts the events of a stream, however HTTP and packets divide them', async (t) => {
  for (const chunkPerEvent of [true, false]) {
    const tally = await exchanges(burstPackets(chunkPerEvent), 3);
    t.match(tally, { done: 3, events: 3 * (BURST_EVENTS + 3) });
    t.equal(tally.errors.size, 0);
    t.equal(tally.firstEvent.count, 3);
  }
});

t.test('reads an answer cut at any byte', async (t) => {
  const chunked = Buffer.from(
    'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n' +
      '8\r\ndata: {}\r\n1\r\n\n\r\n1\r\n\n\r\nf\r\ndata: [DONE]\n\n \r\n0\r\n\r\n',
  );
  for (const answer of [chunked, answerBytes().subarray(0, 1121)]) {
    const streamed = answer === chunked;
    for (let at = 1; at < answer.length; at += streamed ? 1 : 37) {
      const tally = await exchanges(cut(answer, at), 1);
      if (tally.done === 1 && tally.events === (streamed ? 2 : 0)) continue;
      t.fail(`cut at ${at}: ${tally.done} done, ${tally.events} events`, { errors: [...tally.errors] });
    }
  }
  t.pass('all cuts');
});

t.test('reports a broken answer as an error', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n';
  const cases: [string, string][] = [
    [`${head}data: {}\n\n`, 'stream without [DONE]'],
    [`${head}data: {"error":{"message":"no"}}\n\ndata: [DONE]\n\n`, 'error event within the stream'],
    ['HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}', 'HTTP 429'],
    ['HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nshort', 'connection closed early'],
  ];
  for (const [answer, error] of cases) {
    const tally = await exchanges([Buffer.from(answer)], 1, true);
    t.same([...tally.errors], [[error, 1]], error);
    t.equal(tally.done, 0);
  }
});

t.test('connects again when the server has closed an idle connection', async (t) => {
  const answer = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
  const tally = await exchanges([answer], 5, true);
  t.match(tally, { done: 5 });
  t.equal(tally.errors.size, 0);
});

t.test('names the error when nobody listens', async (t) => {
  const { server, url } = await answering([]);
  await new Promise((resolve) => server.close(resolve));
  const tally = newTally();
  const address = parseAddress(url);
  await new Promise((resolve) => new Connection(address, tally).send(Buffer.from(''), resolve));
  t.same([...tally.errors], [['ECONNREFUSED', 1]]);
});
