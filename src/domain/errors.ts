/** The error vocabulary (spec section 7): the only place that knows the status and the body of an error. */

/** `error.type` by status; other statuses have `invalid_request_error`. */
const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  500: 'api_error',
  502: 'api_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

const NONE: readonly string[] = [];

type Row = readonly [status: number, message: string, more?: More];

interface More {
  /** `error.code`, which SDK users branch on, is the name of the error unless this is given. */
  readonly code?: string | null;
  /** `x-should-retry: false` where a retry could charge twice or cannot help. */
  readonly retry?: false;
  /** Seconds for `retry-after` where none was given. */
  readonly retryAfter?: number;
  /** Headers that HTTP demands with the status, names and values in turn. */
  readonly headers?: readonly string[];
}

const TABLE = {
  invalid_request: [400, 'The request body is invalid.', { code: null }],
  invalid_json: [400, 'The request body is not valid JSON.'],
  missing_required_parameter: [400, 'A required parameter is missing.'],
  invalid_type: [400, 'A parameter has the wrong type.'],
  unsupported_parameter: [400, 'A parameter is not supported.'],
  context_length_exceeded: [400, "The input exceeds the model's context length."],
  model_required: [400, 'No model: name one in model_slug, or give the assistant a default model.'],
  invalid_api_key: [
    401,
    'Missing or invalid API key. Send it as "Authorization: Bearer <API_KEY>".',
    { headers: ['www-authenticate', 'Bearer'], retry: false },
  ],
  insufficient_quota: [
    402,
    'The monthly budget of your company has been reached.',
    { retry: false },
  ],
  account_paused: [
    403,
    'The account of your company is paused. Its owners see the reason when they sign in.',
  ],
  key_paused: [
    403,
    'This API key is paused. Whoever manages the keys of your company can tell why.',
  ],
  insufficient_scope: [403, 'This API key lacks the scope this endpoint requires.'],
  non_eu_model_blocked: [
    403,
    'This model is hosted outside the EU, and your company does not allow non-EU models.',
  ],
  not_found: [404, 'Not found.', { code: null }],
  method_not_allowed: [
    405,
    'This endpoint does not take this method: models and usage take GET, all others POST.',
  ],
  request_timeout: [408, 'The request took too long to arrive.'],
  request_too_large: [413, 'The request body is too large.'],
  unsupported_media_type: [
    415,
    'Send the body as JSON, with "Content-Type: application/json" and no Content-Encoding.',
  ],
  upgrade_required: [
    426,
    'This gateway has no WebSockets. Send the request by HTTP: POST, with "stream": true for its events.',
    { headers: ['upgrade', 'HTTP/1.1'] },
  ],
  rate_limit_exceeded: [429, 'The model is rate limited. Try again later.'],
  request_header_fields_too_large: [431, 'The request has too many or too large headers.'],
  internal_error: [500, 'The gateway failed to handle this request.', { retry: false }],
  upstream_error: [502, 'The model failed to answer.'],
  service_unavailable: [
    503,
    'Service unavailable for the moment. Try again shortly.',
    { retryAfter: 1 },
  ],
  upstream_timeout: [504, 'The model took too long to answer.', { retry: false }],
} as const satisfies Record<string, Row>;

export type ErrorName = keyof typeof TABLE;
export type ErrorStatus = (typeof TABLE)[ErrorName][0];
export const ERROR_NAMES = Object.keys(TABLE) as readonly ErrorName[];

/** The status of an error by its name; null for one that this version does not know. */
export function statusOfError(name: string): ErrorStatus | null {
  return Object.hasOwn(TABLE, name) ? TABLE[name as ErrorName][0] : null;
}

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

/**
 * A refusal or failure to be reported to the client.
 * @param detail text for the client in place of the standard message; never holds internal names
 * @param param the request member that is wrong
 */
export class GatewayError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;
  /** Value of `retry-after`, if one is to be sent. */
  retryAfter: string | undefined;
  /** More headers of the answer, names and values in turn. */
  headers: readonly string[];
  /** Whether a client may retry; undefined leaves it to the status. */
  retry: boolean | undefined;
  /** The column that made Tollgate refuse, such as `key.revoked_at`: for the trail and the log, not for clients. */
  setting: string | null = null;
  /** The code that the model gave its refusal: the client reads it in place of `code`, the log and the trail do not. */
  toldCode: string | null = null;
  /** `error.details` of the Messages API, by which its SDKs decide what to do. */
  details: Readonly<Record<string, unknown>> | undefined;

  constructor(name: ErrorName, detail?: string, param: string | null = null) {
    const [status, message, { code = name, retry, retryAfter, headers = NONE } = {}] = TABLE[
      name
    ] as Row;
    super(detail ?? message);
    this.name = name;
    this.status = status;
    this.code = code;
    this.param = param;
    this.retryAfter = retryAfter?.toString();
    this.headers = headers;
    this.retry = retry;
  }

  by(setting: string): this {
    this.setting = setting;
    return this;
  }

  /** `error.type`. */
  get type(): string {
    return TYPES[this.status] ?? 'invalid_request_error';
  }

  /** The JSON body `{"error":{"message","type","code","param"}}`. */
  get body(): string {
    const { message, type, param } = this;
    const code = this.toldCode ?? this.code;
    return JSON.stringify({ error: { message, type, code, param } });
  }
}

/** The request member that named the slug; null for an assistant's default. */
export type SlugParam = 'model' | 'model_slug' | null;

/** The facts about a stream that an error ends. */
export interface BrokenStream {
  readonly requestId: string;
  /** When the request came, in milliseconds since the epoch. */
  readonly at: number;
  /** Data events that were sent before. */
  readonly events: number;
  /** The slug. */
  readonly model: string;
  /** The id that earlier events gave the answer; empty: none did. */
  readonly id: string;
}

/** How a dialect writes an error. */
export interface ErrorFormat {
  /** The header besides `x-request-id` in which SDKs of the dialect look for the id of an answer; null: none. */
  readonly idHeader: string | null;
  body(error: GatewayError, requestId: string): string;
  /** The event that ends a broken stream. */
  event(error: GatewayError, stream: BrokenStream): string;
  /** Whether an error that the upstream's stream tells is told by an event too where nothing was sent yet, not by its status. */
  readonly byEvent: boolean;
}

/** Errors of the reference format. */
export const REFERENCE_ERRORS: ErrorFormat = {
  idHeader: null,
  body: (error) => error.body,
  event: (error) => `data: ${error.body}\n\n`,
  byEvent: false,
};

/** Errors of reranking: clients of Cohere read the text beside `error`, in `message`. */
export const RERANK_ERRORS: ErrorFormat = {
  ...REFERENCE_ERRORS,
  body: ({ body, message }) => `${body.slice(0, -1)},"message":${JSON.stringify(message)}}`,
};

/**
 * Errors of the Responses API: bodies as in the reference format. A stream ends with two events, as OpenAI's own do:
 * official SDKs throw at `error` (for Node versions 5 and 6 at its member `error` alone), and Codex reads
 * `response.failed` alone. Of statuses it understands little: at 400 it does not shorten its history, at 429 it gives
 * up, and at 503 it asks thirty times.
 */
export const RESPONSES_ERRORS: ErrorFormat = {
  ...REFERENCE_ERRORS,
  event(error, { requestId, at, events, model, id }) {
    const response = {
      id: id || `resp_${requestId.replaceAll('-', '')}`,
      object: 'response',
      created_at: Math.floor(at / 1000),
      status: 'failed',
      error: { code: failedCode(error), message: error.message },
      incomplete_details: null,
      instructions: null,
      model,
      output: [],
      parallel_tool_calls: true,
      store: false,
      tool_choice: 'auto',
      tools: [],
      usage: null,
      metadata: {},
    };
    const { type, message, param } = error;
    const code = error.toldCode ?? error.code;
    const told = { code, message, param };
    const thrown = { type: 'error', ...told, sequence_number: events, error: { type, ...told } };
    const failed = { type: 'response.failed', sequence_number: events + 1, response };
    return `event: error\ndata: ${JSON.stringify(thrown)}\n\nevent: response.failed\ndata: ${JSON.stringify(failed)}\n\n`;
  },
  byEvent: true,
};

/**
 * The code of a failed response, in the words of the format: at `invalid_prompt` and `server_is_overloaded` clients
 * give up, at `rate_limit_exceeded` they wait. `insufficient_quota` is none of ours: the caller would take it for its own.
 */
function failedCode({ name, status }: GatewayError): string {
  if (name === 'context_length_exceeded' || name === 'rate_limit_exceeded') return name;
  if (name === 'service_unavailable') return 'server_is_overloaded';
  return status < 500 ? 'invalid_prompt' : 'server_error';
}

/** Errors of the Messages API. They have no code: clients shorten their history at the words "prompt is too long". */
export const MESSAGES_ERRORS: ErrorFormat = {
  idHeader: 'request-id',
  body({ name, status, type, message, details }, requestId) {
    const isTooLong = name === 'context_length_exceeded' && !message.includes(TOO_LONG);
    const error = {
      type: status === 413 ? 'request_too_large' : type,
      message: isTooLong ? `${TOO_LONG}: ${message}` : message,
      details,
    };
    return JSON.stringify({ type: 'error', error, request_id: requestId });
  },
  event: (error, { requestId }) =>
    `event: error\ndata: ${MESSAGES_ERRORS.body(error, requestId)}\n\n`,
  byEvent: false,
};

const TOO_LONG = 'prompt is too long';

/** The error for a member that two readers could understand differently. */
export function twoReadings(param: string): GatewayError {
  return new GatewayError(
    'invalid_request',
    `The parameter '${param}' could be read in two ways.`,
    param,
  );
}

/** @param why a sentence about the reason, with a space before it */
export function unsupportedParameter(param: string, why = ''): GatewayError {
  return new GatewayError(
    'unsupported_parameter',
    `Unsupported parameter: '${param}'.${why}`,
    param,
  );
}

/** The error for unknown and disabled models, the same byte for byte (spec section 7). */
export function modelNotFound(slug: string, param: SlugParam = 'model'): GatewayError {
  return new GatewayError(
    'not_found',
    `The model '${slug}' does not exist or you do not have access to it.`,
    param,
  );
}
