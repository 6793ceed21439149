import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { parseArgs } from 'node:util';
import { INTERNAL_MODEL } from './answers.ts';

/**
 * A metering gateway as it is usually written first: fetch, and JSON.parse and JSON.stringify of every body and
 * event. It has no authentication and no ledger, which makes it look cheaper than it would be.
 *
 *   node bench/programs/naive.ts --port 4002 --upstream http://127.0.0.1:4000
 */
async function handle(upstream: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of req) parts.push(part as Buffer);
  const body = JSON.parse(Buffer.concat(parts).toString()) as Record<string, unknown>;
  const slug = body.model as string;
  body.model = INTERNAL_MODEL;
  if (body.stream === true) body.stream_options = { include_usage: true };
  const answer = await fetch(upstream + req.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (body.stream !== true) {
    const result = (await answer.json()) as Record<string, unknown>;
    result.model = slug;
    res.writeHead(answer.status, { 'content-type': 'application/json' });
    res.end(JSON.stringify(result));
    return;
  }
  res.writeHead(answer.status, { 'content-type': 'text/event-stream' });
  let rest = '';
  const decoder = new TextDecoder();
  for await (const part of answer.body as ReadableStream<Uint8Array>) {
    const events = (rest + decoder.decode(part, { stream: true })).split('\n\n');
    rest = events.pop() as string;
    for (const event of events) {
      const data = event.slice('data: '.length);
      let out = data;
      if (data !== '[DONE]') {
        const value = JSON.parse(data) as Record<string, unknown>;
        value.model = slug;
        out = JSON.stringify(value);
      }
      if (!res.write(`data: ${out}\n\n`)) await new Promise((resolve) => res.once('drain', resolve));
    }
  }
  res.end();
}

const { values } = parseArgs({ options: { port: { type: 'string' }, upstream: { type: 'string' } } });
const server = createServer((req, res) => {
  handle(values.upstream as string, req, res).catch((error: Error) => res.destroy(error));
});
server.listen({ port: Number(values.port), host: '127.0.0.1', backlog: 4096 });
