import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DEMO_CHAT_MODEL, DEMO_EMBEDDING_MODEL } from '../domain/text/demo.ts';
import type { Logger } from '../log.ts';
import { createServer } from '../runtime/node-http.ts';
import { answerTo } from './answer.ts';
import { chat } from './chat.ts';
import { type Dialect, framed, usageOf } from './dialect.ts';
import { answerEmbeddings } from './embeddings.ts';
import { messages } from './messages.ts';
import { type DemoCall, DemoError, readRequest, receive, reportedModel } from './request.ts';
import { responses } from './responses.ts';
import { sendFault, sendJson, sendObject, sendStream } from './send.ts';

/** Longer than callers keep idle sockets, so that no request meets a socket that closes. */
const KEEP_ALIVE_MS = 90_000;

/**
 * The demo upstream stands in for the internal model-routing proxy where there is no UPSTREAM_URL, and in tests and
 * benchmarks. It reports the internal model name that was asked for, so that a leak shows. demo/fault.ts lists its faults.
 */
export interface Demo {
  /** Base address, ending in `/v1`. */
  readonly url: string;
  /** Every request since the start but for HEAD, oldest first; empty without the option `journal`. */
  readonly journal: DemoCall[];
  /** Cuts open answers and stops listening. */
  close(): Promise<void>;
}

interface DemoOptions {
  readonly host?: string;
  /** 0: any free port. */
  readonly port: number;
  /** The master key that callers need; without it the demo answers everyone. */
  readonly apiKey?: string;
  /** Keep a journal of requests with their bodies. For tests: it only grows. */
  readonly journal?: boolean;
  readonly log?: Logger;
}

/** Starts the demo upstream. Rejects when it cannot listen. */
export async function startDemo({ host = '127.0.0.1', port, apiKey, journal: keep, log }: DemoOptions): Promise<Demo> {
  const journal: DemoCall[] = [];
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, async (req, res) => {
    try {
      const call = await receive(req);
      if (keep && call.method !== 'HEAD') journal.push(call);
      res.on('close', () => {
        call.outcome = res.writableFinished && call.outcome === 'open' ? 'complete' : 'cut';
        log?.debug({ model: call.model, path: call.path, outcome: call.outcome }, 'demo upstream answered');
      });
      await answer(call, res, apiKey);
    } catch (error) {
      if (!req.errored) log?.error({ err: error }, 'demo upstream failed');
      res.destroy();
    }
  });
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${address.port}/v1`,
    journal,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(call: DemoCall, res: ServerResponse, apiKey: string | undefined): Promise<void> {
  try {
    if (apiKey !== undefined && call.headers.authorization !== `Bearer ${apiKey}`) {
      throw new DemoError(401, 'Incorrect API key provided.', 'invalid_api_key');
    }
    const route = ROUTES[`${call.method} ${call.path}`];
    if (route === undefined) throw new DemoError(404, `No such address: ${call.method} ${call.path}`);
    await route(call, res);
  } catch (error) {
    if (!(error instanceof DemoError)) throw error;
    const dialect = call.path.startsWith('/v1/messages') ? messages : chat;
    sendJson(res, error.status, JSON.stringify(dialect.error(error)));
  }
}

const ROUTES: Readonly<Record<string, (call: DemoCall, res: ServerResponse) => void | Promise<void>>> = {
  'GET /v1/models': listModels,
  'POST /v1/chat/completions': (call, res) => converse(chat, call, res),
  'POST /v1/responses': (call, res) => converse(responses, call, res),
  'POST /v1/messages': (call, res) => converse(messages, call, res),
  'POST /v1/messages/count_tokens': countTokens,
  'POST /v1/embeddings': embed,
};

function listModels(_call: DemoCall, res: ServerResponse): void {
  const entry = (id: string) => ({ id, object: 'model', created: 1_767_225_600, owned_by: 'demo' });
  const data = [DEMO_CHAT_MODEL, DEMO_EMBEDDING_MODEL].map(entry); // it answers under any other name too
  sendJson(res, 200, JSON.stringify({ object: 'list', data }));
}

async function converse(dialect: Dialect, call: DemoCall, res: ServerResponse): Promise<void> {
  const request = readRequest(call);
  const { body, behaviour } = request;
  if (await sendFault(call, res, request)) return;
  const answer = answerTo(dialect.read(body), behaviour.events);
  if ((body.stream === true) !== (behaviour.body === 'swapped')) {
    return sendStream(call, res, behaviour, framed(dialect, answer, request));
  }
  const usage = behaviour.usage === 'none' ? null : usageOf(answer, behaviour);
  sendObject(call, res, behaviour, dialect.whole(answer, request), usage);
}

async function countTokens(call: DemoCall, res: ServerResponse): Promise<void> {
  const request = readRequest(call);
  if (await sendFault(call, res, request)) return;
  const { promptTokens } = answerTo(messages.read(request.body), null);
  sendObject(call, res, request.behaviour, { input_tokens: promptTokens }, null);
}

async function embed(call: DemoCall, res: ServerResponse): Promise<void> {
  const request = readRequest(call);
  const { body, behaviour } = request;
  if (await sendFault(call, res, request)) return;
  const { vectors, promptTokens } = answerEmbeddings(body);
  const base64 = body.encoding_format === 'base64' && !behaviour.floats;
  const data = vectors.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: base64 ? Buffer.from(vector.buffer).toString('base64') : Array.from(vector),
  }));
  const count = behaviour.zero ? 0 : promptTokens;
  const usage = behaviour.usage === 'none' ? null : { prompt_tokens: count, total_tokens: count };
  const object = { object: 'list', data, model: reportedModel(request), usage: usage ?? undefined };
  sendObject(call, res, behaviour, object, usage);
}
