import type { ImportedModel, ImportMistake } from '../domain/model-import.ts';
import type { Sql } from './database.ts';
import { setCostPrice } from './margin.ts';
import { createModel, listModels, type ModelRow, setModel } from './model.ts';
import { companiesNamed } from './page.ts';
import { datedPrice, schedulePrice } from './price.ts';

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
 * @param dryRun only compares
 */
export async function importModels(sql: Sql, models: readonly ImportedModel[], dryRun: boolean): Promise<ImportResult> {
  const mistakes: ImportMistake[] = [];
  const owners = await readOwners(sql, models, mistakes);
  const present = await listModels(sql);
  const lines: ImportedLine[] = [];
  const steps: (() => Promise<unknown>)[] = [];
  // a model has to be there before a price of it can be to come
  const ordered = models.toSorted(
    (a, b) => Number(a.valid_from !== null) - Number(b.valid_from !== null) || a.line - b.line,
  );
  const created = new Set<string>();
  const compared = new Set<string>();
  for (const model of ordered) {
    const owner = model.company === null ? null : (owners.get(model.company) ?? null);
    if (model.company !== null && owner === null) continue; // a mistake, told already
    const name = `${owner}/${model.slug}`;
    const existing = present.find(({ slug, company_id }) => slug === model.slug && company_id === owner);
    const changes: string[] = [];
    let isNew = false;
    if (existing === undefined && model.valid_from === null) {
      isNew = true;
      created.add(name);
      const { upstream_model, kind, eu_hosted, input, output } = model;
      const prices = { cost_eur_per_1k_input: input, cost_eur_per_1k_output: output };
      const token_input = model.token_input ?? undefined;
      changes.push(`price: ${input} and ${output}`);
      steps.push(() =>
        createModel(sql, {
          slug: model.slug,
          company_id: owner,
          upstream_model,
          kind,
          eu_hosted,
          ...prices,
          token_input,
        }),
      );
    } else if (existing === undefined && !created.has(name)) {
      const message = 'the model is new: another line without a date has to give its price until then';
      mistakes.push({ line: model.line, column: 'valid_from', message });
      continue;
    } else if (existing !== undefined && !compared.has(name)) {
      compared.add(name);
      const settings = differing(model, existing, changes);
      if (changes.length > 0) steps.push(() => setModel(sql, model.slug, owner, settings));
    }
    if (model.valid_from !== null) {
      const { slug, input, output, valid_from: from } = model;
      const dated = await datedPrice(sql, { slug, company_id: owner }, from);
      if (dated.input !== input || dated.output !== output) {
        if (dated.late)
          mistakes.push({
            line: model.line,
            column: 'valid_from',
            message: 'has passed, or is less than a minute away',
          });
        changes.push(
          `price from then on: ${input} and ${output}${dated.input === null ? '' : `, was ${dated.input} and ${dated.output}`}`,
        );
        steps.push(() => schedulePrice(sql, { slug, company_id: owner, from, input, output }));
      }
    }
    if (model.cost !== null) {
      const { slug, cost } = model;
      const day = model.valid_from !== null && 'day' in model.valid_from ? model.valid_from.day : null;
      const before = await readCost(sql, slug, owner, day);
      if (before?.input !== cost.input || before.output !== cost.output) {
        changes.push(
          `cost price: ${cost.input} and ${cost.output}${before === undefined ? '' : `, was ${before.input} and ${before.output}`}`,
        );
        steps.push(() => setCostPrice(sql, { slug, company_id: owner, ...cost }, day));
      }
    }
    const { line, slug, company } = model;
    lines.push({ line, slug, company, state: isNew ? 'new' : changes.length > 0 ? 'changed' : 'same', changes });
  }
  if (mistakes.length === 0 && !dryRun) for (const step of steps) await step();
  return { lines: lines.sort((a, b) => a.line - b.line), mistakes: mistakes.sort((a, b) => a.line - b.line) };
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
async function readOwners(sql: Sql, models: readonly ImportedModel[], mistakes: ImportMistake[]) {
  const owners = new Map<string, string>();
  for (const [name, of] of Map.groupBy(models, ({ company }) => company)) {
    if (name === null) continue;
    const [id, other] = await companiesNamed(sql, name);
    if (id !== undefined && other === undefined) owners.set(name, id);
    else {
      const message = id === undefined ? 'is not known' : 'is the name of several companies: give its id';
      mistakes.push(...of.map(({ line }) => ({ line, column: 'company', message })));
    }
  }
  return owners;
}

/** The cost price that is in force on a day. */
async function readCost(sql: Sql, slug: string, owner: string | null, day: string | null) {
  const [row] = await sql<{ input: string; output: string }[]>`
    select trim_scale(input)::text as input, trim_scale(output)::text as output from model_cost_prices
    where slug = ${slug} and company_id is not distinct from ${owner}
      and valid_from <= coalesce(${day}::date, (now() at time zone (select value from settings where name = 'billing_timezone'))::date)
    order by valid_from desc limit 1`;
  return row;
}
