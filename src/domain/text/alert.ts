import type { Words } from '../language/en.ts';
import { type MailBrand, plainMail } from '../language/mail.ts';
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

/**
 * Subject and plain text of an e-mail.
 * @param words of the reader's language
 * @param pages base address of the administration pages; null: no link
 */
export function mailOf(alert: BudgetAlert, words: Words, brand: MailBrand, pages: URL | null) {
  const { company, key, threshold, budget_eur, spent_eur, forecast_eur } = alert;
  const { mails } = words;
  const { shown: eur } = eurIn(words.locale);
  const month = monthName(alert.month, words.locale);
  // anyone may have written the names in the database, and none may add lines of its own
  const named = key === null ? company.name : mails.key({ ...key, company: company.name });
  const who = named.replace(/\p{Cc}/gu, ' ');
  const what =
    threshold === 'forecast' ? mails.forecast({ who, month }) : mails.used({ who, percent: threshold, month });
  const lines = [mails.sentence(what), '', mails.budget(eur(budget_eur)), mails.spent(eur(spent_eur))];
  if (forecast_eur !== null) lines.push(mails.atEnd(eur(forecast_eur)));
  lines.push('', threshold === '100' ? mails.refused : mails.willRefuse);
  const query = new URLSearchParams({ month: alert.month, ...(key !== null && { key: key.id }) });
  if (pages !== null) lines.push('', new URL(`/companies/${company.id}/usage?${query}`, pages).href);
  return plainMail(words, brand, what, lines);
}

/** "November 2026" of "2026-11". */
function monthName(month: string, locale: string): string {
  const format = new Intl.DateTimeFormat(locale, { month: 'long', year: 'numeric', timeZone: 'UTC' });
  return format.format(new Date(`${month}-01T00:00:00Z`));
}
