/**
 * How much a company or a key may send, over all gateways together (contract section 5).
 * null: no limit. A request has to fit both its company's limits and its key's.
 */
export interface Limits {
  readonly requestsPerMinute: number | null;
  readonly tokensPerMinute: number | null;
  /** Calls in flight at once. */
  readonly maxConcurrent: number | null;
}
