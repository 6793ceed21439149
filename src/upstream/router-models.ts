import type { IncomingMessage } from 'node:http';
import { readName } from '../domain/field.ts';
import { readJson } from '../domain/settings/litellm-rows.ts';
import { type ModelSizes, sizesIn } from '../domain/settings/model-sizes.ts';
import { clientFor } from '../runtime/node-http.ts';

/** What the model router offers, by its own `GET /models`: for people who set up models, and never for calls. */

const DEADLINE_MS = 3000;
const MOST_BYTES = 1_048_576;
/** What a router tells of hundreds of models, each with a hundred members, which it looks up one by one. */
const MOST_INFO_BYTES = 32 * MOST_BYTES;
const INFO_DEADLINE_MS = 30_000;
const MOST_NAMES = 500;
/** How long an answer is used again: names, and a failure, which whoever reloads the page may have mended. */
const KEPT_MS = 30_000;
const KEPT_FAILURE_MS = 1000;

/** Where the router is, and how it is asked. Plain JSON: the gateway sends it to the pages' process. */
export interface RouterAddress {
  /** Base addresses of its replicas, as in UPSTREAM_URL. */
  readonly urls: readonly string[];
  readonly apiKey: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** The demo upstream stands in for a router. */
  readonly isDemo: boolean;
}

/** What the router answered, for operators: its reason names addresses. */
export interface RouterAnswer {
  /** It answers, and takes the key. */
  readonly isReachable: boolean;
  /** The internal names that it offers, each once, in its order; 500 at most. */
  readonly names: readonly string[];
  /** How much they take and generate, of those of which the router tells it. */
  readonly sizes: Readonly<Record<string, ModelSizes>>;
  /** Entries that are left out: a name that no model can have, or one too many. */
  readonly leftOut: number;
  /** Why there are no names: one or two sentences; null where there are some. */
  readonly reason: string | null;
}

/** The router gave no list. The message says why, and what to do. */
class NoList extends Error {
  readonly isReachable: boolean;
  constructor(message: string, isReachable = false) {
    super(message);
    this.isReachable = isReachable;
  }
}

/** Asks the router for its models, at most once at a time, and keeps the answer for a while. */
export class RouterModels {
  readonly address: RouterAddress;
  readonly #clock: () => number;
  #answer: Promise<RouterAnswer> | null = null;
  #until = 0;

  /** @param clock milliseconds */
  constructor(address: RouterAddress, clock: () => number) {
    this.address = address;
    this.#clock = clock;
  }

  /** Resolves within some 3 s, whatever the router does. */
  ask(): Promise<RouterAnswer> {
    if (this.#answer !== null && this.#clock() < this.#until) return this.#answer;
    this.#until = Number.POSITIVE_INFINITY; // until it is answered
    this.#answer = askRouter(this.address);
    void this.#answer.then(({ reason }) => {
      this.#until = this.#clock() + (reason === null ? KEPT_MS : KEPT_FAILURE_MS);
    });
    return this.#answer;
  }
}

/** Asks all replicas of the router at once; the first list is the answer. */
export async function askRouter(
  router: RouterAddress,
  deadlineMs = DEADLINE_MS,
): Promise<RouterAnswer> {
  const modelInfo = askModelInfo(router, deadlineMs).catch(() => []); // at once: both within the deadline
  try {
    const answer = await askReplicas(router, '/models', MOST_BYTES, deadlineMs, readModels);
    if (Object.keys(answer.sizes).length > 0) return answer;
    return {
      ...answer,
      sizes: sizesOf(
        (await modelInfo).map((each) => [idOf({ id: each.model_name }), each.model_info]),
      ),
    };
  } catch (error) {
    const { message, isReachable } = error as NoList;
    return { isReachable, names: [], sizes: {}, leftOut: 0, reason: message };
  }
}

/** What LiteLLM tells of each deployment of a model, as it tells it: `GET /model/info`. @throws Error that says why there is nothing */
export function askModelInfo(
  router: RouterAddress,
  deadlineMs = INFO_DEADLINE_MS,
): Promise<readonly Readonly<Record<string, unknown>>[]> {
  return askReplicas(router, '/model/info', MOST_INFO_BYTES, deadlineMs, (text, address) => {
    const isEntry = (each: unknown): each is Record<string, unknown> =>
      typeof each === 'object' && each !== null;
    return entriesOf(text, address).filter(isEntry);
  });
}

/** @throws NoList of a replica, of one that answers if there is one */
async function askReplicas<T>(
  router: RouterAddress,
  path: string,
  mostBytes: number,
  deadlineMs: number,
  read: (text: string, address: string) => T,
): Promise<T> {
  const done = new AbortController();
  const deadline = AbortSignal.timeout(deadlineMs);
  const signal = AbortSignal.any([done.signal, deadline]);
  const requests = router.urls.map(async (url) => {
    const address = `${url.replace(/\/+$/, '')}${path}`;
    try {
      return read(await get(router, address, signal, mostBytes), address);
    } catch (error) {
      if (error instanceof NoList) throw error;
      throw new NoList(
        deadline.aborted ? tooSlow(address, deadlineMs) : failureText(address, error as Error),
      );
    }
  });
  try {
    return await Promise.any(requests);
  } catch (error) {
    const reasons = (error as AggregateError).errors as NoList[];
    throw reasons.find((each) => each.isReachable) ?? (reasons[0] as NoList);
  } finally {
    done.abort();
  }
}

/** The body of a 200. @throws NoList, or what the connection failed with */
function get(
  { apiKey, headers }: RouterAddress,
  address: string,
  signal: AbortSignal,
  mostBytes: number,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const authorization = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
  const sent = clientFor(address).request(address, {
    headers: {
      accept: 'application/json',
      'accept-encoding': 'identity',
      ...authorization,
      ...headers,
    },
    agent: false,
    signal,
  });
  sent.on('error', reject);
  sent.on('response', (response: IncomingMessage) => {
    const refused = statusText(address, response.statusCode as number);
    const chunks: Buffer[] = [];
    let bytes = 0;
    const end = (error: Error): void => {
      reject(error);
      sent.destroy();
    };
    if (refused !== null) return end(refused);
    response.on('error', reject);
    response.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      chunks.push(chunk);
      const most = `${mostBytes / 1_048_576} MiB`;
      if (bytes > mostBytes)
        end(new NoList(`The answer of ${address} is larger than ${most} and is not read.`, true));
    });
    response.on('end', () => resolve(Buffer.concat(chunks).toString()));
  });
  sent.end();
  return promise;
}

/** The entries of a list in the OpenAI format. @throws NoList */
function entriesOf(text: string, address: string): readonly unknown[] {
  let body: unknown;
  try {
    body = readJson(text);
  } catch {
    throw new NoList(
      `The answer of ${address} is not JSON. Is UPSTREAM_URL the address of the router's API?`,
      true,
    );
  }
  const entries = Array.isArray(body) ? body : (body as { data?: unknown } | null)?.data;
  if (!Array.isArray(entries))
    throw new NoList(`The answer of ${address} is no list of models in the OpenAI format.`, true);
  return entries;
}

/** Reads a list of models. Routers name a model once for each of its deployments. @throws NoList */
function readModels(text: string, address: string): RouterAnswer {
  const entries = entriesOf(text, address);
  const ids = [...new Set(entries.map(idOf))];
  const names = ids.filter((id) => id !== null);
  const firstNames = names.slice(0, MOST_NAMES);
  const leftOut =
    names.length - firstNames.length + entries.filter((entry) => idOf(entry) === null).length;
  if (firstNames.length > 0) {
    const sizes = sizesOf(entries.map((entry) => [idOf(entry), entry]));
    return { isReachable: true, names: firstNames, sizes, leftOut, reason: null };
  }
  const none =
    entries.length === 0
      ? 'The router offers no model yet'
      : 'The router names no model as one can be named';
  throw new NoList(`${none} (${address}).`, true);
}

/** The sizes by name; of deployments of one name the smallest, which each of them has. */
function sizesOf(
  entries: readonly (readonly [name: string | null, told: unknown])[],
): RouterAnswer['sizes'] {
  const found: Record<string, ModelSizes> = Object.create(null);
  for (const [name, told] of entries) {
    const sizes = name === null ? {} : sizesIn(told, found[name]);
    if (name !== null && Object.keys(sizes).length > 0) found[name] = sizes;
  }
  return found;
}

/** The name of an entry; null: a model cannot have it, such as one with control characters. */
function idOf(entry: unknown): string | null {
  const id = (entry as { id?: unknown } | null)?.id;
  if (typeof id !== 'string' || id !== id.trim() || !id.isWellFormed()) return null;
  try {
    return readName(id);
  } catch {
    return null;
  }
}

/** What is wrong with a status that is not 200. */
function statusText(address: string, status: number): NoList | null {
  if (status === 200) return null;
  if (status === 401 || status === 403)
    return new NoList(
      `The router refuses the key (${status} of ${address}). Set UPSTREAM_API_KEY to one that it takes.`,
    );
  if (status === 404 || status === 405)
    return new NoList(
      `The router has no list of models at ${address} (${status}). UPSTREAM_URL has to go up to and including its /v1.`,
    );
  if (status >= 300 && status < 400)
    return new NoList(
      `${address} leads elsewhere (${status}). Set UPSTREAM_URL to the router's own address.`,
    );
  return new NoList(`The router answers ${status} at ${address}. Its own log says why.`);
}

function tooSlow(address: string, deadlineMs: number): string {
  return `The router did not answer at ${address} within ${deadlineMs / 1000} s.`;
}

/** Why there is no connection, in plain words. */
function failureText(address: string, { code, message }: NodeJS.ErrnoException): string {
  const { host, hostname } = new URL(address);
  if (code === 'ECONNREFUSED')
    return `Nothing listens at ${host}. Start the router, or correct UPSTREAM_URL; in a container, localhost is the container.`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `The name ${hostname} is not known here. Correct UPSTREAM_URL, or the name server of this machine.`;
  if (code === 'ECONNRESET' || code === 'EPIPE')
    return `The router closed the connection to ${host} without an answer. Does it speak ${address.startsWith('https:') ? 'TLS' : 'plain HTTP'} there?`;
  return `The router cannot be reached at ${host}: ${code ?? message}.`;
}
