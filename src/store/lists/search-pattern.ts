/**
 * The text of a search as a pattern of Postgres. It ignores case, accents, and how a language writes letters that
 * others lack. "muller", "mueller" and "MÜLLER" all find "Müller", "Mueller" and "MULLER". The text that is searched
 * stays as it is, so nothing has to be computed for each row, or installed in the database. Letters are listed in both
 * cases: where the locale is "C", Postgres knows no case beyond ASCII.
 */

/** Characters of a search at most. */
export const MAX_SEARCH = 200;

const MARKS = /[\u0300-\u036f]/g;
const IS_MARK = /^[\u0300-\u036f]/;
/** Letters that no decomposition splits, with the one that people type for them. */
const LIKE: Readonly<Record<string, string>> = {
  ł: 'l',
  ø: 'o',
  đ: 'd',
  ð: 'd',
  ħ: 'h',
  ŧ: 't',
  ı: 'i',
  ŋ: 'n',
  ς: 'σ',
};
/** Two letters that stand for one, and the other way round. */
const PAIRS: Readonly<Record<string, string>> = {
  ae: 'äæ',
  oe: 'öøœ',
  ue: 'ü',
  aa: 'å',
  ss: 'ßẞ',
  th: 'þ',
};
const WORTH = new Map(
  Object.entries(PAIRS).flatMap(([pair, letters]) => [...letters].map((letter) => [letter, pair])),
);
/** Signs that look alike, of which a keyboard has one. */
const ALIKE = [
  ' \u00a0\u2009\u202f',
  "'\u2018\u2019\u00b4`",
  '"\u201c\u201d\u201e',
  '-\u2010\u2011\u2013\u2014',
];

/** The letter that people type: small, and without marks. */
function bareOf(letter: string): string {
  const small = letter.normalize('NFKD').replace(MARKS, '').toLowerCase();
  return LIKE[small] ?? small;
}

/** Letters with marks, by the one that people type for them. */
const MARKED = Map.groupBy(markedLetters(), bareOf);

/** The letters of Europe's languages and Vietnamese, and Greek and Cyrillic ones. */
function markedLetters(): string[] {
  const ranges = [
    [0xc0, 0x24f],
    [0x370, 0x45f],
    [0x490, 0x4ff],
    [0x1e00, 0x1fff],
  ] as const;
  const letters = ranges.flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, at) => String.fromCodePoint(first + at)),
  );
  return letters.filter((letter) => /\p{L}/u.test(letter) && [...bareOf(letter)].length === 1);
}

/** A pattern that a text matches if it contains what is searched. */
export function searchPattern(search: string): string {
  const letters = [...search.normalize('NFC').toLowerCase().normalize('NFC')];
  let pattern = '';
  for (let at = 0; at < letters.length; at++) {
    const letter = letters[at] as string;
    const pair =
      PAIRS[bareOf(letter) + bareOf(letters[at + 1] ?? '')] === undefined
        ? ''
        : letter + letters[at + 1];
    if (pair !== '') at++;
    pattern += pair === '' ? one(letter) : two(pair);
  }
  return pattern;
}

/** Whether a text contains what is searched, as Postgres would find it. */
export function isFoundIn(text: string, search: string): boolean {
  return new RegExp(searchPattern(search).replaceAll(/\\U(\w{8})/g, '\\u{$1}'), 'u').test(text);
}

/** A letter of the search, which texts may write with marks, or as two. */
function one(letter: string): string {
  if (IS_MARK.test(letter)) return '';
  const pair = WORTH.get(letter);
  return pair === undefined ? any(letter) : `(?:${any(letter)}|${spelled(pair)})`;
}

/** Two letters of the search, which texts may write as one. */
function two(pair: string): string {
  const singles = [...(PAIRS[[...pair].map(bareOf).join('')] as string)];
  const composed = singles.map((letter) => {
    const [first = '', ...marks] = letter.normalize('NFD');
    return classOf([first]) + marks.join('');
  });
  return `(?:${[[...pair].map(one).join(''), classOf(singles), ...composed].join('|')})`;
}

function spelled(pair: string): string {
  return [...pair].map(any).join('');
}

/** Any letter or sign that people would type like this one, with or without marks of its own. */
function any(letter: string): string {
  const alike = ALIKE.find((signs) => signs.includes(letter));
  if (alike !== undefined) return classOf([...alike]);
  const bare = bareOf(letter);
  const letters = [...bare].length === 1 ? [bare, letter, ...(MARKED.get(bare) ?? [])] : [letter];
  return /\p{L}/u.test(letter) ? `${classOf(letters)}[\\u0300-\\u036f]*` : classOf([letter]);
}

/** A class of some characters in both cases. */
function classOf(letters: readonly string[]): string {
  const both = letters.flatMap((letter) => [letter, letter.toLowerCase(), letter.toUpperCase()]);
  const single = [...new Set(both)].filter((each) => [...each].length === 1);
  return `[${single.map((each) => (/[\p{L}\p{N}]/u.test(each) ? each : `\\U${hex(each)}`)).join('')}]`;
}

function hex(letter: string): string {
  return (letter.codePointAt(0) as number).toString(16).padStart(8, '0');
}
