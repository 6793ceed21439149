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
  /** strict: each request reserves what it can cost at most before it is sent. */
  readonly budget_mode: 'standard' | 'strict';
  readonly created_at: Date;
}

/** Absent members stay unchanged. */
export type Changes<T> = { readonly [K in keyof T]?: T[K] | undefined };

type Settings = Omit<CompanyRow, 'id' | 'created_at' | 'disabled_model_slugs'>;
export type NewCompany = Changes<Settings> & Pick<CompanyRow, 'name'>;
export type CompanyChanges = Changes<Settings & Record<'disable' | 'enable', readonly string[]>>;

export async function createCompany(sql: Sql, company: NewCompany): Promise<CompanyRow> {
  const { monthly_budget_eur, budget_mode, requests_per_minute, tokens_per_minute, max_concurrent } = company;
  const [row] = await sql<CompanyRow[]>`
    insert into companies (name, monthly_budget_eur, budget_mode, allow_non_eu_models,
      requests_per_minute, tokens_per_minute, max_concurrent)
    values (${company.name}, ${monthly_budget_eur ?? null}, ${budget_mode ?? 'standard'}, ${company.allow_non_eu_models ?? false},
      ${requests_per_minute ?? null}, ${tokens_per_minute ?? null}, ${max_concurrent ?? null})
    returning ${columns(sql)}`;
  return row as CompanyRow;
}

/**
 * One statement, so that two people who change different settings at once do not overwrite each other.
 * @throws RefusedChange not_found
 */
export async function setCompany(sql: Sql, id: string, changes: CompanyChanges): Promise<CompanyRow> {
  const value = changed(sql, changes);
  const [row] = await sql<CompanyRow[]>`
    update companies set
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

export function unknownCompany(id: string): never {
  throw new RefusedChange('not_found', 'company', `There is no company ${id}.`);
}

export function columns(sql: Sql) {
  return sql`id, name, disabled_model_slugs, allow_non_eu_models, trim_scale(monthly_budget_eur)::text as monthly_budget_eur,
    budget_mode, requests_per_minute, tokens_per_minute, max_concurrent, created_at`;
}
