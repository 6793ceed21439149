import { isLimited } from '../budget.ts';
import { ALLOWED_MODELS } from '../gate.ts';
import type { Words } from '../language/en.ts';
import { wordsOf } from '../language/language.ts';
import { ENGLISH } from '../languages.ts';
import { eachLimit, type LimitColumns } from '../limits.ts';
import type { RestrictionColumns } from './key.ts';

/** How numbers are shown to the reader. */
interface Shown {
  count(value: number): string;
  eurText(amount: string): string;
}

type LimitWords = Words['limitTexts'];
const IN_ENGLISH = wordsOf(ENGLISH).limitTexts;

/** The limits of a company or a key in words, such as "60 requests a minute"; empty without any. */
export function limitTexts(
  row: LimitColumns,
  { count }: Pick<Shown, 'count'>,
  words: LimitWords = IN_ENGLISH,
): string[] {
  const texts = eachLimit((_, name) => {
    const limit = row[name];
    return limit === null ? null : words[name](limit, count(limit));
  });
  return Object.values(texts).filter((text) => text !== null);
}

/** All by which a key may do less than its company, in words; empty for nothing. */
export function restrictionTexts(
  row: RestrictionColumns,
  shown: Shown,
  words: LimitWords = IN_ENGLISH,
): string[] {
  const {
    monthly_budget_eur: budget,
    daily_budget_eur: ofDay,
    [ALLOWED_MODELS]: slugs,
    allowed_cidrs: networks,
  } = row;
  const texts = [
    isLimited(budget) && words.budget(shown.eurText(budget)),
    isLimited(ofDay) && words.dayBudget(shown.eurText(ofDay)),
    slugs !== null && words.models(slugs.length, shown.count(slugs.length)),
    networks !== null && words.networks(networks.length, shown.count(networks.length)),
  ];
  return [...limitTexts(row, shown, words), ...texts.filter((text) => text !== false)];
}
