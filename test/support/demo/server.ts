import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { type Answer, answerTo } from '../../../src/demo/answer.ts';
import type { DemoEvent, Usage } from '../../../src/demo/dialect.ts';
import { type DemoReply, DIALECTS, refused, replyTo, told } from '../../../src/demo/reply.ts';
import {
  type DemoCall,
  DemoError,
  type Json,
  readRequest,
  receive,
} from '../../../src/demo/request.ts';
import { createServer, writable } from '../../../src/runtime/node-http.ts';
import { type Behaviour, behaviourOf, leakyHeaders, leakyMessage } from './fault.ts';

/** Longer than callers keep idle sockets, so that no request meets a socket that closes. */
const KEEP_ALIVE_MS = 90_000;

/** The demo upstream with the faults of fault.ts, and with a journal. */
export interface FaultyDemo {
  /** Base address, ending in `/v1`. */
  readonly url: string;
  /** Every request since the start but for HEAD, oldest first. */
  readonly journal: JournalCall[];
  /** Cuts open answers and stops listening. */
  close(): Promise<void>;
}

/** One request, as the ledger is compared with it. */
export interface JournalCall extends DemoCall {
  /** The requested internal model name. */
  model: string | null;
  /** The last usage given to the socket; null: none. */
  usage: Usage | null;
  /** `cut`: one side left before the answer was complete. */
  outcome: 'open' | 'complete' | 'cut';
}

/** @param apiKey the master key that callers need; without it everyone is answered */
export async function startFaultyDemo({
  port,
  apiKey,
}: {
  port: number;
  apiKey?: string;
}): Promise<FaultyDemo> {
  const journal: JournalCall[] = [];
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, async (req, res) => {
    try {
      const call: JournalCall = {
        ...(await receive(req)),
        model: null,
        usage: null,
        outcome: 'open',
      };
      if (call.method !== 'HEAD') journal.push(call);
      res.on('close', () => {
        call.outcome = res.writableFinished && call.outcome === 'open' ? 'complete' : 'cut';
      });
      await answer(call, res, apiKey);
    } catch (error) {
      if (!req.errored) console.error(error);
      res.destroy();
    }
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    journal,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function answer(
  call: JournalCall,
  res: ServerResponse,
  apiKey: string | undefined,
): Promise<void> {
  if (apiKey !== undefined && call.headers.authorization !== `Bearer ${apiKey}`) {
    return send(call, res, HONEST, replyTo(call, apiKey));
  }
  call.model = modelOf(call.body);
  const model = call.model ?? '';
  const behaviour = behaviourOf(model);
  if (behaviour === null) {
    const message = `The model '${model}' does not exist.`;
    return send(
      call,
      res,
      HONEST,
      refused(call, new DemoError(404, message, 'model_not_found', 'model')),
    );
  }
  await pause(res, behaviour.delay);
  if (res.destroyed) return;
  const { body, leaky, status } = behaviour;
  if (leaky)
    for (const [name, value] of Object.entries(leakyHeaders(model))) res.setHeader(name, value);
  if (body === 'reset') return cut(call, res);
  if (body === 'redirect')
    return void res.writeHead(302, { location: `http://127.0.0.1:1/${model}` }).end();
  if (body === 'html')
    return void res.writeHead(200, { 'content-type': 'text/html' }).end(`<p>${model} rests</p>`);
  if (status !== 200) {
    if (status === 429) res.setHeader('retry-after', '7');
    const error = new DemoError(status, leakyMessage(status, model), String(status));
    return send(call, res, HONEST, refused(call, error));
  }
  await send(call, res, behaviour, replyOf(call, behaviour, apiKey));
}

const HONEST = behaviourOf('') as Behaviour;

function modelOf(body: Buffer): string | null {
  try {
    const { model } = JSON.parse(body.toString());
    return typeof model === 'string' && model !== '' ? model : null;
  } catch {
    return null;
  }
}

/** The reply to a request that is changed where a fault wants it, with an answer of another length where one does. */
function replyOf(call: JournalCall, behaviour: Behaviour, apiKey: string | undefined): DemoReply {
  const { events, floats } = behaviour;
  const isSwapped = behaviour.body === 'swapped';
  if (call.model === null || !(events !== null || floats || isSwapped))
    return replyTo(call, apiKey);
  const { encoding_format, ...others } = readRequest(call.body);
  const wanted = {
    ...others,
    ...(!floats && { encoding_format }),
    stream: (others.stream === true) !== isSwapped,
  };
  const changed = { ...call, body: Buffer.from(JSON.stringify(wanted)) };
  const reply = replyTo(changed, apiKey);
  const dialect = DIALECTS[call.path];
  if (events === null || dialect === undefined || ('status' in reply && reply.status !== 200))
    return reply;
  const question = dialect.read(wanted);
  return told(dialect, ofLength(answerTo(question), events, question.limit), wanted);
}

/** The answer with its text repeated or cut to this many tokens. */
function ofLength(answer: Answer, wanted: number, limit: number | null): Answer {
  const [part] = answer.parts;
  if (part === undefined || part.tool !== null) return answer;
  const length = Math.min(wanted, limit ?? wanted);
  const pieces = Array.from({ length }, (_, i) => part.pieces[i % part.pieces.length] as string);
  return {
    ...answer,
    parts: [{ ...part, pieces }],
    finish: length < wanted ? 'length' : 'end',
    stop: null,
  };
}

/** Sends a reply paced, compressed, truncated and ended as the behaviour says. */
async function send(
  call: JournalCall,
  res: ServerResponse,
  behaviour: Behaviour,
  reply: DemoReply,
): Promise<void> {
  if ('events' in reply)
    return sendStream(call, res, behaviour, framed(call, reply.events, behaviour));
  const { body, encoding } = behaviour;
  const object = reply.status === 200 ? changed(reply.body, behaviour) : reply.body;
  const json = JSON.stringify(object);
  const bytes = Buffer.from(body === 'truncated' ? json.slice(0, json.length / 2) : json);
  if (body !== 'truncated') call.usage = usageIn(object);
  if (encoding === 'gzip') res.setHeader('content-encoding', 'gzip');
  const sent = encoding === 'identity' ? bytes : gzipSync(bytes);
  res
    .writeHead(reply.status, { 'content-type': 'application/json', 'content-length': sent.length })
    .end(sent);
}

async function sendStream(
  call: JournalCall,
  res: ServerResponse,
  { pace, encoding, ending }: Behaviour,
  frames: Iterable<{ text: string; usage?: Usage | null }>,
): Promise<void> {
  res.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache',
    ...(encoding === 'gzip' ? { 'content-encoding': 'gzip' } : {}),
  });
  const oneWrite = pace === 0 || encoding !== 'identity';
  let whole = '';
  for (const { text, usage } of frames) {
    call.usage = usage ?? call.usage;
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

/** The events as bytes, up to the end that the behaviour selects, and the usage in each. */
function* framed(
  { model, path }: JournalCall,
  events: Iterable<DemoEvent>,
  behaviour: Behaviour,
): Generator<{ text: string; usage?: Usage | null }> {
  const { eol, noise, ending, endAfter, done } = behaviour;
  let sent = 0;
  const frame = ({ name, data }: DemoEvent) => {
    const named = name === undefined ? '' : `event: ${name}${eol}`;
    const text =
      typeof data === 'string'
        ? data
        : JSON.stringify(behaviour.model === 'alphabetical' ? sorted(data) : data);
    return `${named}data: ${text}${eol}${eol}`;
  };

  if (noise) yield { text: openingNoise(model as string, eol) };
  if (behaviour.model === 'alphabetical' && path === CHAT) {
    yield { text: frame({ data: { choices: [], id: '', model: '', object: '' } }) };
  }
  for (const event of REFERENCE.includes(path) ? withUsage(events, behaviour.usage) : events) {
    const { name, data } = event;
    if (ending !== 'whole' && (isEnd(event) || (isToken(event) && sent === endAfter))) break;
    if (!done && (data === '[DONE]' || name === 'message_stop')) continue;
    if (isToken(event) && noise && sent % 8 === 0)
      yield { text: `: ${model} keep-alive${eol}${eol}` };
    if (isToken(event)) sent++;
    if (typeof data === 'string') yield { text: frame(event) };
    else {
      const told = changed(data, behaviour);
      yield { text: frame({ ...event, data: told }), usage: usageIn(told) };
    }
  }
  if (ending === 'torn') yield { text: 'data: {"id":"never whole' };
  if (ending === 'error') yield { text: frame(brokenOff(path, model as string)) };
}

const CHAT = '/v1/chat/completions';
/** The paths whose events have no names. */
const REFERENCE = [CHAT, '/v1/completions'];

type Choice = {
  readonly delta?: Json;
  readonly text?: string;
  readonly finish_reason: string | null;
};

function choiceOf({ data }: DemoEvent): Choice | undefined {
  return typeof data === 'string' ? undefined : (data.choices as Choice[] | undefined)?.[0];
}

/** Whether an event has one token of the answer. */
function isToken(event: DemoEvent): boolean {
  if (event.name !== undefined) return /\.delta$|_block_delta$/.test(event.name);
  const choice = choiceOf(event);
  if (choice?.text !== undefined) return choice.text !== '';
  const { role, content, tool_calls } = (choice?.delta ?? { role: '' }) as Json & {
    tool_calls?: Json[];
  };
  return (
    role === undefined &&
    (content !== undefined || (tool_calls !== undefined && tool_calls[0]?.id === undefined))
  );
}

/** Whether an event follows the answer. */
function isEnd(event: DemoEvent): boolean {
  if (event.name !== undefined)
    return /^message_delta$|^response\.(completed|incomplete)$/.test(event.name);
  const choice = choiceOf(event);
  return choice === undefined || choice.finish_reason !== null;
}

/** Chunks with their usage at another place. They have one at the end where the request asks for it. */
function* withUsage(events: Iterable<DemoEvent>, place: Behaviour['usage']): Generator<DemoEvent> {
  if (place === 'last') return yield* events;
  const all = [...events];
  const last = all.at(-2)?.data as Json & { usage?: Usage };
  if (last.usage === undefined) return yield* all;
  if (place === 'none') return yield* all.filter(({ data }) => data !== last);
  const { prompt_tokens } = last.usage;
  let sent = 0;
  for (const event of all) {
    if (isToken(event)) sent++;
    if (typeof event.data === 'string') yield event;
    else if (place === 'null-first')
      yield { data: { ...event.data, usage: event.data.usage ?? null } };
    else if (event.data === last) continue;
    else if (place === 'every') {
      const counts = { completion_tokens: sent, total_tokens: prompt_tokens + sent };
      yield { data: { ...event.data, usage: { ...last.usage, ...counts } } };
    } else
      yield choiceOf(event)?.finish_reason === null
        ? event
        : { data: { ...event.data, usage: last.usage } };
  }
}

/** An object with another model, or with no usage or one of zero tokens, wherever it has them. */
function changed(object: Json, behaviour: Behaviour): Json {
  const { model, usage, zero } = behaviour;
  if (model !== 'other' && model !== 'missing' && usage !== 'none' && !zero) return object;
  const members = Object.entries(object).flatMap(([name, value]): [string, unknown][] => {
    if (name === 'model' && model === 'missing') return [];
    if (name === 'model' && model === 'other') return [[name, 'internal-demo-fallback']];
    if (name === 'usage' && usage === 'none') return [];
    if (name === 'usage' && zero && value !== null) return [[name, zeros(value as Json)]];
    return [
      [name, name === 'message' || name === 'response' ? changed(value as Json, behaviour) : value],
    ];
  });
  return Object.fromEntries(members);
}

function zeros(counts: Json): Json {
  return JSON.parse(JSON.stringify(counts, (_, value) => (typeof value === 'number' ? 0 : value)));
}

/** The usage that a body or an event tells as chat completions name it, but for the one at the start of a message. */
function usageIn({ usage, response, meta }: Json & { response?: Json }): Usage | null {
  const told = (usage ?? response?.usage ?? null) as Record<string, number> | null;
  if (told === null) return null;
  if (told.prompt_tokens !== undefined) {
    const { billed_units } = (meta ?? {}) as { billed_units?: object };
    return { ...told, ...billed_units } as unknown as Usage;
  }
  const { input_tokens = 0, output_tokens = 0, cache_read_input_tokens = 0 } = told;
  const prompt_tokens = input_tokens + cache_read_input_tokens;
  return {
    prompt_tokens,
    completion_tokens: output_tokens,
    total_tokens: prompt_tokens + output_tokens,
  };
}

/** The event that breaks a stream off. */
function brokenOff(path: string, model: string): DemoEvent {
  const error = new DemoError(500, leakyMessage(500, model), '500');
  const { code, message, param } = error;
  if (path === '/v1/responses')
    return { name: 'error', data: { type: 'error', code, message, param } };
  const { body: data } = refused({ path }, error);
  return REFERENCE.includes(path) ? { data } : { name: 'error', data };
}

/** Lines that some routers send although the reference format has none of them. All name the model. */
function openingNoise(model: string, eol: string): string {
  const noise = `\ufeff: ${model} is thinking\n\nevent: ping\n\nid: ${model}\nretry: 1\nevent: message\n`;
  return noise.replaceAll('\n', eol);
}

function sorted(object: Json): Json {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function cut(call: JournalCall, res: ServerResponse): void {
  call.outcome = 'cut';
  // after the writes of this tick, so that a cut after three events comes after three events
  if (res.headersSent) setImmediate(() => res.socket?.destroySoon());
  else res.destroy();
}

/** Waits, or until the caller disconnects. */
async function pause(res: ServerResponse, ms: number): Promise<void> {
  if (res.destroyed || ms === 0) return;
  await once(res, 'close', { signal: AbortSignal.timeout(ms) }).catch(() => {});
}
