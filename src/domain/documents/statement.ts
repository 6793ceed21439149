import { hash } from 'node:crypto';
import { parseEur } from '../money.ts';
import { sumUsage, type UsageSums } from '../usage.ts';
import { type CsvForm, csvFile, decimal } from './csv.ts';

/** The calls of a key with a model, under a cost centre; empty: none was named. */
export interface StatementLine extends UsageSums {
  /** The slug: internal model names are in no statement. */
  readonly model: string;
  readonly key: string;
  readonly cost_center: string;
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
export function makeStatement({ lines, corrections, ...facts }: StatementFacts): Statement {
  const own = sumUsage(lines);
  const corrected = corrections.map(({ month, statement, lines, request_ids }) => {
    return { month, statement, ...sumUsage(lines), lines, request_ids };
  });
  const { company_id, number, month, billing_timezone, closed_at, opening_seals, closing_seals, previous, rows } =
    facts;
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

/** Lines summed by one of their members, the highest cost first. */
export function sumsBy(
  lines: readonly StatementLine[],
  member: 'model' | 'key' | 'cost_center',
): (UsageSums & { readonly name: string })[] {
  const groups = [...Map.groupBy(lines, (line) => line[member])].map(([name, own]) => ({ name, ...sumUsage(own) }));
  return groups.sort((a, b) => {
    const difference = parseEur(b.cost_eur) - parseEur(a.cost_eur);
    return difference > 0n ? 1 : difference < 0n ? -1 : a.name < b.name ? -1 : 1;
  });
}

/**
 * All lines as CSV with a heading; `cost_eur` adds up to the total. The kind is "month" or "correction".
 * @param names present names of keys by id, for people: the document has none
 */
export function statementCsv(
  { number, month, lines, corrections }: Statement,
  names: ReadonlyMap<string, { readonly name: string }>,
  form: CsvForm,
): string {
  const own = lines.map((line) => ({ kind: 'month', of: month, ...line }));
  const late = corrections.flatMap((each) =>
    each.lines.map((line) => ({ kind: 'correction', of: each.month, ...line })),
  );
  type Row = (typeof own)[number];
  const columns = {
    statement: () => number ?? 'preview',
    kind: ({ kind }: Row) => kind,
    month: ({ of }: Row) => of,
    model: ({ model }: Row) => model,
    key: ({ key }: Row) => key,
    key_name: ({ key }: Row) => names.get(key)?.name,
    cost_center: ({ cost_center }: Row) => cost_center,
    requests: ({ requests }: Row) => requests,
    prompt_tokens: ({ prompt_tokens }: Row) => prompt_tokens,
    completion_tokens: ({ completion_tokens }: Row) => completion_tokens,
    cost_eur: ({ cost_eur }: Row) => decimal(cost_eur),
  };
  return csvFile(columns, [...own, ...late], form);
}
