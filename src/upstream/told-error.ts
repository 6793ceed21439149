import { isPublicCode } from '../domain/request/public-codes.ts';
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
  /** The code of an error that the message wraps. */
  readonly innerCode: string;
  readonly type: string;
  /** The member that it names; empty: none. */
  readonly param: string;
  /** Whether it says that the member is missing. */
  readonly isMissing: boolean;
  /** What a validator found wrong with the request, where the error is a list of that. */
  readonly violations: readonly Violation[];
  /** The HTTP status that it names, by number or by a name such as "rate_limit_error"; 0: none. */
  readonly status: number;
  /** How long to wait, in whole seconds; 0: not told. */
  readonly retryAfter: number;
}

/** One thing that is wrong with a request. */
interface Violation {
  /** The member, as "messages.0.content"; empty: the body as a whole. */
  readonly path: string;
  readonly reason: string;
  readonly isMissing: boolean;
}

// biome-ignore format: a value
const NOTHING: ToldError = {
  message: '', words: '', code: '', innerCode: '', type: '', param: '', isMissing: false, violations: [], status: 0, retryAfter: 0,
};

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
  const held =
    outer.error ?? members(outer.response).error ?? ofChoice(outer.choices) ?? first(outer.errors);
  const inner = held === undefined || held === null ? outer : members(held);
  const { raw } = members(inner.metadata); // OpenRouter: the provider's own error
  const own = [held, inner.message, inner.detail, outer.message, outer.detail].find(isText);
  const text = isText(raw) && /^provider returned error/i.test(own ?? '') ? raw : own;
  const violations = text === undefined ? violationsOf([inner, outer]) : violationsWithin(text);
  const message = (
    text ?? violations.map(({ path, reason }) => `${path} ${reason}`).join('; ')
  ).slice(0, MAX_REASON);
  const code = named(inner.code ?? (held === undefined ? undefined : outer.code));
  const innerCode = INNER_CODE.exec(message)?.[2] ?? '';
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
    innerCode,
    type,
    param: named(inner.param) || (INNER_PARAM.exec(message)?.[2] ?? violations[0]?.path ?? ''),
    isMissing:
      (violations[0]?.isMissing ?? false) ||
      [code, innerCode].includes('missing_required_parameter'),
    violations,
    status:
      number ??
      ((isPublicCode(code) ? 400 : statusNamed(code)) ||
        statusNamed(named(inner.status)) ||
        statusNamed(type) ||
        statusWithin(message)),
    retryAfter: waitIn(inner, message),
  };
}

function ofChoice(choices: unknown): unknown {
  if (!Array.isArray(choices)) return undefined;
  return choices
    .map((choice) => members(choice).error)
    .find((error) => error !== undefined && error !== null);
}

function first(list: unknown): unknown {
  return Array.isArray(list) ? list[0] : undefined;
}

/** An HTTP status, as a number or written out; 0: none. */
function statusIn(value: unknown): number {
  const number = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && number >= 400 && number < 600
    ? number
    : 0;
}

/**
 * Statuses for codes, types and names of classes; the first that fits. Of gRPC, OpenAI, Anthropic, AWS, LiteLLM and
 * engines.
 */
const NAMES: readonly (readonly [pattern: RegExp, status: number])[] = [
  [
    /quota_?exceeded|insufficient_?(?:quota|balance|credit|funds)|billing|payment|usage_?limit/i,
    402,
  ],
  [/rate_?limit|too_?many_?requests|throttl|resource_?exhausted|^(?:tokens|requests)$/i, 429],
  [/overload|unavailable|slow_?down|not_?ready|at_?capacity|loading/i, 503],
  [/time_?out|deadline/i, 408],
  [/too_?large$/i, 413],
  [/authenti|unauthori[sz]|api_?key/i, 401],
  [/permission|forbidden|access_?denied/i, 403],
  [/not_?found|not_?exist/i, 404],
  [
    /^invalid|^unsupported|bad_?request|validation|unprocessable|failed_?precondition|out_?of_?range/i,
    400,
  ],
  [
    /^image_|_image_|_image$|image_file|content_(?:filter|policy)|policy_violation|cyber_policy/i,
    400,
  ],
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
  const listed = (Array.isArray(details) ? details : []).map((detail) =>
    seconds(members(detail).retryDelay),
  ); // gRPC
  const waits = [
    error.retry_after,
    error.retry_after_seconds,
    error.estimated_time,
    members(metadata).retry_after_seconds,
  ];
  const found = [...waits.map(seconds), ...listed].find((wait) => wait > 0) ?? waitWithin(message);
  return found > 0 && found <= LONGEST_WAIT ? Math.ceil(found) : 0;
}

function waitWithin(message: string): number {
  const [, hours = '0', minutes = '0', rest = '0', unit = 's'] = WAIT.exec(message) ?? [];
  return (
    Number(hours) * 3600 +
    Number(minutes) * 60 +
    Number(rest) / (unit.toLowerCase() === 'ms' ? 1000 : 1)
  );
}

/** A number of seconds, or text such as "11s". */
function seconds(value: unknown): number {
  const number = typeof value === 'string' ? Number(/^(\d+(?:\.\d+)?)s?$/.exec(value)?.[1]) : value;
  return typeof number === 'number' && number > 0 ? number : 0;
}

/** Within the text of an error that wraps another one, as JSON or Python writes it. */
const INNER_CODE = /[{,]\s*(['"])code\1\s*:\s*['"](\w{1,60})['"]/;
const INNER_PARAM = /[{,]\s*(['"])param\1\s*:\s*['"]([^'"]{1,200})['"]/;

/**
 * What FastAPI and Pydantic found wrong: {"loc":["body","top_k"],"msg":"must be positive"}, in a list that is the detail
 * or the message, or a member of the message.
 */
function violationsOf(errors: readonly Record<string, unknown>[]): Violation[] {
  const lists = errors.flatMap(({ detail, message, errors }) => [
    detail,
    message,
    members(message).detail,
    errors,
  ]);
  const list = lists.find(Array.isArray) ?? lists.filter((value) => isText(members(value).msg));
  return list
    .map(members)
    .flatMap(({ loc, msg, type }) =>
      isText(msg) ? violation(Array.isArray(loc) ? loc : [], msg, named(type)) : [],
    );
}

/** How much of a text is searched for violations: each may repeat the request. */
const MAX_LISTED = 65_536;
/** A violation as JSON or Python writes it within a text. */
const LISTED =
  /(?:(['"])type\1\s*:\s*['"]([\w.]{1,60})['"]\s*,\s*)?(['"])loc\3\s*:\s*[[(]((?:'[^']{0,200}'|"[^"]{0,200}"|[\s\d,]){0,64})[\])]\s*,\s*(['"])msg\5\s*:\s*(['"])((?:(?!\6)[^\\]|\\.){1,1000})\6/gs;
/** A violation as Pydantic prints it: the member, then the reason in a line of its own. */
const PRINTED = /^([^\s:]{1,200})\n +(.{1,500}?) [[(]type=([\w.]{1,60})/gm;

function violationsWithin(text: string): Violation[] {
  const listed = text.slice(0, MAX_LISTED);
  if (/['"]loc['"]/.test(listed)) {
    return [...listed.matchAll(LISTED)].flatMap(([, , type = '', , loc = '', , , msg = '']) =>
      violation(
        Array.from(loc.matchAll(/'([^']*)'|"([^"]*)"|(\d+)/g), ([, a, b, c]) => a ?? b ?? c),
        msg,
        type,
      ),
    );
  }
  if (!/^\d+ validation errors? for\b/m.test(listed)) return [];
  return [...listed.matchAll(PRINTED)].flatMap(([, path = '', msg = '', type = '']) =>
    violation(path.split('.'), msg, type),
  );
}

/** None where it is about a header or the address: those are the router's. Parts of a path that name a type are left out. */
function violation(loc: readonly unknown[], reason: string, type: string): Violation[] {
  if (loc.length > 1 && OF_ROUTER.includes(loc[0])) return [];
  const steps = loc.filter(
    (step, n) => isStep(step) && !(n === 0 && step === 'body') && !OF_TYPE.test(`${step}`),
  );
  return [{ path: steps.join('.'), reason, isMissing: /(?:^|\.)missing$/.test(type) }];
}

const OF_ROUTER: readonly unknown[] = ['header', 'query', 'path', 'cookie'];
/** How Pydantic names the branch of a union. */
const OF_TYPE =
  /^(?:[A-Z]\w*|str|int|float|bool|bytes|dict|list|none|nullable|typed-dict|.*[[(].*)$/;

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
