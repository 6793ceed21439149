import type { Words } from '../language/en.ts';
import { type MailBrand, type Message, mailIn } from '../language/mail.ts';
import type { CompanyRole } from '../user.ts';

/** The e-mails to people about their accounts: an invitation, a new password, a second factor, an erasure. */

/** Where the links of these e-mails lead, below the address of the administration pages. */
export const INVITATION_PATH = '/invitation/';
export const NEW_PASSWORD_PATH = '/new-password/';

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
  const text = new Intl.DateTimeFormat(locale, {
    dateStyle: 'long',
    timeStyle: 'short',
    timeZone,
  }).format(at);
  return `${text} (${timeZone})`;
}

export function invitationMail(
  { link, until, ...invited }: Invitation,
  words: Words,
  brand: MailBrand,
): Message {
  const { mails } = words;
  return mailIn(words, brand, mails.invited(invited.company), [
    mails.invitation(invited),
    mails.open(until),
    { href: link, label: mails.accept },
    mails.ignore,
  ]);
}

/**
 * To whoever has forgotten a password.
 * @param link where a new one is chosen, for so many minutes; null: the account has none
 * @param signIn the page for signing in with the organisation, which is what such an account does; null: nobody can
 */
export function newPasswordMail(
  { link, minutes, signIn }: { link: string | null; minutes: number; signIn: string | null },
  words: Words,
  brand: MailBrand,
): Message {
  const { newPassword } = words.mails;
  const parts =
    link !== null
      ? [
          newPassword.open(minutes),
          { href: link, label: words.newPassword.choose },
          newPassword.ignore,
        ]
      : signIn === null
        ? [newPassword.none]
        : [newPassword.organisation, { href: signIn, label: words.signIn.withOrganisation }];
  return mailIn(words, brand, newPassword.title, [newPassword.asked, ...parts]);
}

/** What happened to an account. */
export type AccountNotice =
  | { readonly kind: 'on' | 'off' | 'reset' | 'codes' | 'password' }
  /** A recovery code was used; so many are left. */
  | { readonly kind: 'recovery'; readonly left: number }
  /** So many wrong codes in a row: none is taken for a while. */
  | { readonly kind: 'closed'; readonly wrong: number };

/** @param at when it happened, in words */
export function accountMail(
  notice: AccountNotice,
  at: string,
  words: Words,
  brand: MailBrand,
): Message {
  const { factor } = words.mails;
  const what = {
    on: `${factor.onText} ${factor.notYou}`,
    off: `${factor.offText} ${factor.notYou}`,
    reset: factor.resetText,
    codes: `${factor.codesText} ${factor.notYou}`,
    password: factor.passwordText,
    recovery:
      notice.kind === 'recovery' ? `${factor.recoveryText(notice.left)} ${factor.notYou}` : '',
    closed: notice.kind === 'closed' ? factor.closedText(notice.wrong) : '',
  }[notice.kind];
  return mailIn(words, brand, factor[notice.kind], [what, { facts: [[factor.time, at]] }]);
}

/** To an owner of the company, or to an operator. @param page where it is done; null: nobody knows the address of the pages */
export function erasureAskedMail(
  { page, ...asked }: { person: string; company: string | null; page: string | null },
  words: Words,
  brand: MailBrand,
): Message {
  const { mails } = words;
  const link = page === null ? [] : [{ href: page, label: mails.toDecide }];
  return mailIn(words, brand, mails.erasureAsked(asked.person), [
    mails.erasureAskedText(asked),
    ...link,
  ]);
}

/** To the person, who has no account any more. @param by who did it; null: the operator */
export function erasedMail(
  { company, by }: { company: string; by: string | null },
  words: Words,
  brand: MailBrand,
): Message {
  const { mails } = words;
  return mailIn(words, brand, mails.erased, [mails.erasedText({ by: by ?? brand.name, company })]);
}
