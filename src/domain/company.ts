import type { Limits } from './limits.ts';
import type { Model, PriceFactors } from './model.ts';
import type { Femto } from './pricing/money.ts';

/** A company's settings and models as the gates read them (spec section 2.9). */
export interface Company {
  readonly id: string;
  readonly name: string;
  readonly disabledSlugs: ReadonlySet<string>;
  /** Allowed by the company, and not locked by an operator. */
  readonly allowNonEu: boolean;
  /** Femto-EUR a month: its own budget or its credit limit, whichever is smaller; null means unlimited. */
  readonly budget: Femto | null;
  /** Femto-EUR a day; null means unlimited. */
  readonly dailyBudget: Femto | null;
  /** Whether each request reserves what it can cost at most before it is sent. */
  readonly strict: boolean;
  /** null: none. */
  readonly limits: Limits | null;
  /** Models of this company only; they take precedence over shared ones of the same slug. */
  readonly ownModels: ReadonlyMap<string, Model>;
  readonly sharedModels: ReadonlyMap<string, Model>;
  /** The factors in the prices of these models; null: there is none, and none is to come. */
  readonly factors: PriceFactors | null;
  /** The shared models before the factors; the same map where there is none. */
  readonly listedModels: ReadonlyMap<string, Model>;
}
