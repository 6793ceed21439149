import { checkCeilings } from '../domain/ceiling.ts';
import {
  type CompanyChanges,
  type CompanyRow,
  insertCompany,
  type NewCompany,
  updateCompany,
} from '../store/company/company.ts';
import type { Sql } from '../store/connection/pool.ts';
import { unknownModels } from './model.ts';
import type { Mistake } from './problem.ts';

export type Change = CompanyChanges & { readonly disabled_model_slugs?: readonly string[] };

/** The settings of a company that is created, and the models that it may not use. */
export type CompanySettings = NewCompany & Change;

export const DISABLED = 'disabled_model_slugs';

/** Settings and ceilings of a company that has none yet. */
const NEW = { monthly_budget_eur: null, allow_non_eu_models: false, credit_limit_eur: null, eu_locked: false };

/**
 * Creates a company, in a transaction that has to be rolled back where there are mistakes.
 * @returns what the rules of a company have against its settings, all of it
 */
export async function createWithModels(
  sql: Sql,
  { disabled_model_slugs: disable = [], ...settings }: CompanySettings,
): Promise<{ readonly company: CompanyRow; readonly mistakes: readonly Mistake[] }> {
  const created = await insertCompany(sql, settings);
  const mistakes = [...aboveCeilings(null, settings), ...(await unknownModels(sql, created.id, DISABLED, disable))];
  return { company: disable.length === 0 ? created : await updateCompany(sql, created.id, { disable }), mistakes };
}

/**
 * The rule of settings that have a ceiling, which the same change may set. A page, a file that changes a company and
 * administration over HTTP refuse what is above it; a command warns, and so a file may create what another deployment
 * has: the ceiling holds.
 * @param company null: it is created
 */
export function aboveCeilings(company: CompanyRow | null, changes: CompanyChanges): Mistake[] {
  const present = company ?? NEW;
  const { credit_limit_eur = present.credit_limit_eur, eu_locked = present.eu_locked } = changes;
  const { budget, nonEu } = checkCeilings({ ...present, credit_limit_eur, eu_locked }, changes);
  return [
    ...(budget === null ? [] : [{ pointer: '#/monthly_budget_eur', detail: budget.text }]),
    ...(nonEu === null ? [] : [{ pointer: '#/allow_non_eu_models', detail: nonEu.text }]),
  ];
}
