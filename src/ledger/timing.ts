/** Clock and timers of the ledger; a simulation replaces them to pass hours in a second. */
export type Timing = ReturnType<typeof systemTiming>;

/** @param clock milliseconds since the epoch */
export function systemTiming(clock: () => number) {
  return {
    /** Milliseconds since the epoch; jumps when the clock is set. */
    now: clock,
    /** Monotonic milliseconds. */
    uptime: (): number => performance.now(),
    /** Calls back once after so many milliseconds. @returns a function that cancels it */
    after(ms: number, call: () => void): () => void {
      const timer = setTimeout(call, ms);
      return () => clearTimeout(timer);
    },
    /** Calls back once at the end of this turn of the event loop. */
    soon: (call: () => void): void => void setImmediate(call),
  };
}
