import { formatEur, parseEur } from '../pricing/money.ts';
import { type CsvColumns, type CsvForm, csvFile, decimal } from './csv.ts';

const CENTS = 2;
const FEMTO_DECIMALS = 15;

/**
 * The amount of a statement in cents, as an invoice has it: the exact total, rounded once, half a cent and more away from
 * zero. Lines are not rounded, so they add up to the exact total.
 * @param total EUR as exact decimal text
 * @returns EUR with two decimals
 */
export function amountInCents(total: string): string {
  const exact = parseEur(total);
  const unit = 10n ** BigInt(FEMTO_DECIMALS - CENTS);
  const size = (exact < 0n ? -exact : exact) + unit / 2n;
  const cents = size / unit;
  const text = cents.toString().padStart(CENTS + 1, '0');
  return `${exact < 0n && cents > 0n ? '-' : ''}${text.slice(0, -CENTS)}.${text.slice(-CENTS)}`;
}

/** What rounding adds to the exact total, as exact decimal text. */
export function roundingOf(total: string): string {
  return formatEur(parseEur(amountInCents(total)) - parseEur(total));
}

/**
 * The part of one company in a month. While it is open, its figures are what a statement would have now. EUR is exact
 * decimal text.
 */
export interface CompanyMonth {
  readonly company_id: string;
  /** null: it was removed. */
  readonly company_name: string | null;
  /** For the invoice program; null: not told. */
  readonly customer_number: string | null;
  readonly vat_id: string | null;
  /** Of the statement; null: the month of the company is open. */
  readonly number: number | null;
  readonly closed_at: Date | null;
  readonly requests: number;
  readonly cost_eur: string;
  /** Late calls of earlier months. */
  readonly corrections: number;
  /** The cost of the month and of its corrections. */
  readonly total_eur: string;
  /** Of the statement, in hex. */
  readonly digest: string | null;
  /** When an owner first opened or downloaded the statement, and who; null: nobody did. */
  readonly opened_at: Date | null;
  readonly opened_by: string | null;
}

/** All companies of a month, one a line. An open one has no number, and what its statement would have now. @param month "2026-10" */
export function monthCsv(month: string, parts: readonly CompanyMonth[], form: CsvForm): string {
  const columns: CsvColumns<CompanyMonth> = {
    month: () => month,
    company_id: ({ company_id }) => company_id,
    company_name: ({ company_name }) => company_name,
    customer_number: ({ customer_number }) => customer_number,
    vat_id: ({ vat_id }) => vat_id,
    statement: ({ number }) => number,
    closed_at: ({ closed_at }) => closed_at?.toISOString(),
    requests: ({ requests }) => requests,
    cost_eur: ({ cost_eur }) => decimal(cost_eur),
    corrections: ({ corrections }) => corrections,
    total_eur: ({ total_eur }) => decimal(total_eur),
    amount_eur: ({ total_eur }) => decimal(amountInCents(total_eur)),
    digest: ({ digest }) => digest,
    opened_at: ({ opened_at }) => opened_at?.toISOString(),
    opened_by: ({ opened_by }) => opened_by,
  };
  return csvFile(columns, parts, form);
}
