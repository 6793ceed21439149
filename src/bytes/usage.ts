/** Token counts of one call, whole and not negative. */
export interface TokenCounts {
  readonly prompt: number;
  readonly completion: number;
}

/**
 * Reads the upstream's `usage` object. Whole numbers may be written as floats (12.0).
 * Without `completion_tokens`, as in embeddings, it is what `total_tokens` leaves, or none.
 * @returns null when the counts are missing or cannot be
 */
export function readUsage(usage: unknown): TokenCounts | null {
  if (typeof usage !== 'object' || usage === null) return null;
  const { prompt_tokens: prompt, completion_tokens: told, total_tokens: total } = usage as Record<string, unknown>;
  if (!isCount(prompt)) return null;
  const completion = told ?? (isCount(total) ? Math.max(0, total - prompt) : 0);
  return isCount(completion) ? { prompt, completion } : null;
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
