import type { LimitColumns } from '../domain/limits.ts';
import { RefusedChange } from '../domain/refused-change.ts';
import type { Sql } from './database.ts';

/** Members are the columns of the table (contract section 3). */
export interface CompanyRow extends LimitColumns {
  readonly id: string;
  readonly name: string;
  /** Sorted. */
  readonly disabled_model_slugs: string[];
  readonly allow_non_eu_models: boolean;
  /** Exact decimal text in EUR; null or "0" means unlimited. */
  readonly monthly_budget_eur: string | null;
  /** Ceiling that operators set: exact decimal text in EUR; null: none. */
  readonly credit_limit_eur: string | null;
  /** Operators refuse models outside the EU, whatever `allow_non_eu_models` says. */
  readonly eu_locked: boolean;
  /** What holds of budget and credit limit; null: unlimited. */
  readonly effective_budget_eur: string | null;
  /** strict: each request reserves what it can cost at most before it is sent. */
  readonly budget_mode: 'standard' | 'strict';
  readonly created_at: Date;
  /** Since when its keys get 401 and nothing of it can be changed; null: it is open. */
  readonly closed_at: Date | null;
  /** When the names and addresses of its people were erased; it stays closed then. */
  readonly erased_at: Date | null;
}

/** Absent members stay unchanged. */
export type Changes<T> = { readonly [K in keyof T]?: T[K] | undefined };

type Settings = Omit<
  CompanyRow,
  'id' | 'created_at' | 'closed_at' | 'erased_at' | 'disabled_model_slugs' | 'effective_budget_eur'
>;
export type NewCompany = Changes<Settings> & Pick<CompanyRow, 'name'>;
export type CompanyChanges = Changes<Settings & Record<'disable' | 'enable', readonly string[]>>;

export async function createCompany(sql: Sql, company: NewCompany): Promise<CompanyRow> {
  const { monthly_budget_eur, budget_mode, requests_per_minute, tokens_per_minute, max_concurrent } = company;
  const { credit_limit_eur, eu_locked } = company;
  const [row] = await sql<CompanyRow[]>`
    insert into companies (name, monthly_budget_eur, budget_mode, allow_non_eu_models,
      requests_per_minute, tokens_per_minute, max_concurrent, credit_limit_eur, eu_locked)
    values (${company.name}, ${monthly_budget_eur ?? null}, ${budget_mode ?? 'standard'}, ${company.allow_non_eu_models ?? false},
      ${requests_per_minute ?? null}, ${tokens_per_minute ?? null}, ${max_concurrent ?? null},
      ${credit_limit_eur ?? null}, ${eu_locked ?? false})
    returning ${columns(sql)}`;
  return row as CompanyRow;
}

/**
 * One statement, so that two people who change different settings at once do not overwrite each other. Ceilings are
 * written only where the change names them: the tenant role may not.
 * @throws RefusedChange not_found
 */
export async function setCompany(sql: Sql, id: string, changes: CompanyChanges): Promise<CompanyRow> {
  const value = changed(sql, changes);
  const { credit_limit_eur: limit, eu_locked: locked } = changes;
  const [row] = await sql<CompanyRow[]>`
    update companies set
      ${limit === undefined ? sql`` : sql`credit_limit_eur = ${limit},`} ${locked === undefined ? sql`` : sql`eu_locked = ${locked},`}
      name = ${value('name')}, monthly_budget_eur = ${value('monthly_budget_eur')}, budget_mode = ${value('budget_mode')},
      allow_non_eu_models = ${value('allow_non_eu_models')}, requests_per_minute = ${value('requests_per_minute')},
      tokens_per_minute = ${value('tokens_per_minute')}, max_concurrent = ${value('max_concurrent')},
      disabled_model_slugs = array(
        select unnest(disabled_model_slugs) union select unnest(${[...(changes.disable ?? [])]}::text[])
        except select unnest(${[...(changes.enable ?? [])]}::text[]) order by 1)
    where id = ${id}
    returning ${columns(sql)}`;
  return row ?? unknownCompany(id);
}

/** For `set column = …`: the new value of a column, or the column itself when the change does not name it. */
export function changed<T extends object>(sql: Sql, changes: T) {
  return (column: keyof T & string) =>
    changes[column] === undefined
      ? sql`${sql(column as string)}`
      : sql`${changes[column] as string | number | boolean | null}`;
}

export async function listCompanies(sql: Sql): Promise<CompanyRow[]> {
  return sql<CompanyRow[]>`select ${columns(sql)} from companies order by name, id`;
}

/** @throws RefusedChange not_found */
export async function findCompany(sql: Sql, id: string): Promise<CompanyRow> {
  const [row] = await sql<CompanyRow[]>`select ${columns(sql)} from companies where id = ${id}`;
  return row ?? unknownCompany(id);
}

/**
 * Closes a company: its keys get 401 within a second, and the database refuses every change of it. One that was
 * already closed keeps its time.
 * @throws RefusedChange not_found
 */
export async function closeCompany(sql: Sql, id: string): Promise<{ company: CompanyRow; already: boolean }> {
  const [closed] = await sql<CompanyRow[]>`
    update companies set closed_at = now() where id = ${id} and closed_at is null returning ${columns(sql)}`;
  if (closed !== undefined) return { company: closed, already: false };
  return { company: await findCompany(sql, id), already: true };
}

/** Opens a company again, with the keys that were active. @throws RefusedChange when it is unknown or was erased */
export async function reopenCompany(sql: Sql, id: string): Promise<{ company: CompanyRow; already: boolean }> {
  const [open] = await sql<CompanyRow[]>`
    update companies set closed_at = null
    where id = ${id} and closed_at is not null and erased_at is null returning ${columns(sql)}`;
  if (open !== undefined) return { company: open, already: false };
  const company = await findCompany(sql, id);
  if (company.erased_at === null) return { company, already: true };
  const text = 'The people and assistants of this company were erased: it stays closed. Create a new company instead.';
  throw new RefusedChange('conflict', 'company', text);
}

/** Since when a company is closed; null: it is open, or there is none. */
export async function readClosing(sql: Sql, id: string): Promise<Date | null> {
  const [row] = await sql<Pick<CompanyRow, 'closed_at'>[]>`select closed_at from companies where id = ${id}`;
  return row?.closed_at ?? null;
}

export function unknownCompany(id: string): never {
  throw new RefusedChange('not_found', 'company', `There is no company ${id}.`);
}

export function columns(sql: Sql) {
  return sql`id, name, disabled_model_slugs, allow_non_eu_models, trim_scale(monthly_budget_eur)::text as monthly_budget_eur,
    trim_scale(credit_limit_eur)::text as credit_limit_eur, eu_locked,
    trim_scale(company_budget(companies))::text as effective_budget_eur,
    budget_mode, requests_per_minute, tokens_per_minute, max_concurrent, created_at, closed_at, erased_at`;
}
