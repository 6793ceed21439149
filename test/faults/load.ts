import { Agent, type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../support/until.ts';
import { LONG, TIER } from './world.ts';

/** One request in a client's own journal. */
export interface Journalled {
  /** Unique text in the prompt, which finds the request in the upstream's journal. */
  readonly marker: string;
  readonly kind: Kind;
  /** The end user whom it names. */
  readonly user: string;
  /** The tier that it asks for; null: none. */
  readonly tier: string | null;
  /** Base address of the gateway asked. */
  readonly url: string;
  /** When it was sent and when its answer ended, milliseconds since the epoch. */
  readonly at: number;
  endedAt: number;
  /** 0 when the connection broke before any answer. */
  status: number;
  requestId: string | null;
  retryAfter: string | null;
  /** `x-cost-eur`. */
  cost: string | null;
  /** The client received `[DONE]` or the whole body. */
  complete: boolean;
  /** Bytes of the answer's body that arrived. */
  bytes: number;
  error: string | null;
}

/** `text`: a text completion that is not streamed. */
export type Kind = 'stream' | 'plain' | 'text' | 'embedding' | 'rerank';

const PATHS: Readonly<Record<Kind, string>> = {
  stream: 'chat/completions',
  plain: 'chat/completions',
  text: 'completions',
  embedding: 'embeddings',
  rerank: 'rerank',
};

export interface LoadOptions {
  /** Base addresses; worker n talks to the n-th, round and round. May change while the load runs. */
  readonly urls: () => readonly string[];
  readonly key: string | (() => string);
  readonly workers: number;
  readonly kinds?: readonly Kind[];
  readonly chatModel?: string;
  readonly embeddingModel?: string;
  /** Milliseconds a worker pauses between requests while somebody waits for them; default: REST_MS. */
  readonly restMs?: number;
  /** The end user whom all requests name; default: one of PEOPLE. */
  readonly user?: string;
  /** Whether some chats ask for the tier of the rates; default: where the model is that of a world, which has rates. */
  readonly isRated?: boolean;
  /** More members of a chat request. */
  readonly more?: object;
  /** Bytes of the answer after which the client disconnects; null: it reads all of it. */
  readonly leaveAfter?: () => number | null;
}

export interface Load {
  readonly journal: Journalled[];
  /** Resolves once `count` more requests have ended, of those that `counts` accepts. */
  more(count: number, what: string, counts?: (one: Journalled) => boolean): Promise<unknown>;
  /** Lets open requests end, then resolves. */
  stop(): Promise<Journalled[]>;
}

/** Most requests are still in flight at any instant; without a pause, load takes the CPU that processes need to start. */
const REST_MS = LONG ? 0 : 20;
/** So much longer are pauses while no `more` waits: the test then waits for a process, and fewer requests show as much. */
const CALM = LONG ? 1 : 5;
const REFUSED_MS = LONG ? 20 : 50; // after a connection that was refused or broken: the process is being restarted
/** So many end users are named in turn. */
const PEOPLE = 5;
let marks = 0;

/** Keeps workers busy until stopped. They never retry: the journal has every request as it went. */
export function startLoad(options: LoadOptions): Load {
  const {
    workers,
    restMs = REST_MS,
    kinds = ['stream', 'plain', 'text', 'embedding', 'rerank'],
  } = options;
  const agent = new Agent({ keepAlive: true, maxSockets: workers * 2 });
  const journal: Journalled[] = [];
  let stopping = false;
  let awaited = 0; // calls of `more` that wait

  async function work(worker: number): Promise<void> {
    for (let turn = worker; !stopping; turn++) {
      const urls = options.urls();
      const url = urls[worker % urls.length] as string;
      const one = await send(agent, url, kinds[turn % kinds.length] as Kind, options);
      journal.push(one);
      const pauseMs = one.status === 0 ? REFUSED_MS : restMs * (awaited > 0 ? 1 : CALM);
      if (pauseMs > 0) await sleep(pauseMs); // paced traffic
    }
  }
  const running = Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
  return {
    journal,
    more(count, what, counts = () => true) {
      const from = journal.length;
      awaited += 1;
      return until(
        () => journal.slice(from).filter(counts).length,
        `${count} more requests: ${what}`,
        (ended) => ended >= count,
      ).finally(() => {
        awaited -= 1;
      });
    },
    async stop() {
      stopping = true;
      await running;
      agent.destroy();
      return journal;
    },
  };
}

/** What every chat begins with: the demo upstream tells it as read from its cache. */
const REPEATED = { role: 'system', content: 'Answer in whole sentences.' };

/** Follows every other prompt where the model has rates: it is longer than a limit of them then. */
const LONGER =
  ' and a question of some more words than a shorter one has, which nobody needs to read to its end';

/** Makes one request. Never rejects: the journal entry tells what became of it. */
export function send(
  agent: Agent | undefined,
  url: string,
  kind: Kind,
  options: Pick<
    LoadOptions,
    'key' | 'chatModel' | 'embeddingModel' | 'user' | 'isRated' | 'more' | 'leaveAfter'
  >,
): Promise<Journalled> {
  const marker = `mark-${process.pid}-${marks++}-`;
  const { chatModel = 'brand-chat', embeddingModel = 'brand-embed', more = {} } = options;
  const { user = `person-${marks % PEOPLE}`, isRated = chatModel === 'brand-chat' } = options;
  const isChat = kind !== 'embedding' && kind !== 'rerank';
  const tier = isRated && isChat && marks % 3 === 0 ? TIER : null;
  const asked = tier === null ? more : { service_tier: tier, ...more };
  const prompt = isRated && marks % 2 === 0 ? marker + LONGER : marker;
  const key = typeof options.key === 'string' ? options.key : options.key();
  const body =
    kind === 'embedding'
      ? { model: embeddingModel, input: marker, dimensions: 8 }
      : kind === 'text'
        ? { model: chatModel, prompt, ...asked }
        : kind === 'rerank'
          ? { model: 'brand-rerank', query: marker, documents: ['some', 'texts', marker], top_n: 2 }
          : {
              model: chatModel,
              messages: [REPEATED, { role: 'user', content: prompt }],
              stream: kind === 'stream',
              ...asked,
            };
  const limit = options.leaveAfter?.() ?? Number.POSITIVE_INFINITY;
  const one: Journalled = {
    marker,
    kind,
    user,
    tier,
    url,
    at: Date.now(),
    endedAt: 0,
    status: 0,
    requestId: null,
    retryAfter: null,
    cost: null,
    complete: false,
    bytes: 0,
    error: null,
  };
  return new Promise((resolve) => {
    const done = (error: Error | null): void => {
      one.endedAt ||= Date.now();
      one.error ??= error?.message ?? null;
      resolve(one);
    };
    const text = JSON.stringify(body);
    const req = request(
      `${url}/${PATHS[kind]}`,
      {
        method: 'POST',
        ...(agent === undefined ? {} : { agent }),
        headers: {
          authorization: `Bearer ${key}`,
          'x-end-user-id': user,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(text),
        },
      },
      (res: IncomingMessage) => {
        one.status = res.statusCode as number;
        one.requestId = (res.headers['x-request-id'] as string | undefined) ?? null;
        one.retryAfter = (res.headers['retry-after'] as string | undefined) ?? null;
        one.cost = (res.headers['x-cost-eur'] as string | undefined) ?? null;
        let tail = '';
        res.setEncoding('latin1').on('data', (data: string) => {
          one.bytes += data.length;
          tail = (tail + data).slice(-64);
          if (one.bytes >= limit) req.destroy();
        });
        res.on('end', () => {
          if (kind === 'stream' && one.status === 200)
            one.complete = tail.endsWith('data: [DONE]\n\n');
          else one.complete = res.complete;
          done(null);
        });
        res.on('error', done);
        res.on('close', () => done(null));
      },
    );
    req.on('error', done);
    req.end(text);
  });
}
