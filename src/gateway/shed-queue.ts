/** How long a refusal waits at least, in milliseconds. */
export const REFUSE_MS = 200;
/** ShedQueue a second, and how long in milliseconds the last of very many waits then. */
export const PACE = 250;
export const MOST_MS = 5000;
/** As many may wait; the oldest of more go at once: each holds some KB, and one connection can send thousands. */
export const MOST_WAITING = 10_000;

/**
 * Requests that are to be refused for overload, the oldest first. They wait, and leave at a
 * bounded pace: a refusal costs half of what an answer does or more, and clients that try again
 * at once would have the gateway do little else. With five times as many connections as it
 * takes on, refused 200 ms later each, 72 to 89 % of the goodput was left; so it is about 90.
 *
 * 250 a second are 2 to 3 % of a core; where thousands wait it is more, so that none waits for
 * much longer than MOST_MS.
 */
export class ShedQueue<T> {
  readonly #waiting: { readonly since: number; readonly request: T }[] = [];
  /** When some were taken last. */
  #at = 0;

  get waiting(): number {
    return this.#waiting.length;
  }

  /** @param now monotonic milliseconds */
  add(request: T, now: number): void {
    if (this.#waiting.length === 0) this.#at = now;
    this.#waiting.push({ since: now, request });
  }

  /** Those whose refusal is due, not to be met here again. */
  take(now: number): T[] {
    const { length } = this.#waiting;
    const most = Math.ceil((now - this.#at) * Math.max(PACE / 1000, length / MOST_MS));
    this.#at = now;
    let count = 0;
    while (count < most && count < length && now - (this.#waiting[count]?.since as number) >= REFUSE_MS) count++;
    count = Math.max(count, length - MOST_WAITING);
    return this.#waiting.splice(0, count).map(({ request }) => request);
  }
}
