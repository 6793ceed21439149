import type { Words } from '../language/en.ts';
import { type MailBrand, oneLine, plainMail } from '../language/mail.ts';

/** The e-mails that tell people what happened to their accounts: to a second factor, and an erasure. */

/** What happened to a second factor. */
export type FactorNotice =
  | { readonly kind: 'on' | 'off' | 'reset' | 'codes' }
  /** A recovery code was used; so many are left. */
  | { readonly kind: 'recovery'; readonly left: number }
  /** So many wrong codes in a row: none is taken for a while. */
  | { readonly kind: 'closed'; readonly wrong: number };

/** @param at when it happened, in words */
export function factorMail(notice: FactorNotice, at: string, words: Words, brand: MailBrand) {
  const { factor } = words.mails;
  const what = {
    on: `${factor.onText} ${factor.notYou}`,
    off: `${factor.offText} ${factor.notYou}`,
    reset: factor.resetText,
    codes: `${factor.codesText} ${factor.notYou}`,
    recovery: notice.kind === 'recovery' ? `${factor.recoveryText(notice.left)} ${factor.notYou}` : '',
    closed: notice.kind === 'closed' ? factor.closedText(notice.wrong) : '',
  }[notice.kind];
  return plainMail(words, brand, factor[notice.kind], [what, '', factor.time(at)]);
}

/** To an owner of the company, or to an operator. @param page where it is done; null: nobody knows the address of the pages */
export function erasureAskedMail(
  { person, company, page }: { person: string; company: string | null; page: string | null },
  words: Words,
  brand: MailBrand,
) {
  const asked = words.mails.erasureAskedText({ person, company: company && oneLine(company) });
  return plainMail(words, brand, words.mails.erasureAsked(person), [asked, ...(page === null ? [] : ['', page])]);
}

/** To the person, who has no account any more. @param by who did it; null: the operator */
export function erasedMail({ company, by }: { company: string; by: string | null }, words: Words, brand: MailBrand) {
  const { mails } = words;
  return plainMail(words, brand, mails.erased, [mails.erasedText({ by: by ?? brand.name, company: oneLine(company) })]);
}
