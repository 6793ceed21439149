import { eurIn } from './eur-text.ts';

/**
 * The texts of budget alerts: a company or a key has used a part of its monthly budget, or will pass it at its pace.
 * Each threshold is told once a month.
 */

/** Percent of the budget; forecast: at this pace the month passes the budget. */
type Threshold = '50' | '80' | '100' | 'forecast';

/** Members of an event of the kind "budget.threshold" or "budget.forecast". EUR amounts are exact decimal text. */
export interface BudgetAlert {
  /** That of the event. */
  readonly id: string;
  readonly company: { readonly id: string; readonly name: string };
  /** null: the company's own budget. */
  readonly key: { readonly id: string; readonly name: string; readonly prefix: string } | null;
  /** Billing month, "2026-11". */
  readonly month: string;
  readonly threshold: Threshold;
  readonly budget_eur: string;
  readonly spent_eur: string;
  /** Cost of the whole month at this pace; null during its first two days. */
  readonly forecast_eur: string | null;
  /** ISO 8601. */
  readonly occurred_at: string;
}

/** As pages have them, in English with euros. */
const { shown: eur } = eurIn('en-IE');

/**
 * Subject and plain text of an e-mail.
 * @param pages base address of the administration pages; null: no link
 */
export function mailOf(alert: BudgetAlert, pages: URL | null): { readonly subject: string; readonly text: string } {
  const { company, key, threshold, budget_eur, spent_eur, forecast_eur } = alert;
  const month = monthName(alert.month);
  // anyone may have written the names in the database, and none may add lines of its own
  const named = key === null ? company.name : `Key “${key.name}” (${key.prefix}…) of ${company.name}`;
  const who = named.replace(/\p{Cc}/gu, ' ');
  const what =
    threshold === 'forecast'
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
  if (pages !== null) lines.push('', new URL(`/companies/${company.id}/usage?${query}`, pages).href);
  return { subject: `[Tollgate] ${who} ${what}`, text: `${lines.join('\n')}\n` };
}

/** "November 2026" of "2026-11". */
function monthName(month: string): string {
  const format = new Intl.DateTimeFormat('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });
  return format.format(new Date(`${month}-01T00:00:00Z`));
}
