import type { Socket } from 'node:net';
import t from 'tap';
import { ask } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { httpAnswer, rawUpstream } from './raw.ts';

/** An answer that nobody asked for, behind one without a body: the next request must not get it. */

const EMPTY: Record<string, string> = {
  '204': 'HTTP/1.1 204 No Content\r\n\r\n',
  '304': 'HTTP/1.1 304 Not Modified\r\n\r\n',
  'no bytes': 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n',
  'no chunks':
    'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
};

function saying(content: string): Buffer {
  const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }];
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
  return httpAnswer(
    200,
    'application/json',
    JSON.stringify({ id: 'c', object: 'chat.completion', choices, usage }),
  );
}

const upstream = await rawUpstream(t);
const gateway = await startGateway(t, upstream.url);
await gateway.model('brand', { upstream: 'internal' });
const [one, other] = [
  await gateway.key(await gateway.company()),
  await gateway.key(await gateway.company()),
];
const chat = (key: string) =>
  ask(`${gateway.url}/chat/completions`, {
    key,
    body: { model: 'brand', messages: [{ role: 'user', content: 'Hello' }] },
  });

for (const [name, empty] of Object.entries(EMPTY)) {
  t.test(`behind an answer with ${name}`, async (t) => {
    for (let n = 0; n < 10; n++) {
      let before: Socket | undefined;
      upstream.answer((socket) => {
        before = socket;
        socket.write(empty);
      });
      t.equal((await chat(one)).status, 502);
      upstream.answer((socket) => {
        before?.write(saying('unasked'));
        socket.write(saying('asked'));
      });
      const { status, json } = await chat(other);
      t.equal(status, 200);
      t.equal(json.choices[0].message.content, 'asked');
    }
  });
}
