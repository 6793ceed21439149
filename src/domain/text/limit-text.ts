import { isLimited } from '../budget.ts';
import type { RestrictionColumns } from '../key.ts';
import { eachLimit, type LimitColumns } from '../limits.ts';

/** How numbers are shown to the reader. */
interface Shown {
  count(value: number): string;
  eurText(amount: string): string;
}

/** The limits of a company or a key in words, such as "60 requests a minute"; empty without any. */
export function limitTexts(row: LimitColumns, { count }: Pick<Shown, 'count'>): string[] {
  const texts = eachLimit(({ unit, per }, name) => {
    const limit = row[name];
    return limit === null ? null : `${unit === null ? count(limit) : counted(limit, unit, count)} ${per}`;
  });
  return Object.values(texts).filter((text) => text !== null);
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
