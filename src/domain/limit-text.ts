import { isLimited } from './budget.ts';

/** Columns of `companies` and `api_keys` (contract section 5). null: no limit. */
export interface LimitColumns {
  readonly requests_per_minute: number | null;
  readonly tokens_per_minute: number | null;
  /** Calls in flight at once. */
  readonly max_concurrent: number | null;
}

/** Columns of `api_keys` by which a key may do less than its company (contract section 5). null: nothing less. */
export interface RestrictionColumns {
  /** The only slugs it lists and calls; sorted. */
  readonly allowed_model_slugs: readonly string[] | null;
  /** Exact decimal text in EUR; "0" means unlimited, too. */
  readonly monthly_budget_eur: string | null;
  /** The networks it may be used from, such as "10.0.0.0/8"; sorted. */
  readonly allowed_cidrs: readonly string[] | null;
}

/** How numbers are shown to the reader. */
interface Shown {
  count(value: number): string;
  eurText(amount: string): string;
}

/** The limits of a company or a key in words, such as "60 requests a minute"; empty without any. */
export function limitTexts(row: LimitColumns, { count }: Pick<Shown, 'count'>): string[] {
  const { requests_per_minute, tokens_per_minute, max_concurrent } = row;
  const texts = [
    requests_per_minute !== null && `${counted(requests_per_minute, 'request', count)} a minute`,
    tokens_per_minute !== null && `${counted(tokens_per_minute, 'token', count)} a minute`,
    max_concurrent !== null && `${count(max_concurrent)} at once`,
  ];
  return texts.filter((text) => text !== false);
}

/** All by which a key may do less than its company, in words; empty for nothing. */
export function restrictionTexts(row: LimitColumns & RestrictionColumns, shown: Shown): string[] {
  const { allowed_model_slugs: slugs, monthly_budget_eur: budget, allowed_cidrs: cidrs } = row;
  const texts = [
    isLimited(budget) && `${shown.eurText(budget)} a month`,
    slugs !== null && counted(slugs.length, 'model', shown.count),
    cidrs !== null && counted(cidrs.length, 'network', shown.count),
  ];
  return [...limitTexts(row, shown), ...texts.filter((text) => text !== false)];
}

function counted(value: number, noun: string, count: Shown['count']): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}
