import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { fuzzRuns } from '../support/fuzz.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';

/**
 * A model of one connection: random requests on it, sent to the fast path, to the plain one, and to a gateway under
 * overload. All answer the same, in order; what a client sends is no fault of the gateway and ends nothing but its own
 * connection; and what ran was answered as such. FUZZ_RUNS sets how many sequences, FUZZ_SEED which.
 */

const RUNS = fuzzRuns(8000);
const SEED = Number(
  process.env.FUZZ_SEED ?? (process.env.FUZZ_RUNS === undefined ? 1 : Date.now() & 0x7fffffff),
);
/** How often the examples are tried by themselves. */
const ALONE = 5;
/** Sequences at once. */
const LANES = 40;
/** A body of so many bytes ends where another company has its turn. */
const TURN_BYTES = 131_072;
const MAX_BODY_BYTES = 300_000;

const upstream = await scriptedUpstream(t);
/** The requests that ran, by the text of their message. */
const ran = new Set<string>();
const CHUNK = { id: '1', object: 'chat.completion.chunk', created: 1, model: 'internal-fast' };
const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
upstream.answer(async (res, body) => {
  upstream.received.length = 0;
  const { messages, stream } = JSON.parse(body.toString());
  const [{ content }] = messages;
  ran.add(content);
  if (content.includes('slow')) await sleep(5);
  if (!stream) {
    const choices = [
      { index: 0, message: { role: 'assistant', content: 'Yes' }, finish_reason: 'stop' },
    ];
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ ...CHUNK, object: 'chat.completion', choices, usage: USAGE }));
    return;
  }
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  const text = 'x'.repeat(content.includes('long') ? 20_000 : 10);
  for (let k = 0; k < 10; k++) {
    const choices = [
      { index: 0, delta: { content: text }, finish_reason: k === 9 ? 'stop' : null },
    ];
    res.write(`data: ${JSON.stringify({ ...CHUNK, choices })}\n\n`);
  }
  res.end(`data: ${JSON.stringify({ ...CHUNK, choices: [], usage: USAGE })}\n\ndata: [DONE]\n\n`);
});

const settings = {
  MAX_BODY_BYTES: `${MAX_BODY_BYTES}`,
  HEADER_SECONDS: '1',
  BODY_SECONDS: '1',
  LOG_LEVEL: 'error',
};
const fast = await startGateway(t, upstream.url, { ...settings, FAST_HTTP: 'on' });
const sameDatabase = { ...settings, DATABASE_URL: fast.databaseUrl };
const gateways = {
  fast,
  plain: await startGateway(t, upstream.url, { ...sameDatabase, FAST_HTTP: 'off' }),
  // some requests are refused, more wait for their turn
  overload: await startGateway(t, upstream.url, {
    ...sameDatabase,
    FAST_HTTP: 'on',
    MAX_DELAY_MS: '40',
    MAX_REQUESTS: '64',
  }),
};
type Name = keyof typeof gateways;
await fast.model('fast', { upstream: 'internal-fast' });
const limited = await fast.company();
await fast.sql`update companies set tokens_per_minute = 1 where id = ${limited}`;
const counted = await fast.company();
await fast.sql`update companies set requests_per_minute = 1000000000 where id = ${counted}`;
const KEYS = {
  one: await fast.key(await fast.company()),
  other: await fast.key(await fast.company()),
  spent: await fast.key(await fast.company({ budget: '0' })),
  limited: await fast.key(limited),
  /** Whose units are waited for. */
  counted: await fast.key(counted),
};
await Promise.all(
  [gateways.plain, gateways.overload].map(({ url }) =>
    until(
      async () =>
        (await fetch(`${url}/models/fast`, { headers: { authorization: `Bearer ${KEYS.one}` } }))
          .status === 200,
      'the gateway serves the model',
    ),
  ),
);

type KeyName = keyof typeof KEYS | 'unknown';
interface Step {
  readonly key: KeyName;
  /** One more header, which the head before may not have. */
  readonly header: string;
  readonly body: 'none' | 'small' | 'slow' | 'stream' | 'long' | 'broken' | 'chunked' | number;
  /** Where it is cut into pieces, as parts of its length; the body begins a piece of its own where `late`. */
  readonly cuts: readonly number[];
  readonly late: boolean;
  /** Whether it is sent apart from the request before, or in one piece with it. */
  readonly apart: boolean;
  /** Milliseconds before its last piece. */
  readonly pauseMs: number;
  /** Whether the answer is read before the next one is sent. */
  readonly awaited: boolean;
}
/** What the client does after the last request. */
type End = 'close' | 'half-close' | 'cut' | 'garbage' | 'leave';
interface Sequence {
  readonly steps: readonly Step[];
  readonly end: End;
  /** The client reads nothing before all is sent. */
  readonly slowReader: boolean;
}

const step: fc.Arbitrary<Step> = fc.record({
  key: fc.oneof(
    { weight: 5, arbitrary: fc.constant<KeyName>('one') },
    {
      weight: 4,
      arbitrary: fc.constantFrom<KeyName>('other', 'spent', 'limited', 'counted', 'unknown'),
    },
  ),
  header: fc.oneof(
    { weight: 8, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: fc.constantFrom('x-other: 1\r\n', 'x-other: 2\r\n') },
  ),
  body: fc.oneof(
    { weight: 25, arbitrary: fc.constantFrom<Step['body']>('small', 'small', 'slow', 'broken') },
    { weight: 5, arbitrary: fc.constantFrom<Step['body']>('none', 'stream', 'long', 'chunked') },
    {
      weight: 8,
      arbitrary: fc.constantFrom<Step['body']>(70_000, TURN_BYTES, TURN_BYTES, 200_000),
    },
    { weight: 1, arbitrary: fc.constant<Step['body']>(MAX_BODY_BYTES + 1) },
  ),
  cuts: fc.oneof(
    { weight: 3, arbitrary: fc.constant([]) },
    {
      weight: 1,
      arbitrary: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 }),
    },
  ),
  late: fc.oneof(
    { weight: 4, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  pauseMs: fc.oneof(
    { weight: 60, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.integer({ min: 900, max: 2200 }) },
  ),
  apart: fc.boolean(),
  awaited: fc.boolean(),
});
const sequence: fc.Arbitrary<Sequence> = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 3 }),
  end: fc.oneof(
    { weight: 4, arbitrary: fc.constant<End>('close') },
    { weight: 1, arbitrary: fc.constantFrom<End>('half-close', 'cut', 'garbage', 'leave') },
  ),
  slowReader: fc.oneof(
    { weight: 9, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
});

const plainStep: Step = {
  key: 'one',
  header: '',
  body: 'small',
  cuts: [],
  late: false,
  apart: true,
  pauseMs: 0,
  awaited: true,
};
/** Tried first: a large body behind a request that is being answered, and large bodies one after the other. */
const EXAMPLES: [Sequence][] = [
  [
    {
      steps: [
        { ...plainStep, body: 'slow', awaited: false },
        { ...plainStep, key: 'unknown', body: 200_000, cuts: [0.02, 0.4, 0.7] },
      ],
      end: 'close',
      slowReader: false,
    },
  ],
  [
    {
      steps: Array.from({ length: 6 }, (_, n) => ({
        ...plainStep,
        key: n % 2 === 0 ? 'one' : 'counted',
        body: TURN_BYTES,
      })),
      end: 'close',
      slowReader: false,
    },
  ],
];

interface Answer {
  readonly status: number;
  /** What has to be equal. */
  readonly text: string;
  readonly closes: boolean;
}

/** A connection, and the answers that came over it. */
class Client {
  readonly socket: Socket;
  readonly answers: Answer[] = [];
  ended = false;
  #text = '';
  #wake = (): void => {};

  constructor(socket: Socket) {
    this.socket = socket;
    socket.setEncoding('latin1').on('data', (text: string) => {
      this.#text += text;
      for (let next = nextAnswer(this.#text); next !== null; next = nextAnswer(this.#text)) {
        this.#text = this.#text.slice(next.end);
        if (next.answer !== null) this.answers.push(next.answer);
      }
      this.#wake();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.ended = true;
      this.#wake();
    });
  }

  /** Resolves once there are so many answers, or nothing more comes. */
  async heard(count: number): Promise<void> {
    const late = AbortSignal.timeout(300_000);
    while (this.answers.length < count && !this.ended && !this.answers.at(-1)?.closes) {
      if (late.aborted) throw new Error(`no answer ${count} within 300 s`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, 5000).unref();
      });
    }
  }
}

/** The first whole answer of a text; null: it has none. */
function nextAnswer(text: string): { end: number; answer: Answer | null } | null {
  const from = text.indexOf('\r\n\r\n') + 4;
  if (from < 4) return null;
  const head = text.slice(0, from).toLowerCase();
  const status = Number(/^http\/1\.1 (\d+)/.exec(head)?.[1]);
  if (status < 200) return { end: from, answer: null };
  const length = /\r\ncontent-length: (\d+)/.exec(head)?.[1];
  let body = '';
  let end = from;
  if (length !== undefined) {
    end = from + Number(length);
    if (text.length < end) return null;
    body = text.slice(from, end);
  } else {
    for (let size = -1; size !== 0; ) {
      const line = text.indexOf('\r\n', end);
      if (line < 0) return null;
      size = Number.parseInt(text.slice(end, line), 16);
      end = line + 2 + size + 2;
      if (text.length < end) return null;
      body += text.slice(line + 2, end - 2);
    }
  }
  const lines = head.split('\r\n').filter((line) => !OWN.test(line) && line !== '');
  return {
    end,
    answer: {
      status,
      text: `${lines.sort().join('\n')}\n${body.replaceAll(UUID, 'ID')}`,
      closes: /\r\nconnection: close/.test(head),
    },
  };
}

/** Headers that may differ; and a body has the id of its request. */
const OWN =
  /^(date|x-request-id|connection|keep-alive|retry-after|x-cost-eur|transfer-encoding|content-length):/;
const UUID = /[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}/g;

let unknown = 0;
function bytesOf({ key, header, body }: Step, tag: string): { head: string; body: string } {
  if (body === 'none')
    return {
      head: `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${KEYS.one}\r\n\r\n`,
      body: '',
    };
  const content = `${tag} ${body}`;
  const streamed = body === 'stream' || body === 'long';
  const fields = { model: 'fast', messages: [{ role: 'user', content }] };
  let text = JSON.stringify(streamed ? { ...fields, stream: true } : fields);
  if (body === 'broken') text = text.slice(0, -1);
  // refused when it is whole
  if (typeof body === 'number') {
    text = `${text.slice(0, -1)},"filler":"`;
    const last = '","api_base":"x"}';
    text += 'x'.repeat(body - text.length - last.length) + last;
  }
  const token = key === 'unknown' ? `svc_${'u'.repeat(42)}${unknown++ % 1e9}` : KEYS[key];
  const length =
    body === 'chunked' ? 'transfer-encoding: chunked' : `content-length: ${text.length}`;
  if (body === 'chunked') text = `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${header}content-type: application/json\r\n${length}\r\n\r\n`;
  return { head, body: text };
}

function piecesOf({ cuts, late }: Step, { head, body }: { head: string; body: string }): string[] {
  const whole = head + body;
  const places = cuts.map((cut) => Math.floor(cut * whole.length));
  if (late) places.push(head.length);
  const pieces: string[] = [];
  let from = 0;
  for (const place of [...places.sort((a, b) => a - b), whole.length]) {
    if (place > from) pieces.push(whole.slice(from, place));
    from = Math.max(from, place);
  }
  return pieces;
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Sends a sequence. @returns the answers, and whether all that were to come came */
async function send({ url }: TestGateway, { steps, end, slowReader }: Sequence, tag: string) {
  const { hostname, port } = new URL(url);
  const socket = connect({
    port: Number(port),
    host: hostname,
    noDelay: true,
    allowHalfOpen: true,
  });
  const client = new Client(socket);
  await once(socket, 'connect');
  // the head that later ones repeat; it also shows that the gateway answers a new connection
  const all = [plainStep, ...steps];
  let isCut = false;
  for (const [n, each] of all.entries()) {
    if (slowReader && n === 1) socket.pause();
    let pieces = piecesOf(each, bytesOf(each, `${tag} ${n}`));
    if (end === 'cut' && n === all.length - 1) {
      pieces = pieces.length > 1 ? pieces.slice(0, -1) : [(pieces[0] as string).slice(0, -1)];
      isCut = true;
    }
    for (const [k, piece] of pieces.entries()) {
      if (k > 0 || each.apart) for (let turn = 0; turn < 3; turn++) await nextTurn();
      if (each.pauseMs > 0 && k === pieces.length - 1) await sleep(each.pauseMs);
      socket.write(piece, 'latin1');
    }
    if (each.awaited && !slowReader && !isCut) await client.heard(n + 1);
    if (client.ended || client.answers.at(-1)?.closes) break;
  }
  if (slowReader) socket.resume();
  const isGarbage = end === 'garbage' && !isCut;
  if (isGarbage) socket.write('no HTTP at all\r\n\r\n');
  if (end === 'half-close') socket.end();
  const left = end === 'leave' || isCut;
  if (left) await nextTurn();
  else await client.heard(all.length + (isGarbage ? 1 : 0));
  socket.destroy();
  return { answers: client.answers, left };
}

type Sent = Awaited<ReturnType<typeof send>>;

/** Whether both said the same: equal answers, until the client left, one closes, or an overload or the time ended one. */
function difference(one: Sent, other: Sent): string | null {
  const most = Math.max(one.answers.length, other.answers.length);
  for (let n = 0; n < most; n++) {
    const [a, b] = [one.answers[n], other.answers[n]];
    if (a?.status === 408 || b?.status === 408) return null;
    if (a === undefined || b === undefined)
      return one.left
        ? null
        : `answer ${n + 1}: ${a?.text ?? 'none'} instead of ${b?.text ?? 'none'}`;
    // shed; on a busy machine database and upstream may be late too
    const isShed = a.status >= 502 || b.status >= 502;
    if (!isShed && a.text !== b.text) return `answer ${n + 1}: ${a.text} instead of ${b.text}`;
    if (a.closes || b.closes) return null;
  }
  return null;
}

/**
 * A request that ran although its client read something else in its place, or a refusal of the connection before it.
 * Behind any other answer that closes one may run: both were sent at once, and begun.
 */
function ranUnanswered(
  { answers, left }: Sent,
  tag: string,
  steps: readonly Step[],
): string | null {
  const last = answers.findIndex(({ closes }) => closes);
  const ends = left || (last >= 0 && ![400, 408].includes(answers[last]?.status ?? 0));
  for (const [n, { body }] of steps.entries()) {
    const status = answers[n + 1]?.status;
    const isOwed = status === undefined ? !ends : status !== 200 && status < 502;
    if (ran.has(`${tag} ${n + 1} ${body}`) && isOwed)
      return `request ${n + 2} ran, and its client read ${status ?? 'nothing'}`;
  }
  return null;
}

let count = 0;
const faults = (): string[] =>
  Object.values(gateways).flatMap(({ logged }) =>
    logged.filter((line) => /"level":[56]0/.test(line)),
  );

async function check(one: Sequence): Promise<void> {
  const tag = `s${count++}`;
  const names = Object.keys(gateways) as Name[];
  const sent = await Promise.all(
    names.map((name) => send(gateways[name], one, `${tag} ${name[0]}`)),
  );
  const [inFast, inPlain, inOverload] = sent as [Sent, Sent, Sent];
  const wrong =
    difference(inFast, inPlain) ??
    difference(inOverload, inPlain) ??
    sent
      .map((each, k) => ranUnanswered(each, `${tag} ${names[k]?.[0]}`, one.steps))
      .find((found) => found !== null) ??
    faults()[0];
  for (const name of names)
    for (const [n, { body }] of one.steps.entries())
      ran.delete(`${tag} ${name[0]} ${n + 1} ${body}`);
  if (wrong != null) throw new Error(wrong);
}

t.test('three ways of answering say the same, whatever one connection sends', async (t) => {
  t.comment(`FUZZ_SEED=${SEED} FUZZ_RUNS=${RUNS}`);
  const cpu = process.cpuUsage();
  // alone: the pieces arrive one by one
  for (let n = 0; n < ALONE; n++) for (const [each] of EXAMPLES) await check(each);
  let failed = false;
  const property = fc.asyncProperty(sequence, async (one) => {
    if (!failed) await check(one);
  });
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    const numRuns = Math.ceil(RUNS / LANES);
    const found = await fc.check(property, {
      numRuns,
      seed: SEED + lane,
      endOnFailure: true,
      examples: EXAMPLES,
    });
    if (!found.failed || failed) return;
    failed = true;
    t.fail('holds', {
      seed: SEED + lane,
      sequence: found.counterexample,
      error: String(found.errorInstance),
    });
  });
  await Promise.all(lanes);
  const { user, system } = process.cpuUsage(cpu);
  t.comment(`${((user + system) / 1e6).toFixed(1)} s of CPU`);
  t.same(faults(), [], 'no fault of a gateway');
});
