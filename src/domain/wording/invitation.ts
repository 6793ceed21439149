import type { Words } from '../language/en.ts';
import { type MailBrand, oneLine, plainMail } from '../language/mail.ts';
import type { CompanyRole } from '../user.ts';

/** Where the link of an invitation leads, below the address of the administration pages. */
export const INVITATION_PATH = '/invitation/';

/** The facts of an invitation. */
interface Invitation {
  readonly company: string;
  /** The person of the company who invites; null: an operator, whose address companies do not see. */
  readonly by: string | null;
  readonly role: CompanyRole;
  readonly link: string;
  /** When the link ends, in words. */
  readonly until: string;
}

/**
 * A moment to the minute for mails, whose reader's clock nobody knows: on the clock of the billing time zone, as the
 * pages have it, with its name.
 */
export function instantText(at: Date, timeZone: string, { locale }: Words): string {
  const text = new Intl.DateTimeFormat(locale, { dateStyle: 'long', timeStyle: 'short', timeZone }).format(at);
  return `${text} (${timeZone})`;
}

/** Subject and plain text of the e-mail that brings an invitation. */
export function invitationMail({ company, by, role, link, until }: Invitation, words: Words, brand: MailBrand) {
  const name = oneLine(company);
  const { mails } = words;
  return plainMail(words, brand, mails.invited(name), [
    mails.invitation({ by, company: name, role }),
    '',
    mails.open(until),
    '',
    link,
    '',
    mails.ignore,
  ]);
}
