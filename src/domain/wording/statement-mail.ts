import type { Words } from '../language/en.ts';
import { type MailBrand, type MailPart, type Message, mailIn } from '../language/mail.ts';
import { monthName } from './alert.ts';
import { eurIn } from './eur-text.ts';

/** The event of a closed month, with what its e-mail tells besides. EUR amounts are exact decimal text. */
export interface ClosedMonth {
  readonly company: { readonly id: string; readonly name: string };
  readonly statement: {
    /** "2026-10". */
    readonly month: string;
    readonly requests: number;
    /** How many late calls of earlier months it takes in. */
    readonly corrections: number;
    readonly total_eur: string;
  };
  /** Whether its reader may open the statement. */
  readonly is_owner?: boolean;
  /** Total of the statement of the month before; null: there is none. */
  readonly previous_eur?: string | null;
  /** The models that cost most, the dearest first; null: no call was booked. */
  readonly models?: readonly { readonly model: string; readonly cost_eur: string }[] | null;
}

/** The summary of a closed month, for people of the company. @param pages as for `mailOf` */
export function statementMail(
  { company, statement, is_owner, previous_eur, models }: ClosedMonth,
  words: Words,
  brand: MailBrand,
  pages: URL | null,
): Message {
  const { mails, locale } = words;
  const { shown: eur } = eurIn(locale);
  const month = monthName(statement.month, locale);
  const count = new Intl.NumberFormat(locale);
  const total = eur(statement.total_eur);
  const facts: [string, string][] = [[mails.closed.total, total]];
  if (previous_eur != null) facts.push([mails.closed.before, eur(previous_eur)]);
  facts.push([mails.closed.calls, count.format(statement.requests)]);
  if (statement.corrections > 0)
    facts.push([mails.closed.late, count.format(statement.corrections)]);
  const parts: MailPart[] = [mails.closed.text({ company: company.name, month }), { facts }];
  if (models != null && models.length > 0) {
    parts.push(mails.closed.models, {
      facts: models.map(({ model, cost_eur }) => [model, eur(cost_eur)]),
    });
  }
  if (pages !== null) {
    const page = `/companies/${company.id}/${is_owner ? 'statements/month' : 'usage'}?month=${statement.month}`;
    const label = is_owner ? mails.closed.open : mails.toUsage;
    parts.push({ href: new URL(page, pages).href, label }, mails.closed.change, {
      href: new URL('/account', pages).href,
    });
  }
  return mailIn(words, brand, mails.closed.title({ company: company.name, month, total }), parts);
}
