import { nameSpelling } from '../../domain/visible-text.ts';

/** Entries of a list, and which of the things that are there each of them means. */

/** An entry of a list whose things have ids and names. */
interface Named {
  readonly id?: string;
  readonly name: string;
  readonly absent?: true;
}

/** Notes what is wrong. @param at a JSON Pointer without "#" */
export type NoteMistake = (at: string, detail: string) => void;

/**
 * Makes the function that finds the row of an entry in a list: by the entry's id, or else by its name. A row whose id
 * is in another entry is not found by name, because that entry may rename it.
 * @returns null: there is none of this name; undefined: several, or none of this id, which is a mistake
 */
export function finder<T extends Named & { readonly id: string }>(
  all: readonly Named[],
  rows: readonly T[],
  [one, several]: readonly [string, string],
  at: string,
  mistake: NoteMistake,
): (n: number) => T | null | undefined {
  refuseTwice(mistake, all, ({ id, name }) => id ?? name, at);
  const given = new Map(all.flatMap((each) => (each.id === undefined ? [] : [[each.id, each]])));
  const renamed = new Set(
    [...given.values()].filter(({ absent }) => !absent).map(({ name }) => name),
  );
  for (const [n, { id, name }] of all.entries()) {
    if (id === undefined && renamed.has(name))
      mistake(`${at}/${n}`, `names ${JSON.stringify(name)} a second time`);
  }
  const byId = Map.groupBy(rows, ({ id }) => id);
  const byName = Map.groupBy(
    rows.filter(({ id }) => !given.has(id)),
    ({ name }) => nameSpelling(name),
  );
  return (n) => {
    const { id, name, absent } = all[n] as Named;
    const [row, second] = (id === undefined ? byName.get(name) : byId.get(id)) ?? [];
    if (second !== undefined)
      mistake(`${at}/${n}/name`, `is the name of several ${several}: give the id of one`);
    else if (row === undefined && id !== undefined && !absent)
      mistake(`${at}/${n}/id`, `is the id of no ${one}`);
    else return row ?? null;
    return undefined;
  };
}

/** @param what the same of two that are the same; default: their name */
export function refuseTwice<T>(
  mistake: NoteMistake,
  all: readonly T[],
  name: (each: T) => string,
  at: string,
  what: (each: T, n: number) => unknown = name,
): void {
  const seen = new Set<unknown>();
  for (const [n, each] of all.entries()) {
    if (seen.has(what(each, n)))
      mistake(`${at}/${n}`, `names ${JSON.stringify(name(each))} a second time`);
    seen.add(what(each, n));
  }
}
