import type { BudgetPeriod } from '../../domain/budget.ts';
import { FieldError } from '../../domain/field.ts';
import { type MemberMistake, Refused } from '../../domain/refusal.ts';
import type { SomePrices } from '../../domain/settings/model.ts';

/** What a rule has against an input. */
export interface Mistake extends MemberMistake {
  /**
   * What a face may do. refuse, the default: refuse it. warn: a command of the operator warns, and lets it pass; all others
   * refuse it. ask: it is allowed, but may not be meant: a page asks, a command warns, programs and files pass.
   */
  readonly severity?: 'refuse' | 'warn' | 'ask';
  /** A sentence for the warning: what is so now that it has passed. */
  readonly passed?: string;
  /** What the question is made of. */
  readonly asked?: NewBudget | NewFactor | Repricing | PresentPrices | Namesake;
}

/** Prices that others would take the place of. */
export interface PresentPrices {
  readonly present: SomePrices;
  readonly mine: SomePrices;
  /** Who set them. */
  readonly by: string;
}

/** The name of a company that another one has, too. */
export interface Namesake {
  readonly namesake: string;
}

/** What calls of the last month cost, and what they would have cost otherwise: EUR as exact decimal text. */
interface Preview {
  readonly cost_eur: string;
  readonly would_eur: string;
}

/** A factor on prices, and what it changes. */
export interface NewFactor extends Preview {
  readonly factor: string;
  /** "2026-10". */
  readonly month: string;
  /** The factor for the same time that it takes the place of; null: there is none. */
  readonly present: { readonly factor: string; readonly by: string } | null;
}

/** A price of a model, and what it changes. */
export interface Repricing {
  readonly slug: string;
  readonly price: SomePrices;
  /** null: the calls are too many to be added up while somebody waits. */
  readonly preview: PricePreview | null;
}

/** What the calls of a month to a model cost, and what they would have cost at another price. */
export interface PricePreview extends Preview {
  /** "2026-10". */
  readonly month: string;
  readonly calls: number;
  /** The ten that paid most. */
  readonly companies: readonly (Preview & {
    readonly company_id: string;
    /** null: it is gone. */
    readonly company_name: string | null;
    readonly calls: number;
  })[];
  /** What the ledger does not say of the calls, and how they were counted: sentences without a full stop. */
  readonly notes: readonly string[];
}

/** A budget that is used up already: EUR as exact decimal text. */
export interface NewBudget {
  /** Of the company or key. */
  readonly name: string;
  readonly isKey: boolean;
  readonly period: BudgetPeriod;
  readonly budget: string;
  /** In the present month or day. */
  readonly spent: string;
}

/** The refusal of one member; pointer and detail as `Mistake` has them. */
export function wrongAt(pointer: string, detail: string): Refused {
  return new Refused('wrong', `The ${pointer.startsWith('#') ? 'body' : 'query'} is not valid.`, [
    { pointer, detail },
  ]);
}

/** Reads a member. @throws Refused wrong, with its place where the reader refuses it */
export function readAt<T>(pointer: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof FieldError ? wrongAt(pointer, error.message) : error;
  }
}

/** Refuses what rules have against a change, and lets pass what they would ask. @throws Refused conflict, which names all of it */
export function refuse(found: readonly Mistake[]): void {
  const mistakes = found
    .filter(({ severity }) => severity !== 'ask')
    .map(({ pointer, detail }) => ({ pointer, detail }));
  if (mistakes.length === 0) return;
  const sentences = mistakes.map(({ pointer, detail }) => `${pointer.slice(2)} ${detail}.`);
  throw new Refused('conflict', sentences.join(' '), mistakes);
}
