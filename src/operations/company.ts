import { type Budgets, isLimited, PERIODS } from '../domain/budget.ts';
import { checkCeilings, isAboveLimit, isUsedUp } from '../domain/ceiling.ts';
import { DISABLED_MODELS as DISABLED } from '../domain/gate.ts';
import type { Refusal } from '../domain/refusal.ts';
import {
  type CompanyChanges,
  type CompanyRow,
  findCompany,
  hasNamesake,
  insertCompany,
  type NewCompany,
  updateCompany,
} from '../store/company/company.ts';
import { lockRow } from '../store/company/last-change.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';
import { readSpent } from '../store/usage/company-usage.ts';
import type { Caller } from './caller.ts';
import { unknownModels } from './model.ts';
import type { Mistake } from './problem.ts';

/** The settings of a company that is created, and the models that it may not use. */
export type CompanySettings = NewCompany & { readonly [DISABLED]?: readonly string[] | undefined };
/** Members that are left out stay as they are. Disabled models are told as a whole, or as what is added and taken away. */
export type CompanyChange = CompanyChanges & { readonly [DISABLED]?: readonly string[] | undefined };

/** Settings and ceilings of a company that has none yet. */
const NEW = { monthly_budget_eur: null, allow_non_eu_models: false, credit_limit_eur: null, eu_locked: false };

/** Creates a company. @throws what the caller makes of a setting above its ceiling, and of an unknown model */
export async function createCompany(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  { [DISABLED]: disable = [], ...settings }: CompanySettings,
): Promise<CompanyRow> {
  const created = await insertCompany(sql, settings);
  caller.judge([
    ...aboveCeilings(null, settings),
    ...(await unknownModels(sql, created.id, DISABLED, disable)),
    ...(await sameName(sql, created)),
  ]);
  return disable.length === 0 ? created : updateCompany(sql, created.id, { disable });
}

/**
 * Changes settings of a company, one change at a time.
 * @throws RefusedChange not_found; what the caller makes of the rules
 */
export async function changeCompany(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  id: string,
  { [DISABLED]: slugs, ...changes }: CompanyChange,
): Promise<CompanyRow> {
  await lockRow(sql, 'companies', id); // or two changes at once would add up their lists of slugs
  const present = await findCompany(sql, id);
  const disable = slugs ?? changes.disable;
  const enable = slugs === undefined ? changes.enable : present[DISABLED].filter((slug) => !slugs.includes(slug));
  caller.judge([
    ...aboveCeilings(present, changes),
    ...(await unknownModels(sql, id, DISABLED, disable, present[DISABLED])),
    ...(await usedUp(sql, present, changes, id)),
    ...(changes.name === undefined || changes.name === present.name
      ? []
      : await sameName(sql, { id, name: changes.name })),
  ]);
  // the tenant role may not set ceilings, and only operators get here with them
  if (changes.credit_limit_eur !== undefined || changes.eu_locked !== undefined) await leaveCompany(sql);
  return updateCompany(sql, id, { ...changes, disable, enable });
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
  const { monthly_budget_eur = present.monthly_budget_eur } = changes;
  const mistakes: Mistake[] = [];
  const hold = `the budget is above the credit limit: ${credit_limit_eur} EUR hold`;
  if (budget !== null) mistakes.push(above('#/monthly_budget_eur', budget, hold));
  else if (credit_limit_eur !== null && isAboveLimit({ ...present, monthly_budget_eur, credit_limit_eur })) {
    mistakes.push({ pointer: '#/credit_limit_eur', detail: 'is below the budget', severity: 'ask', passed: hold });
  }
  if (nonEu !== null) {
    mistakes.push(above('#/allow_non_eu_models', nonEu, 'the EU gate is locked: models outside the EU stay refused'));
  }
  return mistakes;
}

function above(pointer: string, reason: Refusal, passed: string): Mistake {
  return { pointer, detail: reason.text, reason, severity: 'warn', passed };
}

/** The rule of a name that another company has: people could not tell them apart. */
async function sameName(sql: Sql, company: Pick<CompanyRow, 'id' | 'name'>): Promise<Mistake[]> {
  if (!(await hasNamesake(sql, company))) return [];
  const { name } = company;
  const detail = 'is the name of another company';
  return [
    {
      pointer: '#/name',
      detail,
      severity: 'ask',
      passed: `another company is called ${name} too`,
      asked: { namesake: name },
    },
  ];
}

const NOW = { monthly: 'this month', daily: 'today' };

/** The rule of a new budget that is spent already, of a company or of a key: calls would get 402 at once. */
export async function usedUp(
  sql: Sql,
  present: Budgets & Pick<CompanyRow, 'name'>,
  changes: { readonly [K in keyof Budgets]?: Budgets[K] | undefined },
  company: string,
  key: string | null = null,
): Promise<Mistake[]> {
  const mistakes: Mistake[] = [];
  for (const period of PERIODS) {
    const column = `${period}_budget_eur` as const;
    const budget = changes[column];
    if (budget == null || !isLimited(budget)) continue;
    const spent = await readSpent(sql, period, company, key);
    if (!isUsedUp({ budget, before: present[column], spent })) continue;
    mistakes.push({
      pointer: `#/${column}`,
      detail: 'is spent already',
      severity: 'ask',
      passed: `${spent} EUR of the budget of ${budget} EUR are spent ${NOW[period]}: calls get 402`,
      asked: { name: present.name, isKey: key !== null, period, budget, spent },
    });
  }
  return mistakes;
}
