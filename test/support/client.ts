/** A plain HTTP client of the gateway: it shows what came, byte for byte. */

export interface Ask {
  readonly method?: string;
  /** Sent as a bearer token. */
  readonly key?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text and bytes go as they are, anything else as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers freely
  readonly json: any;
}

/** One request. A body makes it a POST with a JSON content type unless told otherwise. */
export async function ask(url: string, { method, key, headers = {}, body, signal }: Ask = {}): Promise<Answer> {
  const response = await open(url, { method, key, headers, body, signal } as Ask);
  const text = await response.text();
  const isJson = /json/.test(response.headers.get('content-type') ?? '');
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: isJson && text !== '' ? JSON.parse(text) : undefined,
  };
}

/** Like `ask`, but resolves with the answer's head; the body is still on its way. */
export function open(url: string, { method, key, headers = {}, body, signal }: Ask = {}): Promise<Response> {
  const raw =
    typeof body === 'string' || body instanceof Uint8Array
      ? (body as NonNullable<RequestInit['body']>)
      : JSON.stringify(body);
  return fetch(url, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...headers,
    },
    redirect: 'manual',
    ...(body === undefined ? {} : { body: raw }),
    ...(signal === undefined ? {} : { signal }),
  });
}

/** The data of each event of a stream, `[DONE]` included. */
export function dataOf(text: string): string[] {
  return text
    .split(/\r\n|\r|\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(5).trimStart());
}

/** The parsed events of a stream, without `[DONE]`. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into chunks freely
export function chunksOf(text: string): any[] {
  return dataOf(text)
    .filter((data) => data !== '[DONE]')
    .map((data) => JSON.parse(data));
}

/** What a call throws. */
export async function thrownBy(call: PromiseLike<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
