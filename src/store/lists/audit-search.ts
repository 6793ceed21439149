import type { Words } from '../../domain/language/en.ts';
import { PRICE_FACTOR } from '../../domain/settings/company.ts';
import { OWN_MODEL_COLUMNS } from '../../domain/settings/model.ts';
import { AUDITED, columnWords } from '../../domain/wording/change-text.ts';
import type { Sql } from '../connection/pool.ts';
import { isFoundIn, searchPattern } from './search-pattern.ts';

/**
 * Finds changes of the audit log by what happened: "budget", "price", "revoked", "invitation". The text of a row is
 * compared with a pattern. Words of the search that name an action, a kind of row or a column are looked up here first,
 * so that each row is compared only with those.
 */

/** Conditions on a change, by the words that tell it. */
function meaningsOf({
  audit: { actions, nouns, bySql },
  people,
}: Words): readonly (readonly [string, string])[] {
  return [
    [actions.insert, "action = 'insert'"],
    [actions.update, "action = 'update'"],
    [actions.delete, "action = 'delete'"],
    [actions.truncate, "action = 'truncate'"],
    [actions.erase, "action = 'erase'"],
    [actions.revoked, became('revoked_at')],
    [actions.closed, became('closed_at')],
    [actions.reopened, ended('closed_at')],
    [actions.paused, became('paused_at')],
    [actions.resumed, ended('paused_at')],
    [people.commandLine, "actor = 'cli'"],
    [people.operator, "actor = 'operator'"],
    [bySql, 'actor = db_role'],
    ...Object.entries(nouns).map(([table, noun]) => [noun, `subject = '${table}'`] as const),
  ];
}

function became(column: string): string {
  return `action = 'update' and before ->> '${column}' is null and after ->> '${column}' is not null`;
}

function ended(column: string): string {
  return `action = 'update' and before ->> '${column}' is not null and after ->> '${column}' is null`;
}

/** The text of a row. */
const TEXT = `concat_ws(' ', actor, company_name, coalesce(after, before) ->> 'name', coalesce(after, before) ->> 'slug',
  coalesce(after, before) ->> 'email', coalesce(after, before) ->> 'number', coalesce(after, before) ->> 'role', subject_id, company_id)`;

/** The columns that rows of the log have, where something is searched. */
export async function loggedColumns(sql: Sql, search: string): Promise<string[]> {
  if (search === '') return [];
  const rows = await sql<{ name: string }[]>`
    select distinct attname as name from pg_attribute
    where attrelid in (select to_regclass(table_name) from unnest(${AUDITED}::text[]) as table_name)
      and attnum > 0 and not attisdropped`;
  return rows.map(({ name }) => name);
}

/**
 * Whether a change matches the search: each word must be in the text or the meaning of the row.
 * @param columns from `loggedColumns`
 * @param words those of the reader's page
 * @param isOwners the search is that of a company's people: texts hidden from them are not searched
 */
export function tells(
  sql: Sql,
  search: string,
  columns: readonly string[],
  words: Words,
  isOwners: boolean,
) {
  const meanings = meaningsOf(words);
  const conditions = search.split(/\s+/).flatMap((word) => {
    if (word === '') return [];
    const meant = [
      ...meanings.flatMap(([told, condition]) => (isFoundIn(told, word) ? condition : [])),
      ...columns
        .filter((name) => isFoundIn(namesOf(name, words), word))
        .flatMap((name) => changeOf(name, isOwners)),
    ];
    return [
      sql`(told ~ ${searchPattern(word)} ${sql.unsafe(meant.map((each) => `or (${each})`).join(' '))})`,
    ];
  });
  const all = conditions.reduce((one, other) => sql`${one} and ${other}`, sql`true`);
  if (conditions.length === 0) return all;
  return sql`(select ${all} from (select ${sql.unsafe(TEXT)} as told offset 0) as row_text)`;
}

/** The name of a column in the log, such as "name", and its names for people. */
function namesOf(column: string, words: Words): string {
  return `${column} ${column.replaceAll('_', ' ')} ${columnWords(words, column)}`;
}

/** Whether a column was changed, or had an amount from the beginning. Names of columns are those of the schema. */
function changeOf(column: string, isOwners: boolean): string | readonly string[] {
  if (isOwners && (column === 'created_by' || column in PRICE_FACTOR)) return [];
  const [name, seen] = [
    `'${column}'`,
    isOwners && !OWN_MODEL_COLUMNS.includes(column) ? "subject <> 'models' and " : '',
  ];
  return `${seen}case action when 'update' then before ->> ${name} is distinct from after ->> ${name}
    when 'insert' then jsonb_typeof(after -> ${name}) = 'number' else false end`;
}
