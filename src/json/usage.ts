/** Token counts of one call: whole numbers, 0 or more. */
export interface TokenCounts {
  readonly prompt: number;
  readonly completion: number;
}

/**
 * Reads the upstream's `usage` object. Whole numbers may be written as floats (12.0). Where
 * `completion_tokens` is missing, as for embeddings, it is total_tokens - prompt_tokens, or 0.
 * @returns null when the counts are missing or are not whole numbers of 0 or more
 */
export function readUsage(usage: unknown): TokenCounts | null {
  if (typeof usage !== 'object' || usage === null) return null;
  const { prompt_tokens: prompt, completion_tokens: stated, total_tokens: total } = usage as Record<string, unknown>;
  if (!isCount(prompt)) return null;
  const completion = stated ?? (isCount(total) ? Math.max(0, total - prompt) : 0);
  return isCount(completion) ? { prompt, completion } : null;
}

/** The same from its text. @returns null also when it is not JSON */
export function readUsageText(json: string): TokenCounts | null {
  try {
    return readUsage(JSON.parse(json));
  } catch {
    return null;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
