import { randomUUID } from 'node:crypto';
import type { Payer } from '../../src/domain/key.ts';
import { parsePrices } from '../../src/domain/money.ts';
import { Calendar } from '../../src/domain/month.ts';
import { type Admission, type UsageRecord, usageRecord } from '../../src/domain/usage.ts';
import { newRequestId } from '../../src/runtime/request-id.ts';
import { INTERNAL_MODEL, SLUG } from './answers.ts';

/** Made-up requests and the ledger records of them. */
export const CALENDAR = new Calendar('UTC');
const PRICES = parsePrices('0.0005', '0.0015');
const MODEL = {
  slug: SLUG,
  upstream: INTERNAL_MODEL,
  kind: 'chat',
  euHosted: true,
  prices: PRICES,
  created: 0,
} as const;

/** Keys of as many companies. */
export function makePayers(length: number): Payer[] {
  return Array.from({ length }, () => ({ id: randomUUID(), companyId: randomUUID() }));
}

/** The n-th request; payers take turns. */
export function admissionOf(payers: readonly Payer[], n: number): Admission {
  const at = Date.now();
  const payer = payers[n % payers.length] as Payer;
  const month = CALENDAR.month(at);
  return { requestId: newRequestId(), payer, model: MODEL, endpoint: 'chat.completions', at, month };
}

export function recordOf(admission: Admission, n: number): UsageRecord {
  return usageRecord(admission, { prompt: 200 + (n % 100), completion: 100 + (n % 50) }, 'upstream', 'completed');
}
