import {
  COMPLETION_PARTS,
  type Counts,
  countOrNull,
  countsIn,
  detailsIn,
  isCount,
  type Members,
  MOST_LEVELS,
  MOST_UNREAD,
  NO_DETAILS,
  NO_PARTS_OF_COMPLETION,
  type PartName,
  PROMPT_PARTS,
  setPart,
  toldOrNull,
  type UsageDetails,
} from './usage-counts.ts';

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
  /**
   * What the total is apart from the counts, where nothing explains it. Above 0: these tokens are in the completion; below
   * 0: the total is as much less than the counts.
   */
  readonly rest?: number;
  /** Members with tokens that nobody reads: something of the call may be missing in the counts. */
  readonly unread?: readonly string[];
}

/** Reads the members of a usage object. Whole numbers may be written as floats (12.0). */
export type UsageReader = (usage: Members) => ToldUsage;

/** The usage of a chat completion. */
export function chatUsage(usage: Members): ToldUsage {
  const counts = countsIn(usage);
  const { prompt, completion, input, output } = counts;
  return byTotal(usage, counts, firstOf(prompt, input), firstOf(completion, output));
}

/** The usage of a response. */
export function responsesUsage(usage: Members): ToldUsage {
  const counts = countsIn(usage);
  const { prompt, completion, input, output } = counts;
  return byTotal(usage, counts, firstOf(input, prompt), firstOf(output, completion));
}

/**
 * The usage of embeddings and of reranking, which have no completion: all tokens are of the prompt. Cohere and LiteLLM
 * tell it in `meta`, whose members are here beside those of `usage`.
 */
export function inputUsage(usage: Members): ToldUsage {
  const counts = countsIn(usage);
  const ofMeta = [usage.tokens, usage.billed_units].filter(isObject).map(countsIn);
  for (const { searchUnits } of ofMeta)
    setPart(counts, 'searchUnits', counts.searchUnits ?? searchUnits);
  const { total } = counts;
  const told = inputOf(counts);
  const rest = told && isCount(total) && total > 0 ? total - told : 0;
  if (told) return toldUsage(usage, counts, told, 0, rest);
  return toldUsage(usage, counts, ofMeta.map(inputOf).find(Boolean) ?? null, 0);
}

function inputOf({ prompt, input, total }: Counts): number | null {
  return largest(prompt, largest(input, total));
}

/** The count of the dialect itself, unless that tells nothing. */
function firstOf(own: number | null, other: number | null): number | null {
  return own || !isCount(other) ? countOrNull(own) : other;
}

/**
 * The counts by their total. Some routers tell tokens of the cache, sound or images beside the prompt, and xAI, and routers in
 * front of Gemini, reasoning beside the completion: where the total is the sum with them, they are added, and where they
 * are more than the count that they would be part of. What no detail explains is completion: Google tells thoughts in the
 * total alone. A count that is not told is what the total leaves.
 */
function byTotal(
  usage: Members,
  counts: Counts,
  promptTokens: number | null,
  completion: number | null,
): ToldUsage {
  const prompt = promptTokens || null; // no prompt has 0 tokens
  const total = countOrNull(counts.total);
  if (!total || (prompt === null && completion === null))
    return toldUsage(usage, counts, prompt, completion);
  const rest = total - (prompt ?? 0) - (completion ?? 0);
  if (prompt !== null && completion !== null && rest <= 0)
    return toldUsage(usage, counts, prompt, completion, rest); // nearly always
  const sizes = (parts: readonly PartName[]) => parts.map((part) => counts[part] || 0);
  const [partsOfPrompt, partsOfCompletion] = [sizes(PROMPT_PARTS), sizes(COMPLETION_PARTS)];
  if (prompt !== null && completion !== null) {
    for (const ofPrompt of sumsOf(partsOfPrompt))
      for (const ofCompletion of sumsOf(partsOfCompletion))
        if (rest === ofPrompt + ofCompletion)
          return toldUsage(usage, counts, prompt + ofPrompt, completion + ofCompletion);
    if (!counts.audioPrompt && (usage.prompt_audio_seconds as number) > 0) {
      setPart(counts, 'audioPrompt', rest); // Mistral tells the seconds, and the tokens of them in the total alone
      return toldUsage(usage, counts, prompt + rest, completion);
    }
  }
  let wholePrompt = prompt ?? 0;
  let whole = completion ?? 0;
  const [cached = 0, written = 0, ...others] = partsOfPrompt;
  if (prompt !== null)
    for (const part of [cached + written, ...others])
      wholePrompt = withLarger(wholePrompt, part, total - whole);
  if (completion !== null)
    for (const part of partsOfCompletion) whole = withLarger(whole, part, total - wholePrompt);
  const left = total - wholePrompt - whole;
  if (prompt === null) return toldUsage(usage, counts, Math.max(0, left), whole, Math.min(0, left));
  const isGuess = completion !== null || left < 0;
  return toldUsage(usage, counts, wholePrompt, whole + Math.max(0, left), isGuess ? left : 0);
}

/** The sums of some parts, each of them or not. */
function sumsOf(parts: readonly number[]): number[] {
  const sums = [0];
  for (const part of parts) sums.push(...sums.map((sum) => sum + part));
  return sums;
}

/** A count with its part, where that is larger, so that it stands beside it; not beyond the most. */
function withLarger(count: number, part: number, most: number): number {
  return part > count && count + part <= most ? count + part : count;
}

/**
 * The usage of a message. Where the provider ran the model more than once, as for a compaction, `iterations` has the
 * usage of each run, and the counts beside it may leave some out.
 */
export function messagesUsage(usage: Members): ToldUsage {
  const told = runUsage(usage);
  const { iterations } = usage;
  if (!Array.isArray(iterations)) return told;
  const all = iterations.map((run) => runUsage(isObject(run) ? run : NONE));
  const largest = (count: 'prompt' | 'completion'): number | null => {
    const sum = all.reduce((sum, run) => sum + (run[count] ?? Number.NaN), 0);
    return isCount(sum) ? Math.max(sum, told[count] ?? 0) : told[count];
  };
  const ofCache = (count: 'cached' | 'cacheWrite' | 'cacheWriteHour'): number | null => {
    const counts = all.flatMap(({ details }) => details?.[count] ?? []);
    const beside = told.details?.[count] ?? null;
    return counts.length === 0
      ? beside
      : Math.max(
          counts.reduce((sum, each) => sum + each),
          beside ?? 0,
        );
  };
  const details = {
    ...(told.details ?? NO_DETAILS),
    cached: ofCache('cached'),
    cacheWrite: ofCache('cacheWrite'),
    cacheWriteHour: ofCache('cacheWriteHour'),
  };
  const found = new Set([told, ...all].flatMap(({ unread = [] }) => unread));
  const unread = [...found].slice(0, MOST_UNREAD);
  return {
    prompt: largest('prompt'),
    completion: largest('completion'),
    details: toldOrNull(details),
    ...(unread.length > 0 ? { unread } : {}),
  };
}

/**
 * The usage of one run, whose `input_tokens` leave out those that were written to the cache or read from it. Where a
 * router tells a total, and it is the sum without them, they are within, unless they are more than it.
 */
function runUsage(usage: Members): ToldUsage {
  const counts = countsIn(usage);
  const { input, output, cacheBeside } = counts;
  const total = countOrNull(counts.total);
  const sum = input === null ? null : input + cacheBeside;
  if (!total || !isCount(input) || !isCount(output) || !isCount(sum))
    return toldUsage(usage, counts, sum, output);
  if (input + output === total)
    return toldUsage(usage, counts, sum <= 2 * input ? input : sum, output);
  return byTotal(usage, counts, sum, output);
}

/** @returns null when no count is told */
export function readUsageMembers(usage: Members, reader: UsageReader): ToldUsage | null {
  const told = reader(usage);
  const prompt = told.prompt || null; // no prompt has 0 tokens
  if (prompt === null && told.completion === null) return null;
  return prompt === told.prompt ? told : { ...told, prompt };
}

/**
 * Adds what a later usage of the same call tells. A member that tells nothing, as null and zeros do, erases no earlier one;
 * any other takes its place, a smaller count too. A total is that of the counts beside it, and `input_tokens` of a message
 * leave out what is told of the cache: an earlier one of either does not stay beside later ones of these.
 */
export function addUsage(earlier: Record<string, unknown>, later: Members): void {
  if (earlier.total_tokens && !later.total_tokens && COUNTED.some((name) => later[name]))
    earlier.total_tokens = null;
  if (later.input_tokens === 0 && earlier.input_tokens && bringsCache(earlier, later))
    earlier.input_tokens = 0;
  addMembers(earlier, later);
}

const COUNTED = ['prompt_tokens', 'completion_tokens', 'input_tokens', 'output_tokens'];

/** Whether tokens of the cache are told beside `input_tokens` for the first time. */
function bringsCache(earlier: Members, later: Members): boolean {
  return countsIn(later).cacheBeside > 0 && !(countsIn(earlier).cacheBeside > 0);
}

function addMembers(earlier: Record<string, unknown>, later: Members, level = 0): void {
  for (const [name, value] of Object.entries(later)) {
    const before = earlier[name];
    if (isObject(value) && isObject(before) && level < MOST_LEVELS) {
      const parts = Object.assign(Object.create(null), before);
      addMembers(parts, value, level + 1);
      earlier[name] = parts;
    } else if (!before || (typeof value === 'number' ? value > 0 : value)) earlier[name] = value;
  }
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
 * What a usage tells while the completion goes on: the part of the prompt.
 * @returns null when it does not tell the prompt: some routers begin with zeros
 */
export function promptUsage({ prompt, details }: ToldUsage): ToldUsage | null {
  if (prompt === null) return null;
  const ofPrompt = details && {
    ...details,
    ...NO_PARTS_OF_COMPLETION,
    cost: null,
  };
  return { prompt, completion: null, details: ofPrompt && toldOrNull(ofPrompt) };
}

/** Adds the cost that a header told: decimal text, or anything else. That of the usage wins. */
export function withCost(
  details: UsageDetails | null,
  header: string | undefined,
): UsageDetails | null {
  if (header === undefined || (details !== null && details.cost !== null)) return details;
  const cost = DECIMAL.test(header) ? costOrNull(Number(header)) : null;
  return cost === null ? details : { ...(details ?? NO_DETAILS), cost };
}

const DECIMAL = /^\d{1,20}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?$/i;
/** A cost outside of these bounds cannot be right, and counts as not told. */
const MOST_COST = 1e6;
const LEAST_COST = 1e-15;

function largest(one: number | null, other: number | null): number | null {
  if (!isCount(one)) return countOrNull(other);
  return isCount(other) && other > one ? other : one;
}

/**
 * Checks the counts, and their parts.
 * @param rest what the total is apart from the counts
 */
function toldUsage(
  usage: Members,
  counts: Counts,
  promptTokens: number | null,
  completionTokens: number | null,
  rest = 0,
): ToldUsage {
  const prompt = countOrNull(promptTokens);
  const completion = countOrNull(completionTokens);
  const { unread } = counts;
  const isDetailed = counts.hasParts || usage.cost !== undefined;
  const details = isDetailed ? detailsIn(counts, prompt, completion, costOrNull(usage.cost)) : null;
  if (rest === 0 && unread === null) return { prompt, completion, details }; // nearly always
  const told = { prompt, completion, details };
  return { ...told, ...(rest === 0 ? {} : { rest }), ...(unread === null ? {} : { unread }) };
}

const NONE: Members = {};

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function costOrNull(cost: unknown): string | null {
  if (typeof cost !== 'number') return null;
  return cost === 0 ? '0' : cost >= LEAST_COST && cost < MOST_COST ? `${cost}` : null;
}
