import type { KeyUsage, UsageRecord } from '../domain/usage.ts';

/**
 * What a key used in one month, kept while somebody asks for it: the database's sums, what this process had not
 * written when they were read, and what it booked since.
 */
export class KeyMonth implements KeyUsage {
  readonly month: string;
  requests = 0;
  promptTokens = 0;
  completionTokens = 0;
  cost = 0n;
  /** When the database's sums were read, monotonic milliseconds; NaN before. */
  readAt = Number.NaN;

  constructor(month: string) {
    this.month = month;
  }

  book({ admission, tokens, cost }: UsageRecord): void {
    const { prompt: promptTokens, completion: completionTokens } = tokens;
    if (admission.month === this.month)
      this.add({ requests: 1, promptTokens, completionTokens, cost });
  }

  add({ requests, promptTokens, completionTokens, cost }: KeyUsage): void {
    this.requests += requests;
    this.promptTokens += promptTokens;
    this.completionTokens += completionTokens;
    this.cost += cost;
  }
}
