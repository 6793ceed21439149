/** The most tokens that a row of the ledger holds; a larger count is not one. */
export const MAX_TOKENS = 1_000_000_000_000;

/** Token counts of one call: whole numbers, 0 to MAX_TOKENS. */
export interface TokenCounts {
  readonly prompt: number;
  readonly completion: number;
}

/** The counts as the upstream told them; null: not told, or not a whole number up to MAX_TOKENS. */
export interface ToldUsage {
  readonly prompt: number | null;
  readonly completion: number | null;
  /** null: none that can be right. */
  readonly details: UsageDetails | null;
}

/**
 * What the counts consist of, and what the call cost the upstream, for information: nothing is charged by it. A number
 * that is not whole, or is larger than the count it is part of, becomes null.
 */
export interface UsageDetails {
  /** Prompt tokens read from the upstream's cache, and those written to it. */
  readonly cached: number | null;
  readonly cacheWrite: number | null;
  readonly audioPrompt: number | null;
  /** Completion tokens that are reasoning, and those that are audio. */
  readonly reasoning: number | null;
  readonly audioCompletion: number | null;
  /** The upstream's own cost in its own currency, as JSON writes a number. */
  readonly cost: string | null;
}

/** Reads the members of a usage object. Whole numbers may be written as floats (12.0). */
export type UsageReader = (usage: Members) => ToldUsage;

type Members = Readonly<Record<string, unknown>>;

/** The usage of a chat completion. Without `completion_tokens` they are total_tokens - prompt_tokens. */
export function chatUsage(usage: Members): ToldUsage {
  const { prompt_tokens: prompt, completion_tokens: completion } = usage;
  const { prompt_tokens_details: ofPrompt, completion_tokens_details: ofCompletion, cost } = usage;
  return toldUsage(prompt, withReasoning(usage, prompt, completion, ofCompletion), ofPrompt, ofCompletion, cost);
}

/**
 * The completion with its reasoning, which xAI, and routers in front of Gemini, tell beside it: then the total is the
 * sum of all three. Without a completion it is what the total leaves.
 */
function withReasoning(usage: Members, prompt: unknown, completion: unknown, details: unknown): unknown {
  const { total_tokens: total } = usage;
  if (!isCount(prompt) || !isCount(total)) return completion;
  if (completion == null) return Math.max(0, total - prompt);
  if (!isCount(completion) || prompt + completion === total) return completion;
  const reasoning = membersOf(details).reasoning_tokens ?? usage.reasoning_tokens;
  return isCount(reasoning) && prompt + completion + reasoning === total ? completion + reasoning : completion;
}

/** The usage of embeddings, which have no completion: all tokens are of the prompt. */
export function embeddingUsage(usage: Members): ToldUsage {
  const { prompt_tokens_details: ofPrompt, completion_tokens_details: ofCompletion, cost } = usage;
  const prompt = usage.prompt_tokens ?? usage.total_tokens;
  return toldUsage(prompt, usage.completion_tokens ?? 0, ofPrompt, ofCompletion, cost);
}

/** The usage of a response. */
export function responsesUsage(usage: Members): ToldUsage {
  const { input_tokens: input, output_tokens: output } = usage;
  const { input_tokens_details: ofInput, output_tokens_details: ofOutput, cost } = usage;
  return toldUsage(input, withReasoning(usage, input, output, ofOutput), ofInput, ofOutput, cost);
}

/**
 * The usage of a message. Where the provider ran the model more than once, as for a compaction, `iterations` has the
 * usage of each run, and the counts beside it may leave some out.
 */
export function messagesUsage(usage: Members): ToldUsage {
  const told = runUsage(usage);
  const { iterations } = usage;
  if (!Array.isArray(iterations)) return told;
  const all = iterations.map((run) => runUsage(membersOf(run)));
  const largest = (count: 'prompt' | 'completion'): number | null => {
    const sum = all.reduce((sum, run) => sum + (run[count] ?? Number.NaN), 0);
    return isCount(sum) ? Math.max(sum, told[count] ?? 0) : told[count];
  };
  return { ...told, prompt: largest('prompt'), completion: largest('completion') };
}

/** The usage of one run, whose `input_tokens` leave out those that were written to the cache or read from it. */
function runUsage(usage: Members): ToldUsage {
  const { input_tokens: input, cache_creation_input_tokens: written, cache_read_input_tokens: read } = usage;
  const parts = [input, written ?? 0, read ?? 0];
  const prompt = parts.every(isCount) ? parts.reduce((sum, part) => sum + part, 0) : null;
  const cache = written == null && read == null ? null : { cached_tokens: read, cache_write_tokens: written };
  const { thinking_tokens: thinking } = membersOf(usage.output_tokens_details);
  const generated = thinking == null ? null : { reasoning_tokens: thinking };
  return toldUsage(prompt, usage.output_tokens, cache, generated, usage.cost);
}

/** Reads a usage from its text. @returns null when no count is told, or it is not JSON */
export function readUsage(json: string, reader: UsageReader): ToldUsage | null {
  const members = usageMembers(json);
  return members === null ? null : readUsageMembers(members, reader);
}

export function readUsageMembers(usage: Members, reader: UsageReader): ToldUsage | null {
  const counts = reader(usage);
  return counts.prompt === null && counts.completion === null ? null : counts;
}

/** The members of a usage; null when the text is not that of an object. */
export function usageMembers(json: string): Members | null {
  try {
    const usage: unknown = JSON.parse(json);
    return typeof usage === 'object' ? (usage as Members | null) : null;
  } catch {
    return null;
  }
}

/**
 * What a usage tells while the completion goes on: the part of the prompt, unless it is 0, which some routers send first.
 * @returns null when it does not tell the prompt
 */
export function promptUsage({ prompt, details }: ToldUsage): ToldUsage | null {
  if (prompt === null) return null;
  const ofPrompt = details && { ...details, reasoning: null, audioCompletion: null, cost: null };
  return { prompt: prompt || null, completion: null, details: ofPrompt && toldOrNull(ofPrompt) };
}

const NO_DETAILS: UsageDetails = {
  cached: null,
  cacheWrite: null,
  audioPrompt: null,
  reasoning: null,
  audioCompletion: null,
  cost: null,
};

/** Adds the cost that a header told: decimal text, or anything else. That of the usage wins. */
export function withCost(details: UsageDetails | null, header: string | undefined): UsageDetails | null {
  if (header === undefined || (details !== null && details.cost !== null)) return details;
  const cost = DECIMAL.test(header) ? costOrNull(Number(header)) : null;
  return cost === null ? details : { ...(details ?? NO_DETAILS), cost };
}

const DECIMAL = /^\d{1,20}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?$/i;
/** A cost outside of these bounds cannot be right, and counts as not told. */
const MOST_COST = 1e6;
const LEAST_COST = 1e-15;

/** Checks what a usage tells. One without details pays three comparisons. */
function toldUsage(
  promptTokens: unknown,
  completionTokens: unknown,
  promptParts: unknown,
  completionParts: unknown,
  cost: unknown,
): ToldUsage {
  const prompt = countOrNull(promptTokens);
  const completion = countOrNull(completionTokens);
  if (promptParts == null && completionParts == null && cost == null) return { prompt, completion, details: null };
  const ofPrompt = membersOf(promptParts);
  const ofCompletion = membersOf(completionParts);
  const details = toldOrNull({
    cached: partOf(prompt, ofPrompt.cached_tokens),
    cacheWrite: partOf(prompt, ofPrompt.cache_write_tokens),
    audioPrompt: partOf(prompt, ofPrompt.audio_tokens),
    reasoning: partOf(completion, ofCompletion.reasoning_tokens),
    audioCompletion: partOf(completion, ofCompletion.audio_tokens),
    cost: costOrNull(cost),
  });
  return { prompt, completion, details };
}

function toldOrNull(details: UsageDetails): UsageDetails | null {
  const { cached, cacheWrite, audioPrompt, reasoning, audioCompletion, cost } = details;
  if (cached !== null || cacheWrite !== null || audioPrompt !== null) return details;
  return reasoning !== null || audioCompletion !== null || cost !== null ? details : null;
}

const NONE: Members = {};

function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : NONE;
}

function partOf(whole: number | null, part: unknown): number | null {
  return whole !== null && isCount(part) && part <= whole ? part : null;
}

function costOrNull(cost: unknown): string | null {
  if (typeof cost !== 'number') return null;
  return cost === 0 ? '0' : cost >= LEAST_COST && cost < MOST_COST ? `${cost}` : null;
}

function countOrNull(value: unknown): number | null {
  return isCount(value) ? value : null;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_TOKENS;
}
