import { appendFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * A router as a process of its own, to be killed and frozen: `node router-program.ts JOURNAL PORT`. It writes the id of
 * each request into its journal as soon as it reads the head. SIGUSR2 lets it refuse connections until the next one.
 */
const [journal = '', port] = process.argv.slice(2);
const PAUSE_MS = 5;

const server = createServer(async (req, res) => {
  if (!server.listening) res.setHeader('connection', 'close');
  if (req.method !== 'POST') return void res.end();
  appendFileSync(journal, `${req.headers['x-request-id']}\n`);
  const { stream } = JSON.parse(Buffer.concat(await req.toArray()).toString()) as {
    stream?: boolean;
  };
  if (stream) await streamed(res);
  else {
    await sleep(3 * PAUSE_MS); // what a model takes
    res.setHeader('content-type', 'application/json');
    const message = { role: 'assistant', content: 'Hello' };
    const choices = [{ index: 0, message, finish_reason: 'stop' }];
    res.end(
      JSON.stringify({
        id: 'c',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices,
        usage: USAGE,
      }),
    );
  }
});

// after a freeze it would close connections whose requests it has not read yet
Object.assign(server, { keepAliveTimeout: 0, headersTimeout: 0, requestTimeout: 0 });

const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };

async function streamed(res: ServerResponse): Promise<void> {
  const event = (choices: object[], more = {}): void => {
    const chunk = {
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices,
      ...more,
    };
    res.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  res.setHeader('content-type', 'text/event-stream');
  for (const content of ['Hel', 'lo', '!']) {
    event([{ index: 0, delta: { content }, finish_reason: null }]);
    await sleep(PAUSE_MS); // paced traffic
  }
  event([{ index: 0, delta: {}, finish_reason: 'stop' }]);
  event([], { usage: USAGE });
  res.end('data: [DONE]\n\n');
}

const tell = (): void => console.log('listens');
server.listen(Number(port), '127.0.0.1', tell);
setInterval(() => {}, 60_000); // it lives on while it refuses
process.on('SIGUSR2', () => {
  if (server.listening) {
    server.close();
    console.log('refuses');
  } else server.listen(Number(port), '127.0.0.1', tell);
});
