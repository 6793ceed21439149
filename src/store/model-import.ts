import { findContradictions, type ImportedModel, type ImportMistake } from '../domain/model-import.ts';
import { companiesNamed } from './company.ts';
import type { Sql } from './database.ts';
import { TODAY } from './expressions.ts';
import { type CostPriceRow, setCostPrice } from './margin.ts';
import { createModel, listModels, type ModelRow, setModel } from './model.ts';
import { type DatedPrice, datedPrices, schedulePrice } from './price.ts';

/** What an import does with one line. */
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
  /** What the database does not allow. With any, nothing was changed. */
  readonly mistakes: readonly ImportMistake[];
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
  // until the transaction ends others read these and do not write them: what is compared is what is changed
  await sql`lock table models, model_prices, model_cost_prices in share row exclusive mode`;
  const mistakes: ImportMistake[] = [];
  const ids = await companyIds(sql, models, mistakes);
  const found: { model: ImportedModel; company_id: string | null }[] = [];
  for (const model of models) {
    const company_id = model.company === null ? null : ids.get(model.company);
    if (company_id !== undefined) found.push({ model, company_id }); // else a mistake, told already
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
  const present = await listModels(sql);
  const costs = await readCosts(sql);
  const lines: ImportedLine[] = [];
  const steps: (() => Promise<unknown>)[] = [];
  // a model has to be there before a price of it can be to come
  const ordered = known.toSorted(
    (a, b) => Number(a.dated !== null) - Number(b.dated !== null) || a.model.line - b.model.line,
  );
  const settled = new Set<string>();
  for (const { model, company_id, dated } of ordered) {
    const { line, slug, company, input, output, cost, valid_from: from } = model;
    const changes: string[] = [];
    const change = (text: string, step: () => Promise<unknown>): void => {
      changes.push(text);
      steps.push(step);
    };
    const existing = present.find((row) => row.slug === slug && row.company_id === company_id);
    const isNew = existing === undefined && from === null;
    const isSettled = settled.has(`${company_id}/${slug}`);
    if (existing === undefined && !isNew && !isSettled) {
      const message = 'the model is new: another line without a date has to give its price until then';
      mistakes.push({ line, column: 'valid_from', message });
      continue;
    }
    settled.add(`${company_id}/${slug}`);
    if (isNew) {
      const { upstream_model, kind, eu_hosted, token_input } = model;
      const prices = { cost_eur_per_1k_input: input, cost_eur_per_1k_output: output };
      const settings = { upstream_model, kind, eu_hosted, ...prices, token_input: token_input ?? undefined };
      change(`price: ${input} and ${output}`, () => createModel(sql, { slug, company_id, ...settings }));
    } else if (existing !== undefined && !isSettled) {
      const settings = differing(model, existing, changes);
      if (changes.length > 0) steps.push(() => setModel(sql, slug, company_id, settings));
    }
    if (from !== null && dated !== null && (dated.price?.input !== input || dated.price.output !== output)) {
      if (dated.late) {
        mistakes.push({ line, column: 'valid_from', message: 'has passed, or is less than a minute away' });
      }
      const text = pricesText(model, dated.price ?? undefined);
      change(`price from then on: ${text}`, () => schedulePrice(sql, { slug, company_id, from, input, output }));
    }
    if (cost !== null) {
      const day = from !== null && 'day' in from ? from.day : null;
      const before = costOn(costs, slug, company_id, day);
      if (before?.input !== cost.input || before.output !== cost.output) {
        const text = pricesText(cost, before);
        change(`cost price: ${text}`, () => setCostPrice(sql, { slug, company_id, ...cost }, day));
      }
    }
    lines.push({ line, slug, company, state: isNew ? 'new' : changes.length > 0 ? 'changed' : 'same', changes });
  }
  lines.sort((a, b) => a.line - b.line);
  if (mistakes.length === 0 && isWanted(lines)) for (const step of steps) await step();
  return { lines, mistakes: mistakes.sort((a, b) => a.line - b.line) };
}

type Prices = Readonly<Record<'input' | 'output', string | null>>;

function pricesText({ input, output }: Prices, before?: Prices): string {
  return `${input} and ${output}${before === undefined ? '' : `, was ${before.input} and ${before.output}`}`;
}

/** The settings that a line changes, and its price if that has no date. */
function differing(model: ImportedModel, existing: ModelRow, changes: string[]) {
  const settings: Record<string, string | boolean> = {};
  const compare = (column: keyof ModelRow & string, value: string | boolean | null, name: string = column) => {
    if (value === null || value === existing[column]) return;
    changes.push(`${name}: ${value}, was ${existing[column]}`);
    settings[column] = value;
  };
  for (const column of ['upstream_model', 'kind', 'eu_hosted', 'token_input'] as const) compare(column, model[column]);
  if (model.valid_from === null) {
    compare('cost_eur_per_1k_input', model.input, 'input price');
    compare('cost_eur_per_1k_output', model.output, 'output price');
  }
  return settings;
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
async function readDates(sql: Sql, found: readonly { model: ImportedModel; company_id: string | null }[]) {
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
      trim_scale(input)::text as input, trim_scale(output)::text as output
    from model_cost_prices order by model_cost_prices.valid_from desc`;
}

/** The cost price that begins on a day; without a day the one in force today. */
function costOn(costs: readonly CostPrice[], slug: string, company: string | null, day: string | null) {
  return costs.find((cost) => {
    const isOfModel = cost.slug === slug && cost.company_id === company;
    return isOfModel && (day === null ? cost.begun : cost.valid_from === day);
  });
}

type CostPrice = Pick<CostPriceRow, 'slug' | 'company_id' | 'valid_from' | 'input' | 'output'> & {
  readonly begun: boolean;
};
