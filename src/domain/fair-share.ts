/** How many times the free places a company may hold: seven eighths of all where it is alone. */
const HELD_PER_FREE = 7;

/**
 * Whether a company may take one more of a number of places. Its bound follows the free places: n companies that take
 * all they can get hold equally many and leave one place in 7 n + 1 free, so one that holds few finds room.
 * @param own places that the company holds
 * @param taken places that all companies hold
 */
export function mayTakePlace(own: number, taken: number, places: number): boolean {
  return own < HELD_PER_FREE * (places - taken);
}

/**
 * The max-min fair level: the most that each company may use of a capacity, where those that need less leave the
 * rest to the others. The sum of `min(use, level)` is the capacity. Infinity where all fit. O(n log n).
 * @param uses what each company would use; gets sorted
 */
export function fairLevel(uses: Float64Array, capacity: number): number {
  uses.sort();
  let left = capacity;
  for (let i = 0; i < uses.length; i++) {
    const use = uses[i] as number;
    const equal = left / (uses.length - i);
    if (use > equal) return equal;
    left -= use;
  }
  return Number.POSITIVE_INFINITY;
}
