import { Refused } from '../../domain/refusal.ts';
import { nameSpelling } from '../../domain/visible-text.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { namesLike, thingsCalled } from '../../store/lists/name.ts';
import { didYouMean } from './closest.ts';
import type { Name } from './command.ts';

/** How many ids a refusal lists. */
const MOST_IDS = 10;

/**
 * The ids of things that arguments name, a function for `parseCommand`. Of things of one name, one that works is meant
 * before those that are closed, revoked or expired.
 * @param company that of the option --company, where it is an id: keys and other things are looked for in it
 * @throws Refused where none or several have the name
 */
export async function idsOf(
  sql: Sql,
  names: readonly Name[],
  company: string | null,
): Promise<(name: Name) => string> {
  const ids = new Map<string, string>();
  let within = company;
  for (const each of names.toSorted((one, other) => rank(one) - rank(other))) {
    const id = await idOf(sql, each, each.noun === 'company' ? null : within);
    if (each.argument === '--company') within = id;
    ids.set(keyOf(each), id);
  }
  return (name) => ids.get(keyOf(name)) as string;
}

/** Companies first: the others are looked for in them. */
const rank = ({ noun }: Name): number => (noun === 'company' ? 0 : 1);
const keyOf = ({ noun, name }: Name): string => `${noun} ${name}`;

async function idOf(sql: Sql, { noun, name }: Name, company: string | null): Promise<string> {
  const text = nameSpelling(name.trim());
  const what = noun.replace('-', ' ') as 'company'; // a noun of refusals: "end user"
  const found = await thingsCalled(sql, noun, [text, name], company);
  const working = found.filter(({ works }) => works);
  const [one, another] = working.length > 0 ? working : found;
  if (one === undefined) {
    const where = company === null ? '' : ' of this company';
    const near = didYouMean(text, await namesLike(sql, noun, text, company));
    throw new Refused(
      'missing',
      `No ${what}${where} is called ${JSON.stringify(name)}${near || '.'}`,
      [],
      what,
    );
  }
  if (another === undefined) return one.id;
  const listed = found.slice(0, MOST_IDS).map(({ id, works, detail, company_name }) => {
    const about = [company_name, detail, works || detail !== '' ? '' : 'ended'].filter(Boolean);
    return about.length === 0 ? id : `${id} (${about.join(', ')})`;
  });
  const more = found.length > MOST_IDS ? ' and more' : '';
  throw new Refused(
    'conflict',
    `Several ${noun === 'company' ? 'companies' : `${what}s`} are called ${JSON.stringify(name)}: name one by its id: ${listed.join(', ')}${more}.`,
  );
}
