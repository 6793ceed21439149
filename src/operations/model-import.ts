import { differences } from '../domain/settings/difference.ts';
import { modelPrices, priceTexts, type SomePrices } from '../domain/settings/model.ts';
import {
  findContradictions,
  type ImportedModel,
  type ImportMistake,
  readModels,
} from '../domain/settings/model-csv.ts';
import { namesOf } from '../domain/settings/schema.ts';
import { companiesNamed } from '../store/company/company.ts';
import { listModels, type ModelChanges, type ModelRow } from '../store/company/model.ts';
import { type DatedPrice, datedPrices } from '../store/company/price.ts';
import type { Sql } from '../store/connection/pool.ts';
import { refuse } from './frame/refused.ts';
import { changeModel, createModel } from './model.ts';
import {
  costChange,
  type PresentCosts,
  type PriceChange,
  presentCosts,
  priceChange,
} from './price.ts';

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
  /** What cannot be read, or what the database does not allow. If there is one, nothing was changed. */
  readonly mistakes: readonly ImportMistake[];
}

/** A line whose company is known. */
interface KnownLine extends ImportedModel {
  readonly company_id: string | null;
  /** The price that begins at its date; null: it has none. */
  readonly dated: DatedPrice | null;
}

/** A change of the database, and its parts in words. */
interface Change {
  readonly texts: readonly string[];
  make(): Promise<unknown>;
}

/**
 * Compares a CSV file of models with those in the database, and makes the difference unless there are mistakes. To be run
 * in a transaction. A second run changes nothing.
 * @param isWanted whether to make this difference
 */
export async function importModels(
  sql: Sql,
  text: string,
  isWanted: (lines: readonly ImportedLine[]) => boolean,
): Promise<ImportResult> {
  const { models, mistakes } = readModels(text);
  if (mistakes.length > 0) return { lines: [], mistakes };
  // until the transaction ends others cannot write these rows, so the import changes the same rows that it compared
  await sql`lock table models, model_prices, model_cost_prices in share row exclusive mode`;
  const known = await knownLines(sql, models, mistakes);
  const costs = await presentCosts(
    sql,
    models.flatMap(({ slug, cost }) => (cost === null ? [] : slug)),
  );
  const present = new Map(
    (await listModels(sql)).map((row) => [`${row.company_id}/${row.slug}`, row]),
  );
  const lines: ImportedLine[] = [];
  const changes: Change[] = [];
  const seen = new Set<string>();
  for (const each of known) {
    const { line, slug, company, company_id, valid_from } = each;
    const name = `${company_id}/${slug}`;
    const isFirst = !seen.has(name); // the first line of its model says what the model is, without its later prices
    const existing = present.get(name);
    if (existing === undefined && valid_from !== null && isFirst) {
      const message =
        'the model is new: another line without a date has to give its price until then';
      mistakes.push({ line, column: 'valid_from', message });
      continue;
    }
    seen.add(name);
    const own = [
      isFirst && newSettings(sql, each, existing),
      newPrice(sql, each, mistakes),
      newCost(sql, each, costs),
    ];
    const made = own.filter((change) => change !== null && change !== false);
    changes.push(...made);
    const state =
      existing === undefined && valid_from === null ? 'new' : made.length > 0 ? 'changed' : 'same';
    lines.push({ line, slug, company, state, changes: made.flatMap(({ texts }) => texts) });
  }
  lines.sort((a, b) => a.line - b.line);
  if (mistakes.length === 0 && isWanted(lines)) for (const change of changes) await change.make();
  return { lines, mistakes: mistakes.sort((a, b) => a.line - b.line) };
}

/** The lines whose company is known. Lines without a date come first, because a future price needs a model. */
async function knownLines(
  sql: Sql,
  models: readonly ImportedModel[],
  mistakes: ImportMistake[],
): Promise<KnownLine[]> {
  const ids = await companyIds(sql, models, mistakes);
  const named = models.flatMap((model) => {
    const company_id = model.company === null ? null : ids.get(model.company);
    return company_id === undefined ? [] : { ...model, company_id }; // the mistake is listed already
  });
  const dates = named.flatMap(({ valid_from: from, ...model }) =>
    from === null ? [] : { ...model, from },
  );
  const found = (await datedPrices(sql, dates)).values();
  const known = named.map(
    (each): KnownLine => ({
      ...each,
      dated: each.valid_from && (found.next().value as DatedPrice),
    }),
  );
  // once more: one line may name a company and the next one its id, or a day and the instant when it begins
  const resolved = known.map((each) => ({
    ...each,
    company: each.company_id,
    valid_from: each.dated && { at: each.dated.at },
  }));
  findContradictions(resolved, mistakes);
  const isLater = ({ valid_from }: KnownLine) => Number(valid_from !== null);
  return known.sort((a, b) => isLater(a) - isLater(b) || a.line - b.line);
}

/** A new model, or the settings of one that a line changes, and its price if that has no date; null: none. */
function newSettings(sql: Sql, model: KnownLine, existing: ModelRow | undefined): Change | null {
  const { slug, company_id, settings, prices, valid_from } = model;
  if (existing === undefined) {
    const made = { ...settings, ...modelPrices(prices), slug, company_id };
    return { texts: [`price: ${priceTexts(prices)}`], make: () => createModel(sql, CALLER, made) };
  }
  const given = { ...settings, ...(valid_from === null && modelPrices(prices)) };
  const wanted: ModelChanges = Object.fromEntries(
    namesOf(given).map((column) => [column, given[column]]),
  );
  const changed = differences(existing, wanted);
  const texts = changed.map(
    ({ member, from, to }) => `${nameOf(member)}: ${to ?? 'none'}, was ${from ?? 'none'}`,
  );
  return changed.length === 0
    ? null
    : { texts, make: () => changeModel(sql, CALLER, { slug, company_id }, wanted) };
}

/** A column as people read it: "input price". */
function nameOf(column: string): string {
  return column.replace(/^cost_eur_per_1k_(.*)$/, '$1 price').replace('cache_', 'cache ');
}

/** The price that begins at the date of a line, if it is another one than is known to begin then. */
function newPrice(sql: Sql, model: KnownLine, mistakes: ImportMistake[]): Change | null {
  const { line, slug, company_id, prices, valid_from: from, dated } = model;
  if (from === null || dated === null) return null;
  const change = priceChange(sql, CALLER, { slug, company_id, from }, dated, prices);
  if (change !== null && dated.late) {
    mistakes.push({
      line,
      column: 'valid_from',
      message: 'has passed, or is less than a minute away',
    });
  }
  return change && told('price from then on', prices, change);
}

/** The change of a cost price by a line, for its day or for today. */
function newCost(
  sql: Sql,
  { slug, company_id, cost, valid_from: from }: KnownLine,
  costs: PresentCosts,
): Change | null {
  if (cost === null) return null;
  const day = from !== null && 'day' in from ? from.day : null;
  const change = costChange(sql, CALLER, { slug, company_id }, costs, day, cost);
  return change && told('cost price', cost, change);
}

function told(what: string, prices: SomePrices, { now, make }: PriceChange): Change {
  return {
    texts: [`${what}: ${priceTexts(prices)}${now === null ? '' : `, was ${priceTexts(now)}`}`],
    make,
  };
}

/** Programs and files mean what rules would ask. */
const CALLER = { judge: refuse };

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
      const message =
        first === undefined ? 'is not known' : 'is the name of several companies: give its id';
      mistakes.push({ line, column: 'company', message });
    }
  }
  return ids;
}
