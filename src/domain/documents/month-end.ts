import { formatDecimal, parseDecimal, parseEur } from '../money.ts';
import { type CsvForm, csvFile, decimal } from './csv.ts';

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
  const [rounded, exact] = [amountInCents(total), total].map((each) => parseDecimal(each, FEMTO_DECIMALS));
  return formatDecimal((rounded as bigint) - (exact as bigint), FEMTO_DECIMALS);
}

/** A company's part of a month: `CompanyMonth` has it. */
interface Part {
  readonly company_id: string;
  readonly company_name: string | null;
  readonly customer_number: string | null;
  readonly vat_id: string | null;
  readonly number: number | null;
  readonly closed_at: Date | null;
  readonly requests: number;
  readonly cost_eur: string;
  readonly corrections: number;
  readonly total_eur: string;
  readonly digest: string | null;
  readonly opened_at: Date | null;
  readonly opened_by: string | null;
}

/** All companies of a month, one a line. An open one has no number, and what its statement would have now. @param month "2026-10" */
export function monthCsv(month: string, parts: readonly Part[], form: CsvForm): string {
  const columns = {
    month: () => month,
    company_id: ({ company_id }: Part) => company_id,
    company_name: ({ company_name }: Part) => company_name,
    customer_number: ({ customer_number }: Part) => customer_number,
    vat_id: ({ vat_id }: Part) => vat_id,
    statement: ({ number }: Part) => number,
    closed_at: ({ closed_at }: Part) => closed_at?.toISOString(),
    requests: ({ requests }: Part) => requests,
    cost_eur: ({ cost_eur }: Part) => decimal(cost_eur),
    corrections: ({ corrections }: Part) => corrections,
    total_eur: ({ total_eur }: Part) => decimal(total_eur),
    amount_eur: ({ total_eur }: Part) => decimal(amountInCents(total_eur)),
    digest: ({ digest }: Part) => digest,
    opened_at: ({ opened_at }: Part) => opened_at?.toISOString(),
    opened_by: ({ opened_by }: Part) => opened_by,
  };
  return csvFile(columns, parts, form);
}
