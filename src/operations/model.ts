import { ALLOWED_MODELS, DISABLED_MODELS } from '../domain/gate.ts';
import { generates } from '../domain/model.ts';
import { storedRates } from '../domain/pricing/rates.ts';
import { refusal } from '../domain/refusal.ts';
import { eachPrice, MODEL, modelPrices, pricesOf } from '../domain/settings/model.ts';
import * as schema from '../domain/settings/schema.ts';
import { neededOf } from '../domain/settings/setting.ts';
import {
  findModel,
  findModelById,
  insertModel,
  lockModel,
  type ModelChanges,
  type ModelName,
  type ModelRow,
  modelsAfter,
  type NewModel,
  deleteModel as removeModel,
  unknownSlugs,
  updateModel,
} from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import type { Caller } from './frame/caller.ts';
import { noun } from './frame/noun.ts';
import type { Mistake } from './frame/refused.ts';
import * as resource from './frame/resources.ts';
import { newPrice } from './price-preview.ts';
import { wrongRates } from './rate.ts';

/** @throws Refused when there is a model of this slug already, or no such company */
export async function createModel(sql: Sql, caller: Asked, model: NewModel): Promise<ModelRow> {
  if (model.company_id !== null)
    caller.judge(
      await newPrice(sql, caller, model, { ...pricesOf(model), rates: model.rates }, null),
    );
  const wrong = wrongRates(null, { ...pricesOf(model), rates: model.rates ?? null }, Date.now());
  caller.judge(wrong);
  const rates = wrong.length > 0 ? null : storedRates(model.rates); // a caller that collects mistakes takes everything back
  const row = await insertModel(sql, { ...model, rates });
  caller.judge(free(row));
  return row;
}

/** Who sets prices. */
export type Asked = Pick<Caller, 'judge' | 'isHeard'>;

/** Changes the shared model of a slug, or the own model of a company. @throws Refused missing */
export async function changeModel(
  sql: Sql,
  caller: Asked,
  name: ModelName,
  changes: ModelChanges,
): Promise<ModelRow> {
  const row = await updateModel(sql, name, await pricedChanges(sql, caller, name, changes));
  caller.judge(free(row));
  return row;
}

/** The changes of a model, with rates as they are stored; without prices and rates where those are refused and the caller collects mistakes. */
async function pricedChanges(
  sql: Sql,
  caller: Asked,
  name: ModelName,
  { rates, ...changes }: ModelChanges,
): Promise<ModelChanges> {
  const prices = pricesOf<string | undefined | null>(changes);
  if (rates === undefined && Object.values(prices).every((price) => price === undefined))
    return changes;
  const present = async () => {
    const model = await findModel(sql, name);
    return { ...pricesOf(model), rates: model.rates };
  };
  // before anything is locked
  caller.judge(await newPrice(sql, caller, name, { ...prices, rates }, await present()));
  await lockModel(sql, name);
  const wrong = wrongRates(await present(), { ...prices, rates }, Date.now());
  caller.judge(wrong);
  return wrong.length > 0
    ? { ...changes, ...modelPrices(eachPrice(() => undefined)) }
    : { ...changes, rates: rates === undefined ? rates : storedRates(rates) };
}

/** Ledger rows of a model that is removed, and the history of its prices, stay. */
export { removeModel };

/** The rule of a price of 0, which may have been forgotten: a command warns of it. */
function free(model: ModelRow): Mistake[] {
  const { slug, kind } = model;
  const { input, output } = pricesOf(model);
  const passed =
    input === '0' && output === '0'
      ? `${slug} costs nothing: this model is free`
      : input === '0'
        ? `${slug} has an input price of 0: its prompt tokens are free`
        : output === '0' &&
          generates(kind) &&
          `${slug} has an output price of 0: its completion tokens are free`;
  return passed
    ? [{ pointer: '#/prices', detail: 'may have been forgotten', severity: 'ask', passed }]
    : [];
}

/** A slug that names no model of its company. */
export interface UnknownModel extends Mistake {
  readonly slug: string;
}

/**
 * The rule of every setting that names models: a company's disabled ones, a key's, an assistant's. A slug has to be
 * that of a model of the company, but for those that were there before: their model may have been removed. Pages, files
 * and administration over HTTP refuse others; a command warns, because its operator may create the model afterwards.
 * @param member of the change
 * @param wanted what it is to be: a slug, or a list of them
 * @param before what it is
 */
export async function unknownModels(
  sql: Sql,
  company: string,
  member: string,
  wanted: Slugs,
  before: Slugs = null,
): Promise<UnknownModel[]> {
  const slugs = [wanted ?? []].flat();
  const present = new Set([before ?? []].flat());
  const added = slugs.filter((slug) => !present.has(slug));
  if (added.length === 0) return [];
  const unknown = await unknownSlugs(sql, company, added);
  return unknown.map((slug) => {
    const reason = refusal('notOfCompany', { slug });
    const pointer = `#/${member}${Array.isArray(wanted) ? `/${slugs.indexOf(slug)}` : ''}`;
    const passed = `the company has no model ${slug}; ${PASSED[member]}`;
    return { slug, pointer, detail: reason.text, reason, severity: 'warn', passed };
  });
}

/** What an unknown slug does where it passes. */
const PASSED: Readonly<Record<string, string>> = {
  [DISABLED_MODELS]: 'the slug is disabled in case one is created',
  [ALLOWED_MODELS]: 'the key may use it in case one is created',
  model_slug: 'runs that name no model get 404',
};

type Slugs = string | readonly string[] | null | undefined;

const models = noun({
  name: 'Model',
  path: '/models',
  param: 'model',
  table: 'models',
  answer: resource.model,
  reads: 'model.read',
  writes: 'model.write',
  find: (sql, { id }) => findModelById(sql, id),
});

export const modelOperations = [
  models.list({
    summary: 'List models, ordered by id',
    filters: { slug: schema.slug, company_id: schema.id },
    read: (sql, { query: { slug = null, company_id = null } }, range) =>
      modelsAfter(sql, slug, company_id, range),
  }),
  models.create({
    summary: 'Create a model, shared or of one company',
    body: schema.object(
      { slug: schema.slug, company_id: resource.modelOwner, ...resource.modelSettings },
      ['slug', ...neededOf(MODEL)],
    ),
    run: (sql, call) => createModel(sql, call, { company_id: null, ...call.body }),
  }),
  models.get('Read a model'),
  models.change({
    summary: 'Change a model; members that are left out stay as they are',
    body: schema.changeOf(resource.modelSettings),
    run: async (sql, call) => changeModel(sql, call, await findModelById(sql, call.id), call.body),
  }),
  models.remove({
    summary: 'Remove a model',
    run: async (sql, { id }) => removeModel(sql, await findModelById(sql, id)),
  }),
];
