import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import type { Logger } from '../log.ts';
import { createServer, writable } from '../runtime/node-http.ts';
import { answerChat, answerEmbeddings, DemoError } from './answer.ts';
import { completion, type DemoEvent, events, reportedModel, type Usage } from './chat.ts';
import { type Behaviour, behaviourOf, leakyError, leakyHeaders } from './fault.ts';

/** Internal names that GET /models lists. The demo answers under any other name too. */
export const DEMO_CHAT_MODEL = 'internal-demo-chat';
export const DEMO_EMBEDDING_MODEL = 'internal-demo-embedding';

/** Longer than callers keep idle sockets, so that no request meets a socket that closes. */
const KEEP_ALIVE_MS = 90_000;

/**
 * The demo upstream: stands in for the internal model-routing proxy, in the reference format.
 * `make run` uses it without UPSTREAM_URL; tests and benchmarks use it too. It reports the
 * requested internal model name, so that a leak shows. demo/fault.ts lists its faults.
 */
export interface Demo {
  /** Base address, ending in `/v1`. */
  readonly url: string;
  /** Every request since the start, oldest first; empty without the option `journal`. */
  readonly journal: DemoCall[];
  /** Cuts open answers and stops listening. */
  close(): Promise<void>;
}

/** One request as the demo received it. Tests compare the ledger with it. */
export interface DemoCall {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The requested internal model name. */
  model: string | null;
  /** The last usage given to the socket; null: none. */
  usage: Usage | null;
  /** `cut`: one side left before the answer was complete. */
  outcome: 'open' | 'complete' | 'cut';
}

export interface DemoOptions {
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
      if (keep) journal.push(call);
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
    const { status, message, code, param } = error;
    sendJson(res, status, JSON.stringify({ error: { message, type: 'invalid_request_error', code, param } }));
  }
}

type Json = Readonly<Record<string, unknown>>;

const ROUTES: Readonly<Record<string, (call: DemoCall, res: ServerResponse) => void | Promise<void>>> = {
  'GET /v1/models': listModels,
  'POST /v1/chat/completions': chat,
  'POST /v1/embeddings': embed,
};

function listModels(_call: DemoCall, res: ServerResponse): void {
  const entry = (id: string) => ({ id, object: 'model', created: 1_767_225_600, owned_by: 'demo' });
  const data = [DEMO_CHAT_MODEL, DEMO_EMBEDDING_MODEL].map(entry);
  sendJson(res, 200, JSON.stringify({ object: 'list', data }));
}

async function chat(call: DemoCall, res: ServerResponse): Promise<void> {
  const { body, model, behaviour } = readRequest(call);
  if (await sendFault(call, res, model, behaviour)) return;
  const answer = answerChat(body, behaviour.events);
  const identity = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model };
  if ((body.stream === true) === (behaviour.body === 'swapped')) {
    return sendObject(call, res, behaviour, completion(answer, identity, behaviour));
  }

  const includeUsage = (body.stream_options as Json | undefined)?.include_usage === true;
  await sendStream(call, res, behaviour, events(answer, identity, behaviour, includeUsage));
}

async function sendStream(
  call: DemoCall,
  res: ServerResponse,
  { pace, encoding, ending }: Behaviour,
  stream: Iterable<DemoEvent>,
): Promise<void> {
  res.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    ...(encoding === 'gzip' ? { 'content-encoding': 'gzip' } : {}),
  });
  const oneWrite = pace === 0 || encoding !== 'identity';
  let whole = '';
  for (const { text, usage } of stream) {
    if (usage !== undefined) call.usage = usage;
    if (oneWrite) {
      whole += text;
      continue;
    }
    if (!res.write(text)) await writable(res);
    await pause(res, pace);
    if (res.destroyed) return;
  }
  if (oneWrite) res.write(encoding === 'identity' ? whole : gzipSync(whole));
  if (ending === 'cut') return cut(call, res);
  if (ending !== 'stall') res.end();
}

async function embed(call: DemoCall, res: ServerResponse): Promise<void> {
  const { body, model, behaviour } = readRequest(call);
  if (await sendFault(call, res, model, behaviour)) return;
  const { vectors, promptTokens } = answerEmbeddings(body);
  const base64 = body.encoding_format === 'base64' && !behaviour.floats;
  const data = vectors.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: base64 ? Buffer.from(vector.buffer).toString('base64') : Array.from(vector),
  }));
  const count = behaviour.zero ? 0 : promptTokens;
  sendObject(call, res, behaviour, {
    object: 'list',
    data,
    ...(behaviour.model === 'missing' ? {} : { model: reportedModel(model, behaviour) }),
    ...(behaviour.usage === 'none' ? {} : { usage: { prompt_tokens: count, total_tokens: count } }),
  });
}

async function receive(req: IncomingMessage): Promise<DemoCall> {
  const body = Buffer.concat(await req.toArray());
  const path = (req.url as string).split('?', 1)[0] as string;
  const { method, headers } = req;
  return { method: method as string, path, headers, body, model: null, usage: null, outcome: 'open' };
}

/** @throws DemoError */
function readRequest(call: DemoCall): { body: Json; model: string; behaviour: Behaviour } {
  let body: Json | null;
  try {
    body = JSON.parse(call.body.toString());
  } catch {
    throw new DemoError(400, 'We could not parse the JSON body of your request.', 'invalid_json');
  }
  const model = body?.model;
  if (typeof model !== 'string' || model === '') throw new DemoError(400, 'You must provide a model.', null, 'model');
  call.model = model;
  const behaviour = behaviourOf(model);
  if (behaviour === null) throw new DemoError(404, `The model '${model}' does not exist.`, 'model_not_found', 'model');
  return { body: body as Json, model, behaviour };
}

/** Sends the faults that replace the answer. False: there is none, and nothing was sent. */
async function sendFault(call: DemoCall, res: ServerResponse, model: string, behaviour: Behaviour): Promise<boolean> {
  await pause(res, behaviour.delay);
  if (res.destroyed) return true;
  if (behaviour.leaky) for (const [name, value] of Object.entries(leakyHeaders(model))) res.setHeader(name, value);
  if (behaviour.body === 'reset') cut(call, res);
  else if (behaviour.body === 'redirect') res.writeHead(302, { location: `http://127.0.0.1:1/${model}` }).end();
  else if (behaviour.body === 'html') res.writeHead(200, { 'content-type': 'text/html' }).end(`<p>${model} rests</p>`);
  else if (behaviour.status !== 200) {
    if (behaviour.status === 429) res.setHeader('retry-after', '7');
    sendJson(res, behaviour.status, leakyError(behaviour.status, model));
  } else return false;
  return true;
}

function cut(call: DemoCall, res: ServerResponse): void {
  call.outcome = 'cut';
  // after the writes of this tick, so that a cut after three events comes after three events
  if (res.headersSent) setImmediate(() => res.socket?.destroySoon());
  else res.destroy();
}

/** Sends a JSON answer, truncated or compressed as the behaviour says. */
function sendObject(
  call: DemoCall,
  res: ServerResponse,
  { body, encoding }: Behaviour,
  object: Json & { usage?: Usage },
): void {
  const json = JSON.stringify(object);
  const bytes = Buffer.from(body === 'truncated' ? json.slice(0, json.length / 2) : json);
  if (body !== 'truncated') call.usage = object.usage ?? null;
  if (encoding === 'gzip') res.setHeader('content-encoding', 'gzip');
  sendJson(res, 200, encoding === 'identity' ? bytes : gzipSync(bytes));
}

function sendJson(res: ServerResponse, status: number, body: string | Buffer): void {
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body);
}

/** Waits, or until the caller disconnects. */
async function pause(res: ServerResponse, ms: number): Promise<void> {
  if (res.destroyed || ms === 0) return;
  await once(res, 'close', { signal: AbortSignal.timeout(ms) }).catch(() => {});
}
