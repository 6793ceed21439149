import { domainToASCII } from 'node:url';

/**
 * Characters that nobody sees, by Unicode's own classes: controls, formats (bidirectional ones among them), private,
 * unassigned and ignorable characters, separators but the usual blank; and the Braille pattern without dots.
 * Two names that differ by one of them look alike.
 */
const UNSEEN = /[\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800]|(?! )\p{Zs}/u;
/** Most names, and no work for them. */
const ASCII = /^[\x20-\x7e]*$/;

/** Signs that take the vowel from the letter before. */
const VIRAMA =
  /[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d3b\u0d3c\u0d4d\u0dca\u1039\u17d2]/.source;
/** Letters of Arabic that join no letter after them: a non-joiner there changes nothing. */
const ENDS_JOINED =
  '\\u0621-\\u0625\\u0627\\u0629\\u062f-\\u0632\\u0648\\u0671-\\u0673\\u0675-\\u0677\\u0688-\\u0699\\u06c0\\u06c3-\\u06cb\\u06cd\\u06cf\\u06d2\\u06d3\\u06d5\\u06ee\\u06ef';
const PICTURE = '\\p{Extended_Pictographic}';

/**
 * Joiners and variation selectors in places where they are visible: as Unicode allows them in identifiers (UAX 31,
 * rules A1, A2 and B), in the reph of Bengali and Kannada, and within pictures.
 */
const MEANT = new RegExp(
  [
    `(?<=(?![${ENDS_JOINED}])\\p{Script=Arabic}\\p{M}*)\\u200c(?=\\p{Script=Arabic})`,
    `(?<=${VIRAMA})[\\u200c\\u200d](?=\\p{L})`,
    '(?<=[\\u09b0\\u0cb0])\\u200d(?=[\\u09cd\\u0ccd])',
    `(?<=${PICTURE}[\\ufe0f\\p{Emoji_Modifier}]?)\\u200d(?=${PICTURE})`,
    `(?<=${PICTURE})\\ufe0f`,
  ].join('|'),
  'gu',
);

/** The one spelling of a name, in which names are kept and compared: with accents joined to their letters (NFC). */
export function nameSpelling<T extends string | null | undefined>(name: T): T {
  return (name?.normalize() ?? name) as T;
}

/** The first character that nobody sees, as "U+200B"; null where all can be seen. */
export function unseenIn(text: string): string | null {
  if (ASCII.test(text)) return null;
  const [found] = UNSEEN.exec(text.replaceAll(MEANT, '')) ?? [];
  return found === undefined
    ? null
    : `U+${(found.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}`;
}

/**
 * The one spelling of an e-mail address, in which addresses are kept and compared: in lower case, and the domain in ASCII,
 * as browsers send it and mail servers have it (RFC 5890).
 */
export function emailSpelling(address: string): string {
  const email = address.normalize().toLowerCase();
  const at = email.lastIndexOf('@') + 1;
  const domain = email.slice(at);
  const isName =
    !ASCII.test(domain) && unseenIn(domain) === null && /^[\p{L}\p{M}\p{N}.-]+$/u.test(domain);
  const ascii = isName ? domainToASCII(domain) : '';
  return ascii === '' ? email : email.slice(0, at) + ascii;
}
