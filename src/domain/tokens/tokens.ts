/**
 * Estimates the tokens of a text without a vocabulary: cuts it as byte-pair tokenizers do and gives
 * each kind of piece an average, fitted to the vocabularies o200k and Llama 3.
 * test/domain/tokens/tokens.test.ts compares it with real counts. About 20 ns a character.
 */
export function countTokens(text: string): number {
  return countWeighted([{ text, weight: 1 }]);
}

/** The same for samples of a text, each of which counts `weight` times. */
export function countWeighted(
  pieces: readonly { readonly text: string; readonly weight: number }[],
): number {
  const words = new Words();
  let tokens = 0;
  for (const { text, weight } of pieces) {
    words.weight = weight;
    tokens += weight * countPiece(text, words);
  }
  return tokens + words.tokens();
}

/** The tokens of a piece, without those of its words. */
function countPiece(text: string, words: Words): number {
  const length = text.length;
  let tokens = 0;
  let before = START;
  for (let i = 0; i < length; ) {
    const kind = kindAt(text, i);
    let end = i + 1;
    switch (kind) {
      case SPACE: {
        end = runEnd(text, end, SPACE);
        const next = end < length ? kindAt(text, end) : LINE;
        if (next === LINE) break; // part of the line end
        if (end - i > 1) tokens += before === LINE || before === START ? 0.81 : 0.97;
        if (next === DIGIT) tokens += 1; // a space belongs to the word after it, but not to a number
        break;
      }
      case LINE:
        end = runEnd(text, end, LINE);
        // ";⏎" is one token; after a word it is one of its own
        tokens += before === SIGN ? 0.14 : 1.2;
        break;
      case DIGIT:
      case LOWER:
      case UPPER:
      case MARKED:
        end = alphanumericEnd(text, i);
        tokens += words.add(text, i, end);
        break;
      case SIGN: {
        end = runEnd(text, end, SIGN);
        const next = end < length ? kindAt(text, end) : LINE;
        const joined = before !== SPACE && next >= LOWER && next <= MARKED; // ".map" may be one token
        tokens += end - i === 1 ? (joined ? 0.32 : 0.99) : end - i === 2 ? 1.22 : 1.11;
        if (end - i > 8) tokens += 0.6 * changesIn(text, i, end);
        break;
      }
      case CYRILLIC:
        end = runEnd(text, end, kind, MARKED);
        tokens += 0.84 + 0.32 * Math.max(0, end - i - 4);
        break;
      case GREEK:
      case INDIC:
        end = runEnd(text, end, kind, MARKED);
        tokens += kind === GREEK ? 2.27 : 2;
        break;
      case ARABIC:
        end = runEnd(text, end, kind, MARKED);
        tokens += 1.16 + 0.38 * Math.max(0, end - i - 3);
        break;
      case HAN:
        tokens += 0.79;
        break;
      case KANA:
        end = runEnd(text, end, KANA);
        tokens += 0.4 + 0.6 * (end - i);
        break;
      case HANGUL:
        tokens += 0.76;
        break;
      case WIDE_SIGN:
        break; // part of the token around it
      default:
        // emoji, arrows, box drawing; runs of the same one have tokens of their own
        while (end < length && text.charCodeAt(end) === text.charCodeAt(i)) end++;
        tokens += 1.4 * Math.ceil((end - i) / 4);
    }
    before = kind;
    i = end;
  }
  return tokens;
}

/**
 * Counts words in Latin letters. An English word is nearly always one token; one of another language
 * takes more the longer it is. The share of English follows from short words and accented letters.
 */
class Words {
  /** How often each word counts from now on. */
  weight = 1;
  #count = 0;
  #beyond4 = 0;
  #beyond11 = 0;
  #english = 0;
  #foreign = 0;

  tokens(): number {
    const foreign = this.#foreign === 0 ? 0 : this.#foreign / (this.#foreign + this.#english);
    return (
      (1 - foreign) * (0.98 * this.#count + 1.48 * this.#beyond11) +
      foreign * (0.8 * this.#count + 0.24 * this.#beyond4)
    );
  }

  /** Adds a run of letters and digits. @returns the tokens of its parts that are not words */
  add(text: string, start: number, end: number): number {
    const random = randomTokens(text, start, end);
    if (random > 0) return random;
    let tokens = 0;
    let i = start;
    while (i < end) {
      const from = i;
      if (kindAt(text, i) === DIGIT) {
        while (i < end && kindAt(text, i) === DIGIT) i++;
        tokens += Math.ceil((i - from) / 3);
        continue;
      }
      while (i < end && kindAt(text, i) === UPPER) i++;
      if (i - from >= 2) {
        if (i < end && kindAt(text, i) !== DIGIT) i--; // in "HTTPServer" the S begins a word
        tokens += 1.17 + 0.15 * Math.max(0, i - from - 3);
        continue;
      }
      let marked = 0;
      for (; i < end; i++) {
        const kind = kindAt(text, i);
        if (kind === MARKED) marked++;
        else if (kind !== LOWER) break;
      }
      tokens += 0.92 * marked;
      this.#word(text, from, i, from === start, marked > 0);
    }
    return tokens;
  }

  #word(text: string, start: number, end: number, whole: boolean, marked: boolean): void {
    const length = end - start;
    const { weight } = this;
    this.#count += weight;
    if (length > 4) this.#beyond4 += weight * (length - 4);
    if (length > 11) this.#beyond11 += weight * (length - 11);
    if (marked) this.#foreign += weight;
    else if (whole && length <= 4) {
      const word = text.slice(start, end).toLowerCase();
      if (ENGLISH.has(word)) this.#english += weight;
      else if (FOREIGN.has(word)) this.#foreign += weight;
    }
  }
}

// Kinds of UTF-16 code units; 0 is any other.
const SPACE = 1;
const LINE = 2;
const DIGIT = 3;
const LOWER = 4;
const UPPER = 5;
/** A Latin letter that is not ASCII. */
const MARKED = 6;
const SIGN = 7;
const CYRILLIC = 8;
const GREEK = 9;
const ARABIC = 10;
const INDIC = 11;
const HAN = 12;
const KANA = 13;
const HANGUL = 14;
const WIDE_SIGN = 15;
/** Before the first character. */
const START = 16;

/** First and last code unit of each kind; later ones win. */
const RANGES: readonly (readonly [first: number, last: number, kind: number])[] = [
  [0x21, 0x7e, SIGN],
  [0x30, 0x39, DIGIT],
  [0x41, 0x5a, UPPER],
  [0x61, 0x7a, LOWER],
  [0x09, 0x09, SPACE],
  [0x20, 0x20, SPACE],
  [0xa0, 0xa0, SPACE],
  [0x0a, 0x0a, LINE],
  [0x0d, 0x0d, LINE],
  [0xc0, 0x24f, MARKED],
  [0x300, 0x36f, MARKED],
  [0x370, 0x3ff, GREEK],
  [0x400, 0x52f, CYRILLIC],
  [0x530, 0x77f, ARABIC], // and Hebrew and Armenian
  [0x900, 0x109f, INDIC],
  [0x1e00, 0x1eff, MARKED],
  [0x2010, 0x203f, WIDE_SIGN],
  [0x3000, 0x303f, WIDE_SIGN],
  [0x3040, 0x30ff, KANA],
  [0x3400, 0x9fff, HAN],
  [0xac00, 0xd7af, HANGUL],
  [0xff00, 0xffef, WIDE_SIGN],
];

const KINDS = new Uint8Array(65_536);
for (const [first, last, kind] of RANGES) KINDS.fill(kind, first, last + 1);

const ENGLISH = new Set(
  'the of and to in is that for it as with be on you are this not by or at from can we if an but which have'.split(
    ' ',
  ),
);
const FOREIGN = new Set(
  (
    'der die und das den ist ein eine mit von zu im auf des sich es le la les et de un une est que pour dans qui sur du ' +
    'au el los las en por con se del una il di che per non sono da w na nie do jest het een van op o os um para'
  ).split(' '),
);

function kindAt(text: string, i: number): number {
  return KINDS[text.charCodeAt(i)] as number;
}

/** The end of the run of this kind, or of either of two. */
function runEnd(text: string, i: number, kind: number, other = kind): number {
  while (i < text.length && (kindAt(text, i) === kind || kindAt(text, i) === other)) i++;
  return i;
}

/** How many characters of [start, end) differ from the one before them. */
function changesIn(text: string, start: number, end: number): number {
  let changes = 0;
  for (let i = start; i < end; i++) if (text.charCodeAt(i) !== text.charCodeAt(i - 1)) changes++;
  return changes;
}

function alphanumericEnd(text: string, i: number): number {
  for (; i < text.length; i++) {
    const kind = kindAt(text, i);
    if (kind < DIGIT || kind > MARKED) break;
  }
  return i;
}

/** The tokens of base64, digests and identifiers, whose characters change kind every few places; 0 for other text. */
function randomTokens(text: string, start: number, end: number): number {
  const length = end - start;
  if (length < 4) return 0;
  let changes = 0;
  let digits = 0;
  let hex = true;
  let last = kindAt(text, start);
  for (let i = start; i < end; i++) {
    const code = text.charCodeAt(i);
    const kind = KINDS[code] as number;
    if (kind === DIGIT) digits++;
    else if ((code | 0x20) < 0x61 || (code | 0x20) > 0x66) hex = false;
    if (kind !== last && (kind === DIGIT || last === DIGIT || (kind === UPPER && last === LOWER)))
      changes++;
    last = kind;
  }
  if (digits === 0 || changes * 4 < length || (!hex && length < 6)) return 0;
  return length * (hex ? 0.59 : 0.71);
}
