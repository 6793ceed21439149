/** The place of a request in a trace, as in a `traceparent` header (W3C Trace Context, level 2). */
export interface TraceContext {
  /** 32 lower-case hex digits, not all zero. */
  readonly traceId: string;
  /** 16 of them: the span of the caller. */
  readonly parentId: string;
  /** SAMPLED, and the bit for random trace ids. */
  readonly flags: number;
}

export const SAMPLED = 1;
const KNOWN_FLAGS = 3; // others are not passed on
/** Later versions may only append members after a dash. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})((?:-.*)?)$/;
const ZERO = /^0+$/;

/** @returns null for an invalid header, which begins a new trace as the standard requires */
export function parseTraceparent(value: string): TraceContext | null {
  const match = TRACEPARENT.exec(value);
  if (match === null) return null;
  const [, version, traceId, parentId, flags, rest] = match as unknown as [
    string,
    string,
    string,
    string,
    string,
    '',
  ];
  if (version === 'ff' || (version === '00' && rest !== '')) return null;
  if (ZERO.test(traceId) || ZERO.test(parentId)) return null;
  return { traceId, parentId, flags: Number.parseInt(flags, 16) & KNOWN_FLAGS };
}

export function formatTraceparent({ traceId, parentId, flags }: TraceContext): string {
  return `00-${traceId}-${parentId}-0${flags}`;
}
