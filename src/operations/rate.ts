import { mistakesOf, sameRates } from '../domain/pricing/rates.ts';
import { eachPrice, PRICE_NAMES, type SomePrices, samePrice } from '../domain/settings/model.ts';
import type { Mistake } from './frame/refused.ts';

/**
 * The rule of rates that are set, of models, prices to come and cost prices: each can be read, has every part of the base
 * price, and no two could win at once. Where there are rates, whoever changes the base price says what becomes of them.
 * @param before what the prices come in place of; null: nothing
 * @param wanted a member that is left out stays as it is before
 * @param now milliseconds since the epoch
 */
export function wrongRates(
  before: SomePrices | null,
  { rates, ...wanted }: SomePrices,
  now: number,
): Mistake[] {
  const base = eachPrice((name) =>
    wanted[name] === undefined ? (before?.[name] ?? null) : wanted[name],
  ) as SomePrices & Record<'input' | 'output', string>;
  if (rates !== undefined) {
    return mistakesOf(rates ?? [], base, now).map(({ at, member, message }) => ({
      pointer: `#/rates/${at}/${member}`,
      detail: message,
    }));
  }
  const many = before?.rates?.length ?? 0;
  if (many === 0 || PRICE_NAMES.every((name) => samePrice(before?.[name], base[name]))) return [];
  const detail = `must be given with the prices: the list of rates that holds with them, or none. There ${many === 1 ? 'is a rate' : `are ${many} rates`} now`;
  return [{ pointer: '#/rates', detail }];
}

/** Whether a change is none of prices and rates. */
export function isSamePrice(now: SomePrices, { rates, ...wanted }: SomePrices): boolean {
  return (
    (rates === undefined || sameRates(now.rates, rates)) &&
    PRICE_NAMES.every((name) => wanted[name] === undefined || samePrice(now[name], wanted[name]))
  );
}
