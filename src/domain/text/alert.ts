import { eurIn } from './eur-text.ts';

/**
 * The texts of budget alerts: a company or a key has used a part of its monthly budget, or will pass it at its pace.
 * Each threshold is told once a month.
 */

/** Percents of a budget that are told unless somebody chose others, and that operators are told always. */
export const STANDARD_PERCENTS: readonly number[] = [50, 80, 100];
export const FORECAST = 'forecast';

/** Members of an event of the kind "budget.threshold" or "budget.forecast". EUR amounts are exact decimal text. */
export interface BudgetAlert {
  /** That of the event. */
  readonly id: string;
  readonly company: { readonly id: string; readonly name: string };
  /** null: the company's own budget. */
  readonly key: { readonly id: string; readonly name: string; readonly prefix: string } | null;
  /** Billing month, "2026-11". */
  readonly month: string;
  /** Percent of the budget, 1 to 100; or `FORECAST`: at this pace the month passes the budget. */
  readonly threshold: string;
  readonly budget_eur: string;
  readonly spent_eur: string;
  /** Cost of the whole month at this pace; null during its first two days. */
  readonly forecast_eur: string | null;
  /** ISO 8601. */
  readonly occurred_at: string;
}

/** As pages have them, in English with euros. */
const { shown: eur } = eurIn('en-IE');

/** Where a receiver outside the company says that it wants no more alerts, below the address of the administration pages. */
export const STOP_PATH = '/alert-receiver/stop/';
/** Where it agrees to get them. */
export const CONFIRM_PATH = '/alert-receiver/confirm/';

/**
 * Subject and plain text of an e-mail.
 * @param pages base address of the administration pages; null: no link
 * @param outsider id of the line by which an address outside the company is told; null: its reader signs in to the pages
 */
export function mailOf(
  alert: BudgetAlert,
  pages: URL | null,
  outsider: string | null = null,
): { readonly subject: string; readonly text: string } {
  const { company, key, threshold, budget_eur, spent_eur, forecast_eur } = alert;
  const month = monthName(alert.month);
  // anyone may have written the names in the database, and none may add lines of its own
  const named = key === null ? company.name : `Key “${key.name}” (${key.prefix}…) of ${company.name}`;
  const who = named.replace(/\p{Cc}/gu, ' ');
  const what =
    threshold === FORECAST
      ? `will pass its budget for ${month} at this pace`
      : `has used ${threshold} % of its budget for ${month}`;
  const lines = [`${who} ${what}.`, '', `Budget: ${eur(budget_eur)}`, `Spent so far: ${eur(spent_eur)}`];
  if (forecast_eur !== null) lines.push(`At this pace at the end of the month: ${eur(forecast_eur)}`);
  lines.push(
    '',
    threshold === '100'
      ? 'Calls are refused with status 402 until the month ends or the budget is raised.'
      : 'Once the budget is used up, calls are refused with status 402 until the month ends or the budget is raised.',
  );
  const query = new URLSearchParams({ month: alert.month, ...(key !== null && { key: key.id }) });
  if (pages !== null && outsider === null) {
    lines.push('', new URL(`/companies/${company.id}/usage?${query}`, pages).href);
  } else if (pages !== null) {
    lines.push('', 'To get no more of these messages, open:', new URL(STOP_PATH + outsider, pages).href);
  }
  return { subject: `[Tollgate] ${who} ${what}`, text: `${lines.join('\n')}\n` };
}

/** Subject and text of the e-mail that asks an address outside a company whether it wants its alerts. @param until when the link ends, in words */
export function confirmationMail(company: string, by: string | null, link: string, until: string) {
  const name = company.replace(/\p{Cc}/gu, ' ');
  return {
    subject: `[Tollgate] Do you want the budget alerts of ${name}?`,
    text: `${[
      `${by ?? 'The operator of this service'} wants to send you the budget alerts of ${name}: an e-mail when a part of a monthly budget is used.`,
      '',
      `Open this link to agree. It works until ${until}.`,
      '',
      link,
      '',
      'If you do not want them, do nothing: without your agreement nothing is sent.',
    ].join('\n')}\n`,
  };
}

/** "November 2026" of "2026-11". */
function monthName(month: string): string {
  const format = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });
  return format.format(new Date(`${month}-01T00:00:00Z`));
}
