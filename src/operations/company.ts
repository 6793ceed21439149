import { type Budgets, isLimited, PERIODS } from '../domain/budget.ts';
import { checkCeilings, isAboveLimit, isUsedUp } from '../domain/ceiling.ts';
import type { Company } from '../domain/company.ts';
import { DISABLED_MODELS as DISABLED, modelState } from '../domain/gate.ts';
import { comingPrices } from '../domain/model.ts';
import type { Moment } from '../domain/price.ts';
import { readMoment } from '../domain/price.ts';
import { formatEur, parseEur } from '../domain/pricing/money.ts';
import { costAtFactor } from '../domain/pricing/prices.ts';
import { textsOf } from '../domain/pricing/rates.ts';
import type { Refusal } from '../domain/refusal.ts';
import { LIMIT_SETTINGS, PRICE_FACTOR, STRICT_CEILINGS } from '../domain/settings/company.ts';
import { modelPrices, OFFERED_MODEL, PRICED } from '../domain/settings/model.ts';
import * as schema from '../domain/settings/schema.ts';
import { eachSetting, schemasOf } from '../domain/settings/setting.ts';
import { actorName } from '../domain/wording/change-text.ts';
import {
  COMPANY_ROW,
  type CompanyChanges,
  type CompanyRow,
  companiesAfter,
  findCompany,
  hasNamesake,
  insertCompany,
  type NewCompany,
  updateCompany,
  updateCompanyPause,
} from '../store/company/company.ts';
import { lockRow } from '../store/company/last-change.ts';
import { type ModelRow, modelsAfter } from '../store/company/model.ts';
import {
  DATED_FACTOR,
  deleteFactor,
  factorHistory,
  insertFactor,
  lastMonthByFactor,
  type PriceFactorRow,
} from '../store/company/price-factor.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';
import { readCompany } from '../store/gateway/directory.ts';
import { readSpent } from '../store/usage/company-usage.ts';
import type { Caller } from './frame/caller.ts';
import { noun } from './frame/noun.ts';
import type { Mistake, NewFactor } from './frame/refused.ts';
import * as resource from './frame/resources.ts';
import { get, getList, type Operation, pageOfAll, post, remove } from './frame/row.ts';
import { unknownModels } from './model.ts';

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
 * @throws Refused missing; what the caller makes of the rules
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
 * @throws Refused when it cannot begin then, or a price does not fit it
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

/** Withdraws a factor that has not begun. @throws Refused missing, or conflict when it has begun */
export async function withdrawPriceFactor(
  sql: Sql,
  id: string,
  which: Parameters<typeof deleteFactor>[2],
): Promise<PriceFactorRow> {
  await leaveCompany(sql);
  return deleteFactor(sql, id, which);
}

/** The factors of a company, the latest first; none: always 1. Only operators get here. @throws Refused missing */
export async function priceFactors(sql: Sql, id: string): Promise<PriceFactorRow[]> {
  await findCompany(sql, id);
  await leaveCompany(sql);
  return factorHistory(sql, id);
}

/** What the API calls of the last month would have cost with another factor. @throws Refused missing */
export async function previewPriceFactor(
  sql: Sql,
  id: string,
  factor: string,
): Promise<Pick<NewFactor, 'month' | 'cost_eur' | 'would_eur'>> {
  await findCompany(sql, id);
  const { month, costs } = await lastMonthByFactor(sql, id);
  const [cost, other] = [
    costs.reduce((sum, { cost_eur }) => sum + parseEur(cost_eur), 0n),
    costs.reduce(
      (sum, each) => sum + costAtFactor(parseEur(each.cost_eur), each.factor, factor),
      0n,
    ),
  ];
  return { month, cost_eur: formatEur(cost), would_eur: formatEur(other) };
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
  const { month, cost_eur, would_eur } = preview;
  const told = `the API calls of ${month} cost ${cost_eur} EUR; with the price factor ${factor} they would have cost ${would_eur} EUR`;
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
 * @throws Refused missing
 */
export async function pauseCompany(sql: Sql, id: string, reason: string): Promise<CompanyRow> {
  await leaveCompany(sql);
  return updateCompanyPause(sql, id, reason);
}

/** Ends the pause of a company, if there is one. Keys that were paused themselves stay so. @throws Refused missing */
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

const companies = noun({
  name: 'Company',
  path: '/companies',
  param: 'company',
  table: 'companies',
  answer: COMPANY_ROW,
  reads: 'company.read',
  writes: 'company.set',
  find: (sql, { id }) => findCompany(sql, id),
});

const model = schema.object({
  id: schema.id,
  slug: schema.slug,
  ...schemasOf(OFFERED_MODEL),
  created_at: schema.instant,
  own: { type: 'boolean', description: 'it belongs to this company alone' },
  state: schema.oneOf(
    ['available', 'disabled', 'replaced', 'blocked'],
    'disabled: by the company; replaced: by a model of its own; blocked: by the EU gate',
  ),
  coming: schema.array(
    schema.object({ valid_from: schema.instant, ...schemasOf(PRICED) }),
    'prices that begin at a date',
  ),
});

const FACTORS = `${companies.one}/price-factors`;

export const companyOperations: readonly Operation[] = [
  companies.list({
    id: 'listCompanies',
    summary: 'List companies, ordered by id',
    action: 'company.list',
    filters: { name: schema.presentName },
    read: (sql, { query: { name = null } }, range) => companiesAfter(sql, name, range),
  }),
  companies.create({
    summary: 'Create a company',
    action: 'company.create',
    body: schema.object(resource.newCompany, ['name']),
    run: (sql, call) => createCompany(sql, call, call.body),
  }),
  companies.get('Read a company'),
  companies.change({
    summary: 'Change settings of a company; members that are left out stay as they are',
    memberActions: {
      name: 'company.rename',
      ...eachSetting(
        { ...LIMIT_SETTINGS, ...STRICT_CEILINGS, ...PRICE_FACTOR },
        () => 'company.limit' as const,
      ),
    },
    body: schema.changeOf(resource.newCompany),
    run: (sql, call) => changeCompany(sql, call, call.id, call.body),
  }),
  companies.act('pause')({
    summary:
      'Pause a company: every gateway refuses its keys with 403 within a second. Its users may still sign in, read why and change its settings',
    action: 'company.pause',
    body: resource.pause,
    run: (sql, { company, body }) => pauseCompany(sql, company, body.reason),
  }),
  companies.act('resume')({
    summary: 'End the pause of a company; keys that are paused themselves stay so',
    action: 'company.pause',
    run: (sql, { company }) => resumeCompany(sql, company),
  }),
  getList('listModelsOfCompany', `${companies.one}/models`, {
    summary:
      'List the models that a company has, its own and shared ones, ordered by id: what each costs and whether the API serves it',
    action: 'company.read',
    row: model,
    async read(sql, { id }, range) {
      const catalogue = await readCompany(sql, id);
      const { rows, next } = await modelsAfter(sql, null, id, range);
      return { rows: rows.map((row) => modelOf(catalogue, row)), next };
    },
  }),
  getList('listPriceFactors', FACTORS, {
    summary:
      'The factors on the prices of a company: those to come, the present one and those before, the latest first. None: always 1',
    action: 'model.read',
    row: DATED_FACTOR,
    read: async (sql, { id }, range) => pageOfAll(range, await priceFactors(sql, id)),
  }),
  post('addPriceFactor', FACTORS, {
    summary:
      'Let a factor on the prices of a company begin at a date, five seconds from now or later, in place of one that was to begin then',
    action: 'company.limit',
    body: schema.object({ valid_from: schema.moment, factor: schema.priceFactor }),
    answer: DATED_FACTOR,
    status: 201,
    run: (sql, call) =>
      schedulePriceFactor(
        sql,
        call,
        call.company,
        call.body.factor,
        readMoment(call.body.valid_from),
      ),
  }),
  get('previewPriceFactor', `${FACTORS}/preview`, {
    summary:
      'What the API calls of the last month would have cost a company with another factor on its prices',
    action: 'model.read',
    query: schema.object({ factor: schema.priceFactor }),
    answer: schema.object({
      month: schema.month,
      cost_eur: schema.sum,
      would_eur: schema.sum,
    }),
    run: (sql, call) => previewPriceFactor(sql, call.company, call.query.factor),
  }),
  remove('withdrawPriceFactor', `${FACTORS}/{factor}`, {
    summary: 'Withdraw a price factor that has not begun',
    action: 'company.limit',
    run: (sql, { company, id }) => withdrawPriceFactor(sql, company, { id }),
  }),
];

/** A model as its company may see it: without the name that the upstream knows it by, at the prices that it pays. */
function modelOf(catalogue: Company, row: ModelRow): object {
  const { upstream_model: _, company_id: company, ...model } = row;
  const models = company === null ? catalogue.sharedModels : catalogue.ownModels;
  const paid = catalogue.factors === null ? undefined : models.get(row.slug)?.prices;
  const coming = [...comingPrices(models.get(row.slug))].map(({ from, model: { prices } }) => {
    return { valid_from: new Date(from), ...textsOf(prices) };
  });
  return {
    ...model,
    ...(paid && { ...modelPrices(paid.texts), rates: textsOf(paid).rates }),
    own: company !== null,
    state: modelState(catalogue, row.slug, company === null),
    coming,
  };
}
