import { GatewayError } from './errors.ts';
import { CHAT_LIMITS, completionLimit, type RequestMembers } from './members/completion-limit.ts';
import { isTextAlone } from './members/text-alone.ts';
import type { Calendar } from './month.ts';
import { type Femto, parseEur } from './pricing/money.ts';
import { mostCost, type Prices } from './pricing/prices.ts';

/** Texts by budget; that of a company's month is the one of the error. */
const REACHED = {
  'company.daily': 'The daily budget of your company has been reached.',
  'key.monthly': 'This key has reached its monthly budget.',
  'key.daily': 'This key has reached its daily budget.',
  'end_user.monthly':
    'You have reached your own monthly budget. It is yours alone: other users of this key are not affected.',
};

/** The owner of the budget. */
type Whose = 'company' | 'key' | 'end_user';

/** The setting of a key that refuses an end user, as the trail names it. */
export const ALLOWANCE = 'key.end_user_budget_eur';

/** A budget begins anew with each month, or each day. */
export const PERIODS = ['monthly', 'daily'] as const;
export type BudgetPeriod = (typeof PERIODS)[number];

/** The budgets of a company or a key: EUR as exact decimal text; null and "0" are no limit. */
export type Budgets = { readonly [K in `${BudgetPeriod}_budget_eur`]: string | null };

/**
 * The budget gate (spec section 8, rules 1, 2 and 6; contract section 5): refuses once the spend of a month or day has
 * reached a budget. For a company that is its API and in-app chat cost, for a key the cost of its own calls, for an end
 * user that of the calls of the key that name them. Months are asked first: what refuses longest is told.
 * @param budget femto-EUR; null is never reached
 * @param spent femto-EUR
 * @param at an instant of the month or day, milliseconds since the epoch
 * @throws GatewayError 402
 */
export function admitBudget(
  budget: Femto | null,
  spent: Femto,
  calendar: Calendar,
  at: number,
  whose: Whose = 'company',
  period: BudgetPeriod = 'monthly',
): void {
  if (budget !== null && spent >= budget) throw budgetReached(calendar, at, whose, period);
}

/** 402, with `x-budget-resets-at`: when the month or day of an instant ends. */
export function budgetReached(
  calendar: Calendar,
  at: number,
  whose: Whose = 'company',
  period: BudgetPeriod = 'monthly',
): GatewayError {
  const budget = `${whose}.${period}`;
  const error = new GatewayError('insufficient_quota', REACHED[budget as keyof typeof REACHED]);
  error.headers = [
    'x-budget-resets-at',
    period === 'daily' ? calendar.dayEnd(at) : calendar.monthEnd(at),
  ];
  return error.by(whose === 'end_user' ? ALLOWANCE : `${budget}_budget_eur`);
}

/** The most that a request can use. A strict budget and a limit of tokens reserve it. */
export interface Bound {
  readonly amount: Femto;
  /** Whether it cannot cost more. */
  readonly bounded: boolean;
  /** The most tokens of its prompt. */
  readonly prompt: number;
  /** The most tokens it lets the model generate; null: no limit. */
  readonly completion: number | null;
  /** The most search units of a rerank. */
  readonly searchUnits: number;
}

/**
 * The most that a chat request can cost. A token is at least one byte of text, and JSON only makes text longer, so a
 * prompt has no more tokens than its body has bytes, besides those of images. Without a limit on the answer, or with
 * other files, the amount is that of the prompt and not a bound.
 * @param request parsed as JSON; a response's items stand in its `input`, texts to be completed in `prompt`
 * @param bytes of the body as it goes upstream
 * @param files in the body: their bytes, and the most tokens that a model takes for them
 * @param most tokens that the model generates in an answer; null: not known
 */
export function boundChat(
  request: RequestMembers,
  bytes: number,
  prices: Prices,
  format = CHAT_LIMITS,
  files: { readonly bytes: number; readonly most: number } = { bytes: 0, most: 0 },
  most: number | null = null,
): Bound {
  const limit = completionLimit(request, format, bytes, undefined, most);
  const bounded = limit !== null && isTextAlone(request);
  const prompt = bytes - files.bytes + Math.ceil(files.most);
  const amount = mostCost(prices, prompt, limit ?? 0);
  return { amount, bounded, prompt, completion: limit, searchUnits: 0 };
}

/**
 * The most that a call can cost which generates nothing.
 * @param most tokens of its prompt
 * @param bounded whether it is text alone
 */
export function boundPrompt(
  most: number,
  prices: Prices,
  bounded: boolean,
  searchUnits = 0,
): Bound {
  const amount = mostCost(prices, most, 0, searchUnits);
  return { amount, bounded, prompt: most, completion: 0, searchUnits };
}

/** Documents of one search unit, and the least bytes of a document that counts as several (Cohere: 500 tokens). */
const DOCUMENTS_OF_UNIT = 100;
const BYTES_OF_DOCUMENT = 500;

/** The most search units of a rerank. @param bytes of its body */
export function mostSearchUnits(bytes: number, { times }: Repeated): number {
  const documents = times + 1 + Math.floor(bytes / BYTES_OF_DOCUMENT);
  return Math.ceil(documents / DOCUMENTS_OF_UNIT);
}

/** What a model reads again with each further document of a rerank request: the query, and what stands around it. */
export interface Repeated {
  /** How often it is read again: documents but one. */
  readonly times: number;
  /** Bytes of the body but those of its documents. */
  readonly around: number;
  /** Bytes of the query, as written in JSON, and its beginning. */
  readonly bytes: number;
  readonly beginning: Buffer;
  /** Documents that are no text: images, or what an address leads to. */
  readonly media: number;
}

/** Tokens that templates and separators add to each pair of query and document: an instruction of Qwen's has 90. */
const MOST_OF_PAIR = 128;

/** The most tokens that a model reads for a rerank request of text. @param bytes of its body */
export function mostPaired(bytes: number, { times, around }: Repeated): number {
  return bytes + times * around + (times + 1) * MOST_OF_PAIR;
}

/** The percent of a budget that are spent, with one decimal and rounded down: 100 is a budget that is reached. */
export function percentSpent(spent: string, budget: string): number {
  return Number((parseEur(spent) * 1000n) / parseEur(budget)) / 10;
}

/** Whether a monthly budget limits a company: null and 0 mean unlimited (spec section 2.9). */
export function isLimited(budget: string | null): budget is string {
  return budget !== null && budget !== '0';
}
