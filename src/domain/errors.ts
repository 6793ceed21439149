/** The error vocabulary (spec section 7): the only place that knows the status and the body of an error. */

interface ErrorKind {
  readonly status: number;
  readonly type: string;
  /** `error.code`: what SDK users branch on. */
  readonly code: string | null;
  readonly message: string;
  /** `x-should-retry: false` where a retry could charge twice or cannot help. */
  readonly retry?: false;
  /** Seconds for `retry-after` where none was given. */
  readonly retryAfter?: number;
}

const invalid = { status: 400, type: 'invalid_request_error' } as const;

const KINDS = {
  invalid_request: { ...invalid, code: null, message: 'The request body is invalid.' },
  invalid_json: { ...invalid, code: 'invalid_json', message: 'The request body is not valid JSON.' },
  missing_required_parameter: {
    ...invalid,
    code: 'missing_required_parameter',
    message: 'A required parameter is missing.',
  },
  invalid_type: { ...invalid, code: 'invalid_type', message: 'A parameter has the wrong type.' },
  unsupported_parameter: { ...invalid, code: 'unsupported_parameter', message: 'A parameter is not supported.' },
  context_length_exceeded: {
    ...invalid,
    code: 'context_length_exceeded',
    message: "The input exceeds the model's context length.",
  },
  model_required: {
    ...invalid,
    code: 'model_required',
    message: 'No model: name one in model_slug, or give the assistant a default model.',
  },
  invalid_api_key: {
    status: 401,
    type: 'authentication_error',
    code: 'invalid_api_key',
    message: 'Missing or invalid API key. Send it as "Authorization: Bearer <API_KEY>".',
  },
  insufficient_quota: {
    status: 402,
    type: 'billing_error',
    code: 'insufficient_quota',
    message: 'The monthly budget of your company has been reached.',
    retry: false,
  },
  insufficient_scope: {
    status: 403,
    type: 'permission_error',
    code: 'insufficient_scope',
    message: 'This API key lacks the scope this endpoint requires.',
  },
  non_eu_model_blocked: {
    status: 403,
    type: 'permission_error',
    code: 'non_eu_model_blocked',
    message: 'This model is hosted outside the EU, and your company does not allow non-EU models.',
  },
  not_found: { status: 404, type: 'not_found_error', code: null, message: 'Not found.' },
  method_not_allowed: {
    status: 405,
    type: 'invalid_request_error',
    code: 'method_not_allowed',
    message: 'This method is not allowed here.',
  },
  request_too_large: {
    status: 413,
    type: 'invalid_request_error',
    code: 'request_too_large',
    message: 'The request body is too large.',
  },
  request_timeout: {
    status: 408,
    type: 'invalid_request_error',
    code: 'request_timeout',
    message: 'The request took too long to arrive.',
  },
  request_header_fields_too_large: {
    status: 431,
    type: 'invalid_request_error',
    code: 'request_header_fields_too_large',
    message: 'The request has too many or too large headers.',
  },
  unsupported_media_type: {
    status: 415,
    type: 'invalid_request_error',
    code: 'unsupported_media_type',
    message: 'Send the body as JSON, with "Content-Type: application/json" and no Content-Encoding.',
  },
  rate_limit_exceeded: {
    status: 429,
    type: 'rate_limit_error',
    code: 'rate_limit_exceeded',
    message: 'The model is rate limited. Try again later.',
  },
  internal_error: {
    status: 500,
    type: 'api_error',
    code: 'internal_error',
    message: 'The gateway failed to handle this request.',
    retry: false,
  },
  upstream_error: {
    status: 502,
    type: 'api_error',
    code: 'upstream_error',
    message: 'The model failed to answer.',
  },
  service_unavailable: {
    status: 503,
    type: 'overloaded_error',
    code: 'service_unavailable',
    message: 'The service is temporarily unavailable. Try again shortly.',
    retryAfter: 1,
  },
  upstream_timeout: {
    status: 504,
    type: 'timeout_error',
    code: 'upstream_timeout',
    message: 'The model took too long to answer.',
    retry: false,
  },
} as const satisfies Record<string, ErrorKind>;

export type ErrorName = keyof typeof KINDS;

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
    const kind: ErrorKind = KINDS[name];
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
