/**
 * Faults of the demo upstream in tests. The internal model name selects them, because the gateway
 * forwards no client headers: `demo-chat!stall-after-3`, or several at once as
 * `demo-chat!events-50!crlf`. FAULTS lists all of them; `<n>` is a whole number.
 */

/** How a request is answered without faults, which change it. */
const HONEST = {
  /** HTTP status; any other than 200 has an error body in the shape of the dialect. */
  status: 200,
  /** Milliseconds before the first byte of the head. */
  delay: 0,
  /** Milliseconds between token events; 0 sends the whole stream in one write. */
  pace: 4,
  /** Tokens of the answer; null: as many as its text has. */
  events: null as number | null,
  /** Token events after which the stream ends early; null: at the end of the answer. */
  endAfter: null as number | null,
  /**
   * How a stream ends. whole: complete; stall: silence for ever; cut: destroyed socket; stop: clean
   * end without finish_reason and `[DONE]`; torn: clean end inside an event; error: error event.
   */
  ending: 'whole' as 'whole' | 'stall' | 'cut' | 'stop' | 'torn' | 'error',
  done: true,
  usage: 'last' as 'last' | 'finish' | 'every' | 'null-first' | 'none',
  /** The usage is zero tokens. */
  zero: false,
  /** Place and value of `model` in a chunk. */
  model: 'asked' as 'asked' | 'other' | 'alphabetical' | 'missing',
  eol: '\n' as '\n' | '\r\n' | '\r',
  /** A byte order mark, comments and `event:`, `id:`, `retry:` lines; some name the internal model. */
  noise: false,
  body: 'honest' as 'honest' | 'html' | 'truncated' | 'swapped' | 'redirect' | 'reset',
  encoding: 'identity' as 'identity' | 'gzip' | 'gzip-undeclared',
  /** Response headers that name the internal model, host, region and organisation. */
  leaky: false,
  /** Embeddings are arrays of numbers although the request asks for base64. */
  floats: false,
};

/** How one request is answered. */
export type Behaviour = Readonly<typeof HONEST>;

type Fault = readonly [
  does: string,
  change: Partial<Behaviour> | ((n: number) => Partial<Behaviour>),
];

export const FAULTS: Readonly<Record<string, Fault>> = {
  'error-<n>': [
    'HTTP <n>, its text names model, host and key; 429 has retry-after',
    (n) => ({ status: n }),
  ],
  'slow-first-byte-<n>': ['<n> ms of silence before the answer begins', (n) => ({ delay: n })],
  'pace-<n>': ['<n> ms between token events; 0 is one burst', (n) => ({ pace: n })],
  'events-<n>': ['an answer of exactly <n> tokens', (n) => ({ events: n })],
  'events-<n>-burst': ['the same in one write', (n) => ({ events: n, pace: 0 })],
  'stall-after-<n>': [
    'silence for ever after <n> token events',
    (n) => ({ ending: 'stall', endAfter: n }),
  ],
  'cut-after-<n>': [
    'socket destroyed after <n> token events',
    (n) => ({ ending: 'cut', endAfter: n }),
  ],
  'stop-after-<n>': [
    'clean end after <n>: no finish_reason, no [DONE]',
    (n) => ({ ending: 'stop', endAfter: n }),
  ],
  'torn-after-<n>': [
    'clean end inside the event after <n>',
    (n) => ({ ending: 'torn', endAfter: n }),
  ],
  'error-event': [
    'an error event after 3 token events, then a clean end',
    { ending: 'error', endAfter: 3 },
  ],
  'no-done': [
    'clean end after finish_reason and usage, without [DONE] or message_stop',
    { done: false },
  ],
  'no-usage': ['no usage anywhere', { usage: 'none' }],
  'usage-zero': ['usage says 0 tokens', { zero: true }],
  'usage-in-finish': ['usage in the chunk that carries finish_reason', { usage: 'finish' }],
  'usage-every': ['cumulative usage in every chunk', { usage: 'every' }],
  'usage-null': ['"usage": null in every chunk until the last', { usage: 'null-first' }],
  fallback: ['another internal model name than the requested one', { model: 'other' }],
  alphabetical: [
    'keys in alphabetical order and a first chunk with "model": ""',
    { model: 'alphabetical' },
  ],
  'no-model': ['no "model" in chunks and bodies', { model: 'missing' }],
  cr: ['lines end in CR', { eol: '\r' }],
  crlf: ['lines end in CRLF', { eol: '\r\n' }],
  noise: [
    'byte order mark, comments, event/id/retry lines, an event without data',
    { noise: true },
  ],
  html: ['200 with an HTML page', { body: 'html' }],
  'truncated-json': ['200 with half a JSON body', { body: 'truncated' }],
  swapped: ['JSON for a stream request, a stream for a plain one', { body: 'swapped' }],
  redirect: ['302 to an internal address', { body: 'redirect' }],
  reset: ['socket destroyed before any answer', { body: 'reset' }],
  gzip: ['compressed although the request asks for identity', { encoding: 'gzip' }],
  'gzip-undeclared': ['compressed without content-encoding', { encoding: 'gzip-undeclared' }],
  'leaky-headers': [
    'x-litellm-*, server, via, set-cookie and the like with internal names',
    { leaky: true },
  ],
  floats: ['embeddings as numbers although the request asks for base64', { floats: true }],
};

/** The behaviour that a model name selects; null when it names an unknown fault. */
export function behaviourOf(model: string): Behaviour | null {
  const behaviour = { ...HONEST };
  for (const name of model.split('!').slice(1)) {
    const [digits] = /\d+/.exec(name) ?? [];
    const fault = FAULTS[digits === undefined ? name : name.replace(digits, '<n>')];
    if (fault === undefined) return null;
    const change = fault[1];
    Object.assign(behaviour, typeof change === 'function' ? change(Number(digits)) : change);
  }
  return behaviour;
}

/** Internal names that no client of a gateway may see; tests search answers for them. */
export const INTERNAL_HOST = 'router-7.internal.example';
export const INTERNAL_KEY = 'sk-internal-master-2f7a';

/** The message of an error as real routers send it, with internal names, a key and a traceback. */
export function leakyMessage(status: number, model: string): string {
  return (
    `litellm.APIError: deployment ${model} at http://${INTERNAL_HOST}:4000/v1 said ${status} (key ${INTERNAL_KEY})` +
    `\nTraceback (most recent call last):\n  File "/srv/${INTERNAL_HOST}/router.py", line 17`
  );
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
