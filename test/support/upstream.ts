import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { startFaultyDemo } from './demo/server.ts';

/** Upstreams for tests: the demo, aimock (written by others) and one that a test scripts. The first two require MASTER_KEY. */

export const MASTER_KEY = 'sk-master-never-to-be-seen-0001';

/** A request as the upstream received it. */
export interface Received {
  readonly path: string;
  readonly headers: Readonly<IncomingHttpHeaders>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies freely
  readonly body: any;
  /** How its answer ended, where the upstream knows. */
  readonly outcome?: 'open' | 'complete' | 'cut';
}

/** Internal model names, and what the upstream does for each. */
export interface Parts {
  readonly chat: string;
  readonly embedding: string;
  /** A stream of some 300 events. */
  readonly long: string;
  /** A stream whose connection breaks after a few events. */
  readonly broken: string;
  /** Answer with 400, 429 and 500. */
  readonly refusing: string;
  readonly limited: string;
  readonly failing: string;
}

export interface TestUpstream {
  readonly name: string;
  /** Base address, ending in `/v1`. */
  readonly url: string;
  readonly parts: Parts;
  /** Calls so far, oldest first. Who asks for the list of models sends no body, and is not among them. */
  received(): Received[];
}

export async function demoUpstream(t: Test): Promise<TestUpstream> {
  const demo = await startFaultyDemo({ port: 0, apiKey: MASTER_KEY });
  t.teardown(() => demo.close());
  return {
    name: 'demo',
    url: demo.url,
    parts: {
      chat: 'internal-demo-chat',
      embedding: 'internal-demo-embedding',
      long: 'internal-demo-long!events-300!pace-1',
      broken: 'internal-demo-broken!cut-after-3',
      refusing: 'internal-demo-refusing!error-400',
      limited: 'internal-demo-limited!error-429',
      failing: 'internal-demo-failing!error-500',
    },
    received: () =>
      demo.journal
        .filter(({ body }) => body.length > 0)
        .map((call) => ({ ...call, body: JSON.parse(String(call.body)) })),
  };
}

export async function aimockUpstream(t: Test): Promise<TestUpstream> {
  const { LLMock } = await import('@copilotkit/aimock'); // 80 ms of CPU, which most tests do not need
  const mock = new LLMock({
    port: 0,
    host: '127.0.0.1',
    auth: { apiKeys: [MASTER_KEY] },
    chunkSize: 8,
  });
  const parts: Parts = {
    chat: 'internal-aimock-chat',
    embedding: 'internal-aimock-embedding',
    long: 'internal-aimock-long',
    broken: 'internal-aimock-broken',
    refusing: 'internal-aimock-refusing',
    limited: 'internal-aimock-limited',
    failing: 'internal-aimock-failing',
  };
  const refuse = (model: string, status: number) =>
    mock.on(
      { model },
      {
        status,
        retryAfter: 7,
        error: { message: `deployment ${model} failed at http://10.1.2.3`, type: 'x', code: 'y' },
      },
    );
  refuse(parts.refusing, 400);
  refuse(parts.limited, 429);
  refuse(parts.failing, 500);
  // of responses and messages aimock counts no tokens itself
  const usage = (input_tokens: number, output_tokens: number) => ({
    usage: { input_tokens, output_tokens },
  });
  mock.on(
    { model: parts.long },
    { content: 'once upon a time '.repeat(150), ...usage(11, 600) },
    { latency: 1 },
  );
  mock.on(
    { model: parts.broken },
    { content: 'this never ends well '.repeat(10) },
    { truncateAfterChunks: 4, latency: 5 },
  );
  mock.on(
    { model: parts.embedding },
    { embedding: Array.from({ length: 1024 }, (_, i) => Math.fround((i % 32) / 128)) },
  );
  mock.on(
    { toolResultContains: '21 degrees' },
    { content: 'It is 21 degrees in Bonn.', ...usage(47, 12) },
  );
  mock.on(
    { userMessage: /weather/, predicate: ({ tools }) => (tools ?? []).length > 0 },
    { toolCalls: [{ name: 'get_weather', arguments: { city: 'Bonn' } }], ...usage(31, 14) },
  );
  mock.on(
    { userMessage: /capital/ },
    { content: { city: 'Bonn', population: 340_000 }, ...usage(23, 17) },
  );
  mock.on(
    { model: parts.chat },
    { content: 'Hello from aimock, at your service.', ...usage(13, 9) },
  );
  await mock.start();
  t.teardown(() => mock.stop());
  return {
    name: 'aimock',
    url: `${mock.url}/v1`,
    parts,
    received: () =>
      mock
        .getRequests()
        .filter(({ body }) => body !== null && body !== undefined)
        .map(({ path, headers, body }) => ({ path, headers, body })),
  };
}

/** An upstream that answers with exactly what a test writes. */
export interface Scripted {
  readonly url: string;
  readonly received: { readonly headers: IncomingHttpHeaders; readonly body: Buffer }[];
  /** Sets what to do with each request from now on. */
  answer(script: Script): void;
  answerJson(body: unknown, headers?: Record<string, string>): void;
  /** A text is data alone, such as "[DONE]"; a value with a `type` gets the line `event:` that names it. */
  answerEvents(events: readonly (object | string)[], headers?: Record<string, string>): void;
}

export type Script = (
  res: ServerResponse,
  body: Buffer,
  req: IncomingMessage,
) => void | Promise<void>;

export async function scriptedUpstream(t: Test): Promise<Scripted> {
  const received: { headers: IncomingHttpHeaders; body: Buffer }[] = [];
  let script: Script = (res) => {
    res.writeHead(500).end();
  };
  const server = createServer(async (req, res) => {
    const body = Buffer.concat(await req.toArray());
    received.push({ headers: req.headers, body });
    await script(res, body, req);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  });
  const answer = (next: Script): void => {
    script = next;
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    received,
    answer,
    answerJson: (body, headers = {}) =>
      answer((res) => {
        res
          .writeHead(200, { 'content-type': 'application/json', ...headers })
          .end(JSON.stringify(body));
      }),
    answerEvents: (events, headers = {}) =>
      answer((res) => {
        const text = events.map((event) => {
          const name = typeof event === 'object' && 'type' in event ? `event: ${event.type}\n` : '';
          return `${name}data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`;
        });
        res.writeHead(200, { 'content-type': 'text/event-stream', ...headers }).end(text.join(''));
      }),
  };
}
