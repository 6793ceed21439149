import { MAX_REASON } from '../domain/request/refusal.ts';

/** Longer texts are no errors: reading them would pause the process for all others. */
const MAX_BYTES = 1024 * 1024;

/** An error as an upstream tells it, in any of the formats of providers, engines and routers. */
export interface ToldError {
  /** In its own words, which may wrap those of others. */
  readonly message: string;
  /** The message, or plain text that is no message and not for clients. */
  readonly words: string;
  readonly code: string;
  readonly type: string;
  readonly param: string;
  /** The HTTP status that it names, by number or by a name such as "rate_limit_error"; 0: none. */
  readonly status: number;
  /** How long to wait, in whole seconds; 0: not told. */
  readonly retryAfter: number;
}

const NOTHING: ToldError = { message: '', words: '', code: '', type: '', param: '', status: 0, retryAfter: 0 };

/**
 * Reads an error: a body, or the data of an event.
 *
 *   {"error":{"message","type","code","param"}}     {"error":"…"}     {"detail":"…"}     [{"error":{…}}]
 *   {"type":"error","error":{"type","message"}}     {"object":"error","message","code":400}
 *   {"type":"response.failed","response":{"error":{"code","message"}}}     {"choices":[{"error":{…}}]}
 */
export function readError(bytes: Buffer): ToldError {
  if (bytes.length > MAX_BYTES) return NOTHING;
  const written = bytes.toString();
  let value: unknown;
  try {
    value = JSON.parse(written);
  } catch {
    // HTML and the like is never meant for a client
    return /^\s*</.test(written) ? NOTHING : { ...NOTHING, words: written.slice(0, MAX_REASON) };
  }
  if (Array.isArray(value)) value = value[0];
  const outer = members(value);
  const held = outer.error ?? members(outer.response).error ?? ofChoice(outer.choices) ?? first(outer.errors);
  const inner = held === undefined || held === null ? outer : members(held);
  const { raw } = members(inner.metadata); // OpenRouter: the provider's own error
  const own = [held, inner.message, inner.detail, outer.message, outer.detail].find(isText);
  const text = isText(raw) && /^provider returned error/i.test(own ?? '') ? raw : own;
  const message = (text ?? violation(inner.detail ?? outer.detail)).slice(0, MAX_REASON);
  const code = named(inner.code ?? (held === undefined ? undefined : outer.code));
  const type = named(inner.type ?? inner.error_type ?? outer.error_type);
  const number = [
    inner.code,
    inner.status,
    inner.status_code,
    inner.statusCode,
    outer.code,
    outer.status,
    outer.status_code,
  ]
    .map(statusIn)
    .find((status) => status > 0);
  return {
    message,
    words: message,
    code,
    type,
    param: named(inner.param),
    status:
      number ?? (statusNamed(code) || statusNamed(named(inner.status)) || statusNamed(type) || statusWithin(message)),
    retryAfter: waitIn(inner, message),
  };
}

function ofChoice(choices: unknown): unknown {
  if (!Array.isArray(choices)) return undefined;
  return choices.map((choice) => members(choice).error).find((error) => error !== undefined && error !== null);
}

function first(list: unknown): unknown {
  return Array.isArray(list) ? list[0] : undefined;
}

/** An HTTP status, as a number or written out; 0: none. */
function statusIn(value: unknown): number {
  const number = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number >= 400 && number < 600 ? number : 0;
}

/**
 * Statuses for codes, types and names of classes; the first that fits. Of gRPC, OpenAI, Anthropic, AWS, LiteLLM and
 * engines.
 */
const NAMES: readonly (readonly [pattern: RegExp, status: number])[] = [
  [/quota_?exceeded|insufficient_?(?:quota|balance|credit|funds)|billing|payment|usage_?limit/i, 402],
  [/rate_?limit|too_?many_?requests|throttl|resource_?exhausted|^(?:tokens|requests)$/i, 429],
  [/overload|unavailable|slow_?down|not_?ready|at_?capacity|loading/i, 503],
  [/time_?out|deadline/i, 408],
  [/too_?large$/i, 413],
  [/authenti|unauthori[sz]|api_?key/i, 401],
  [/permission|forbidden|access_?denied/i, 403],
  [/not_?found|not_?exist/i, 404],
  [/^invalid|^unsupported|bad_?request|validation|unprocessable|failed_?precondition|out_?of_?range/i, 400],
  [/^image_|_image_|_image$|image_file|content_(?:filter|policy)|policy_violation|cyber_policy/i, 400],
  [/context_?(?:length|window|size)/i, 400],
];

function statusNamed(name: string): number {
  return name === '' ? 0 : (NAMES.find(([pattern]) => pattern.test(name))?.[1] ?? 0);
}

/** The status in a wrapping: "Error code: 429 - {…}", "litellm.RateLimitError: …". The innermost class comes last, and is the provider's. */
function statusWithin(message: string): number {
  const number = statusIn(/\berror code:? (\d{3})\b/i.exec(message)?.[1]);
  if (number > 0) return number;
  const classes = /^(?:[\w.]+(?:Error|Exception)\b[\s:-]*)+/.exec(message)?.[0] ?? '';
  return (
    classes
      .split(/[\s:-]+/)
      .map((name) => statusNamed(name.slice(name.lastIndexOf('.') + 1)))
      .find((status) => status > 0) ?? 0
  );
}

/** "Please try again in 11.054s", "retry after 20 seconds", "in 1m30.5s", "in 350ms". */
const WAIT =
  /\b(?:try again|retry|retrying|wait)\b(?: (?:in|after|for))?:? (?:(\d+)h ?)?(?:(\d+) ?m(?:in(?:ute)?s?)?(?![a-z]) ?)?(?:(\d+(?:\.\d+)?) ?(ms|s)(?:ec(?:ond)?s?)?\b)?/i;
/** Nobody waits longer. */
const LONGEST_WAIT = 86_400;

function waitIn(error: Record<string, unknown>, message: string): number {
  const { metadata, details } = error;
  const listed = (Array.isArray(details) ? details : []).map((detail) => seconds(members(detail).retryDelay)); // gRPC
  const told = [
    error.retry_after,
    error.retry_after_seconds,
    error.estimated_time,
    members(metadata).retry_after_seconds,
  ];
  const found = [...told.map(seconds), ...listed].find((wait) => wait > 0) ?? waitWithin(message);
  return found > 0 && found <= LONGEST_WAIT ? Math.ceil(found) : 0;
}

function waitWithin(message: string): number {
  const [, hours = '0', minutes = '0', rest = '0', unit = 's'] = WAIT.exec(message) ?? [];
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(rest) / (unit.toLowerCase() === 'ms' ? 1000 : 1);
}

/** A number of seconds, or text such as "11s". */
function seconds(value: unknown): number {
  const number = typeof value === 'string' ? Number(/^(\d+(?:\.\d+)?)s?$/.exec(value)?.[1]) : value;
  return typeof number === 'number' && number > 0 ? number : 0;
}

/** The first of FastAPI's violations: {"loc":["body","top_k"],"msg":"must be positive"}. */
function violation(detail: unknown): string {
  const { loc, msg } = members(Array.isArray(detail) ? detail[0] : null);
  if (typeof msg !== 'string') return '';
  const steps = Array.isArray(loc) ? loc.filter((step) => step !== 'body' && isStep(step)) : [];
  return steps.length === 0 ? msg : `${steps.join('.')}: ${msg}`;
}

function isStep(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number';
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function named(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
