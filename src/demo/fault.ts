/**
 * Faults on request. The gateway forwards nothing of a client's headers, so a fault is
 * chosen by the internal model's name: `demo-chat!stall-after-3`, and several at once as
 * `demo-chat!events-50!crlf`. The table below is the whole list; `<n>` is a whole number.
 */

/** How one request is answered: the honest answer unless a fault says otherwise. */
export interface Behaviour {
  /** HTTP status; anything but 200 answers with an error in the reference shape. */
  status: number;
  /** Milliseconds of silence before the first byte of the head. */
  delay: number;
  /** Milliseconds between token events; 0 sends the whole stream in one write. */
  pace: number;
  /** Token events to stream instead of as many as the answer has. */
  events: number | null;
  /** Token events after which the ending below comes early. */
  endAfter: number | null;
  /**
   * How a stream ends: whole; silent for ever; with a destroyed socket; cleanly without
   * finish_reason and `[DONE]`; cleanly in the middle of an event; with an error event.
   */
  ending: 'whole' | 'stall' | 'cut' | 'stop' | 'torn' | 'error';
  done: boolean;
  usage: 'last' | 'finish' | 'every' | 'null-first' | 'none';
  /** Usage says zero tokens whatever was sent. */
  zero: boolean;
  /** Where `model` stands in a chunk and what it says. */
  model: 'asked' | 'other' | 'alphabetical' | 'missing';
  eol: '\n' | '\r\n' | '\r';
  /** A byte order mark, comments and `event:`, `id:`, `retry:` lines, some of them naming the internal model. */
  noise: boolean;
  body: 'honest' | 'html' | 'truncated' | 'swapped' | 'redirect' | 'reset';
  encoding: 'identity' | 'gzip' | 'gzip-undeclared';
  /** Response headers that name what is behind: model, host, region, organisation. */
  leaky: boolean;
  /** Embeddings as number arrays although base64 was asked for. */
  floats: boolean;
}

type Fault = readonly [does: string, change: Partial<Behaviour> | ((n: number) => Partial<Behaviour>)];

export const FAULTS: Readonly<Record<string, Fault>> = {
  'error-<n>': ['HTTP <n>, the text names model, host and key; 429 has retry-after', (n) => ({ status: n })],
  'slow-first-byte-<n>': ['<n> ms of silence before the answer begins', (n) => ({ delay: n })],
  'pace-<n>': ['<n> ms between token events; 0 is one burst', (n) => ({ pace: n })],
  'events-<n>': ['an answer of exactly <n> tokens', (n) => ({ events: n })],
  'events-<n>-burst': ['the same in as few packets as possible', (n) => ({ events: n, pace: 0 })],
  'stall-after-<n>': ['silence for ever after <n> token events', (n) => ({ ending: 'stall', endAfter: n })],
  'cut-after-<n>': ['socket destroyed after <n> token events', (n) => ({ ending: 'cut', endAfter: n })],
  'stop-after-<n>': ['clean end after <n>: no finish_reason, no [DONE]', (n) => ({ ending: 'stop', endAfter: n })],
  'torn-after-<n>': ['clean end inside the event after <n>', (n) => ({ ending: 'torn', endAfter: n })],
  'error-event': ['an error event after 3 token events, then a clean end', { ending: 'error', endAfter: 3 }],
  'no-done': ['clean end after finish_reason and usage, without [DONE]', { done: false }],
  'no-usage': ['no usage anywhere', { usage: 'none' }],
  'usage-zero': ['usage says 0 tokens', { zero: true }],
  'usage-in-finish': ['usage in the chunk that carries finish_reason', { usage: 'finish' }],
  'usage-every': ['cumulative usage in every chunk', { usage: 'every' }],
  'usage-null': ['"usage": null in every chunk until the last', { usage: 'null-first' }],
  fallback: ['another internal model name than the one asked for', { model: 'other' }],
  alphabetical: ['keys in alphabetical order and a first chunk with "model": ""', { model: 'alphabetical' }],
  'no-model': ['no "model" in chunks and bodies', { model: 'missing' }],
  cr: ['lines end in CR', { eol: '\r' }],
  crlf: ['lines end in CRLF', { eol: '\r\n' }],
  noise: ['byte order mark, comments, event/id/retry lines, an event without data', { noise: true }],
  html: ['200 with an HTML page', { body: 'html' }],
  'truncated-json': ['200 with half a JSON body', { body: 'truncated' }],
  swapped: ['JSON for a stream request, a stream for a plain one', { body: 'swapped' }],
  redirect: ['302 to an internal address', { body: 'redirect' }],
  reset: ['socket destroyed before any answer', { body: 'reset' }],
  gzip: ['compressed although identity was asked for', { encoding: 'gzip' }],
  'gzip-undeclared': ['compressed without saying so', { encoding: 'gzip-undeclared' }],
  'leaky-headers': ['x-litellm-*, server, via, set-cookie and the like, naming what is behind', { leaky: true }],
  floats: ['embeddings as numbers although base64 was asked for', { floats: true }],
};

/** Default milliseconds between token events. */
const PACE = 4;

/**
 * What a model name asks for; null when it names a fault that is not in the table.
 * Names without `!` ask for nothing but the honest answer.
 */
export function behaviourOf(model: string): Behaviour | null {
  const behaviour: Behaviour = {
    status: 200,
    delay: 0,
    pace: PACE,
    events: null,
    endAfter: null,
    ending: 'whole',
    done: true,
    usage: 'last',
    zero: false,
    model: 'asked',
    eol: '\n',
    noise: false,
    body: 'honest',
    encoding: 'identity',
    leaky: false,
    floats: false,
  };
  for (const name of model.split('!').slice(1)) {
    const [digits] = /\d+/.exec(name) ?? [];
    const fault = FAULTS[digits === undefined ? name : name.replace(digits, '<n>')];
    if (fault === undefined) return null;
    const change = fault[1];
    Object.assign(behaviour, typeof change === 'function' ? change(Number(digits)) : change);
  }
  return behaviour;
}

/** What no client of a gateway may ever see; tests look for these. */
export const INTERNAL_HOST = 'router-7.internal.example';
export const INTERNAL_KEY = 'sk-internal-master-2f7a';

/** An error body as routers write them: chatty about everything behind. */
export function leakyError(status: number, model: string): string {
  const message =
    `litellm.APIError: deployment ${model} at http://${INTERNAL_HOST}:4000/v1 said ${status} (key ${INTERNAL_KEY})` +
    `\nTraceback (most recent call last):\n  File "/srv/${INTERNAL_HOST}/router.py", line 17`;
  return JSON.stringify({ error: { message, type: 'upstream_error', code: String(status), param: null } });
}

export function leakyHeaders(model: string): Record<string, string | string[]> {
  return {
    server: INTERNAL_HOST,
    via: `1.1 ${INTERNAL_HOST}`,
    'set-cookie': [`route=${model}; Path=/`, `host=${INTERNAL_HOST}`],
    'x-litellm-model-id': model,
    'x-litellm-model-api-base': `http://${INTERNAL_HOST}:4000`,
    'llm_provider-x-ms-region': 'US East',
    'x-ms-deployment-name': model,
    'openai-organization': 'internal-organisation',
    'openai-project': 'internal-project',
    'x-request-id': 'internal-request-1',
    'access-control-allow-origin': '*',
  };
}
