import { DISABLED_MODELS } from '../../domain/gate.ts';
import { unknownCompany } from '../../domain/refusal.ts';
import { COMPANY, DISABLED, TOLD_TO_OWNERS } from '../../domain/settings/company.ts';
import {
  described,
  eur,
  id,
  instant,
  namesOf,
  object,
  orNull,
  textOrNull,
  time,
  type Value,
} from '../../domain/settings/schema.ts';
import { schemasOf, type Values } from '../../domain/settings/setting.ts';
import { nameSpelling } from '../../domain/visible-text.ts';
import { pausedBy } from '../connection/actor.ts';
import { namedColumns, settingColumns, unpackedBytes } from '../connection/columns.ts';
import type { Range } from '../connection/cursor.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

/** What rows tell of a pause. */
export const pauseOf = (what: string) => ({
  paused_at: orNull(described(time, `${instant.description}; null: the ${what} is not paused`)),
  paused_by: described(textOrNull, 'as created_by'),
  pause_reason: described(textOrNull, 'why, which callers are not told'),
});

const settings = schemasOf(COMPANY);
/** A company, as it is told. Members are the columns of the table (contract section 3): those that people set, and others. */
export const COMPANY_ROW = object({
  id,
  ...settings,
  price_factor: orNull(
    described(
      settings.price_factor,
      `${settings.price_factor.description}; null: only the operator is told`,
    ),
  ),
  effective_budget_eur: orNull(
    described(eur, 'what holds of budget and credit limit; null: unlimited'),
  ),
  ...schemasOf(DISABLED),
  created_at: time,
  closed_at: orNull(described(time, `${instant.description}; null: it is open`)),
  ...pauseOf('company'),
  erased_at: orNull(described(time, `${instant.description}; null: its people were not erased`)),
});
/** The disabled slugs are sorted. */
export type CompanyRow = Stored<typeof COMPANY_ROW, typeof COMPANY & typeof DISABLED>;

/** A row with the settings of its noun as they are stored, where its schema has them as they are given. */
export type Stored<R, S> = Omit<Value<R>, keyof S> & Values<S>;

/** Absent members stay unchanged. */
export type Changes<T> = { readonly [K in keyof T]?: T[K] | undefined };

type Settings = Values<typeof COMPANY>;
/** A new company; its id is random unless given. */
export type NewCompany = Changes<Settings & Pick<CompanyRow, 'id'>> & Pick<CompanyRow, 'name'>;
export type CompanyChanges = Changes<Settings & Record<'disable' | 'enable', readonly string[]>>;

const SETTINGS = namesOf(COMPANY);

const ROWS = rowsIn<CompanyRow>({
  table: 'companies',
  noun: 'company',
  columns: (
    sql,
  ) => sql`id, disabled_model_slugs, ${settingColumns(sql, TOLD_TO_OWNERS)}, operators_factor(id) as price_factor,
    trim_scale(company_budget(monthly_budget_eur, credit_limit_eur))::text as effective_budget_eur, created_at, closed_at,
    paused_at, ${sql.unsafe(pausedBy('(paused_at is not null)'))} as paused_by, pause_reason, erased_at`,
  missing: (id) => `There is no company ${id}.`,
});

export const { find: findCompany, read: companyIfAny, columns: companyColumns } = ROWS;

export function insertCompany(sql: Sql, company: NewCompany): Promise<CompanyRow> {
  return ROWS.insert(sql, namedColumns(sql, company, ['id', ...SETTINGS]), null);
}

/**
 * One statement, so that two people who change different settings at once do not overwrite each other. Ceilings are
 * written only where the change names them: the tenant role may not.
 * @throws Refused missing
 */
export function updateCompany(sql: Sql, id: string, changes: CompanyChanges): Promise<CompanyRow> {
  const { disable = [], enable = [] } = changes;
  const disabled_model_slugs = sql`array(
    select unnest(disabled_model_slugs) union select unnest(${[...disable]}::text[])
    except select unnest(${[...enable]}::text[]) order by 1)`;
  return ROWS.update(sql, namedColumns(sql, changes, SETTINGS, { disabled_model_slugs }), id);
}

export function listCompanies(sql: Sql): Promise<CompanyRow[]> {
  return ROWS.list(sql, sql`order by name, id`);
}

/** The companies with these ids, or with these names where a text is no id. Reads all companies, once. */
export function companiesOf(
  sql: Sql,
  wanted: readonly { readonly id?: string; readonly name: string }[],
): Promise<CompanyRow[]> {
  const ids = wanted.flatMap(({ id }) => id ?? []);
  const names = wanted.filter(({ id }) => id === undefined).map(({ name }) => nameSpelling(name));
  return ROWS.list(
    sql,
    sql`where id in (select unnest(${ids}::uuid[])) or normalize(name) in (select unnest(${names}::text[]))`,
  );
}

/** All, or those of a name, ordered by id. */
export function companiesAfter(sql: Sql, name: string | null, range: Range) {
  const named = name === null ? undefined : sql`name = ${nameSpelling(name)}`;
  return ROWS.page(sql, null, range, unpackedBytes(sql, DISABLED_MODELS), named);
}

/** The name of a company that was removed. */
export const REMOVED = 'a removed company';

/**
 * The name of a company in words. That of one that was removed is not known any more, but its ledger stays.
 * @throws Refused missing where there is no ledger either
 */
export async function ledgerName(sql: Sql, id: string): Promise<string> {
  const [company] = await sql<{ name: string }[]>`select name from companies where id = ${id}`;
  if (company !== undefined) return company.name;
  const spent = await sql`select from monthly_spend where company_id = ${id} limit 1`;
  return spent.length > 0 ? REMOVED : unknownCompany(id);
}

/** Names of companies by id; removed ones have none. */
export async function companyNames(sql: Sql, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; name: string }[]>`
    select id, name from companies where id = any(${[...ids]}::uuid[])`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** The ids of the companies that texts name by id or whole name, each with its text. Reads all companies, twice. */
export async function companiesNamed(sql: Sql, texts: readonly string[]) {
  const asked = sql`unnest(${[...texts]}::text[]) as asked`;
  return sql<{ text: string; id: string }[]>`
    select asked as text, id from companies join ${asked} on normalize(name) = normalize(asked)
    union select asked, id from companies join ${asked} on id::text = lower(asked)`;
}

/** Whether another company has this name, in whatever case. */
export async function hasNamesake(
  sql: Sql,
  { id, name }: Pick<CompanyRow, 'id' | 'name'>,
): Promise<boolean> {
  const rows = await sql`
    select from companies where lower(normalize(name)) = lower(normalize(${name}::text)) and id <> ${id} limit 1`;
  return rows.length > 0;
}

/**
 * Closes a company, or opens it again unless it was erased.
 * @returns null: nothing is changed
 */
export async function updateClosed(
  sql: Sql,
  id: string,
  isClosed: boolean,
): Promise<CompanyRow | null> {
  const [row] = await sql<CompanyRow[]>`
    update companies set closed_at = case when ${isClosed} then now() end
    where id = ${id} and (closed_at is null) = ${isClosed} and erased_at is null returning ${companyColumns(sql)}`;
  return row ?? null;
}

/** The columns of a pause, for `update … set`. @param reason null: it ends */
export function paused(sql: Sql, reason: string | null) {
  return reason === null
    ? sql`paused_at = null`
    : sql`paused_at = coalesce(paused_at, now()), pause_reason = ${reason}`;
}

/** Pauses a company, or ends its pause. One that is paused keeps its time. @param reason null: it ends @throws Refused missing */
export function updateCompanyPause(
  sql: Sql,
  id: string,
  reason: string | null,
): Promise<CompanyRow> {
  return ROWS.update(sql, paused(sql, reason), id);
}

/** Rows of a company, or of all. @throws Refused missing when there are none because there is no such company */
export async function rowsOf<R extends readonly unknown[]>(
  sql: Sql,
  company: string | null,
  rows: R,
): Promise<R> {
  if (rows.length === 0 && company !== null) await findCompany(sql, company);
  return rows;
}
