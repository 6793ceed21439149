import { GatewayError } from '../domain/errors.ts';
import type { Model } from '../domain/model.ts';
import { redact } from '../domain/redact.ts';
import { isFiltered, isOfAccount, isUnknownModel, MAX_REASON } from '../domain/refusal.ts';

/**
 * The client's error for each failure of the upstream (contract section 4, "Errors"). The upstream's own words go to
 * the operator's log alone, except the reason of a bad request.
 */

/**
 * The connection failed.
 * @param sent whether the request was being sent. Before that nothing ran, and a retry is safe, whatever the reason:
 * refused, no such host, no certificate, no free descriptors
 */
export function connectionFailure(sent: boolean): GatewayError {
  return sent ? brokenAnswer() : new GatewayError('service_unavailable');
}

/** Why a connection could not be opened though nothing is wrong with the upstream and the way to it; null: something is. */
export function ownShortage({ code = '' }: Error & { code?: string }): string | null {
  return SHORTAGES[code] ?? null;
}

const NO_FILES = 'no file descriptor is free: raise the limit of open files (ulimit -n, LimitNOFILE)';
const SHORTAGES: Readonly<Record<string, string>> = {
  EMFILE: NO_FILES,
  ENFILE: `${NO_FILES}, or that of the system`,
  EADDRNOTAVAIL: 'no local port is free for a connection to the upstream',
  ENOBUFS: 'the system has no memory for a connection',
  ENOMEM: 'the system has no memory for a connection',
};

/**
 * The part of a call that took too long; `reading`: the whole of it, because the client held the upstream back. `stop`:
 * the gateway stops, and has waited for open calls as long as it may.
 */
export type Deadline = 'connect' | 'first_byte' | 'idle' | 'total' | 'reading' | 'stop';

/**
 * The upstream or the way to it took too long, or the client read too slowly, or the gateway stops.
 * @param sent whether the request was sent: then the upstream may charge for it, and for a retry again
 */
export function deadlineFailure(deadline: Deadline, sent: boolean): GatewayError {
  if (deadline === 'reading') return new GatewayError('upstream_timeout', 'The answer was read too slowly.');
  if (deadline !== 'connect' && deadline !== 'stop') return new GatewayError('upstream_timeout');
  const error = new GatewayError('service_unavailable');
  if (sent) error.retry = false;
  return error;
}

/** The upstream took the request, but its answer broke off or made no sense. The upstream may have charged for it. */
export function brokenAnswer(): GatewayError {
  const error = new GatewayError('upstream_error');
  error.retry = false;
  return error;
}

/** The answer is larger than the gateway holds. The upstream ran, and the call is booked. */
export function answerTooLarge(): GatewayError {
  const error = new GatewayError('upstream_error', TOO_LARGE);
  error.retry = false;
  return error;
}

const TOO_LARGE =
  'The answer is larger than the gateway passes on. It was generated, and is charged. Ask for less in one request.';

/**
 * An answer whose status is not 200.
 * @param body the part of it that was kept
 * @param retryAfter the upstream's header, relayed with 429 only
 * @param secrets the upstream's host and key
 */
export function statusFailure(
  status: number,
  body: Buffer,
  retryAfter: string | undefined,
  model: Model,
  secrets: readonly string[],
): GatewayError {
  if (status < 300 || GATEWAY_TIMEOUTS.has(status)) return brokenAnswer();
  if (status === 429) {
    const error = new GatewayError('rate_limit_exceeded');
    if (retryAfter !== undefined && RETRY_AFTER.test(retryAfter)) error.retryAfter = retryAfter;
    return error;
  }
  if (status === 408) return new GatewayError('upstream_timeout'); // a router's own deadline: the provider may still work
  if (status !== 400 && status !== 413 && status !== 422) return new GatewayError('upstream_error');
  const { message, code, param } = readError(body);
  const text = redact(message, model, secrets) || undefined;
  if (status === 413) return new GatewayError('request_too_large', text);
  if (isUnknownModel(message, code, param) || isOfAccount(message, code)) return new GatewayError('upstream_error');
  if (isFiltered(message, code)) return new GatewayError('invalid_request', FILTERED);
  const tooLong = code === 'context_length_exceeded' || /maximum context length|context window/i.test(message);
  return new GatewayError(
    tooLong ? 'context_length_exceeded' : 'invalid_request',
    text ?? (tooLong ? undefined : REFUSED),
  );
}

/** What a proxy answers whose own time ran out, Cloudflare's too: the provider may still work. */
const GATEWAY_TIMEOUTS: ReadonlySet<number> = new Set([504, 524]);
const FILTERED = 'A content filter refused the prompt. Change it and try again.';
const REFUSED = 'The model refused the request. The operator can find out why by the x-request-id of this answer.';

/** Seconds, or a date as HTTP writes it. */
const RETRY_AFTER = /^(?:\d{1,6}|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)$/;

/** The message, code and parameter of an error body, in any of the formats of routers; empty where there is none. */
function readError(body: Buffer): { message: string; code: string; param: string } {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    return { message: '', code: '', param: '' }; // HTML and the like: nothing in it is meant for a client
  }
  const outer = members(value);
  const inner = outer.error === undefined ? outer : members(outer.error);
  const text = [outer.error, inner.message, inner.detail, outer.message, outer.detail].find(
    (t) => typeof t === 'string',
  );
  const whole = (text as string | undefined) ?? violation(inner.detail ?? outer.detail);
  return { message: whole.slice(0, MAX_REASON), code: textOf(inner.code), param: textOf(inner.param) };
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

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
