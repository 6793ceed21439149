import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import postgres, { type Sql } from 'postgres';
import { parseAddress, requestBytes } from '../../bench/load/connection.ts';
import { closedLoop } from '../../bench/load/loops.ts';
import { newTally } from '../../bench/load/tally.ts';
import type { ProbeOrder } from '../../bench/programs/probe.ts';
import { parseDatabaseUrl } from '../../src/store/connection/address.ts';
import type { Life } from '../faults/world.ts';
import { CHILD_ENV } from '../support/child.ts';
import { until } from '../support/until.ts';
import {
  CHAT_EVENTS,
  type Events,
  json,
  MESSAGES_EVENTS,
  RESPONSES_EVENTS,
  sendEvents,
  shortAnswer,
} from './felt-answers.ts';
import { fillOffice, NOTICES, PAGES } from './felt-office.ts';

/*
 * What one company can make others feel: the longest turn of a gateway's event loop while the company does one thing, as
 * large as it may be, and what it does beyond what counts for the company. ACTS has an entry for each endpoint of the router,
 * for each notice of the database, and for each kind of page and operation.
 */

/** How one thing is done. */
export interface Act {
  /** The endpoint as API_ROUTES names it, or all that it stands for of `noticesIn` and CARRIAGES. */
  readonly of: string | readonly string[];
  readonly name: string;
  /** What is large is the answer. */
  readonly isAnswer?: true;
  /** Names of the acts whose large things it has together. */
  readonly parts?: readonly string[];
  /** Prepares what is not measured. */
  readonly before?: (scene: Scene) => Promise<unknown>;
  readonly run: (scene: Scene) => Promise<unknown>;
}

/** A gateway of its own, an upstream that answers what it is told, and a company that does the things. */
export interface Scene {
  readonly url: string;
  readonly adminUrl: string;
  readonly sql: Sql;
  readonly company: string;
  readonly key: string;
  /** How large things are: 1 is as large as they may be. */
  readonly scale: number;
  /** What the upstream answers next; null: a short completion. */
  answer: ((res: ServerResponse, path: string) => void) | null;
  post(path: string, body: string | Buffer, key?: string): Promise<Response>;
  get(path: string, key?: string): Promise<Response>;
  /** Makes a small call. */
  call(content: string): Promise<Response>;
  /** Has so many people of another company in the gateway's memory. */
  remember(people: number): Promise<unknown>;
  /** Resolves when the gateway has heard of all changes so far. */
  heard(): Promise<void>;
}

/** What others feel of an act. */
export interface Feeling {
  /** CPU milliseconds of the longest turn of the event loop, and of all. */
  readonly turn: number;
  readonly cpu: number;
  /** What counted for the company, in small requests: by it the gateway shares itself out in an overload. */
  readonly work: number;
}

const GATEWAY = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const PROBE = new URL('../../bench/programs/probe.ts', import.meta.url).href;
const ASSISTANT = '5e0b4ce2-3f6c-4c8a-9d3b-0a5d0c6f7e11';
const MODELS = 1000;
const SMALL_REQUESTS = 600;
const CONNECTIONS = 16;
const HELLO = [{ role: 'user', content: 'hello there' }];
const SMALL = JSON.stringify({ model: 'fast', messages: HELLO });
const PROMPT_BYTES = 1_048_576;
const ANSWER_BYTES = 4_194_304;

const keyText = (name: string): string => `svc_${name.padEnd(32, 'a')}`;
const digestOf = (key: string): Buffer => createHash('sha256').update(key).digest();

/** Starts a scene on a database that was migrated. */
export async function startScene(life: Life, databaseUrl: string, scale: number) {
  const { targets, user, password, database } = parseDatabaseUrl(databaseUrl);
  const sql = postgres({
    ...targets[0],
    user,
    password,
    database,
    max: 2,
    onnotice: () => {},
  } as postgres.Options<Record<string, never>>);
  life.teardown(() => sql.end({ timeout: 1 }));
  const company = randomUUID();
  const [key, sentinel] = [keyText('own'), keyText('sentinel')];
  await fill(sql, company, key, sentinel);
  const upstream = createServer((req, res) => {
    req.resume().on('end', () => (scene.answer ?? shortAnswer)(res, String(req.url)));
  });
  await once(upstream.listen(0, '127.0.0.1'), 'listening');
  life.teardown(() => {
    upstream.close();
    upstream.closeAllConnections();
  });
  const upstreamUrl = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/v1`;
  const gateway = await startGateway(life, databaseUrl, upstreamUrl);
  const post = async (path: string, body: string | Buffer, by = key): Promise<Response> => {
    const headers = { authorization: `Bearer ${by}`, 'content-type': 'application/json' };
    const answer = await fetch(gateway.url + path, { method: 'POST', headers, body });
    await answer.arrayBuffer();
    return answer;
  };
  const get = async (path: string, by = key): Promise<Response> => {
    const answer = await fetch(gateway.url + path, { headers: { authorization: `Bearer ${by}` } });
    await answer.arrayBuffer();
    return answer;
  };
  let isPaused = false;
  const scene: Scene = {
    url: gateway.url,
    adminUrl: gateway.adminUrl,
    sql,
    company,
    key,
    scale,
    answer: null,
    post,
    get,
    call: (content) =>
      post('/chat/completions', JSON.stringify({ ...CHAT, messages: [{ role: 'user', content }] })),
    remember: (people) =>
      many(gateway.url, keyText('other'), people, (n) =>
        JSON.stringify({ ...CHAT, user: `person ${n}` }),
      ),
    async heard() {
      isPaused = !isPaused;
      await sql`update api_keys set paused_at = ${isPaused ? new Date() : null} where digest = ${digestOf(sentinel)}`;
      const status = isPaused ? 403 : 404;
      await until(
        async () => (await get('/models/none', sentinel)).status === status,
        'the gateway has heard',
      );
    },
  };
  await fillOffice(scene);
  const ask = async (order: ProbeOrder): Promise<number> => {
    const answered = once(gateway.child, 'message');
    gateway.child.send(order);
    return ((await answered)[0] as { value: number }).value;
  };
  /** CPU milliseconds of a small request, the least of some readings: on a busy machine the others are dearer. */
  async function smallRequest(): Promise<number> {
    let least = Number.POSITIVE_INFINITY;
    for (let n = 0; n < 6; n++) {
      const before = await ask('cpu');
      const done = await many(gateway.url, key, SMALL_REQUESTS, () => SMALL);
      least = Math.min(least, ((await ask('cpu')) - before) / done);
    }
    return least;
  }
  /** Does an act. */
  async function feel({ before, run }: Act): Promise<Feeling> {
    await before?.(scene);
    const [cpu, work] = [await ask('cpu'), await ask('work')];
    await ask('turns-start');
    await run(scene);
    const turn = await ask('turns-stop');
    return { turn, cpu: (await ask('cpu')) - cpu, work: (await ask('work')) - work };
  }
  return { scene, smallRequest, feel };
}

/** Makes so many chat requests, or a few more. @returns how many */
async function many(
  url: string,
  key: string,
  count: number,
  body: (n: number) => string,
): Promise<number> {
  const address = parseAddress(url);
  const headers = { authorization: `Bearer ${key}` };
  const tally = newTally();
  const request = (n: number) => requestBytes(address, headers, Buffer.from(body(n)));
  const load = closedLoop(address, CONNECTIONS, request, tally);
  await until(() => tally.done >= count, 'all are answered');
  load.stop();
  return tally.done;
}

async function fill(sql: Sql, company: string, key: string, sentinel: string): Promise<void> {
  await sql`insert into companies (id, name, allow_non_eu_models) values (${company}, 'busy', true), (${randomUUID()}, 'other', true)`;
  const [other] = await sql`select id from companies where name = 'other'`;
  await sql`insert into api_keys (company_id, name, digest, prefix, scopes, end_users) values
    (${company}, 'own', ${digestOf(key)}, 'svc_own', '{chat,embeddings,assistants,rerank}', 'body'),
    (${other?.id}, 'other', ${digestOf(keyText('other'))}, 'svc_othe', '{chat}', 'body'),
    (${other?.id}, 'sentinel', ${digestOf(sentinel)}, 'svc_sent', '{chat}', 'off')`;
  await sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output) values
    ('fast', 'internal', 'chat', true, 0.1, 0.1), ('vectors', 'internal-v', 'embedding', true, 0.1, 0.1), ('ranker', 'internal-r', 'rerank', true, 0.1, 0.1)`;
  await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    select 'own-' || n, ${company}, 'internal-own-' || n, 'chat', true, 0.1, 0.1 from generate_series(1, ${MODELS}::int) as n`;
  await sql`insert into assistants (id, company_id, name, system_prompt, model_slug, visibility)
    values (${ASSISTANT}, ${company}, 'large', ${'word '.repeat(PROMPT_BYTES / 5)}, 'fast', 'company')`;
}

async function startGateway(life: Life, databaseUrl: string, upstreamUrl: string) {
  const child: ChildProcess = spawn(process.execPath, ['--import', PROBE, GATEWAY, 'serve'], {
    env: {
      ...CHILD_ENV,
      ...(process.env.FAST_HTTP === undefined ? {} : { FAST_HTTP: process.env.FAST_HTTP }),
      PORT: '0',
      ADMIN_PORT: '0',
      LOG_LEVEL: 'error',
      DATABASE_URL: databaseUrl,
      UPSTREAM_URL: upstreamUrl,
      UPSTREAM_API_KEY: 'sk-master',
      SPOOL_DIR: '',
      MAX_DELAY_MS: '60000',
      MAX_ANSWER_BYTES: String(ANSWER_BYTES),
    },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  life.teardown(async () => {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  });
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (more: string) => {
    text += more;
  });
  const found = (): string[] =>
    [/Base URL\s+(\S+)/, /Admin URL\s+(\S+)/].map((line) => line.exec(text)?.[1] ?? '');
  await until(() => !found().includes(''), 'the gateway listens');
  const [url, adminUrl] = found() as [string, string];
  return { child, url, adminUrl };
}

// Bodies

const IMAGE = `data:image/png;base64,iVBORw0KGgo${'A'.repeat(600)}`;
const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: Math.ceil(count) }, (_, n) => make(n));
const withMembers = (
  body: object,
  count: number,
  value: string,
  name = (n: number) => `k${n}`,
): string =>
  `${JSON.stringify(body).slice(0, -1)},${times(count, (n) => `"${name(n)}":${value}`).join(',')}}`;
const NULL_MEMBERS = '1,000 null members that are refused otherwise';
const withNulls = (body: object): string => withMembers(body, 1000, 'null', () => 'api_base');
const FILES = '4,096 files';
const files = [
  {
    role: 'user',
    content: times(4096, () => ({ type: 'image_url', image_url: { url: IMAGE } })),
  },
];

/** Bodies of many members, many files, many values and much text, for a format whose least body is this. */
function largeBodies(of: string, least: object, messages: string | null): Act[] {
  const path = of.slice('POST '.length);
  const act = (name: string, body: (scale: number) => string): Act => ({
    of,
    name,
    run: (scene) => scene.post(path, body(scene.scale)),
  });
  const acts = [
    act('1,000 members', () => withMembers(least, 1000, '1')),
    act(NULL_MEMBERS, () => withNulls(least)),
    act('1,000 limits', () => withMembers(least, 1000, 'null', (n) => `max_${n}_tokens`)),
    act('names that are escaped', () => withMembers(least, 1000, '1', (n) => `\\u006b${n}`)),
    act('metadata of 1,000 members', () =>
      JSON.stringify({
        ...least,
        metadata: Object.fromEntries(times(1000, (n) => [`m${n}`, 'x'.repeat(40)])),
      }),
    ),
    act('text', (scale) => JSON.stringify({ ...least, x: 'word '.repeat(4_000_000 * scale) })),
    act('values', (scale) => JSON.stringify({ ...least, x: times(60_000 * scale, (n) => [n]) })),
  ];
  if (messages === null) return acts;
  return [
    ...acts,
    act(FILES, () => JSON.stringify({ ...least, [messages]: files })),
    {
      ...act('files and null members', () => withNulls({ ...least, [messages]: files })),
      parts: [FILES, NULL_MEMBERS],
    },
    act('short messages', (scale) =>
      JSON.stringify({
        ...least,
        [messages]: times(20_000 * scale, () => ({ role: 'user', content: 'x' })),
      }),
    ),
    act('tools', (scale) =>
      JSON.stringify({
        ...least,
        tools: times(2000 * scale, (n) => ({
          type: 'function',
          name: `f${n}`,
          function: {
            name: `f${n}`,
            parameters: { type: 'object', properties: { a: { type: 'string' } } },
          },
        })),
      }),
    ),
  ];
}

const answering = (
  of: string,
  name: string,
  body: object,
  answer: (scale: number) => Buffer,
): Act => ({
  of,
  name,
  isAnswer: true,
  async run(scene) {
    const bytes = answer(scene.scale);
    scene.answer = (res) => json(res, bytes);
    const path = of === RUN ? runPath : of.slice('POST '.length);
    const { status, headers } = await scene.post(path, JSON.stringify(body));
    scene.answer = null;
    if (status === 200) return;
    // the client of an answer that is too large is told so before its end is read
    const id = headers.get('x-request-id');
    const booked = () => scene.sql`select from api_usage where request_id = ${id}`;
    await until(booked, 'the call is booked', ({ length }) => length > 0);
  },
});

/** Nearly as long as it may be: 7,000 choices of 580 bytes. */
const longCompletion = (scale: number): Buffer =>
  Buffer.from(
    JSON.stringify({
      id: 'x',
      object: 'chat.completion',
      model: 'internal',
      choices: times(7000 * scale, (index) => ({
        index,
        message: { role: 'assistant', content: 'word '.repeat(100) },
        finish_reason: 'stop',
      })),
    }),
  );

/** A stream of many events. */
const streaming = (of: string, body: object, events: Events): Act => ({
  of,
  name: 'a stream of many events',
  isAnswer: true,
  async run(scene) {
    scene.answer = (res) => sendEvents(res, events, scene.scale);
    await scene.post(of.slice('POST '.length), JSON.stringify({ ...body, stream: true }));
    scene.answer = null;
  },
});

const CHAT = { model: 'fast', messages: HELLO };
const RUN = 'POST /assistants/{id}/run';
const runPath = `/assistants/${ASSISTANT}/run`;

/** Requests. */
const REQUESTS: Act[] = [
  ...largeBodies('POST /chat/completions', CHAT, 'messages'),
  answering('POST /chat/completions', 'an answer whose ends are beginnings of usages', CHAT, () =>
    Buffer.from(
      `{"x":"${'y'.repeat(ANSWER_BYTES)}",${'"usage":{"'.repeat(1700)}${'}'.repeat(2000)}`,
    ),
  ),
  answering('POST /chat/completions', 'a long answer', CHAT, longCompletion),
  streaming('POST /chat/completions', CHAT, CHAT_EVENTS),
  ...largeBodies('POST /responses', { model: 'fast', input: HELLO }, 'input'),
  streaming('POST /responses', { model: 'fast', input: HELLO }, RESPONSES_EVENTS),
  ...largeBodies('POST /messages', { model: 'fast', max_tokens: 9, messages: HELLO }, 'messages'),
  streaming('POST /messages', { model: 'fast', max_tokens: 9, messages: HELLO }, MESSAGES_EVENTS),
  ...largeBodies('POST /messages/count_tokens', { model: 'fast', messages: HELLO }, 'messages'),
  ...largeBodies('POST /completions', { model: 'fast', prompt: 'hello' }, null),
  answering(
    'POST /completions',
    'a long answer',
    { model: 'fast', prompt: 'hello' },
    longCompletion,
  ),
  ...largeBodies('POST /embeddings', { model: 'vectors', input: 'hello' }, null),
  {
    of: 'POST /embeddings',
    name: 'many inputs',
    run: (scene) =>
      scene.post(
        '/embeddings',
        JSON.stringify({ model: 'vectors', input: times(60_000 * scene.scale, () => 'x') }),
      ),
  },
  answering('POST /embeddings', 'many vectors', { model: 'vectors', input: 'hello' }, (scale) =>
    Buffer.from(
      JSON.stringify({
        object: 'list',
        model: 'internal-v',
        data: times(1000 * scale, (index) => ({
          object: 'embedding',
          index,
          embedding: 'A'.repeat(4096),
        })),
        usage: { prompt_tokens: 5, total_tokens: 5 },
      }),
    ),
  ),
  ...largeBodies('POST /rerank', { model: 'ranker', query: 'hello', documents: ['a', 'b'] }, null),
  {
    of: 'POST /rerank',
    name: 'many documents',
    run: (scene) =>
      scene.post(
        '/rerank',
        JSON.stringify({
          model: 'ranker',
          query: 'q'.repeat(2000),
          documents: times(30_000 * scene.scale, () => 'word'),
        }),
      ),
  },
  {
    of: RUN,
    name: 'a system prompt of 1 MiB',
    run: (scene) => scene.post(runPath, JSON.stringify({ messages: HELLO })),
  },
  {
    of: RUN,
    name: 'short messages',
    run: (scene) =>
      scene.post(
        runPath,
        JSON.stringify({
          messages: times(20_000 * scene.scale, () => ({ role: 'user', content: 'x' })),
        }),
      ),
  },
  answering(RUN, 'a long answer', { messages: HELLO }, longCompletion),
  { of: 'GET /models', name: '1,000 models', run: (scene) => scene.get('/models') },
  {
    of: 'GET /models/{model}',
    name: 'the last of 1,000',
    run: (scene) => scene.get(`/models/own-${MODELS}`),
  },
  { of: 'GET /usage', name: 'a month', run: (scene) => scene.get('/usage') },
  {
    of: 'GET /usage/{id}',
    name: 'a hundred at once',
    run: (scene) => Promise.all(times(100, () => scene.get(`/usage/${randomUUID()}`))),
  },
];

/** What an act stands for. */
export const endsOf = ({ of }: Act): readonly string[] => (typeof of === 'string' ? [of] : of);

export const ACTS: readonly Act[] = [...REQUESTS, ...NOTICES, ...PAGES];
