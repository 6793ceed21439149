import type { Sql } from '../connection/pool.ts';

/** What is looked for by its name in place of its id. `works`: those that ended come after those that did not. */
const SOURCES = {
  company: `select id, name, null::uuid as company_id, closed_at is null as works,
      case when closed_at is null then '' else 'closed' end as detail from companies`,
  key: `select id, name, company_id, revoked_at is null and coalesce(expires_at > now(), true) as works,
      prefix || '…' as detail from api_keys where purpose is null`,
  assistant: `select id, name, company_id, true as works, '' as detail from assistants`,
  'end-user': `select id, name, company_id, true as works, '' as detail from end_users where name is not null`,
  token: `select id, name, company_id, revoked_at is null and coalesce(expires_at > now(), true) as works,
      access as detail from admin_tokens`,
} as const;

/** The nouns whose things have names that may stand for their ids. */
export type NamedNoun = keyof typeof SOURCES;

export function isNamed(noun: string): noun is NamedNoun {
  return Object.hasOwn(SOURCES, noun);
}

/** A thing of a name. */
export interface NamedThing {
  readonly id: string;
  /** It has not ended: it is not closed, revoked or expired. */
  readonly works: boolean;
  /** What tells it from others of its name, or ''. */
  readonly detail: string;
  readonly company_name: string | null;
}

const MOST = 11;
const MOST_NAMES = 10_000;
/** The letters by which a name that is near may be longer or shorter. */
const NEAR = 4;

/**
 * The things of a name, 11 at most: those that have not ended first.
 * @param names the name in each of its spellings
 * @param company looks among what is of this company alone; null: everywhere
 */
export function thingsCalled(
  sql: Sql,
  noun: NamedNoun,
  names: readonly string[],
  company: string | null,
): Promise<readonly NamedThing[]> {
  return sql.unsafe<NamedThing[]>(
    `select t.id, t.works, t.detail, (select c.name from companies c where c.id = t.company_id) as company_name
     from (${SOURCES[noun]}) t where t.name = any($1::text[]) and ($2::uuid is null or t.company_id = $2)
     order by t.works desc, t.id limit ${MOST}`,
    [names as string[], company],
  );
}

/** The names that are about as long as one, or begin with it: 10,000 at most. Parameters as of `thingsCalled`. */
export async function namesLike(
  sql: Sql,
  noun: NamedNoun,
  name: string,
  company: string | null,
): Promise<readonly string[]> {
  const rows = await sql.unsafe<{ name: string }[]>(
    `select distinct t.name from (${SOURCES[noun]}) t
     where (abs(length(t.name) - length($1::text)) <= ${NEAR} or starts_with(lower(t.name), lower($1)))
       and ($2::uuid is null or t.company_id = $2) order by t.name limit ${MOST_NAMES}`,
    [name, company],
  );
  return rows.map((row) => row.name);
}
