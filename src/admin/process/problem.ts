/** Problem details (RFC 9457): what administration over HTTP answers with where it refuses something. */

/** Titles by status: one for each kind of problem. */
const TITLES: Readonly<Record<number, string>> = {
  400: 'The request is not valid',
  401: 'There is no valid token',
  403: 'The token may not do this',
  404: 'Not found',
  405: 'Method not allowed',
  409: 'The present state does not allow this',
  412: 'It was changed meanwhile',
  413: 'The body is too large',
  415: 'The body is not JSON',
  422: 'The idempotency key was used for another request',
  429: 'The company has changed too much in a short time',
  500: 'Internal error',
  502: 'Not available',
  503: 'Not available',
};

export const PROBLEM_TYPE = 'application/problem+json';

/** The body of an answer with problem details (RFC 9457). */
export function problemText(
  status: number,
  detail: string,
  mistakes: readonly object[] = [],
): string {
  const title = TITLES[status] ?? 'Refused';
  const errors = mistakes.length === 0 ? {} : { errors: mistakes };
  return JSON.stringify({ type: 'about:blank', title, status, detail, ...errors });
}
