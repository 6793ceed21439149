import type { TokenCounts } from '../json/usage.ts';
import type { UsageDetails } from '../json/usage-counts.ts';
import type { EndUser, Payer } from './key.ts';
import type { Model } from './model.ts';
import { type Femto, formatEur, parseEur } from './pricing/money.ts';
import { COUNTED_PARTS, type CountColumn } from './pricing/parts.ts';
import { type ChargedPart, chargedParts, costOf, type Prices } from './pricing/prices.ts';

/** Endpoints that run a model, as the ledger names them; counting tokens is free and never in it. */
export type EndpointName =
  | 'chat.completions'
  | 'embeddings'
  | 'assistants.run'
  | 'responses'
  | 'messages'
  | 'completions'
  | 'rerank'
  | 'messages.count_tokens';
/** Counts the tokens of a prompt: it costs nothing, and is not booked. */
export const FREE_ENDPOINT = 'messages.count_tokens' satisfies EndpointName;
export type BookedEndpoint = Exclude<EndpointName, typeof FREE_ENDPOINT>;
/** Endpoints that run no model, as the trail names them. */
export type LookupEndpoint = 'models' | 'usage';

export type UsageSource = 'upstream' | 'estimated';
export type Outcome = 'completed' | 'client_aborted' | 'upstream_failed';

/**
 * All decisions about a request that passed every gate. Made once and never changed: the same values are sent,
 * rewritten and booked.
 */
export interface Admission {
  readonly requestId: string;
  readonly payer: Payer;
  readonly model: Model;
  readonly endpoint: EndpointName;
  /** When it was admitted, milliseconds since the epoch, and the billing month of that instant. */
  readonly at: number;
  readonly month: string;
  /** The calendar day of that instant where a budget of it is to hold; empty or absent: none. */
  readonly day?: string;
  /** The cost centre that the caller named in `metadata`; empty: none. */
  readonly costCenter: string;
  /** The person behind the key; none: nobody was named. */
  readonly endUser?: EndUser | null;
}

/** One ledger row (spec section 2.8), complete when it is made. */
export interface UsageRecord {
  readonly admission: Admission;
  readonly tokens: TokenCounts;
  readonly cost: Femto;
  /** The model's, or those of the rate that held. */
  readonly prices: Prices;
  /** Its parts, where one was charged that has no column; else null. */
  readonly parts: readonly ChargedPart[] | null;
  readonly source: UsageSource;
  readonly outcome: Outcome;
  /** What the counts consist of; null: the upstream told none. Those of the cache cost what the model's prices say. */
  readonly details: UsageDetails | null;
  /** The currency of the cost in the details. */
  readonly currency: string;
}

/** The usage of a key in one billing month: sums over its ledger rows. */
export interface KeyUsage {
  readonly requests: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cost: Femto;
}

/** A ledger row as the holder of its key may see it: neither prices nor the internal model. */
export interface BookedCall {
  readonly requestId: string;
  readonly keyId: string;
  readonly slug: string;
  readonly endpoint: EndpointName;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** EUR as exact decimal text. */
  readonly eur: string;
  readonly source: UsageSource;
  readonly outcome: Outcome;
  /** When it was admitted, milliseconds since the epoch. */
  readonly at: number;
  /** The details of the tokens; null: not told. */
  readonly details: BookedDetails;
}

/** The token details of a ledger row, by their columns; null: the upstream did not tell. */
export type BookedDetails = Readonly<Record<(typeof TOKEN_DETAILS)[number], number | null>>;

/** Details that most kinds of calls have, in the order of exports. */
const USUAL_DETAILS = [
  'cached_tokens',
  'cache_write_tokens',
  'audio_prompt_tokens',
  'reasoning_tokens',
  'audio_completion_tokens',
] as const;
export type RareDetail = Exclude<CountColumn, (typeof USUAL_DETAILS)[number]>;

/** The others. */
export const RARE_DETAILS: readonly RareDetail[] = COUNTED_PARTS.map(
  ({ column }) => column as RareDetail,
).filter((column) => !USUAL_DETAILS.some((usual) => usual === (column as string)));

/** The columns of the ledger that say what prompt and completion tokens consist of. */
export const TOKEN_DETAILS: readonly CountColumn[] = [...USUAL_DETAILS, ...RARE_DETAILS];

/** The details that a table has columns for: rare ones where a line has some. @param total of its lines; absent: no upstream told any */
export function shownDetails(total: Readonly<Record<string, unknown>> | undefined) {
  const absent: readonly CountColumn[] = RARE_DETAILS.filter((each) => !total?.[each]);
  return TOKEN_DETAILS.filter((each) => !absent.includes(each));
}

/** @param prices of the call: the model's, or those of the rate that held */
export function usageRecord(
  admission: Admission,
  tokens: TokenCounts,
  source: UsageSource,
  outcome: Outcome,
  details: UsageDetails | null = null,
  currency = '',
  prices = admission.model.prices,
): UsageRecord {
  const cost = costOf(prices, tokens.prompt, tokens.completion, details);
  const parts = prices.isListed ? chargedParts(prices, tokens, details) : null;
  return { admission, tokens, cost, prices, parts, source, outcome, details, currency };
}

/** The sums of some calls. EUR is exact decimal text. */
export interface UsageSums {
  readonly requests: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cost_eur: string;
}

/** The exact sum of some sums. */
export function sumUsage(sums: readonly UsageSums[]): UsageSums {
  const count = (of: 'requests' | 'prompt_tokens' | 'completion_tokens') =>
    sums.reduce((all, each) => all + each[of], 0);
  return {
    requests: count('requests'),
    prompt_tokens: count('prompt_tokens'),
    completion_tokens: count('completion_tokens'),
    cost_eur: formatEur(sums.reduce((all, { cost_eur }) => all + parseEur(cost_eur), 0n)),
  };
}

/** What is left of a total without some parts. All are exact decimal text. */
export function restOf(total: string, parts: readonly string[]): string {
  return formatEur(parts.reduce((rest, part) => rest - parseEur(part), parseEur(total)));
}
