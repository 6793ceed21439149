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
 * What the counts consist of, and what the call cost the upstream. A number that is not whole, or is larger than the count
 * it is part of, becomes null.
 */
export interface UsageDetails {
  /** Prompt tokens read from the upstream's cache, and those written to it: as told, perhaps more than the prompt has. */
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

/** The members of a usage. */
export type Members = Readonly<Record<string, unknown>>;

/** The usage of a chat completion. */
export function chatUsage(usage: Members): ToldUsage {
  const { prompt_tokens: prompt, completion_tokens: completion } = usage;
  return byTotal(
    usage,
    prompt,
    completion,
    usage.prompt_tokens_details,
    usage.completion_tokens_details,
  );
}

/** The usage of embeddings, which have no completion: all tokens are of the prompt. */
export function embeddingUsage(usage: Members): ToldUsage {
  const { prompt_tokens: prompt, completion_tokens: completion } = usage;
  return byTotal(
    usage,
    prompt,
    completion ?? 0,
    usage.prompt_tokens_details,
    usage.completion_tokens_details,
  );
}

/**
 * The usage of reranking, which has no completion. Cohere and LiteLLM tell it in `meta`, whose members are here beside
 * those of `usage`: the first count wins that is none of 0.
 */
export function rerankUsage(usage: Members): ToldUsage {
  const { prompt_tokens: prompt, total_tokens: total, tokens, billed_units: billed } = usage;
  const counts = [prompt, total, membersOf(tokens).input_tokens, membersOf(billed).total_tokens];
  return toldUsage(
    counts.find((count) => isCount(count) && count > 0),
    0,
    partsOf(usage, null, null),
  );
}

/** The usage of a response. */
export function responsesUsage(usage: Members): ToldUsage {
  const { input_tokens: input, output_tokens: output } = usage;
  return byTotal(usage, input, output, usage.input_tokens_details, usage.output_tokens_details);
}

/**
 * The counts by their total. Some routers tell tokens of the cache beside the prompt, and xAI, and routers in front of
 * Gemini, reasoning beside the completion: where the total is the sum with them, they are added. A count that is not told
 * is what the total leaves.
 */
function byTotal(
  usage: Members,
  promptTokens: unknown,
  completionTokens: unknown,
  promptParts: unknown,
  completionParts: unknown,
): ToldUsage {
  const parts = partsOf(usage, promptParts, completionParts);
  const prompt = countOrNull(promptTokens) || null; // no prompt has 0 tokens
  const completion = countOrNull(completionTokens);
  const { total_tokens: total } = usage;
  if (!isCount(total)) return toldUsage(prompt, completion, parts);
  const cached = parts.cached ?? 0;
  const written = parts.cacheWrite ?? 0;
  const reasoning = parts.reasoning ?? 0;
  if (prompt !== null && completion !== null) {
    const rest = total - prompt - completion;
    if (rest <= 0) return toldUsage(prompt, completion, parts);
    for (const cache of [0, cached + written, cached, written]) {
      if (rest === cache + reasoning)
        return toldUsage(prompt + cache, completion + reasoning, parts);
      if (rest === cache) return toldUsage(prompt + cache, completion, parts);
    }
    return toldUsage(prompt, completion, parts);
  }
  if (prompt !== null) {
    const whole = withLarger(prompt, cached + written, total);
    return toldUsage(whole, Math.max(0, total - whole), parts);
  }
  if (completion === null) return toldUsage(null, null, parts);
  const whole = withLarger(completion, reasoning, total);
  return toldUsage(Math.max(0, total - whole), whole, parts);
}

/** A count with its part, where that is larger, so that it stands beside it; not beyond the total. */
function withLarger(count: number, part: number, total: number): number {
  return part > count && count + part <= total ? count + part : count;
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
  const ofCache = (count: 'cached' | 'cacheWrite'): number | null => {
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
  };
  return {
    prompt: largest('prompt'),
    completion: largest('completion'),
    details: toldOrNull(details),
  };
}

/**
 * The usage of one run, whose `input_tokens` leave out those that were written to the cache or read from it. Where a
 * router tells a total, and it is the sum without them, they are within.
 */
function runUsage(usage: Members): ToldUsage {
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage;
  const { cache_read_input_tokens: read } = usage;
  const written = writtenOf(usage);
  const all = [input, written ?? 0, read ?? 0];
  const sum = all.every(isCount) ? all.reduce((sum, part) => sum + part, 0) : null;
  const isWithin =
    sum !== null &&
    isCount(output) &&
    (input as number) + output === total &&
    sum <= 2 * (input as number);
  const { thinking_tokens: thinking } = membersOf(usage.output_tokens_details);
  return toldUsage(
    isWithin ? input : sum,
    output,
    partsOf(usage, null, { reasoning_tokens: thinking }),
  );
}

/** Reads a usage from its text. @returns null when no count is told, or it is not JSON */
export function readUsage(json: string, reader: UsageReader): ToldUsage | null {
  const members = usageMembers(json);
  return members === null ? null : readUsageMembers(members, reader);
}

export function readUsageMembers(usage: Members, reader: UsageReader): ToldUsage | null {
  const told = reader(usage);
  const prompt = told.prompt || null; // no prompt has 0 tokens
  if (prompt === null && told.completion === null) return null;
  return prompt === told.prompt ? told : { ...told, prompt };
}

/**
 * Adds what a later usage of the same call tells. A member that tells nothing, as null and zeros do, erases no earlier one;
 * any other takes its place, a smaller count too.
 */
export function addUsage(earlier: Record<string, unknown>, later: Members): void {
  for (const [name, value] of Object.entries(later)) {
    const before = earlier[name];
    if (isObject(value) && isObject(before)) {
      const parts = Object.assign(Object.create(null), before);
      addUsage(parts, value);
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
  const ofPrompt = details && { ...details, reasoning: null, audioCompletion: null, cost: null };
  return { prompt, completion: null, details: ofPrompt && toldOrNull(ofPrompt) };
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

/** What a usage tells of the parts of its counts, in the forms that routers give it. Where two tell the same, the larger. */
function partsOf(usage: Members, promptParts: unknown, completionParts: unknown): UsageDetails {
  const ofPrompt = membersOf(promptParts);
  const ofCompletion = membersOf(completionParts);
  const {
    cache_read_input_tokens: read,
    prompt_cache_hit_tokens: hit,
    cached_tokens: cached,
  } = usage;
  return {
    cached: largest(largest(ofPrompt.cached_tokens, read), largest(hit, cached)),
    cacheWrite: largest(
      largest(ofPrompt.cache_write_tokens, ofPrompt.cache_creation_tokens),
      writtenOf(usage),
    ),
    audioPrompt: countOrNull(ofPrompt.audio_tokens),
    reasoning: largest(ofCompletion.reasoning_tokens, usage.reasoning_tokens),
    audioCompletion: countOrNull(ofCompletion.audio_tokens),
    cost: costOrNull(usage.cost),
  };
}

/** Tokens that a message wrote to the cache: their count, or those by how long they are kept, where these are more. */
function writtenOf({
  cache_creation_input_tokens: written,
  cache_creation: kept,
}: Members): unknown {
  if (kept == null) return written;
  const { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour } = membersOf(kept);
  return largest(
    written,
    isCount(minutes) && isCount(hour) ? minutes + hour : largest(minutes, hour),
  );
}

function largest(one: unknown, other: unknown): number | null {
  if (!isCount(one)) return countOrNull(other);
  return isCount(other) && other > one ? other : one;
}

/** Checks the counts, and their parts. */
function toldUsage(
  promptTokens: unknown,
  completionTokens: unknown,
  parts: UsageDetails,
): ToldUsage {
  const prompt = countOrNull(promptTokens);
  const completion = countOrNull(completionTokens);
  const { cached, cacheWrite, audioPrompt, reasoning, audioCompletion, cost } = parts;
  const details = toldOrNull({
    cached: prompt === null ? null : countOrNull(cached),
    cacheWrite: prompt === null ? null : countOrNull(cacheWrite),
    audioPrompt: partOf(prompt, audioPrompt),
    reasoning: partOf(completion, reasoning),
    audioCompletion: partOf(completion, audioCompletion),
    cost,
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

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
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
