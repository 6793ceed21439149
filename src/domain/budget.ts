import { GatewayError } from './errors.ts';
import {
  CHAT_LIMITS,
  completionLimit,
  mayRunAgain,
  type RequestMembers,
} from './members/completion-limit.ts';
import { type Femto, mostCost, type Prices, parseEur } from './money.ts';
import type { Calendar } from './month.ts';

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
  /** The most tokens it lets the model generate; null: no limit. */
  readonly completion: number | null;
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
  return { amount: mostCost(prices, prompt, limit ?? 0), bounded, completion: limit };
}

/** The most that an embedding can cost. Its input is text, and it has no completion (spec section 4.3). */
export function boundEmbedding(bytes: number, prices: Prices): Bound {
  return { amount: mostCost(prices, bytes, 0), bounded: true, completion: 0 };
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
}

/** Tokens that templates and separators add to each pair of query and document: an instruction of Qwen's has 90. */
const MOST_OF_PAIR = 128;

/** The most tokens that a model reads for a rerank request. @param bytes of its body */
export function mostPaired(bytes: number, { times, around }: Repeated): number {
  return bytes + times * around + (times + 1) * MOST_OF_PAIR;
}

/** The most that reranking can cost: the model reads the query with each document, and generates nothing. */
export function boundRerank(bytes: number, repeated: Repeated, prices: Prices): Bound {
  return { amount: mostCost(prices, mostPaired(bytes, repeated), 0), bounded: true, completion: 0 };
}

/** Members that make the provider add texts from elsewhere to the prompt. */
const ADDING = ['web_search_options', 'search_parameters'];

/**
 * Whether the prompt of a request is the text in it and nothing else, so that it has no more tokens than bytes.
 * @param orImages whether images may be in it, each whole and not by its address
 */
export function isTextAlone(request: RequestMembers, orImages = false): boolean {
  if (mayRunAgain(request) || ADDING.some((name) => request[name] != null)) return false;
  const { messages, input, prompt, system } = request;
  const texts = input ?? prompt; // a list of prompts has texts or token ids
  return (
    isText(messages ?? (typeof texts === 'string' ? [] : texts), orImages) &&
    isTextContent(system, orImages)
  );
}

/** Types of parts and of input items that have no more tokens than bytes. */
// biome-ignore format: a table
const TEXT_PARTS: ReadonlySet<unknown> = new Set([
  'text', 'input_text', 'output_text', 'refusal', 'reasoning_text', 'thinking', 'redacted_thinking',
  'tool_use', 'tool_result',
]);
const TEXT_ITEMS: ReadonlySet<unknown> = new Set([
  'message',
  'reasoning',
  'function_call',
  'function_call_output',
  'custom_tool_call',
  'custom_tool_call_output',
]);

function isText(messages: unknown, orImages: boolean): boolean {
  if (!Array.isArray(messages)) return false;
  return messages.every((message) => {
    const { type, content, output } = (message ?? {}) as RequestMembers;
    return (
      TEXT_ITEMS.has(type ?? 'message') &&
      isTextContent(content, orImages) &&
      isTextContent(output, orImages)
    );
  });
}

function isTextContent(content: unknown, orImages: boolean): boolean {
  if (Array.isArray(content)) return content.every((part) => isTextPart(part, orImages));
  return content == null || typeof content === 'string';
}

/** The result of a tool has parts of its own. */
function isTextPart(part: unknown, orImages: boolean): boolean {
  const { type, content, image_url: image, source } = (part ?? {}) as RequestMembers;
  if (TEXT_PARTS.has(type)) return isTextContent(content, orImages);
  if (!orImages) return false;
  if (type === 'image') return isWhole((source as RequestMembers | null | undefined)?.data);
  return (
    IMAGE_PARTS.has(type) &&
    isWhole(typeof image === 'string' ? image : (image as RequestMembers | null)?.url)
  );
}

const IMAGE_PARTS: ReadonlySet<unknown> = new Set(['image_url', 'input_image']);

/** Whether it is what is left of a file, of which the content was taken out, or a short one. */
function isWhole(content: unknown): boolean {
  return typeof content === 'string' && !/^[a-z]+:(?<!data:)/i.test(content);
}

/** The percent of a budget that are spent, with one decimal and rounded down: 100 is a budget that is reached. */
export function percentSpent(spent: string, budget: string): number {
  return Number((parseEur(spent) * 1000n) / parseEur(budget)) / 10;
}

/** Whether a monthly budget limits a company: null and 0 mean unlimited (spec section 2.9). */
export function isLimited(budget: string | null): budget is string {
  return budget !== null && budget !== '0';
}
