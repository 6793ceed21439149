import type { TokenCounts, ToldUsage } from '../../json/usage.ts';
import type { UsageDetails } from '../../json/usage-counts.ts';
import { type Bound, mostPaired } from '../budget.ts';
import { isTextAlone } from '../members/text-alone.ts';
import { COST_PARTS, partOf } from '../pricing/parts.ts';
import {
  type CallFacts,
  costOf,
  type Prices,
  partsWithin,
  ratedPrices,
} from '../pricing/prices.ts';
import type { Estimate, Generated } from './estimate.ts';
import type { Prompt } from './prompt.ts';

/** No model takes or generates as much: a count above it is false, whatever the call allows. */
const MOST_OF_ANY_MODEL = 10_000_000;
/** Tokens that chat templates, routers and providers add to a prompt: instructions, tools. */
const MOST_ADDED = 16_384;

/** The bounds of the tokens of one call. Neither the upstream's usage nor an estimate goes beyond them. */
export interface CallBounds {
  /** The most tokens that the call lets the model generate; null: no limit. */
  readonly limit: number | null;
  readonly prompt: Prompt;
  /** Whether the prompt is the text of its body and nothing else; null: to be read from the body, which is kept. */
  readonly isTextAlone: boolean | null;
  /** The cost that a strict budget reserved; null: none. */
  readonly reserved: Bound | null;
  /** Of the model, and what decides which of its rates holds. */
  readonly prices: Prices;
  readonly facts: CallFacts;
  /** The tier that the request asks for, by which a strict budget reserved; null: the standard one. */
  readonly askedTier: string | null;
}

/** The tokens that a call is charged for. */
export interface Charge {
  readonly tokens: TokenCounts;
  /** What the counts that are the upstream's own consist of; null: not told. */
  readonly details: UsageDetails | null;
  /** Which of the counts are the upstream's own. */
  readonly isPromptTold: boolean;
  readonly isCompletionTold: boolean;
  /** Whether the upstream told more than the call allows, than any model can, or units of priced parts than their tokens have. */
  readonly isBeyond: boolean;
  /** The model's prices, or those of the rate that held. */
  readonly prices: Prices;
}

/**
 * The tokens of a call. Counts that the upstream did not tell, or that cannot be, are estimated. A completion told
 * above the limit is charged up to the limit; up to the text that was seen, where the model overran the limit. A strict
 * budget is charged no more than was reserved, whatever ran.
 * @param estimate called only where it is needed
 */
export function chargeOf(
  bounds: CallBounds,
  told: ToldUsage | null,
  estimate: () => Estimate,
): Charge {
  const prompt = told === null ? null : promptWithin(bounds, told.prompt);
  const completion = told === null ? null : completionWithin(bounds, told.completion);
  const guess = prompt === null || completion === null ? estimate() : null;
  const prices = ratedPrices(bounds.prices, bounds.facts, prompt ?? (guess as Estimate).prompt);
  const toldDetails = told?.details ?? null;
  const details = toldDetails && partsWithin(prices, { prompt, completion }, toldDetails);
  const isCut =
    details !== toldDetails &&
    prices.fitted.some(({ count }) => details?.[count] !== toldDetails?.[count]);
  if (prompt !== null && completion !== null && bounds.reserved === null) {
    const tokens = { prompt, completion };
    return { tokens, details, isPromptTold: true, isCompletionTold: true, isBeyond: isCut, prices };
  }
  const counts = details && detailsOf(prompt !== null, completion !== null, details);
  const charged = withinReserved(bounds, prices, counts, {
    prompt: prompt ?? (guess as Estimate).prompt,
    completion: completion ?? overrun(told?.completion ?? null, bounds.limit, guess as Estimate),
  });
  const { tokens, searchUnits } = charged;
  const isPromptTold = tokens.prompt === prompt && !charged.isPromptCut;
  const isCompletionTold = tokens.completion === completion;
  const ofCounts = details && detailsOf(isPromptTold, isCompletionTold, details);
  // what fits the parts of one rate need not fit those of another
  const own =
    ofCounts && charged.prices !== prices
      ? partsWithin(charged.prices, tokens, ofCounts)
      : ofCounts;
  const areUnitsCut = own !== null && own.searchUnits !== null && own.searchUnits > searchUnits;
  return {
    tokens,
    details: areUnitsCut ? { ...own, searchUnits } : own,
    isPromptTold,
    isCompletionTold,
    isBeyond:
      told !== null &&
      (told.prompt !== prompt ||
        told.completion !== completion ||
        isCut ||
        areUnitsCut ||
        own !== ofCounts),
    prices: charged.prices,
  };
}

/**
 * The usage without a completion of 0 tokens beside generated text: some gateways tell 0 for every stream.
 * @param limit the most tokens that the call lets the model generate: 0 for embeddings, whose texts are none of its own
 */
export function withoutFalseZero(
  told: ToldUsage | null,
  { generatedBytes, echoedBytes = 0 }: Generated,
  limit: number | null,
): ToldUsage | null {
  return told?.completion === 0 && generatedBytes > echoedBytes && limit !== 0
    ? { ...told, completion: null }
    : told;
}

/** The told count; null where it cannot be. */
function promptWithin({ prompt, isTextAlone }: CallBounds, told: number | null): number | null {
  return told === null || told <= prompt.bytes || told <= mostPrompt(prompt, isTextAlone)
    ? told
    : null;
}

function completionWithin({ limit }: CallBounds, told: number | null): number | null {
  return told === null || told <= (limit ?? MOST_OF_ANY_MODEL) ? told : null;
}

/** The completion that is charged where none was told, or one above the limit. */
function overrun(
  told: number | null,
  limit: number | null,
  { completion, seen }: Estimate,
): number {
  return told === null || limit === null ? completion : Math.min(told, Math.max(limit, seen));
}

interface Charged {
  readonly tokens: TokenCounts;
  /** The most search units that are charged. */
  readonly searchUnits: number;
  /** Whether the prompt was cut: it costs the input price then, as an estimate does. */
  readonly isPromptCut: boolean;
  readonly prices: Prices;
}

/**
 * What a strict budget is charged: no more than it reserved for the call. Search units go first, then the completion,
 * then the prompt. Where the model has rates, a call that is still dearer costs what was reserved for: the answer says a
 * dearer tier than was asked for, or a longer prompt.
 */
function withinReserved(
  { reserved, prices: ofModel, facts, askedTier }: CallBounds,
  prices: Prices,
  counts: UsageDetails | null,
  tokens: TokenCounts,
): Charged {
  const { prompt } = tokens;
  const isWithin = (completion: number, of: UsageDetails | null): boolean =>
    reserved !== null && costOf(prices, prompt, completion, of) <= reserved.amount;
  const whole = { tokens, searchUnits: Number.POSITIVE_INFINITY, isPromptCut: false, prices };
  if (reserved === null || !reserved.bounded || isWithin(tokens.completion, counts)) return whole;
  const { searchUnits } = reserved;
  const ofUnits = counts && {
    ...counts,
    searchUnits: counts.searchUnits && Math.min(counts.searchUnits, searchUnits),
  };
  if (isWithin(tokens.completion, ofUnits)) return { ...whole, searchUnits };
  const completion = Math.min(tokens.completion, reserved.completion ?? 0);
  const isWhole = completion === tokens.completion;
  const left = ofUnits && detailsOf(true, isWhole, ofUnits);
  if (isWithin(completion, left)) return { ...whole, tokens: { prompt, completion }, searchUnits };
  if (ofModel.rates.length > 0) {
    const most = Math.min(prompt, reserved.prompt);
    const tier = facts.tier === askedTier ? askedTier : null;
    return {
      tokens: { prompt: most, completion },
      searchUnits,
      isPromptCut: most < prompt,
      prices: ratedPrices(ofModel, { ...facts, tier }, most),
    };
  }
  const ofCompletion = ofUnits && detailsOf(false, isWhole, ofUnits);
  const rest = reserved.amount - costOf(prices, 0, completion, ofCompletion);
  const each = costOf(prices, 1, 0) - costOf(prices, 0, 0);
  const most = each === 0n ? prompt : Math.min(prompt, Math.max(0, Number(rest / each)));
  return { tokens: { prompt: most, completion }, searchUnits, isPromptCut: true, prices };
}

function mostPrompt({ bytes, pieces, kept, repeated }: Prompt, isText: boolean | null): number {
  const known =
    isText ?? (kept !== 'sampled' && isTextAlone(JSON.parse(Buffer.concat(pieces).toString())));
  if (!known) return MOST_OF_ANY_MODEL;
  return (repeated === null ? bytes : mostPaired(bytes, repeated)) + MOST_ADDED;
}

/** The details of the counts that are the upstream's own: parts of another count would be parts of nothing. */
function detailsOf(
  isPromptTold: boolean,
  isCompletionTold: boolean,
  details: UsageDetails,
): UsageDetails {
  if (isPromptTold && isCompletionTold) return details;
  return {
    ...details,
    ...(isPromptTold ? {} : withoutParts('prompt')),
    ...(isCompletionTold ? {} : withoutParts('completion')),
  };
}

function withoutParts(whole: 'prompt' | 'completion'): Partial<UsageDetails> {
  const counts = COST_PARTS.flatMap((part) => {
    const { within, count } = partOf(part);
    return within === whole && count !== null ? [[count, null]] : [];
  });
  return Object.fromEntries(counts);
}
