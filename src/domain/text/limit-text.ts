import { isLimited } from '../budget.ts';
import type { RestrictionColumns } from '../key.ts';
import type { LimitColumns } from '../limits.ts';

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
