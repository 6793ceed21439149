/**
 * Upper bounds of the buckets of `request_hours.duration_buckets`, in milliseconds. The last bucket is for longer
 * requests. Rows of different releases are added up, so the bounds never change.
 */
export const DURATION_BOUNDS_MS: readonly number[] = [
  5, 10, 20, 50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 15_000,
  20_000, 30_000, 60_000, 120_000, 300_000,
];

/** Upper bounds of the buckets of `request_hours.added_buckets`, in microseconds. */
export const ADDED_BOUNDS_US: readonly number[] = [
  50, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10_000, 25_000, 100_000, 500_000, 2_000_000,
];

/**
 * Estimates a percentile: interpolated within its bucket, and at most the last bound.
 * @param bounds upper bounds, ascending
 * @param counts of the buckets; one more than there are bounds
 * @param share from 0 to 1, such as 0.95
 * @returns in the unit of the bounds; null where nothing was counted
 */
export function percentileOf(
  bounds: readonly number[],
  counts: readonly number[],
  share: number,
): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const wanted = share * total;
  let below = 0;
  for (const [at, upper] of bounds.entries()) {
    const count = counts[at] as number;
    if (count > 0 && below + count >= wanted) {
      const lower = bounds[at - 1] ?? 0;
      return lower + ((upper - lower) * (wanted - below)) / count;
    }
    below += count;
  }
  return bounds.at(-1) as number;
}
