import type { Words } from '../../domain/language/en.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { ENGLISH } from '../../domain/languages.ts';
import { addDays } from '../../domain/reports/day-range.ts';
import { PRICE_FACTOR } from '../../domain/settings/company.ts';
import { OWN_MODEL_COLUMNS } from '../../domain/settings/model.ts';
import type { ChangedRow } from '../../domain/wording/change-text.ts';
import { isShown, shownActor, shownRow } from '../connection/actor.ts';
import { matching, PAGE_BYTES } from '../connection/columns.ts';
import type { CursorPage } from '../connection/cursor.ts';
import { dayBegins } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { outside } from '../connection/tenant-role.ts';
import { loggedColumns, tells } from './audit-search.ts';
import { PAGE_ROWS } from './page.ts';

/** Changes that one search of the audit log looks at; the next page goes on from there. */
export const AUDIT_WINDOW = 100_000;

/** One change. Members are columns of `audit_log`; rows before and after are without secrets, with amounts as exact text. */
export interface AuditRow extends ChangedRow {
  readonly id: number;
  readonly subject_id: string | null;
  readonly company_id: string | null;
}

interface AuditQuery {
  /** Finds changes by their actor, thing, company or kind. Each word must be in one of these; empty: all changes. */
  readonly search: string;
  /** In which kinds and columns are searched; default: the English ones. */
  readonly words?: Words;
  readonly newestFirst: boolean;
  /** Where the page before ended; null: at the beginning. */
  readonly from: number | null;
  /**
   * Changes of this company, which the transaction entered, as its owner sees them: an actor who never was one of its people or
   * tokens is "operator", also for the search. null: all changes.
   */
  readonly company: string | null;
  /** Changes of rows of this table, by this actor, from the first of these days to the last; null or left out: all. */
  readonly subject?: string | null;
  readonly actor?: string | null;
  readonly firstDay?: string | null;
  readonly lastDay?: string | null;
  /** Changes on a page; default: as many as rows on a page of a list. */
  readonly limit?: number;
}

const SHOWN = `${shownActor('a.actor')} as actor, null as db_role,
  ${shownRow('a', 'before')} as before, ${shownRow('a', 'after')} as after`;

/** A page of the audit log, and where the next one begins; null at the end. */
export function pageOfAudit(sql: Sql, query: AuditQuery): Promise<CursorPage<AuditRow, number>> {
  return outside(sql, () => page(sql, query)); // changes of prices have list prices
}

async function page(sql: Sql, query: AuditQuery): Promise<CursorPage<AuditRow, number>> {
  const { search, newestFirst, from, company, limit = PAGE_ROWS } = query;
  const {
    subject = null,
    actor = null,
    firstDay = null,
    lastDay = null,
    words = wordsOf(ENGLISH),
  } = query;
  const direction = newestFirst ? sql`desc` : sql`asc`;
  const first = newestFirst || from === null ? 0 : from + 1;
  const last = newestFirst && from !== null ? from - 1 : Number.MAX_SAFE_INTEGER;
  // a company that is only compared with "=" lets Postgres read the changes of all, in their order
  const begins = (day: string) =>
    sql`(select ${sql.unsafe(dayBegins('day'))} from (select ${day}::date as day) as asked)`;
  const days = sql`${firstDay === null ? sql`` : sql`a.at >= ${begins(firstDay)} and`}
    ${lastDay === null ? sql`` : sql`a.at < ${begins(addDays(lastDay, 1))} and`}`;
  const entries = sql`from audit_log a where ${days} ${
    company === null
      ? sql`a.id between ${first} and ${last} order by a.id ${direction}`
      : sql`(a.company_id, a.id) between (${company}::uuid, ${first}::bigint) and (${company}::uuid, ${last}::bigint)
        and ${sql.unsafe(isShown('a'))} order by a.company_id ${direction}, a.id ${direction}`
  }`;
  const isAll = search === '' && subject === null && actor === null;
  const isFound = sql`${tells(sql, search, await loggedColumns(sql, search), words, company !== null)} ${matching(sql, { subject, actor })}`;
  type Told = Omit<AuditRow, 'before' | 'after'> &
    Readonly<Record<'before' | 'after', string | null>>;
  const told = await sql<(Told & { readonly found: number })[]>`
    with named as (
      select a.id, a.at, a.action, a.subject, a.subject_id, a.company_id, c.name as company_name,
        ${company === null ? sql`a.actor, a.db_role, a.before, a.after` : sql.unsafe(SHOWN)}
      from (select a.* ${entries} limit ${isAll ? limit + 1 : AUDIT_WINDOW}) a
      left join companies c on c.id = a.company_id
    ), matching as materialized (
      select *, coalesce(octet_length(before::text), 0) + coalesce(octet_length(after::text), 0) as bytes
      from named where ${isFound}
      order by id ${direction} limit ${limit + 1}
    ), placed as (
      select *, count(*) over ()::integer as found, row_number() over place as place, sum(bytes) over place as so_far
      from matching window place as (order by id ${direction})
    )
    select id, at, actor, db_role, action, subject, subject_id, company_id, company_name, before::text, after::text, found
    from placed where place = 1 or so_far <= ${PAGE_BYTES} order by id ${direction} limit ${limit}`;
  const rows = told.map(({ found: _, ...row }) => ({
    ...row,
    before: exactValues(row.before),
    after: exactValues(row.after),
  }));
  if (rows.length < (told[0]?.found ?? 0)) return { rows, next: (rows.at(-1) as AuditRow).id };
  const [end] = isAll
    ? []
    : await sql<{ id: number }[]>`select a.id ${entries} offset ${AUDIT_WINDOW - 1} limit 1`;
  return { rows, next: end?.id ?? null };
}

/** Members that hold an amount in EUR. */
const AMOUNT = /eur|^(input|output)$/;

/** Parses a row as JSON. Amounts are texts without trailing zeros, as is each number that a double would round. */
function exactValues(json: string | null): AuditRow['before'] {
  if (json === null) return null;
  const exact = (
    name: string,
    value: unknown,
    { source = '' }: { readonly source?: string },
  ): unknown => {
    if (typeof value !== 'number' || (!AMOUNT.test(name) && String(value) === source)) return value;
    return source.includes('.') ? source.replace(/\.?0+$/, '') : source;
  };
  return JSON.parse(json, exact as Parameters<typeof JSON.parse>[1]);
}

/** Without internal model names and price factors, and without the addresses of operators who made a key or an invitation. */
export function asOwnersSee(row: AuditRow): AuditRow {
  const shown = (values: AuditRow['before']) =>
    values &&
    Object.fromEntries(
      Object.entries(values).filter(([name]) =>
        row.subject === 'models'
          ? OWN_MODEL_COLUMNS.includes(name)
          : !(name === 'created_by' || name in PRICE_FACTOR),
      ),
    );
  return { ...row, before: shown(row.before), after: shown(row.after) };
}
