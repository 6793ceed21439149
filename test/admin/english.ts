import { en } from '../../src/domain/language/en.ts';
import { wordsOf } from '../../src/domain/language/language.ts';
import { LANGUAGES } from '../../src/domain/languages.ts';

/** All that a word list says, as texts whose values are a sign that no text has. */

export const VALUE = '◊';

/** A value of whatever type a text of a word list asks for. */
const anything: unknown = new Proxy(() => VALUE, {
  get: (_, name) => {
    if (name === Symbol.toPrimitive) return () => VALUE;
    if (name === Symbol.iterator) return undefined;
    if (name === 'map' || name === 'slice') return () => [VALUE];
    if (name === 'at') return () => VALUE;
    if (name === 'join' || name === 'toString' || name === 'toLowerCase') return () => VALUE;
    return anything;
  },
  apply: (_, __, [words]) => (typeof words === 'string' ? `${VALUE}${words}${VALUE}` : VALUE),
});

/** Values by which texts choose their words; each is tried. */
const VALUES: readonly unknown[] = [
  anything,
  1,
  2,
  null,
  true,
  false,
  '',
  'company',
  'key',
  'expires_at',
  'member',
  'revoked',
  'completed',
  'owner',
];

/** The texts of a word list by their places in it, such as "key.rotate.lead". */
export function textsOf(wordList: object, place = ''): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  for (const [name, value] of Object.entries(wordList)) {
    const at = place === '' ? name : `${place}.${name}`;
    if (typeof value === 'string') found.set(at, [value]);
    else if (typeof value === 'function')
      found.set(at, said(value as (...values: readonly unknown[]) => unknown));
    else if (value !== null) for (const [each, texts] of textsOf(value, at)) found.set(each, texts);
  }
  return found;
}

/** What a text says with each of the values. */
function said(text: (...values: readonly unknown[]) => unknown): string[] {
  const all = VALUES.flatMap((value) => {
    const few = {
      get: (_: object, name: string | symbol) => (name === 'then' ? undefined : value),
    };
    return [
      [value, value],
      [anything, value],
      [value, anything],
      [new Proxy({}, few), anything],
    ];
  });
  const texts = all.flatMap((values) => {
    try {
      return [text(...values)]
        .flat(Number.POSITIVE_INFINITY)
        .map((part) => String(part))
        .join('');
    } catch {
      return []; // it cannot be said with this value
    }
  });
  return [...new Set(texts.filter((each) => !/undefined|\[object/.test(each)))];
}

/** Pieces of English texts between their values, which the other word lists do not have: no page of theirs may show one. */
export function englishPieces(): {
  readonly whole: ReadonlySet<string>;
  readonly parts: readonly string[];
} {
  const piecesOf = (wordList: object) =>
    new Set(
      [...textsOf(wordList).values()]
        .flat()
        .flatMap((text) => text.split(VALUE))
        .map((piece) => piece.trim()),
    );
  const others = LANGUAGES.filter((language) => language !== 'en').map((language) =>
    piecesOf(wordsOf(language)),
  );
  const own = [...piecesOf(en)].filter(
    (piece) => /\p{L}{2}/u.test(piece) && others.every((other) => !other.has(piece)),
  );
  const isLong = (piece: string) => piece.length >= 16 && /\s/.test(piece);
  return { whole: new Set(own), parts: own.filter(isLong) };
}
