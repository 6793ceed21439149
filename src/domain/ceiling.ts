import { type Femto, parseEur } from './pricing/money.ts';
import { type Refusal, refusal } from './refusal.ts';

/** Budget and EU gate of a company, and the ceilings above them. EUR is exact decimal text. */
interface Settings {
  readonly monthly_budget_eur: string | null;
  readonly allow_non_eu_models: boolean;
  readonly credit_limit_eur: string | null;
  readonly eu_locked: boolean;
}

/** The settings that a change may leave out. */
type Wanted = {
  readonly [K in 'monthly_budget_eur' | 'allow_non_eu_models']?: Settings[K] | undefined;
};

/** Why a setting is refused, as it follows the name of its field; null: it is not. */
interface Refusals {
  readonly budget: Refusal | null;
  readonly nonEu: Refusal | null;
}

/**
 * Whether a change stays below the ceilings. A budget that was above a new credit limit already may stay as it is:
 * the credit limit holds. No budget is not above it, and counts as the credit limit.
 */
export function checkCeilings(company: Settings, wanted: Wanted): Refusals {
  const { monthly_budget_eur: former, credit_limit_eur: limit, eu_locked } = company;
  const budget = amount(wanted.monthly_budget_eur);
  const isNew = budget !== amount(former);
  return {
    budget:
      isNew && limit !== null && isAbove(budget, limit) ? refusal('aboveCredit', { limit }) : null,
    nonEu: eu_locked && wanted.allow_non_eu_models === true ? refusal('euLocked') : null,
  };
}

/** Whether the budget of a company is above its credit limit, which then holds. */
export function isAboveLimit({ monthly_budget_eur, credit_limit_eur }: Settings): boolean {
  return isAbove(amount(monthly_budget_eur), credit_limit_eur);
}

/** Why the budget of a key that a member makes is refused; null: it is not. @param most null: any budget is taken */
export function checkMemberBudget(budget: string | null, most: string | null): Refusal | null {
  return isAbove(amount(budget), most)
    ? refusal('aboveMemberBudget', { most: String(most) })
    : null;
}

/** Whether a new budget is spent already: calls would get 402 at once. A page asks then, and a command warns. */
export function isUsedUp(asked: Asked): boolean {
  const [budget, before] = [amount(asked.budget), amount(asked.before)];
  return budget !== 0n && budget !== before && parseEur(asked.spent) >= budget;
}

/** EUR as exact decimal text; null and 0 are no budget. */
interface Asked {
  readonly budget: string | null;
  /** The one that holds now. */
  readonly before: string | null;
  /** In its present month or day. */
  readonly spent: string;
}

function isAbove(budget: Femto, limit: string | null): boolean {
  return limit !== null && budget > parseEur(limit);
}

function amount(budget: string | null | undefined): Femto {
  return budget == null ? 0n : parseEur(budget);
}
