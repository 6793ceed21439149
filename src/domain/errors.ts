/** The error vocabulary (spec section 7): the only place that knows the status and the body of an error. */

interface ErrorKind {
  readonly status: number;
  readonly type: string;
  /** `error.code`, which SDK users branch on. */
  readonly code: string | null;
  readonly message: string;
  /** `x-should-retry: false` where a retry could charge twice or cannot help. */
  readonly retry?: false;
  /** Seconds for `retry-after` where none was given. */
  readonly retryAfter?: number;
}

const INVALID = 'invalid_request_error';

/** `code` is the name of the error unless given. */
const TABLE = {
  invalid_request: { status: 400, type: INVALID, code: null, message: 'The request body is invalid.' },
  invalid_json: { status: 400, type: INVALID, message: 'The request body is not valid JSON.' },
  missing_required_parameter: { status: 400, type: INVALID, message: 'A required parameter is missing.' },
  invalid_type: { status: 400, type: INVALID, message: 'A parameter has the wrong type.' },
  unsupported_parameter: { status: 400, type: INVALID, message: 'A parameter is not supported.' },
  context_length_exceeded: { status: 400, type: INVALID, message: "The input exceeds the model's context length." },
  model_required: {
    status: 400,
    type: INVALID,
    message: 'No model: name one in model_slug, or give the assistant a default model.',
  },
  invalid_api_key: {
    status: 401,
    type: 'authentication_error',
    message: 'Missing or invalid API key. Send it as "Authorization: Bearer <API_KEY>".',
  },
  insufficient_quota: {
    status: 402,
    type: 'billing_error',
    message: 'The monthly budget of your company has been reached.',
    retry: false,
  },
  insufficient_scope: {
    status: 403,
    type: 'permission_error',
    message: 'This API key lacks the scope this endpoint requires.',
  },
  non_eu_model_blocked: {
    status: 403,
    type: 'permission_error',
    message: 'This model is hosted outside the EU, and your company does not allow non-EU models.',
  },
  not_found: { status: 404, type: 'not_found_error', code: null, message: 'Not found.' },
  method_not_allowed: { status: 405, type: INVALID, message: 'This method is not allowed here.' },
  request_timeout: { status: 408, type: INVALID, message: 'The request took too long to arrive.' },
  request_too_large: { status: 413, type: INVALID, message: 'The request body is too large.' },
  unsupported_media_type: {
    status: 415,
    type: INVALID,
    message: 'Send the body as JSON, with "Content-Type: application/json" and no Content-Encoding.',
  },
  rate_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    message: 'The model is rate limited. Try again later.',
  },
  request_header_fields_too_large: {
    status: 431,
    type: INVALID,
    message: 'The request has too many or too large headers.',
  },
  internal_error: {
    status: 500,
    type: 'api_error',
    message: 'The gateway failed to handle this request.',
    retry: false,
  },
  upstream_error: { status: 502, type: 'api_error', message: 'The model failed to answer.' },
  service_unavailable: {
    status: 503,
    type: 'overloaded_error',
    message: 'The service is temporarily unavailable. Try again shortly.',
    retryAfter: 1,
  },
  upstream_timeout: {
    status: 504,
    type: 'timeout_error',
    message: 'The model took too long to answer.',
    retry: false,
  },
} as const satisfies Record<string, Omit<ErrorKind, 'code'> & { readonly code?: null }>;

export type ErrorName = keyof typeof TABLE;

const KINDS = Object.fromEntries(
  Object.entries(TABLE).map(([name, kind]) => [name, { code: name, ...kind }]),
) as Record<ErrorName, ErrorKind>;

/**
 * A refusal or failure to be reported to the client.
 * @param detail text for the client in place of the standard message; never holds internal names
 * @param param the request member that is wrong
 */
export class GatewayError extends Error {
  readonly kind: ErrorKind;
  readonly param: string | null;
  /** Value of `retry-after`, if one is to be sent. */
  retryAfter: string | undefined;
  /** Whether a client may retry; undefined leaves it to the status. */
  retry: boolean | undefined;

  constructor(name: ErrorName, detail?: string, param: string | null = null) {
    const kind = KINDS[name];
    super(detail ?? kind.message);
    this.name = name;
    this.kind = kind;
    this.param = param;
    this.retryAfter = kind.retryAfter?.toString();
    this.retry = kind.retry;
  }

  get status(): number {
    return this.kind.status;
  }

  /** The JSON body `{"error":{"message","type","code","param"}}`. */
  get body(): string {
    const { type, code } = this.kind;
    return JSON.stringify({ error: { message: this.message, type, code, param: this.param } });
  }
}

/** The same answer, byte for byte, for models that are unknown, disabled or of the wrong kind (spec section 7). */
export function modelNotFound(slug: string, param: 'model' | 'model_slug' | null = 'model'): GatewayError {
  return new GatewayError('not_found', `The model '${slug}' does not exist or you do not have access to it.`, param);
}
