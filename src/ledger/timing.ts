/** Time as the ledger uses it; a parameter, so that a simulation can pass hours in a second. */
export interface Timing {
  /** Milliseconds since the epoch; may step when somebody sets the clock. */
  now(): number;
  /** Milliseconds that no clock change moves. */
  uptime(): number;
  /** Calls back once after so many milliseconds. @returns what cancels it */
  after(ms: number, call: () => void): () => void;
  /** Calls back once when everything that is ready now was dealt with. */
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
