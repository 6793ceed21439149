/** Where a request stands in a trace: what a `traceparent` header says (W3C Trace Context, level 2). */
export interface TraceContext {
  /** 32 lower-case hex digits, not all zero. */
  readonly traceId: string;
  /** 16 of them: the span of whoever asks. */
  readonly parentId: string;
  /** SAMPLED, and whether the trace id is random. */
  readonly flags: number;
}

export const SAMPLED = 1;
/** Bits with a meaning; others are not passed on. */
const KNOWN_FLAGS = 3;

/** @returns null for what is no valid header: a new trace begins then, as the standard has it */
export function parseTraceparent(value: string): TraceContext | null {
  const match = TRACEPARENT.exec(value);
  if (match === null) return null;
  const [, version, traceId, parentId, flags, rest] = match as unknown as [string, string, string, string, string, ''];
  if (version === 'ff' || (version === '00' && rest !== '')) return null;
  if (ZERO.test(traceId) || ZERO.test(parentId)) return null;
  return { traceId, parentId, flags: Number.parseInt(flags, 16) & KNOWN_FLAGS };
}

// later versions may only add behind a dash
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})((?:-.*)?)$/;
const ZERO = /^0+$/;

export function formatTraceparent({ traceId, parentId, flags }: TraceContext): string {
  return `00-${traceId}-${parentId}-0${flags}`;
}
