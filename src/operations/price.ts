import { parseEur } from '../domain/money.ts';

/** The prices of one model: since when, and from when on. What has begun is never changed. */

interface Amounts {
  readonly input: string | null;
  readonly output: string | null;
}

/**
 * Whether a price takes the place of another one for the same time. A page asks first, and a command says whose it was;
 * a file prints both, and administration over HTTP means it.
 * @param present null: there is none
 */
export function takesPlace(present: Amounts | null, mine: Amounts): boolean {
  const amounts = ({ input, output }: Amounts) =>
    [input, output].map((text) => (text === null ? null : parseEur(text)));
  return present !== null && `${amounts(present)}` !== `${amounts(mine)}`;
}
