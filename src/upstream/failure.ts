import { type ErrorName, GatewayError } from '../domain/errors.ts';
import type { Model } from '../domain/model.ts';
import { isOverflow } from '../domain/request/overflow.ts';
import type { OwnBody } from '../domain/request/own-body.ts';
import { isPublicCode } from '../domain/request/public-codes.ts';
import { MAX_SHOWN, redact } from '../domain/request/redact.ts';
import {
  isFiltered,
  isModerated,
  isOfAccount,
  isOfCaller,
  isOfRequest,
  isOfStoredItem,
  isUnknownModel,
  statusOfWords,
} from '../domain/request/refusal.ts';
import { storedItem } from '../domain/request/stateless.ts';
import { retryAfterSeconds } from './retry-after.ts';
import { readError, type ToldError } from './told-error.ts';

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

const NO_FILES =
  'no file descriptor is free: raise the limit of open files (ulimit -n, LimitNOFILE)';
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
  if (deadline === 'reading')
    return new GatewayError('upstream_timeout', 'The answer was read too slowly.');
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

/** A fault of the gateway. @param sent whether the request was sent: then a retry may be charged again */
export function ownFault(sent: boolean): GatewayError {
  const error = new GatewayError('internal_error');
  if (sent) error.retry = false;
  return error;
}

/**
 * A stream that began broke off and costs nothing, so that it may be asked for again. An event has no status: agents
 * look for words in the text, pi for "connection error", "server error" and "terminated", Continue for "premature end".
 */
export function brokenStream(isTold: boolean): GatewayError {
  const cause = isTold ? 'Server error' : 'Connection error';
  return new GatewayError(
    'upstream_error',
    `${cause}: the stream was terminated, a premature end of the answer. Try again.`,
  );
}

/** The answer is larger than the gateway holds. The upstream ran, and the call is booked. */
export function answerTooLarge(text = TOO_LARGE): GatewayError {
  const error = new GatewayError('upstream_error', text);
  error.retry = false;
  return error;
}

/** An event of a stream is larger than MAX_EVENT_BYTES. */
export function eventTooLarge(): GatewayError {
  return answerTooLarge(
    'An event of the answer is larger than the gateway passes on. Ask for less in one request.',
  );
}

const TOO_LARGE =
  'The answer is larger than the gateway passes on. It was generated, and is charged. Ask for less in one request.';

/** Statuses by which a router says that it has no such endpoint. */
export const LACKING: ReadonlySet<number> = new Set([404, 405, 501]);
const NO_COUNT =
  'The tokens of a prompt for this model cannot be counted: what serves it has no endpoint for that.';

/** Facts of a call on which the client's error depends, besides the upstream's answer. */
export interface FailedCall {
  readonly model: Model;
  /** Internal names of other models, the upstream's host and key. */
  readonly secrets: readonly string[];
  /** The request, as the caller sent it. */
  readonly ownBody: Pick<OwnBody, 'member' | 'nearest'>;
  /** The answer's `retry-after`. */
  readonly retryAfter: string | undefined;
  /** Whether it only counts tokens, at an endpoint that routers may lack. */
  readonly isOptional?: boolean;
}

/**
 * An answer whose status is not 200.
 * @param body the part of it that was kept
 */
export function statusFailure(status: number, body: Buffer, call: FailedCall): GatewayError {
  if (status < 300) return brokenAnswer();
  const upstreamError = readError(body);
  if (
    call.isOptional &&
    LACKING.has(status) &&
    !isUnknownModel(upstreamError.message, upstreamError.code, upstreamError.param)
  )
    return new GatewayError('not_found', NO_COUNT);
  return failureOf(status, upstreamError, call);
}

/** An error inside a 200. */
export interface ToldFailure {
  readonly error: GatewayError;
  /** The status that the upstream tells; 0: none. */
  readonly status: number;
  /** The upstream's own words, for the operator. */
  readonly words: string;
}

/**
 * An error inside an answer whose status is 200, whole or an event. It becomes the same error as these words with an
 * error status.
 * @param told the answer, or the data of the event
 * @param ran whether the model generated something: then a retry could charge twice
 */
export function toldFailure(told: Buffer, call: FailedCall, ran: boolean): ToldFailure {
  const read = readError(told);
  const error = failureOf(0, { ...read, words: read.message }, call); // other text may be the model's
  if (ran || (error.status >= 500 && error.name !== BUSY)) error.retry = false;
  return { error, status: read.status, words: `${read.code} ${read.message}`.trim() };
}

/** The row of the error table for an error of the upstream. @param http the answer's status; 0: it was 200 */
function failureOf(http: number, told: ToldError, call: FailedCall): GatewayError {
  const status = decisiveStatus(http, told);
  const { message, words, code, type, param } = told;
  if (status === 408) return new GatewayError('upstream_timeout'); // a router's own deadline: the provider may still work
  if (GATEWAY_TIMEOUTS.has(status)) return brokenAnswer();
  if (!NOT_OF_LENGTH.has(status) && isOverflow(words, `${code} ${type}`)) {
    return refusal('context_length_exceeded', told, call);
  }
  if (status === 413) return refusal('request_too_large', told, call);
  if (status === 429) return rateLimited(waitOf(told, call)); // some tell a rate in the words of a quota
  if (isOfAccount(message, code) || isOfAccount('', type))
    return new GatewayError('upstream_error');
  if (status === 503 || status === 529) return busy(waitOf(told, call));
  if (status !== 400 && status !== 422 && status !== 403 && status !== 404)
    return new GatewayError('upstream_error');
  if (isUnknownModel(message, code, param)) return new GatewayError('upstream_error');
  if (isOfStoredItem(message, code)) return storedItem();
  if (status === 400 || status === 422) return invalid(isFiltered(message, code), told, call);
  // nearly always a 403 or 404 is about our key and our mapping
  const isOfPrompt = isModerated(message, code);
  if (!isOfPrompt && !isOfRequest(message, param)) return new GatewayError('upstream_error');
  return invalid(isOfPrompt, told, call);
}

/** @param isOfPrompt whether a content filter refused the prompt: then the client gets our words */
function invalid(isOfPrompt: boolean, told: ToldError, call: FailedCall): GatewayError {
  const error = refusal('invalid_request', told, call, isOfPrompt ? FILTERED : undefined);
  error.toldCode = [told.code, told.innerCode].find(isPublicCode) ?? null;
  return error;
}

/** A mistake of the caller in the upstream's words, as far as they are for clients, with the member that they name. */
function refusal(
  name: ErrorName,
  told: ToldError,
  call: FailedCall,
  text = wordsForClient(told, call),
): GatewayError {
  const { param, isMissing, violations } = told;
  const [first] = violations;
  const reason = text ?? (name === 'invalid_request' ? REFUSED : undefined);
  const member =
    first === undefined
      ? call.ownBody.member(param, isMissing ? (reason ?? null) : null)
      : call.ownBody.nearest(first.path, first.isMissing);
  const isClean = member && redact(member, call.model, call.secrets) === member;
  if (!isClean || (first !== undefined && !reason?.includes(member)))
    return new GatewayError(name, reason);
  return new GatewayError(
    name,
    first === undefined ? reason?.replaceAll(param, member) : reason,
    member,
  );
}

/** Inside a 200 the words alone tell, and with 5xx engines and routers also pass on mistakes of the caller and limits. */
function decisiveStatus(http: number, { message, words, status }: ToldError): number {
  if ((http > 0 && http < 500) || GATEWAY_TIMEOUTS.has(http)) return http;
  if (MEANT.has(status)) return status;
  if (isOfCaller(message)) return 400;
  return statusOfWords(words) || status || http;
}

/** The status that counts for an error that comes with 5xx. */
const MEANT: ReadonlySet<number> = new Set([400, 413, 422, 429, 503, 529]);
/** These speak of the key or of the account, whatever their words are. */
const NOT_OF_LENGTH: ReadonlySet<number> = new Set([401, 402]);
/** Statuses of proxies, Cloudflare's too, whose own time ran out. The provider may still work. */
const GATEWAY_TIMEOUTS: ReadonlySet<number> = new Set([504, 524]);
const BUSY: ErrorName = 'service_unavailable';
const FILTERED = 'A content filter refused the prompt. Change it and try again.';
const REFUSED =
  'The model refused the request. The operator can find out why by the x-request-id of this answer.';

/** The upstream's words as a client may see them; undefined: none of them. Of a list those that fit. */
function wordsForClient(
  { message, violations }: ToldError,
  { model, secrets, ownBody }: FailedCall,
): string | undefined {
  if (violations.length === 0) return redact(message, model, secrets) || undefined;
  let text = '';
  for (const { path, reason, isMissing } of violations) {
    const member = ownBody.nearest(path, isMissing) || (isMissing ? path : '');
    const line = redact(member === '' ? reason : `${member}: ${reason}`, model, secrets);
    const more = text === '' ? line : `${text}; ${line}`;
    if (line !== '' && more.length <= MAX_SHOWN) text = more;
  }
  return text || undefined;
}

/** How long to wait, in seconds, by the header or by the words. */
function waitOf({ retryAfter }: ToldError, call: FailedCall): number | undefined {
  const wait =
    call.retryAfter === undefined ? undefined : retryAfterSeconds(call.retryAfter, Date.now());
  return wait ?? (retryAfter > 0 ? retryAfter : undefined);
}

/** The text says the seconds too: in an event there is no header, and Codex waits as long as the words say. */
function rateLimited(wait: number | undefined): GatewayError {
  const text =
    wait === undefined ? undefined : `The model is rate limited. Try again in ${wait} seconds.`;
  const error = new GatewayError('rate_limit_exceeded', text);
  error.retryAfter = wait?.toString();
  return error;
}

/** The upstream did not begin: it has too much to do, or loads the model. */
function busy(wait: number | undefined): GatewayError {
  const error = new GatewayError(
    BUSY,
    'The model is overloaded or still loading. Try again shortly.',
  );
  if (wait !== undefined) error.retryAfter = `${wait}`;
  return error;
}
