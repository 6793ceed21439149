import { wordsOf } from '../../domain/language/language.ts';
import { asLanguage, ENGLISH } from '../../domain/languages.ts';
import { instantText } from '../../domain/wording/invitation.ts';
import { type FactorNotice, factorMail } from '../../domain/wording/person-mail.ts';
import { reasonOf } from '../../log.ts';
import type { Reader } from '../../store/users/user.ts';
import type { PageContext } from '../page/context.ts';

const MAIL_MS = 8000;

/** Whether an e-mail left; null: e-mails are not set up. */
export type Sent = boolean | null;

/** The word list of a reader: the person's own language, else the company's, else English. */
export function wordsFor({ language, company_language }: Omit<Reader, 'email'>) {
  return wordsOf(asLanguage(language) ?? asLanguage(company_language) ?? ENGLISH);
}

/** Sends an e-mail and waits for it. @param what for the log: "an invitation" */
export async function sendMail(
  c: PageContext,
  to: string,
  message: { readonly subject: string; readonly text: string },
  what: string,
): Promise<Sent> {
  const { mail, log } = c.var.services;
  if (mail === null) return null;
  try {
    const { mailer } = await import('../../events/mail.ts');
    await mailer(mail, MAIL_MS)({ to, ...message });
    return true;
  } catch (error) {
    log.warn({ reason: reasonOf(error) }, `admin: ${what} could not be sent by e-mail`);
    return false;
  }
}

/** Tells a person what happened to the second factor. Nobody waits for it. */
export function tellOfFactor(c: PageContext, to: Reader, notice: FactorNotice): void {
  const { clock, calendar, brand } = c.var.services;
  const words = wordsFor(to);
  const at = instantText(new Date(clock()), calendar.timeZone, words);
  void sendMail(c, to.email, factorMail(notice, at, words, brand), 'what happened to a second factor');
}
