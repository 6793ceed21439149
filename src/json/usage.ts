/** Token counts of one call: whole numbers, 0 or more. */
export interface TokenCounts {
  readonly prompt: number;
  readonly completion: number;
}

/** What an upstream tells of them; null: nothing, or no such number. */
export interface ToldUsage {
  readonly prompt: number | null;
  readonly completion: number | null;
}

/** Reads the members of a usage object. Whole numbers may be written as floats (12.0). */
export type UsageReader = (usage: Members) => ToldUsage;

type Members = Readonly<Record<string, unknown>>;

/** The usage of a chat completion. Without `completion_tokens`, as for embeddings, they are total_tokens - prompt_tokens, or 0. */
export function chatUsage(usage: Members): ToldUsage {
  return countsOf(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens);
}

/** The usage of a response. */
export function responsesUsage({
  input_tokens: input,
  output_tokens: output,
  total_tokens: total,
}: Members): ToldUsage {
  const rest = isCount(input) && isCount(total) ? Math.max(0, total - input) : null;
  return { prompt: countOrNull(input), completion: countOrNull(output ?? rest) };
}

/** The usage of a message, whose `input_tokens` leave out those that were written to the cache or read from it. */
export function messagesUsage(usage: Members): ToldUsage {
  const { input_tokens: input, cache_creation_input_tokens: written, cache_read_input_tokens: read } = usage;
  const parts = [input, written ?? 0, read ?? 0];
  const prompt = parts.every(isCount) ? parts.reduce((sum, part) => sum + part, 0) : null;
  return { prompt, completion: countOrNull(usage.output_tokens) };
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

function countsOf(prompt: unknown, completion: unknown, total: unknown): ToldUsage {
  if (!isCount(prompt)) return { prompt: null, completion: isCount(completion) ? completion : null };
  const stated = completion ?? (isCount(total) ? Math.max(0, total - prompt) : 0);
  return { prompt, completion: isCount(stated) ? stated : null };
}

function countOrNull(value: unknown): number | null {
  return isCount(value) ? value : null;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
