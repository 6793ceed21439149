import { wordsOf } from '../../domain/language/language.ts';
import type { Message } from '../../domain/language/mail.ts';
import { asLanguage, ENGLISH, type Language } from '../../domain/languages.ts';
import { type AccountNotice, accountMail, instantText } from '../../domain/wording/person-mail.ts';
import { reasonOf } from '../../log.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { findReader, type Reader } from '../../store/users/user.ts';
import type { PageContext } from '../page/context.ts';
import { pageLanguage } from '../page/locale.ts';

const MAIL_MS = 8000;
const FIND_MS = 5000;

/** Whether an e-mail left; null: e-mails are not set up. */
export type Sent = boolean | null;

/** The word list of a reader; English where the language is not known. */
export function wordsFor({ language }: Pick<Reader, 'language'>) {
  return wordsOf(asLanguage(language) ?? ENGLISH);
}

/**
 * The language of an e-mail to somebody without an account: the language of the user who causes it, or the company's where
 * an operator does, because pages of operators are in English.
 */
export function languageForOutsider(
  c: PageContext,
  company: Pick<CompanyRow, 'language'>,
): Language {
  const own = pageLanguage(c.var.format.language);
  return c.var.session.user.role === 'operator' ? (asLanguage(company.language) ?? own) : own;
}

/** Sends an e-mail and waits for it. @param what for the log: "an invitation" */
export async function sendMail(
  c: PageContext,
  to: string,
  message: Message,
  what: string,
): Promise<Sent> {
  const { mail } = c.var.services;
  if (mail === null) return null;
  try {
    const { mailer } = await import('../../events/mail.ts');
    await mailer(mail, MAIL_MS)({ to, ...message });
    return true;
  } catch (error) {
    return unsent(c, what, error);
  }
}

function unsent(c: PageContext, what: string, error: unknown): false {
  c.var.services.log.warn(
    { reason: reasonOf(error) },
    `admin: ${what} could not be sent by e-mail`,
  );
  return false;
}

/** Sends the message that a query finds, if any, after the page was answered: its time does not tell whether there was one. */
export function sendLater(
  c: PageContext,
  what: string,
  find: (sql: Sql) => Promise<{ readonly to: string; readonly message: Message } | null>,
): void {
  const { db, mail } = c.var.services;
  if (mail === null) return;
  void db
    .transaction(FIND_MS, find)
    .then((found) => found && sendMail(c, found.to, found.message, what))
    .catch((error) => unsent(c, what, error));
}

/** Tells a person what happened to the account. */
export function tellOfAccount(c: PageContext, userId: string, notice: AccountNotice): void {
  const { clock, calendar, brand } = c.var.services;
  const now = new Date(clock());
  sendLater(c, 'what happened to an account', async (sql) => {
    const reader = await findReader(sql, userId);
    const words = wordsFor(reader);
    return {
      to: reader.email,
      message: accountMail(notice, instantText(now, calendar.timeZone, words), words, brand),
    };
  });
}
