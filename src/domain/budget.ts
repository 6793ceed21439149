import type { Company } from './company.ts';
import { GatewayError } from './errors.ts';
import type { Femto } from './money.ts';

/**
 * The budget gate (spec section 8, rules 1, 2 and 6): refused once API and in-app chat
 * cost of the month have reached the budget; a company without one is never refused.
 * @throws GatewayError 402
 */
export function admitBudget(company: Company, spent: Femto): void {
  if (company.budget !== null && spent >= company.budget) throw new GatewayError('insufficient_quota');
}
