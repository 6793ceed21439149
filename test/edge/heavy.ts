/**
 * Processes of the heavy tests: `node heavy.ts upstream BYTES` streams that much in each answer,
 * `node heavy.ts clients URL KEY COUNT slow|slowloris` is COUNT clients. Each prints one JSON line when ready.
 */
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';

const [role, ...rest] = process.argv.slice(2);
if (role === 'upstream') upstream(Number(rest[0]));
else clients(rest[0] as string, rest[1] as string, Number(rest[2]), rest[3] as string);

/** Answers model "quick" briefly, and every other one with an event stream of so many bytes. */
function upstream(bytes: number): void {
  const event = Buffer.from(
    `data: {"id":"c","object":"chat.completion.chunk","model":"internal-x","choices":[{"index":0,"delta":{"content":"${'y'.repeat(900)}"},"finish_reason":null}]}\n\n`,
  );
  const events = Math.ceil(bytes / event.length);
  const body = Buffer.concat([
    ...Array.from({ length: events }, () => event),
    Buffer.from(
      'data: {"choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n',
    ),
  ]); // one buffer, shared by all answers
  const quick =
    '{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}';
  const server = createServer((req, res) => {
    let text = '';
    req.on('data', (chunk) => {
      text += chunk;
    });
    req.on('end', () => {
      if (text.includes('"quick"')) {
        res.setHeader('content-type', 'application/json');
        res.end(quick);
        return;
      }
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.end(body);
    });
  });
  server.listen({ port: 0, host: '127.0.0.1', backlog: 8192 }, () =>
    console.log(
      JSON.stringify({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` }),
    ),
  );
}

function clients(url: string, key: string, count: number, kind: string): void {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify({
    model: 'slow',
    messages: [{ role: 'user', content: 'x' }],
    stream: true,
  });
  const text = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  let connected = 0;
  let started = 0;
  let closed = 0;
  const next = () => {
    for (let n = 0; n < 100 && started < count; n++, started++) {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {});
      socket.on('close', () => closed++);
      socket.on('connect', () => {
        if (++connected === count)
          setTimeout(() => console.log(JSON.stringify({ connected, closed })), 3000); // the server may still refuse some
        if (kind === 'slow') {
          socket.pause(); // for ever
          socket.write(text);
        } else {
          socket.resume();
          socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n');
          setInterval(() => socket.write(`x-${Math.random()}: 1\r\n`), 5000);
        }
      });
    }
    if (started < count) setTimeout(next, 50); // paced traffic
  };
  next();
  process.stdin.on('data', () => console.log(JSON.stringify({ connected, closed })));
}
