import type { Context } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { BudgetPeriod } from '../domain/budget.ts';
import { FieldError } from '../domain/field.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { SomePrices } from '../domain/settings/model.ts';

/** An error in one member of a body or a query, or the rule that refuses it. */
export interface Mistake {
  /** A JSON Pointer into the body ("#/name"), or a parameter ("?limit"). */
  readonly pointer: string;
  /** Continues the pointer: "must be …". */
  readonly detail: string;
  /** The detail in the language of a page; absent: it is for operators and programs alone. */
  readonly reason?: Refusal;
  /**
   * What a face may do. refuse, the default: refuse it. warn: a command of the operator warns, and lets it pass; all others
   * refuse it. ask: it is allowed, but may not be meant: a page asks, a command warns, programs and files pass.
   */
  readonly severity?: 'refuse' | 'warn' | 'ask';
  /** A sentence for the warning: what is so now that it has passed. */
  readonly passed?: string;
  /** What the question is made of. */
  readonly asked?: NewBudget | NewFactor | PresentPrices | Namesake;
}

/** Prices that others would take the place of. */
export interface PresentPrices {
  readonly present: SomePrices;
  readonly mine: SomePrices;
  /** Who set them. */
  readonly by: string;
}

/** The name of a company that another one has, too. */
export interface Namesake {
  readonly namesake: string;
}

/** A factor on prices, and what the last month would have cost with it: EUR as exact decimal text. */
export interface NewFactor {
  readonly factor: string;
  /** "2026-10". */
  readonly month: string;
  readonly cost_eur: string;
  readonly with_factor_eur: string;
  /** The factor for the same time that it takes the place of; null: there is none. */
  readonly present: { readonly factor: string; readonly by: string } | null;
}

/** A budget that is used up already: EUR as exact decimal text. */
export interface NewBudget {
  /** Of the company or key. */
  readonly name: string;
  readonly isKey: boolean;
  readonly period: BudgetPeriod;
  readonly budget: string;
  /** In the present month or day. */
  readonly spent: string;
}

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

/** An operation is refused, and nothing has changed. */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly status: ContentfulStatusCode;
  readonly mistakes: readonly Mistake[];

  /** @param detail one sentence for the person who reads the log of the program */
  constructor(status: ContentfulStatusCode, detail: string, mistakes: readonly Mistake[] = []) {
    super(detail);
    this.status = status;
    this.mistakes = mistakes;
  }
}

/** The refusal of one member; pointer and detail as `Mistake` has them. */
export function wrongAt(pointer: string, detail: string): Problem {
  return new Problem(400, `The ${pointer.startsWith('#') ? 'body' : 'query'} is not valid.`, [
    { pointer, detail },
  ]);
}

/** Reads a member. @throws Problem 400 with its place where the reader refuses it */
export function readAt<T>(pointer: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof FieldError ? wrongAt(pointer, error.message) : error;
  }
}

/** Refuses what rules have against a change, and lets pass what they would ask. @throws Problem 409 that names all of it */
export function refuse(found: readonly Mistake[]): void {
  const mistakes = found
    .filter(({ severity }) => severity !== 'ask')
    .map(({ pointer, detail }) => ({ pointer, detail }));
  if (mistakes.length === 0) return;
  const told = mistakes.map(({ pointer, detail }) => `${pointer.slice(2)} ${detail}.`);
  throw new Problem(409, told.join(' '), mistakes);
}

/** Answers with problem details (RFC 9457). */
export function answerProblem(c: Context, { status, message, mistakes }: Problem): Response {
  if (status === 401) c.header('www-authenticate', 'Bearer');
  if (status === 503) c.header('retry-after', '2');
  return c.body(problemText(status, message, mistakes), status, { 'content-type': PROBLEM_TYPE });
}

export const PROBLEM_TYPE = 'application/problem+json';

/** The body of such an answer. */
export function problemText(
  status: number,
  detail: string,
  mistakes: readonly Mistake[] = [],
): string {
  const title = TITLES[status] ?? 'Refused';
  const errors = mistakes.length === 0 ? {} : { errors: mistakes };
  return JSON.stringify({ type: 'about:blank', title, status, detail, ...errors });
}
