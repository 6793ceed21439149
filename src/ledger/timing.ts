/** Clock and timers of the ledger; a simulation replaces them to pass hours in a second. */
export interface Timing {
  /** Milliseconds since the epoch; jumps when the clock is set. */
  now(): number;
  /** Monotonic milliseconds. */
  uptime(): number;
  /** Calls back once after so many milliseconds. @returns a function that cancels it */
  after(ms: number, call: () => void): () => void;
  /** Calls back once at the end of this turn of the event loop. */
  soon(call: () => void): void;
}

/** @param clock milliseconds since the epoch */
export function systemTiming(clock: () => number): Timing {
  return {
    now: clock,
    uptime: () => performance.now(),
    after(ms, call) {
      const timer = setTimeout(call, ms);
      return () => clearTimeout(timer);
    },
    soon: (call) => void setImmediate(call),
  };
}
