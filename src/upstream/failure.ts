import { GatewayError } from '../domain/errors.ts';
import type { Model } from '../domain/model.ts';
import { redact } from '../domain/redact.ts';

/**
 * What an upstream failure is to the client (contract section 4, "Errors"). The
 * upstream's own words reach the operator's log alone, save the reason of a bad request.
 */

/** An error of the connection or of time, as undici reports it. */
export function connectionFailure(error: Error & { code?: string }): GatewayError {
  switch (error.code) {
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
      return new GatewayError('upstream_timeout');
    case 'UND_ERR_CONNECT_TIMEOUT':
    case 'ECONNREFUSED':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ENOENT':
      return new GatewayError('service_unavailable'); // nothing was sent: a retry is safe
    default:
      return brokenAnswer();
  }
}

/** The upstream took the request, then its answer broke off or made no sense: it may have charged for it. */
export function brokenAnswer(): GatewayError {
  const error = new GatewayError('upstream_error');
  error.retry = false;
  return error;
}

/**
 * An answer whose status is not 200.
 * @param body as much of it as was kept
 * @param retryAfter the upstream's header, relayed with 429 only
 */
export function statusFailure(
  status: number,
  body: Buffer,
  retryAfter: string | undefined,
  model: Model,
): GatewayError {
  if (status === 429) {
    const error = new GatewayError('rate_limit_exceeded');
    if (retryAfter !== undefined && /^[\w ,:]{1,40}$/.test(retryAfter)) error.retryAfter = retryAfter;
    return error;
  }
  if (status === 413) return new GatewayError('request_too_large', reason(body, model));
  if (status === 400 || status === 422) {
    const { message, code } = readError(body);
    const tooLong = code === 'context_length_exceeded' || /maximum context length|context window/i.test(message);
    return new GatewayError(tooLong ? 'context_length_exceeded' : 'invalid_request', reason(body, model));
  }
  return new GatewayError('upstream_error');
}

function reason(body: Buffer, model: Model): string | undefined {
  const { message } = readError(body);
  return message === '' ? undefined : redact(message, model) || undefined;
}

/** The message and code of an error body in any of the shapes routers use; empty when there is none. */
export function readError(body: Buffer): { message: string; code: string } {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    return { message: '', code: '' }; // HTML and the like: nothing in it is meant for a client
  }
  const outer = members(value);
  const inner = outer.error === undefined ? outer : members(outer.error);
  const text = [outer.error, inner.message, inner.detail, outer.message, outer.detail].find(
    (t) => typeof t === 'string',
  );
  return { message: (text as string | undefined) ?? '', code: String(inner.code ?? '') };
}

function members(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
