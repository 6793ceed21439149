import {
  eachPrice,
  MODEL,
  modelPrices,
  PRICE_NAMES,
  PRICES,
  type PriceTexts,
  priceTexts,
} from '../domain/settings/model.ts';
import { findContradictions, type ImportedModel, type ImportMistake } from '../domain/settings/model-csv.ts';
import { namesOf } from '../domain/settings/schema.ts';
import { companiesNamed } from '../store/company/company.ts';
import type { CostPriceRow } from '../store/company/cost-price.ts';
import { listModels, type ModelChanges, type ModelName, type ModelRow } from '../store/company/model.ts';
import { type DatedPrice, datedPrices } from '../store/company/price.ts';
import { settingColumns } from '../store/connection/columns.ts';
import { TODAY } from '../store/connection/expressions.ts';
import type { Sql } from '../store/connection/pool.ts';
import { changeModel, createModel } from './model.ts';
import { schedulePrice, setCostPrice } from './price.ts';
import { refuse } from './problem.ts';

/** The effect of one line of an import. */
export interface ImportedLine {
  readonly line: number;
  readonly slug: string;
  /** As the file names it; null: a shared model. */
  readonly company: string | null;
  readonly state: 'new' | 'changed' | 'same';
  /** Each change in words: "kind: chat, was embedding". */
  readonly changes: readonly string[];
}

export interface ImportResult {
  readonly lines: readonly ImportedLine[];
  /** Lines that the database does not allow. If there is one, nothing was changed. */
  readonly mistakes: readonly ImportMistake[];
}

/** A line whose company is known, with the price that begins at its date; null: it has no date. */
interface KnownLine {
  readonly model: ImportedModel;
  readonly company_id: string | null;
  readonly dated: DatedPrice | null;
}

/** A change of the database, and its parts in words. */
interface Change {
  readonly texts: readonly string[];
  make(): Promise<unknown>;
}

/**
 * Compares models with those in the database, and makes the difference unless there are mistakes. To be run in a
 * transaction. A second run changes nothing.
 * @param isWanted whether to make this difference
 */
export async function importModels(
  sql: Sql,
  models: readonly ImportedModel[],
  isWanted: (lines: readonly ImportedLine[]) => boolean,
): Promise<ImportResult> {
  // until the transaction ends others cannot write these rows, so the import changes the same rows that it compared
  await sql`lock table models, model_prices, model_cost_prices in share row exclusive mode`;
  const mistakes: ImportMistake[] = [];
  const known = await knownLines(sql, models, mistakes);
  const present = await listModels(sql);
  const costs = await readCosts(sql);
  const lines: ImportedLine[] = [];
  const changes: Change[] = [];
  const seen = new Set<string>();
  for (const each of known) {
    const { model, company_id, dated } = each;
    const { line, slug, company } = model;
    const name = `${company_id}/${slug}`;
    const isFirst = !seen.has(name); // the first line of its model says what the model is, without its later prices
    const existing = present.find((row) => row.slug === slug && row.company_id === company_id);
    if (existing === undefined && dated !== null && isFirst) {
      const message = 'the model is new: another line without a date has to give its price until then';
      mistakes.push({ line, column: 'valid_from', message });
      continue;
    }
    seen.add(name);
    const isNew = existing === undefined && dated === null;
    const own = [
      isNew ? creation(sql, each) : existing !== undefined && isFirst ? newSettings(sql, each, existing) : null,
      newDatedPrice(sql, each, mistakes),
      newCostPrice(sql, each, costs),
    ].filter((change) => change !== null);
    changes.push(...own);
    const state = isNew ? 'new' : own.length > 0 ? 'changed' : 'same';
    lines.push({ line, slug, company, state, changes: own.flatMap(({ texts }) => texts) });
  }
  lines.sort((a, b) => a.line - b.line);
  if (mistakes.length === 0 && isWanted(lines)) for (const change of changes) await change.make();
  return { lines, mistakes: mistakes.sort((a, b) => a.line - b.line) };
}

/** The lines whose company is known. Lines without a date come first, because a future price needs a model. */
async function knownLines(sql: Sql, models: readonly ImportedModel[], mistakes: ImportMistake[]): Promise<KnownLine[]> {
  const ids = await companyIds(sql, models, mistakes);
  const found: Omit<KnownLine, 'dated'>[] = [];
  for (const model of models) {
    const company_id = model.company === null ? null : ids.get(model.company);
    if (company_id !== undefined) found.push({ model, company_id }); // otherwise the mistake is listed already
  }
  const dates = await readDates(sql, found);
  const known = found.map((each) => ({ ...each, dated: dates.get(each.model) ?? null }));
  // once more: one line may name a company and the next one its id, or a day and the instant when it begins
  const resolved = known.map(({ model, company_id, dated }) => ({
    ...model,
    company: company_id,
    valid_from: dated && { at: dated.at },
  }));
  findContradictions(resolved, mistakes);
  return known.sort((a, b) => Number(a.dated !== null) - Number(b.dated !== null) || a.model.line - b.model.line);
}

function creation(sql: Sql, { model, company_id }: KnownLine): Change {
  return {
    texts: [`price: ${priceTexts(model)}`],
    make: () => createModel(sql, CALLER, { ...model, ...modelPrices(model), company_id }),
  };
}

/** The settings that a line changes, and its price if that has no date; null: none. */
function newSettings(sql: Sql, { model, company_id }: KnownLine, existing: ModelRow): Change | null {
  const wanted = { ...model, ...(model.valid_from === null && modelPrices(model)) };
  const changed = namesOf(MODEL).filter((column) => (wanted[column] ?? existing[column]) !== existing[column]);
  const texts = changed.map((column) => `${nameOf(column)}: ${wanted[column]}, was ${existing[column]}`);
  const changes: ModelChanges = Object.fromEntries(changed.map((column) => [column, wanted[column]]));
  const { slug } = model;
  return changed.length === 0 ? null : { texts, make: () => changeModel(sql, CALLER, { slug, company_id }, changes) };
}

/** A column as people read it: "input price". */
function nameOf(column: string): string {
  return column.replace(/^cost_eur_per_1k_(.*)$/, '$1 price');
}

/** The price that begins at the date of a line, if it is another one than is known to begin then. */
function newDatedPrice(sql: Sql, { model, company_id, dated }: KnownLine, mistakes: ImportMistake[]): Change | null {
  const { line, slug, valid_from: from } = model;
  if (from === null || dated === null || isSame(dated.price, model)) return null;
  if (dated.late) mistakes.push({ line, column: 'valid_from', message: 'has passed, or is less than a minute away' });
  return {
    texts: [`price from then on: ${pricesText(model, dated.price)}`],
    make: () => schedulePrice(sql, CALLER, { slug, company_id, from, ...eachPrice((name) => model[name]) }),
  };
}

/** The change of a cost price by a line, for its day or for today. */
function newCostPrice(sql: Sql, { model, company_id }: KnownLine, costs: readonly CostPrice[]): Change | null {
  const { slug, cost, valid_from: from } = model;
  if (cost === null) return null;
  const day = from !== null && 'day' in from ? from.day : null;
  const before = costOn(costs, slug, company_id, day);
  if (isSame(before, cost)) return null;
  return {
    texts: [`cost price: ${pricesText(cost, before)}`],
    make: () => setCostPrice(sql, CALLER, { slug, company_id, ...cost }, day),
  };
}

/** Programs and files mean what rules would ask. */
const CALLER = { judge: refuse };

function isSame(one: PriceTexts | null | undefined, other: PriceTexts): boolean {
  return one != null && PRICE_NAMES.every((name) => one[name] === other[name]);
}

function pricesText(prices: PriceTexts, before: PriceTexts | null | undefined): string {
  return `${priceTexts(prices)}${before == null ? '' : `, was ${priceTexts(before)}`}`;
}

/** Ids of the companies that the file names. */
async function companyIds(sql: Sql, models: readonly ImportedModel[], mistakes: ImportMistake[]) {
  const names = new Set(models.map(({ company }) => company).filter((name) => name !== null));
  const found = Map.groupBy(await companiesNamed(sql, [...names]), ({ text }) => text);
  const ids = new Map<string, string>();
  for (const { line, company } of models) {
    if (company === null) continue;
    const [first, other] = found.get(company) ?? [];
    if (first !== undefined && other === undefined) ids.set(company, first.id);
    else {
      const message = first === undefined ? 'is not known' : 'is the name of several companies: give its id';
      mistakes.push({ line, column: 'company', message });
    }
  }
  return ids;
}

/** The prices that begin at the dates of lines. */
async function readDates(sql: Sql, found: readonly Omit<KnownLine, 'dated'>[]) {
  const asked = found.flatMap(({ model, company_id }) => {
    return model.valid_from === null ? [] : [{ model, company_id, slug: model.slug, from: model.valid_from }];
  });
  const dated = await datedPrices(sql, asked);
  return new Map(asked.map(({ model }, n) => [model, dated[n] as DatedPrice]));
}

/** All cost prices, the latest first. */
async function readCosts(sql: Sql) {
  return sql<CostPrice[]>`
    select slug, company_id, valid_from::text as valid_from, valid_from <= ${sql.unsafe(TODAY)} as begun,
      ${settingColumns(sql, PRICES)}
    from model_cost_prices order by model_cost_prices.valid_from desc`;
}

/** The cost price that begins on a day; without a day the one in force today. */
function costOn(costs: readonly CostPrice[], slug: string, company: string | null, day: string | null) {
  return costs.find((cost) => {
    const isOfModel = cost.slug === slug && cost.company_id === company;
    return isOfModel && (day === null ? cost.begun : cost.valid_from === day);
  });
}

type CostPrice = ModelName &
  PriceTexts &
  Pick<CostPriceRow, 'valid_from'> & {
    readonly begun: boolean;
  };
