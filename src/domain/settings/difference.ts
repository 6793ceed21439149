import { parseEur } from '../pricing/money.ts';
import { storedRates } from '../pricing/rates.ts';

/** What a thing is to become: the members that differ. */
interface Difference {
  readonly member: string;
  readonly from: unknown;
  readonly to: unknown;
}

/** Members whose values are amounts, as exact decimal text. */
const AMOUNT = /_eur$|^cost_eur_|^input$|^output$|^cache_|_factor$/;

/** The members of what is wanted that are not so now. Amounts are compared as numbers, instants as times, lists as sets. */
export function differences(now: object, wanted: object): Difference[] {
  const present = now as Readonly<Record<string, unknown>>;
  return Object.entries(wanted)
    .filter(
      ([member, to]) =>
        to !== undefined && text(member, present[member]) !== text(member, to, present[member]),
    )
    .map(([member, to]) => ({ member, from: present[member], to }));
}

/** Writes values with the same meaning as the same text. @param like the value that it is compared with */
function text(member: string, value: unknown, like: unknown = value): string {
  if (value instanceof Date) return value.toISOString();
  if (like instanceof Date && typeof value === 'string') return new Date(value).toISOString();
  if (member === 'rates')
    return JSON.stringify(storedRates(value as Parameters<typeof storedRates>[0]));
  if (Array.isArray(value)) return JSON.stringify([...new Set(value)].sort());
  if (typeof value === 'string' && AMOUNT.test(member)) return String(parseEur(value));
  return String(value ?? null);
}
