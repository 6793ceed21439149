import { type ErrorName, statusOfError } from '../errors.ts';
import { eachLimit } from '../limits.ts';
import type { Outcome } from '../usage.ts';

/** What became of a request, in words, for pages and the command line. */

/** The results that lists filter by. */
export const RESULTS = ['success', 'refused', 'failed', 'left'] as const;
export type Result = (typeof RESULTS)[number];

/** The facts about a request that is over. */
export interface RequestFacts {
  /** The status sent; 0: the client left before an answer. null: only the ledger knows the call. */
  readonly status: number | null;
  readonly code: string | null;
  /** The member of the request that the error names, or the setting that refused it. */
  readonly param: string | null;
  readonly endpoint: string;
  readonly model_slug: string | null;
  readonly asked: string | null;
  readonly api_key_id: string | null;
  readonly outcome: Outcome | null;
  /** The cost that was booked; null: none. */
  readonly cost_eur: string | null;
  /** What the upstream answered with, or told inside a 200: of one request, and only where an operator reads it. */
  readonly upstream_status?: number | null;
}

interface Explanation {
  readonly result: Result;
  /** What happened: whole sentences. */
  readonly what: string;
  /** Advice; null: nothing is to be done. */
  readonly advice: string | null;
  /** The place of the setting that the advice is about. */
  readonly about: 'key' | 'models' | 'settings' | null;
}

type Text = readonly [what: string, advice: string | null, about?: Explanation['about']];

/**
 * Whether a failure of the upstream that was noted is the upstream's own. An error 4xx tells the client of a mistake
 * that only it can mend, whatever status the upstream had for it; but 429 after the upstream was asked tells of the
 * upstream's limit. `UPSTREAM_FAILED` says the same in SQL (store/gateway/request-trail.ts).
 * @param status told to the client; 0: it had left
 * @param upstreamStatus null: the upstream gave no answer
 */
export function isUpstreamsFailure(status: number, upstreamStatus: number | null): boolean {
  const told = status || upstreamStatus || 0;
  return told < 400 || told >= 500 || told === 429;
}

/** Requests that got the same error. */
export interface ReasonCount {
  /** Code of the error, or its name where it has no code. */
  readonly code: string;
  readonly requests: number;
}

/** Why requests were refused or failed, in a few words each. Errors without any are told by their codes. */
const REASONS: Readonly<Partial<Record<string, string>>> = {
  invalid_request: 'Invalid request',
  invalid_json: 'Body is not JSON',
  missing_required_parameter: 'Parameter missing',
  invalid_type: 'Parameter of a wrong type',
  unsupported_parameter: 'Parameter not supported',
  context_length_exceeded: 'Input longer than the model takes',
  model_required: 'No model named',
  invalid_api_key: 'Key missing or not valid',
  insufficient_quota: 'Budget reached',
  insufficient_scope: 'Key lacks the scope',
  non_eu_model_blocked: 'EU gate',
  not_found: 'No such model or address',
  method_not_allowed: 'Method not allowed',
  request_timeout: 'Request too slow to arrive',
  request_too_large: 'Request too large',
  unsupported_media_type: 'Body not sent as JSON',
  upgrade_required: 'WebSocket asked for',
  rate_limit_exceeded: 'Rate limit',
  request_header_fields_too_large: 'Headers too large',
  internal_error: 'Error of the gateway',
  upstream_error: 'Upstream failed',
  service_unavailable: 'Gateway overloaded, or upstream not reached',
  upstream_timeout: 'Upstream too slow',
} satisfies Partial<Record<ErrorName, string>>;

/** A reason as people read it, and its status; null for a code that only other versions of this program know. */
export function reasonOfCode(code: string): { readonly text: string; readonly status: number | null } {
  return { text: REASONS[code] ?? code.replaceAll('_', ' '), status: statusOfError(code) };
}

/** Whether the status of an error refuses: the others are failures. */
export function isRefusal(code: string): boolean {
  const status = statusOfError(code);
  return status !== null && status < 500;
}

export function explainRequest(request: RequestFacts): Explanation {
  const [what, advice, about = null] = textOf(request);
  return { result: resultOf(request), what, advice, about };
}

function resultOf({ status, code, outcome }: RequestFacts): Result {
  if (status === null) return outcome === 'upstream_failed' ? 'failed' : 'success';
  if (status === 0) return 'left';
  if (status >= 500 || (status === 200 && code !== null)) return 'failed';
  return status >= 400 ? 'refused' : 'success';
}

function textOf(request: RequestFacts): Text {
  const { status, code, outcome, cost_eur, upstream_status } = request;
  if (status === 0) return outcome === null ? LEFT_EARLY : LEFT;
  if (status === 200 && code !== null) {
    if (outcome === 'client_aborted' && code === 'upstream_timeout') return READ_SLOWLY;
    if (code === 'upstream_timeout') return stalled(cost_eur);
    if (code === 'service_unavailable' && typeof upstream_status !== 'number')
      return upstream_status === null ? STOPPED : STOPPED_OR_BUSY;
    return code === 'upstream_error' || code === 'internal_error' ? broken(cost_eur) : failedInside(code, cost_eur);
  }
  if (status === null || status === 200) {
    if (outcome === 'client_aborted') return LEFT_STREAM;
    return outcome === 'upstream_failed' ? broken(cost_eur) : ['The request was answered.', null];
  }
  const text = Object.hasOwn(TEXTS, code ?? '') ? TEXTS[code as ErrorName] : invalid;
  return typeof text === 'function' ? text(request) : text;
}

const CANCELLED = 'If nobody cancelled it, look at the timeouts of the client and of the proxies before Tollgate.';
const LEFT_EARLY: Text = ['The client left before it was answered. No model ran, and nothing was charged.', CANCELLED];
const LEFT: Text = [
  'The client left before the answer came. What the model generated is charged all the same.',
  CANCELLED,
];
const LEFT_STREAM: Text = [
  'The client left before the stream ended. What was generated until then is charged.',
  CANCELLED,
];
const broken = (cost: string | null): Text => [
  `The stream began, and then the upstream broke it off. ${toldInStream(cost)}`,
  'Let the client try again. If it happens often, the operator finds the reason in what the upstream said.',
];
const stalled = (cost: string | null): Text => [
  `The stream began, and then the upstream sent nothing for too long, or went on for longer than a call may. ${toldInStream(cost)}`,
  'Let the client try again. The operator may set IDLE_SECONDS or TOTAL_SECONDS higher.',
];

/** The upstream told an error inside its stream. */
function failedInside(code: string, cost: string | null): Text {
  const [why, advice] = TOLD_INSIDE[code] ?? ['The model refused the request.', 'Mend the request.'];
  return [`The stream began, and then the upstream told an error. ${why} ${toldInStream(cost)}`, advice];
}

const TOLD_INSIDE: Readonly<Record<string, readonly [why: string, advice: string]>> = {
  context_length_exceeded: [
    'The input was longer than the model takes.',
    'Send less, or use a model with a longer context.',
  ],
  rate_limit_exceeded: [
    'Its own rate limit was reached.',
    'Let the client try again later. If it happens often, the operator raises the limit at the router or its provider.',
  ],
  service_unavailable: [
    'It had too much to do, or was not ready.',
    'Let the client try again. If it happens often, the operator gives the upstream more capacity.',
  ],
};

/** A stream that failed is booked only if there was text, and a usage was told or a limit of the gateway ended it. */
function toldInStream(cost: string | null): string {
  return `The client was told so in the stream. ${cost === null ? 'Nothing was charged.' : 'What it had got is charged.'}`;
}

const STOPPED: Text = [
  'The stream began, and then the gateway stopped. The client was told so in the stream. Nothing was charged.',
  'Let the client try again. The operator may set DRAIN_SECONDS higher.',
];

/** Of both that have this code, for readers who do not learn what the upstream answered. */
const STOPPED_OR_BUSY: Text = [
  'The stream began, and then the gateway stopped, or the model had too much to do. The client was told so in the stream.',
  'Let the client try again.',
];

const READ_SLOWLY: Text = [
  'The client read the stream so slowly that the time for the whole call ran out. What was generated was charged.',
  'Read the stream as it comes. The operator may set TOTAL_SECONDS higher.',
];

const NO_ROOM: Text = [
  'The budget of the company is strict, and the most that this call could cost did not fit into the rest of it.',
  'Set max_tokens lower, raise the budget, or wait for the next month.',
  'settings',
];

const USED_ON = 'Give the application that sends it another key. If none of yours does, somebody else has its text.';

/** Words of the settings that refuse, which the trail has in `param`. Rows of earlier versions do not have them. */
const WORDS: Readonly<Record<string, string>> = {
  company: 'the company',
  key: 'this key',
  ...eachLimit(({ label }) => label.toLowerCase()),
  allowed_cidrs: 'was used from outside its networks',
  expires_at: 'had expired',
  revoked_at: 'was revoked',
};

function settingOf(param: string | null) {
  const [whose = '', column = ''] = (param ?? '').split('.');
  return {
    whose: WORDS[whose],
    what: WORDS[column],
    about: whose === 'key' ? ('key' as const) : ('settings' as const),
  };
}

const UPSTREAM_FAILED: Text = [
  'The upstream failed to answer, or answered with something that is no answer. Nothing was charged.',
  'Let the client try again. If it happens often, the operator finds the reason in what the upstream said.',
];
const KEY_REFUSED: Text = [
  "The upstream refused the gateway's own key. Nothing was charged.",
  'Check UPSTREAM_API_KEY: whether the upstream takes it, and allows it this model. No other try of the client helps.',
];
const NOT_THERE: Text = [
  'The upstream does not know this model, or has nothing at this address. Nothing was charged.',
  `Compare the model's upstream name ("tollgate model list") with the names that the upstream has, and UPSTREAM_URL with its base address: most end in /v1.`,
];
const ACCOUNT_REFUSED: Text = [
  'The upstream refused the account behind it: a credit, a quota or a budget. Nothing was charged.',
  'Read what the upstream said, and look after the account. No other try of the client helps.',
];
/** The only reasons why a call whose upstream answered 400 or 422 becomes `upstream_error`. */
const NOT_THERE_OR_ACCOUNT: Text = [
  'The upstream does not know this model, or refused the account behind it: a key, a credit, a budget, an access. Nothing was charged.',
  `Read what the upstream said, and look after the account. ${NOT_THERE[1]}`,
];

/** The only reason why a call without an answer is booked. */
const TOO_LARGE: Text = [
  'The answer was larger than the gateway holds. It was generated, and is charged.',
  'Let the client ask for less in one request. The operator may set MAX_ANSWER_BYTES higher.',
];

/** Mistakes in the gateway's own settings. */
const BY_UPSTREAM_STATUS: Readonly<Record<number, Text>> = {
  401: KEY_REFUSED,
  402: ACCOUNT_REFUSED,
  403: KEY_REFUSED,
  400: NOT_THERE_OR_ACCOUNT,
  404: NOT_THERE,
  422: NOT_THERE_OR_ACCOUNT,
};

/** By the name of the error, which is its code unless that is null. */
const TEXTS: Readonly<Record<ErrorName, Text | ((request: RequestFacts) => Text)>> = {
  invalid_request: invalid,
  invalid_json: invalid,
  missing_required_parameter: invalid,
  invalid_type: invalid,
  unsupported_parameter: invalid,
  invalid_api_key({ api_key_id, param }) {
    if (api_key_id === null) {
      return [
        'The request had no key, or one that is unknown or of a closed company.',
        'Compare the first eight characters of the key that the client sends with the list of keys.',
      ];
    }
    const why = settingOf(param).what ?? 'is revoked or expired, or was used from outside its networks';
    if (param === 'key.revoked_at') return [`The key ${why}, and somebody still uses it.`, USED_ON, 'key'];
    return [`The key ${why}.`, 'Look at the key.', 'key'];
  },
  insufficient_quota({ param }) {
    if (param === 'company.budget_mode') return NO_ROOM;
    const { whose = 'the company or of this key', about } = settingOf(param);
    const text = `The monthly budget of ${whose} was reached. No model ran, and nothing was charged.`;
    return [text, 'Raise the budget, or wait for the next month.', about];
  },
  insufficient_scope: [
    'The key lacks the scope of this endpoint.',
    'Give the key the scope, or use another key.',
    'key',
  ],
  non_eu_model_blocked: ({ asked, model_slug }) => [
    `The model ${quoted(asked ?? model_slug)} is hosted outside the EU, and the company does not allow such models.`,
    'Use a model in the EU, or open the EU gate of the company.',
    'settings',
  ],
  not_found({ asked, param, endpoint }) {
    if (param === 'company.disabled_model_slugs') {
      return [`The model ${quoted(asked)} is disabled in this company.`, 'Enable it, or use another one.', 'models'];
    }
    if (param === 'key.allowed_model_slugs') {
      return [`This key is not allowed the model ${quoted(asked)}.`, 'Allow it to the key, or use another one.', 'key'];
    }
    if (asked !== null || param === 'model' || param === 'model_slug') {
      return [
        `There is no model ${quoted(asked)} that this key may use: it does not exist, is disabled, or the key is not allowed it.`,
        'Compare the name with GET /models of the same key.',
        'models',
      ];
    }
    if (endpoint === 'assistants.run') {
      return [
        'There is no such assistant of this company, or it is not visible to the API.',
        'Look at the assistants.',
      ];
    }
    return ['There is nothing at the address that was asked for.', "Look at the client's base address."];
  },
  rate_limit_exceeded({ outcome, param }) {
    if (outcome === 'upstream_failed')
      return [
        'The upstream refused the call because of its own rate limit.',
        'Let the client try again later. If it happens often, the operator raises the limit at the router or its provider, or limits the companies that call most.',
      ];
    const { whose, what = 'requests, tokens or calls at once', about } = settingOf(param);
    const advice = `Let the client try again later, or raise the limit of ${whose ?? 'the company or the key'}.`;
    return [`A limit of ${what}${whose === undefined ? '' : ` of ${whose}`} was reached.`, advice, about];
  },
  request_too_large: [
    'The request body was larger than the gateway or the model takes.',
    'Send less, or raise MAX_BODY_BYTES.',
  ],
  context_length_exceeded: [
    'The input is longer than the model takes.',
    'Send less, or use a model with a longer context.',
  ],
  model_required: [
    'The assistant has no model, and the request named none.',
    'Name one in model_slug, or give the assistant a model.',
  ],
  unsupported_media_type: [
    'The body was not sent as plain JSON.',
    'Send "Content-Type: application/json" without Content-Encoding.',
  ],
  method_not_allowed: ['The method of the request is not allowed at this address.', 'Look at the client.'],
  upgrade_required: [
    'The client asked for a WebSocket, which the API does not have.',
    'Most clients then take HTTP by themselves.',
  ],
  request_header_fields_too_large: [
    'The request had too many or too large headers.',
    'Send fewer, or raise MAX_HEADERS or MAX_HEADER_BYTES.',
  ],
  request_timeout: ['The request took too long to arrive.', 'Look at the connection of the client.'],
  internal_error: [
    'The gateway failed to handle the request.',
    'The log of the gateway has the reason under this id. Please report it.',
  ],
  upstream_error: ({ upstream_status, cost_eur }) =>
    cost_eur === null ? (BY_UPSTREAM_STATUS[upstream_status ?? 0] ?? UPSTREAM_FAILED) : TOO_LARGE,
  upstream_timeout: [
    'The upstream took too long to answer. Nothing was charged.',
    'Ask for shorter answers or stream them. The operator may set FIRST_BYTE_SECONDS higher.',
  ],
  service_unavailable({ endpoint, outcome, upstream_status }) {
    if (endpoint === 'shed') {
      return [
        'The gateway had too much to do and refused the request at once.',
        'Let the client try again. If it happens often, add gateways.',
      ];
    }
    if (outcome === 'upstream_failed' && typeof upstream_status === 'number') {
      return [
        'The upstream had too much to do, or was still loading the model. Nothing was charged.',
        'Let the client try again. If it happens often, give the upstream more capacity, or keep its models loaded.',
      ];
    }
    if (outcome === 'upstream_failed') {
      return [
        'The upstream could not be reached, or had too much to do. Nothing was charged.',
        'Let the client try again. If it goes on, the operator looks whether the upstream runs at UPSTREAM_URL.',
      ];
    }
    return [
      'The gateway was stopping, could not ask the database, or had no file descriptor for the call. Nothing was charged.',
      'Let the client try again. Of descriptors the log of the gateway tells, and ulimit -n raises their number.',
    ];
  },
};

/** Explains an invalid request, and one with an error that only other versions of this program know. */
function invalid({ param, outcome }: RequestFacts): Text {
  if (outcome === 'upstream_failed')
    return ['The model refused the request.', 'The client was told why. Mend the request.'];
  const of = param === null ? '' : ` because of its parameter ${quoted(param)}`;
  return [`The request was refused${of}.`, 'The client was told why. Mend the request.'];
}

function quoted(name: string | null): string {
  return name === null ? 'of that name' : `“${name}”`;
}
