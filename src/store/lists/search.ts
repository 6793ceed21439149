import { UUID } from '../../domain/field.ts';
import { LANGUAGES } from '../../domain/languages.ts';
import type { Sql } from '../connection/pool.ts';
import { isFoundIn, searchPattern } from './search-pattern.ts';

/** One search over things of several kinds. */

/** The kinds of things that are found, in the order in which they are shown. */
export const KINDS = [
  'company',
  'key',
  'user',
  'invitation',
  'end_user',
  'model',
  'assistant',
  'statement',
  'cost_center',
  'request',
] as const;
export type Kind = (typeof KINDS)[number];

/** Things of one kind on a page. */
export const MOST_OF_KIND = 10;

/** One thing that was found. */
export interface Finding {
  readonly kind: Kind;
  /** The number of a statement and the name of a cost centre in place of an id. */
  readonly id: string;
  /** What people call it: a name, an address, a slug, a month such as "2026-10". */
  readonly name: string;
  /** What tells it from others of its name: the prefix of a key, the role of a person; '' for none. */
  readonly detail: string;
  /** null: it belongs to no company. */
  readonly company_id: string | null;
  /** null for none, and for a removed one. */
  readonly company_name: string | null;
}

/** What was found of each kind: at most `MOST_OF_KIND`, and whether there is more. */
export interface Found {
  readonly kind: Kind;
  readonly rows: readonly Finding[];
  readonly hasMore: boolean;
}

const MONTH =
  /^(?<words>.*?)\s*\b(?:(?<month>[12]\d{3}-(?:0[1-9]|1[0-2]))|(?<name>\p{L}{3,})\.?\s+(?<year>[12]\d{3}))$/su;
/** The names of the months in each language, behind a space. */
const MONTHS = LANGUAGES.map((language) => {
  const format = new Intl.DateTimeFormat(language, { month: 'long', timeZone: 'UTC' });
  return Array.from({ length: 12 }, (_, month) => ` ${format.format(Date.UTC(2000, month))}`);
});

/** The month at the end of a text, "2026-10" or by its name or the beginning of it in any language, and what stands before it; null: none. */
function monthIn(text: string): { readonly words: string; readonly month: string } | null {
  const { words = '', month, name = '', year } = MONTH.exec(text)?.groups ?? {};
  if (month !== undefined) return { words, month };
  const named =
    year === undefined
      ? -1
      : Math.max(...MONTHS.map((all) => all.findIndex((each) => isFoundIn(each, ` ${name}`))));
  return named < 0 ? null : { words, month: `${year}-${String(named + 1).padStart(2, '0')}` };
}

const modelsWhere = (condition: string) =>
  `select m.id, slug as name, '' as detail, company_id, c.name as company_name
    from models m left join companies c on c.id = company_id
    where ${condition}`;

/** The columns of a Finding but its kind. $1 is the pattern, $2 the text in small letters, $3 the company or null. */
const FINDERS: Readonly<
  Record<Exclude<Kind, 'request' | 'statement' | 'cost_center' | 'end_user'>, string>
> = {
  company: `select id, name, '' as detail, id as company_id, name as company_name from companies
    where name ~ $1 or id::text = $2`,
  key: `select k.id, k.name, prefix || '…' || case when revoked_at is not null then ', revoked'
      when expires_at <= now() then ', expired' when k.paused_at is not null then ', paused' else '' end as detail, company_id, c.name as company_name
    from api_keys k join companies c on c.id = company_id
    where purpose is null and (k.name ~ $1 or starts_with(lower(prefix), $2) or k.id::text = $2)`,
  user: `select u.id, email as name, role as detail, company_id, c.name as company_name
    from users u left join companies c on c.id = company_id
    where (email ~ $1 or u.id::text = $2) and (company_id is not null or $3::uuid is null)`,
  invitation: `select i.id, email as name, role as detail, company_id, c.name as company_name
    from invitations i join companies c on c.id = company_id
    where email ~ $1`,
  model: modelsWhere('slug ~ $1 or m.id::text = $2'),
  assistant: `select a.id, a.name, model_slug as detail, company_id, c.name as company_name
    from assistants a join companies c on c.id = company_id
    where a.name ~ $1 or a.id::text = $2`,
};

/** Where all companies are searched, models are also found by what the upstream calls them: the tenant role may not read that. */
const FINDERS_OF_ALL: typeof FINDERS = {
  ...FINDERS,
  model: modelsWhere('slug ~ $1 or m.id::text = $2 or upstream_model ~ $1'),
};

/**
 * Finds things by name, address, prefix or id, whatever their case and accents: keys by the beginning of their prefix,
 * end users by that of their name, statements by month ("2026-10", "October 2026", with words of the company's name before it). What is called exactly as
 * searched comes first. Requests and cost centres are not among them: `findRequest` and `findCostCenters` have them.
 * @param kinds those that the reader may see
 * @param company looks among its things alone, in a transaction that entered it; null: among all
 */
export async function search(
  sql: Sql,
  text: string,
  kinds: readonly Kind[],
  company: string | null,
): Promise<readonly Found[]> {
  const found: Found[] = [];
  for (const kind of KINDS) {
    if (kind === 'request' || kind === 'cost_center' || !kinds.includes(kind)) continue;
    found.push(...foundOf(kind, await rowsOfKind(sql, kind, text, company)));
  }
  return found;
}

type Row = Omit<Finding, 'kind'>;

/** What was found of a kind: nothing where there is no row. @param rows one more than is shown tells that there is more */
export function foundOf(kind: Kind, rows: readonly Row[]): Found[] {
  if (rows.length === 0) return [];
  const first = rows.slice(0, MOST_OF_KIND).map((row) => ({ kind, ...row }));
  return [{ kind, rows: first, hasMore: rows.length > MOST_OF_KIND }];
}

async function rowsOfKind(
  sql: Sql,
  kind: Exclude<Kind, 'request' | 'cost_center'>,
  text: string,
  company: string | null,
): Promise<readonly Row[]> {
  if (kind === 'statement') return statementRows(sql, text, company);
  if (kind === 'end_user') return endUserRows(sql, text, company);
  const finder = (company === null ? FINDERS_OF_ALL : FINDERS)[kind];
  return sql.unsafe<Row[]>(
    `select id, name, detail, company_id, company_name from (${finder}) f
     where $3::uuid is null or company_id is null or company_id = $3 order by lower(name) = $2 desc, name, id limit $4`,
    [searchPattern(text), text.toLowerCase(), company, MOST_OF_KIND + 1],
  );
}

/**
 * By the beginning of the name, whatever its case: there may be millions, and an index finds the first of each company,
 * whatever others have. Who is erased has no name.
 */
function endUserRows(sql: Sql, text: string, company: string | null): PromiseLike<readonly Row[]> {
  const id = UUID.test(text.toLowerCase()) ? text : null;
  const last = `${text}\u{10ffff}`;
  return sql<Row[]>`
    select u.id, u.name, '' as detail, c.id as company_id, c.name as company_name
    from companies c cross join lateral (
      (select id, name from end_users where company_id = c.id and lower(name) collate "C" between lower(${text}) and lower(${last})
        order by lower(name) collate "C" limit ${MOST_OF_KIND + 1})
      union select id, name from end_users where company_id = c.id and id = ${id} and name is not null) u
    where ${company}::uuid is null or c.id = ${company}
    order by lower(u.name) collate "C", u.id limit ${MOST_OF_KIND + 1}`;
}

async function statementRows(
  sql: Sql,
  text: string,
  company: string | null,
): Promise<readonly Row[]> {
  const asked = monthIn(text);
  if (asked === null) return [];
  const { words, month } = asked;
  return sql<Row[]>`
    select number::text as id, ${month} as name, ${''} as detail, company_id, c.name as company_name
    from statements left join companies c on c.id = company_id
    where billing_month = ${`${month}-01`} and (${company}::uuid is null or company_id = ${company})
      and coalesce(c.name, '') ~ ${searchPattern(words)}
    order by c.name, company_id limit ${MOST_OF_KIND + 1}`;
}

/** The companies whose name has a text in it, whatever case and accents; those that are called so as a whole first. At most two. */
export function companiesLike(sql: Sql, text: string) {
  const pattern = searchPattern(text);
  return sql<{ id: string; is_whole: boolean }[]>`
    select id, name ~ ${`^(${pattern})$`} as is_whole from companies where name ~ ${pattern} order by 2 desc, id limit 2`;
}
