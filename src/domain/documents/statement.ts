import { hash } from 'node:crypto';
import { type Femto, formatEur, parseEur } from '../pricing/money.ts';
import { COST_PARTS, type CostPart, partOf } from '../pricing/parts.ts';
import { sumUsage, type UsageSums } from '../usage.ts';
import { type CsvForm, csvFile, decimal } from './csv.ts';

/** The calls of a key with a model, under a cost centre; empty: none was named. */
export interface StatementLine extends UsageSums {
  /** The slug: internal model names are in no statement. */
  readonly model: string;
  readonly key: string;
  readonly cost_center: string;
  /** The parts of the cost, in their order; absent where no call of the month has a price besides those of input and output. */
  readonly parts?: readonly PartSum[];
}

/** A part of the cost of some calls: its tokens or other units, and EUR as exact decimal text. */
interface PartSum {
  readonly part: CostPart;
  readonly tokens: number;
  readonly cost_eur: string;
}

/** The tokens, or other units, of a model at one unit price: EUR per 1000 of them as exact decimal text. */
export interface PricedTokens {
  readonly model: string;
  readonly part: CostPart;
  /** The rate that the price is of; absent: the base price. */
  readonly rate?: string;
  readonly price: string;
  readonly tokens: number;
  readonly cost_eur: string;
}

/** Calls of an earlier month that were booked after it was closed. */
export interface Correction extends UsageSums {
  /** "2026-09", and the number of its statement. */
  readonly month: string;
  readonly statement: number;
  readonly lines: readonly StatementLine[];
  readonly request_ids: readonly string[];
}

/** A checkpoint of the ledger's seals (sql/schema/seals.sql) and its digest in hex. */
export interface SealCheckpoint {
  readonly checkpoint: number;
  readonly digest: string;
}

/** The facts of a statement, before its lines are summed up. */
interface StatementFacts {
  readonly company_id: string;
  /** Counts the company's statements, from 1 without a gap; null: a preview. */
  readonly number: number | null;
  /** "2026-10". */
  readonly month: string;
  readonly billing_timezone: string;
  /** ISO 8601 in UTC; null: a preview. */
  readonly closed_at: string | null;
  /** The seals at the time of the statement before, and of this one. */
  readonly opening_seals: SealCheckpoint | null;
  readonly closing_seals: SealCheckpoint | null;
  /** The digest of the statement before, in hex; null for the first one. */
  readonly previous: string | null;
  /** The digest of the ledger rows that it covers, in hex; null: a preview. */
  readonly rows: string | null;
  /** The same tokens by unit price; absent: a preview, or a statement of a version without them. */
  readonly charges?: readonly PricedTokens[];
  readonly lines: readonly StatementLine[];
  readonly corrections: readonly Omit<Correction, keyof UsageSums>[];
}

/** The document. It holds ids and no names, so it stays as it is when names change or are erased. */
export interface Statement extends Omit<StatementFacts, 'corrections'>, UsageSums {
  readonly format: 'tollgate statement';
  readonly version: 1;
  readonly corrections: readonly Correction[];
  /** The cost of the month and of all corrections. */
  readonly total_eur: string;
}

/** Makes the document and its sums. The order of the members is that of the text, and so part of the digest. */
export function makeStatement({
  lines,
  charges,
  corrections,
  ...facts
}: StatementFacts): Statement {
  const own = sumUsage(lines);
  const corrected = corrections.map(({ month, statement, lines, request_ids }) => {
    return { month, statement, ...sumUsage(lines), lines, request_ids };
  });
  const {
    company_id,
    number,
    month,
    billing_timezone,
    closed_at,
    opening_seals,
    closing_seals,
    previous,
    rows,
  } = facts;
  return {
    format: 'tollgate statement',
    version: 1,
    company_id,
    number,
    month,
    billing_timezone,
    closed_at,
    opening_seals,
    closing_seals,
    previous,
    rows,
    ...own,
    total_eur: sumUsage([own, ...corrected]).cost_eur,
    ...(charges !== undefined && { charges }),
    lines,
    corrections: corrected,
  };
}

/** The bytes that are stored, printed and digested: one line of JSON. */
export function statementText(statement: Statement): string {
  return `${JSON.stringify(statement)}\n`;
}

/** Reads a statement as it was stored. */
export function parseStatement(text: string): Statement {
  return JSON.parse(text) as Statement;
}

/** SHA-256 of a statement's text in hex, as `sha256sum` prints it for the JSON file. */
export function statementDigest(text: string): string {
  return hash('sha256', text);
}

/** The parts of some lines together, without those of no tokens; null where lines do not tell them. */
function partsOfLines(lines: readonly StatementLine[]): readonly PartSum[] | null {
  const all = lines.flatMap(({ parts }) => parts ?? []);
  if (lines.length === 0 || lines.some(({ parts }) => parts === undefined)) return null;
  const sums = COST_PARTS.map((part): PartSum => {
    const own = all.filter((each) => each.part === part);
    const cost = own.reduce((sum, { cost_eur }): Femto => sum + parseEur(cost_eur), 0n);
    return {
      part,
      tokens: own.reduce((sum, { tokens }) => sum + tokens, 0),
      cost_eur: formatEur(cost),
    };
  });
  return sums.filter(({ tokens, cost_eur }) => tokens !== 0 || cost_eur !== '0');
}

/** A row of a table of a statement: some calls, or a part of the cost of the row above it. */
export interface StatementTableRow<N = string> extends Omit<UsageSums, 'requests'> {
  readonly name: N;
  /** null: a part of the cost. */
  readonly requests: number | null;
  readonly part: CostPart | null;
  /** The units of a part that is not of tokens; else null. */
  readonly units: number | null;
}

/** A row, and below it the parts of its cost. */
export function rowsOfParts<N>({
  parts,
  ...row
}: UsageSums & {
  readonly name: N;
  readonly parts: readonly PartSum[] | null;
}): StatementTableRow<N>[] {
  const below = (parts ?? []).map((each) => ({ name: row.name, requests: null, ...sumsOf(each) }));
  return [{ ...row, part: null, units: null }, ...below];
}

/** A part with its tokens as prompt or completion tokens; other units stand apart. */
function sumsOf({ part, tokens, cost_eur }: PartSum) {
  const { within } = partOf(part);
  const [prompt_tokens, completion_tokens] = [
    within === 'prompt' ? tokens : 0,
    within === 'completion' ? tokens : 0,
  ];
  return {
    part,
    prompt_tokens,
    completion_tokens,
    cost_eur,
    units: within === null ? tokens : null,
  };
}

/** Lines summed by one of their members, the highest cost first. */
export function sumsBy(
  lines: readonly StatementLine[],
  member: 'model' | 'key' | 'cost_center',
): (UsageSums & { readonly name: string; readonly parts: readonly PartSum[] | null })[] {
  const groups = [...Map.groupBy(lines, (line) => line[member])].map(([name, own]) => {
    return { name, ...sumUsage(own), parts: partsOfLines(own) };
  });
  return groups.sort((a, b) => {
    const difference = parseEur(b.cost_eur) - parseEur(a.cost_eur);
    return difference > 0n ? 1 : difference < 0n ? -1 : a.name < b.name ? -1 : 1;
  });
}

/**
 * All lines as CSV with a heading; `cost_eur` adds up to the total. The kind is "month" or "correction". Where there are
 * prices of more than input and output, a line is one for each part of its cost: counts and costs add up to those of the
 * whole line. `units` counts what is charged beside tokens.
 * @param names present names of keys by id, for people: the document has none
 */
export function statementCsv(
  { number, month, lines, corrections }: Statement,
  names: ReadonlyMap<string, { readonly name: string }>,
  form: CsvForm,
): string {
  const own = lines.flatMap(linesOfParts).map((line) => ({ kind: 'month', of: month, ...line }));
  const late = corrections.flatMap((each) =>
    each.lines
      .flatMap(linesOfParts)
      .map((line) => ({ kind: 'correction', of: each.month, ...line })),
  );
  const hasParts = [...own, ...late].some(({ part }) => part !== '');
  const hasUnits = [...own, ...late].some(({ units }) => units !== null);
  type Row = (typeof own)[number];
  const columns = {
    statement: () => number ?? 'preview',
    kind: ({ kind }: Row) => kind,
    month: ({ of }: Row) => of,
    model: ({ model }: Row) => model,
    key: ({ key }: Row) => key,
    key_name: ({ key }: Row) => names.get(key)?.name,
    cost_center: ({ cost_center }: Row) => cost_center,
    ...(hasParts && { part: ({ part }: Row) => part }),
    requests: ({ requests }: Row) => requests,
    prompt_tokens: ({ prompt_tokens }: Row) => prompt_tokens,
    completion_tokens: ({ completion_tokens }: Row) => completion_tokens,
    ...(hasUnits && { units: ({ units }: Row) => units }),
    cost_eur: ({ cost_eur }: Row) => decimal(cost_eur),
  };
  return csvFile(columns, [...own, ...late], form);
}

/** A line for each part of its cost; the calls stand beside the first one. A line that does not tell its parts is one. */
function linesOfParts(
  line: StatementLine,
): (StatementLine & { readonly part: CostPart | ''; readonly units: number | null })[] {
  const { parts = [] } = line;
  if (parts.length === 0) return [{ ...line, part: '', units: null }];
  const told = parts.filter(({ tokens }, at) => at === 0 || tokens !== 0);
  return told.map((each, at) => ({
    ...line,
    requests: at === 0 ? line.requests : 0,
    ...sumsOf(each),
  }));
}
