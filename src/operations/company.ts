import { type Budgets, isLimited, PERIODS } from '../domain/budget.ts';
import { checkCeilings, isAboveLimit, isUsedUp } from '../domain/ceiling.ts';
import { DISABLED_MODELS as DISABLED } from '../domain/gate.ts';
import type { Moment } from '../domain/price.ts';
import { formatEur, parseEur } from '../domain/pricing/money.ts';
import { costAtFactor } from '../domain/pricing/prices.ts';
import type { Refusal } from '../domain/refusal.ts';
import { actorName } from '../domain/wording/change-text.ts';
import {
  type CompanyChanges,
  type CompanyRow,
  findCompany,
  hasNamesake,
  insertCompany,
  type NewCompany,
  updateCompany,
  updateCompanyPause,
} from '../store/company/company.ts';
import { lockRow } from '../store/company/last-change.ts';
import {
  deleteFactor,
  factorHistory,
  insertFactor,
  lastMonthByFactor,
  type PriceFactorRow,
} from '../store/company/price-factor.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';
import { readSpent } from '../store/usage/company-usage.ts';
import type { Caller } from './caller.ts';
import { unknownModels } from './model.ts';
import type { Mistake, NewFactor } from './problem.ts';

/** The settings of a company that is created, and the models that it may not use. */
export type CompanySettings = NewCompany & { readonly [DISABLED]?: readonly string[] | undefined };
/** Members that are left out stay as they are. Disabled models are told as a whole, or as what is added and taken away. */
export type CompanyChange = CompanyChanges & {
  readonly [DISABLED]?: readonly string[] | undefined;
};

/** Settings and ceilings of a company that has none yet. */
const NEW = {
  monthly_budget_eur: null,
  allow_non_eu_models: false,
  credit_limit_eur: null,
  eu_locked: false,
};

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
  const enable =
    slugs === undefined
      ? changes.enable
      : present[DISABLED].filter((slug) => !slugs.includes(slug));
  caller.judge([
    ...aboveCeilings(present, changes),
    ...(await unknownModels(sql, id, DISABLED, disable, present[DISABLED])),
    ...(await usedUp(sql, present, changes, id)),
    ...(changes.price_factor == null || isSameFactor(changes.price_factor, present.price_factor)
      ? []
      : await newFactor(sql, id, changes.price_factor)),
    ...(changes.name === undefined || changes.name === present.name
      ? []
      : await sameName(sql, { id, name: changes.name })),
  ]);
  // the tenant role may not set these, and only operators get here with them
  const { credit_limit_eur, eu_locked, price_factor } = changes;
  if (credit_limit_eur !== undefined || eu_locked !== undefined || price_factor !== undefined)
    await leaveCompany(sql);
  return updateCompany(sql, id, { ...changes, disable, enable });
}

/**
 * Lets a factor on the prices of a company begin at a date, in place of one that was to begin then.
 * @param factor exact decimal text
 * @throws RefusedChange when it cannot begin then, or a price does not fit it
 */
export async function schedulePriceFactor(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  id: string,
  factor: string,
  from: Moment,
): Promise<PriceFactorRow> {
  await lockRow(sql, 'companies', id);
  const before = await priceFactors(sql, id);
  const row = await insertFactor(sql, id, factor, from);
  const present = before.find((each) => each.id === row.id) ?? null;
  caller.judge(
    isSameFactor(factor, present?.factor ?? null) ? [] : await newFactor(sql, id, factor, present),
  );
  return row;
}

/** Withdraws a factor that has not begun. @throws RefusedChange not_found, or conflict when it has begun */
export async function withdrawPriceFactor(
  sql: Sql,
  id: string,
  which: Parameters<typeof deleteFactor>[2],
): Promise<PriceFactorRow> {
  await leaveCompany(sql);
  return deleteFactor(sql, id, which);
}

/** The factors of a company, the latest first; none: always 1. Only operators get here. @throws RefusedChange not_found */
export async function priceFactors(sql: Sql, id: string): Promise<PriceFactorRow[]> {
  await findCompany(sql, id);
  await leaveCompany(sql);
  return factorHistory(sql, id);
}

/** What the API calls of the last month would have cost with another factor. @throws RefusedChange not_found */
export async function previewPriceFactor(
  sql: Sql,
  id: string,
  factor: string,
): Promise<Pick<NewFactor, 'month' | 'cost_eur' | 'with_factor_eur'>> {
  await findCompany(sql, id);
  const { month, costs } = await lastMonthByFactor(sql, id);
  const [cost, other] = [
    costs.reduce((sum, { cost_eur }) => sum + parseEur(cost_eur), 0n),
    costs.reduce(
      (sum, each) => sum + costAtFactor(parseEur(each.cost_eur), each.factor, factor),
      0n,
    ),
  ];
  return { month, cost_eur: formatEur(cost), with_factor_eur: formatEur(other) };
}

/**
 * The rule of a new factor: whoever sets it learns first what the last month would have cost with it. Nothing is asked of a
 * company without calls then.
 * @param replaced the factor for the same time that it takes the place of
 */
async function newFactor(
  sql: Sql,
  id: string,
  factor: string,
  replaced: PriceFactorRow | null = null,
): Promise<Mistake[]> {
  const preview = await previewPriceFactor(sql, id, factor);
  const present = replaced && { factor: replaced.factor, by: actorName(replaced.changed_by) };
  if (preview.cost_eur === '0' && present === null) return [];
  const { month, cost_eur, with_factor_eur } = preview;
  const told = `the API calls of ${month} cost ${cost_eur} EUR; with the price factor ${factor} they would have cost ${with_factor_eur} EUR`;
  const passed =
    present === null
      ? told
      : `it takes the place of ${present.factor}, set by ${present.by}; ${told}`;
  const asked = { factor, ...preview, present };
  return [
    { pointer: '#/price_factor', detail: 'changes what it pays', severity: 'ask', passed, asked },
  ];
}

/** Whether two factors are the same number, or both are none. */
export function isSameFactor(one: string | null, other: string | null): boolean {
  return one === other || (one !== null && other !== null && parseEur(one) === parseEur(other));
}

/**
 * Pauses a company: gateways refuse its keys with 403 within a second, until it is resumed. Its people may still sign in and
 * change its settings. The tenant role may not pause a company; only operators get here.
 * @throws RefusedChange not_found
 */
export async function pauseCompany(sql: Sql, id: string, reason: string): Promise<CompanyRow> {
  await leaveCompany(sql);
  return updateCompanyPause(sql, id, reason);
}

/** Ends the pause of a company, if there is one. Keys that were paused themselves stay so. @throws RefusedChange not_found */
export async function resumeCompany(sql: Sql, id: string): Promise<CompanyRow> {
  await leaveCompany(sql);
  return updateCompanyPause(sql, id, null);
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
  else if (
    credit_limit_eur !== null &&
    isAboveLimit({ ...present, monthly_budget_eur, credit_limit_eur })
  ) {
    mistakes.push({
      pointer: '#/credit_limit_eur',
      detail: 'is below the budget',
      severity: 'ask',
      passed: hold,
    });
  }
  if (nonEu !== null) {
    mistakes.push(
      above(
        '#/allow_non_eu_models',
        nonEu,
        'the EU gate is locked: models outside the EU stay refused',
      ),
    );
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
