import type { Words } from './en.ts';

/** What e-mails tell of the operator. */
export interface MailBrand {
  readonly name: string;
  /** Addresses as links have them; null: there is none. */
  readonly support: string | null;
  readonly imprint: string | null;
  readonly privacy: string | null;
}

/** Anyone may have written a name in the database, and none may add lines of its own. */
export function oneLine(name: string): string {
  return name.replace(/\p{Cc}/gu, ' ');
}

/** Subject and plain text of an e-mail, with what every e-mail of this operator says below its text. */
export function plainMail({ mails }: Words, brand: MailBrand, title: string, lines: readonly string[]) {
  const below = [brand.support && mails.support(brand.support.replace(/^mailto:/, '')), brand.imprint && mails.imprint(brand.imprint), brand.privacy && mails.privacy(brand.privacy)].filter((line) => line !== null);
  const foot = below.length === 0 ? [] : ['', '-- ', ...below]; // the sign by which programs know a signature
  return {
    subject: mails.subject({ brand: brand.name, text: title }),
    text: `${[...lines, ...foot].join('\n')}\n`,
  };
}
