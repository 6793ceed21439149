import { FORECAST, STOP_PATH } from '../event.ts';
import type { Words } from '../language/en.ts';
import { type MailBrand, type MailPart, type Message, mailIn } from '../language/mail.ts';
import { eurIn } from './eur-text.ts';
import { measureOf, type UnusualEvent, unusualPage, unusualText } from './unusual.ts';

/**
 * The texts of budget alerts: a company, a key or a cost centre has used a part of its monthly budget, or will pass it at
 * its pace; or a company or a key a part of its daily budget. Each threshold is told once a month or day.
 */

/** Members of an event of the kinds "budget" and "cost_center". EUR amounts are exact decimal text. */
export interface BudgetAlert {
  /** That of the event. */
  readonly id: string;
  readonly company: { readonly id: string; readonly name: string };
  /** null: the company's own budget; of a cost centre's there is none. */
  readonly key?: { readonly id: string; readonly name: string; readonly prefix: string } | null;
  /** Absent: the budget of the company or of a key. */
  readonly cost_center?: string | null;
  /** Billing month, "2026-11". */
  readonly month: string;
  /** "2026-11-28", of a daily budget; null or absent: the budget of the month. */
  readonly day?: string | null;
  /** Percent of the budget, 1 to 100; or `FORECAST`: at this pace the month passes the budget. */
  readonly threshold: string;
  readonly budget_eur: string;
  readonly spent_eur: string;
  /** Cost of the whole month at this pace; null during its first two days. */
  readonly forecast_eur: string | null;
  /** ISO 8601. */
  readonly occurred_at: string;
}

/** Members of an event of the kind "end_user": how many used so much of their budgets of a month. */
export interface EndUserAlert extends Pick<BudgetAlert, 'id' | 'company' | 'month' | 'threshold'> {
  readonly count: number;
  /** null: there are several. */
  readonly end_user: { readonly id: string } | null;
}

/** What one e-mail tells a reader of a company. */
export type Alert = BudgetAlert | EndUserAlert | UnusualEvent;

/**
 * An e-mail of alerts.
 * @param alerts of one company
 * @param words of the reader's language
 * @param pages base address of the administration pages; null: no link
 * @param outsider id of the line by which an address outside the company is told; null: its reader signs in to the pages
 */
export function mailOf(
  alerts: readonly [Alert, ...Alert[]],
  words: Words,
  brand: MailBrand,
  pages: URL | null,
  outsider: string | null = null,
): Message {
  const { mails } = words;
  const [first] = alerts;
  const told = alerts.map((alert) => partsOf(alert, words));
  const title =
    alerts.length === 1
      ? told[0]?.[0].title
      : (alerts.some(isUnusual) ? mails.notices : mails.alerts)({
          count: told.length,
          company: first.company.name,
        });
  const parts: MailPart[] = told.flat();
  if (pages !== null && outsider === null) {
    const page = alerts.length === 1 ? alertPage(first) : companyPage(first);
    parts.push({ href: new URL(page, pages).href, label: mails.toUsage });
  } else if (pages !== null) {
    parts.push(mails.noMore, { href: new URL(STOP_PATH + outsider, pages).href });
  }
  return mailIn(words, brand, title as string, parts);
}

function isUnusual(alert: Alert): alert is UnusualEvent {
  return 'usual' in alert;
}

/** What an e-mail says of one alert. */
function partsOf(alert: Alert, words: Words): readonly [{ readonly title: string }, ...MailPart[]] {
  const { mails, unusual, locale } = words;
  if (isUnusual(alert))
    return [{ title: unusualText(measureOf(alert), alert, words) }, unusual.compared];
  if ('count' in alert) return [{ title: endUserTitle(alert, words) }, words.endUsers.who];
  const { cost_center = null, threshold, budget_eur, spent_eur, forecast_eur } = alert;
  const { shown: eur } = eurIn(locale);
  const facts: [string, string][] = [
    [mails.budget, eur(budget_eur)],
    [mails.spent, eur(spent_eur)],
  ];
  if (forecast_eur !== null) facts.push([mails.atEnd, eur(forecast_eur)]);
  const refuses = threshold === '100' ? mails.refused : mails.willRefuse;
  const then = cost_center !== null ? mails.refusesNothing : refuses(alert.day != null);
  return [{ title: budgetTitle(alert, words) }, { facts }, then];
}

/** How many people reached it. Their names are on pages alone. */
export function endUserTitle(
  { company, count, threshold: percent, month }: EndUserAlert,
  { endUsers, locale }: Words,
): string {
  return endUsers.alert({ company: company.name, count, percent, month: monthName(month, locale) });
}

/** The page with who they are. */
export function endUserPage({ company, threshold, month, end_user }: EndUserAlert): string {
  const query = { month, ...(threshold === '100' ? { show: 'reached' } : { sort: '-share' }) };
  const path = `/companies/${company.id}/end-users`;
  return end_user === null ? `${path}?${new URLSearchParams(query)}` : `${path}/${end_user.id}`;
}

/** What was reached of whose budget. */
export function budgetTitle(alert: BudgetAlert, { mails, locale }: Words): string {
  const { company, key = null, cost_center = null, threshold } = alert;
  const isDaily = alert.day != null;
  const month = alert.day == null ? monthName(alert.month, locale) : dateName(alert.day, locale);
  const who =
    cost_center !== null
      ? mails.costCenter({ name: cost_center, company: company.name })
      : key === null
        ? company.name
        : mails.key({ ...key, company: company.name });
  return threshold === FORECAST
    ? mails.forecast({ who, month })
    : mails.used({ who, percent: threshold, month, isDaily });
}

/** The page with what a company spent, below the address of the pages. */
function companyPage({ company, ...alert }: Alert): string {
  const month = 'month' in alert ? alert.month : alert.day.slice(0, 7);
  return `/companies/${company.id}/usage?${new URLSearchParams({ month })}`;
}

/** The page with what an alert tells of, below the address of the pages. */
export function alertPage(alert: Alert): string {
  if (isUnusual(alert)) return unusualPage(measureOf(alert), alert);
  return 'count' in alert ? endUserPage(alert) : budgetPage(alert);
}

/** The page with what was spent. */
export function budgetPage({ company, key, cost_center, month }: BudgetAlert): string {
  if (cost_center != null) return costCenterPage(company.id, cost_center, month);
  return `/companies/${company.id}/usage?${new URLSearchParams({ month, ...(key != null && { key: key.id }) })}`;
}

/**
 * The usage of a cost centre. Its name is in the query: proxies and browsers resolve a path with "..", "%2F" or "%2E" in
 * their own ways.
 * @param name empty, as a blank in the address: of calls that name none
 * @param month "2026-11"; null: the present one
 */
export function costCenterPage(company: string, name: string, month: string | null = null): string {
  const query = new URLSearchParams({ cost_center: name || ' ', ...(month !== null && { month }) });
  return `/companies/${company}/usage?${query}`;
}

/**
 * The e-mail that asks an address outside a company whether it wants its alerts.
 * @param by who asks; null: the operator
 * @param until when the link ends, in words
 */
export function confirmationMail(
  { company, by, link, until }: { company: string; by: string | null; link: string; until: string },
  words: Words,
  brand: MailBrand,
): Message {
  const { mails } = words;
  return mailIn(words, brand, mails.wanted(company), [
    mails.wants({ by: by ?? brand.name, company }),
    mails.agree(until),
    { href: link, label: words.alerts.agree },
    mails.doNothing,
  ]);
}

/** "28 November 2026" of "2026-11-28". */
function dateName(day: string, locale: string): string {
  return new Intl.DateTimeFormat(locale, { dateStyle: 'long', timeZone: 'UTC' }).format(
    new Date(`${day}T00:00:00Z`),
  );
}

/** "November 2026" of "2026-11". */
export function monthName(month: string, locale: string): string {
  const format = new Intl.DateTimeFormat(locale, {
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  });
  return format.format(new Date(`${month}-01T00:00:00Z`));
}
