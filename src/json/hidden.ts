import { BACKSLASH, COLON, HEX, LETTER_U, QUOTE, SPACE, sequenceLength } from './bytes.ts';

/** Something that no string of an answer may hold. */
interface Needle {
  /** Characters, in lower and in upper case. Those that take two escapes are each one item, or each two: a half each. */
  readonly lower: readonly number[];
  readonly upper: readonly number[];
  /** The slug takes its place; else it is removed. */
  readonly isName: boolean;
  /** Found within longer strings too. */
  readonly within: boolean;
  /** Long and unusual enough to be found before and behind `-`, `_`, `.`, `/`, `:` and `@`, and in keys. */
  readonly distinctive: boolean;
  /** A tool may be named so: then it is the caller's name. */
  readonly isToolName: boolean;
  /** It tells nothing by itself, and the format, or the caller, may use it. */
  readonly isWord: boolean;
}

/** What no string may hold, and what is known of strings by their members. */
export interface HiddenTexts {
  /** The slug replaces them. */
  readonly names: readonly string[];
  /** They are removed. */
  readonly secrets: readonly string[];
  /** Whether a name or secret is an ordinary word, given in lower case. */
  isWord(text: string): boolean;
  /** Members whose values are generated, or data that is no text. */
  readonly generated: ReadonlySet<string>;
  /** Members whose values are words of the format. */
  readonly formatWords: ReadonlySet<string>;
}

/** Takes the spans that are hidden, in order; a span of a whole name includes the quotes. */
export interface HiddenSpans {
  hide(start: number, end: number, isName: boolean, isWhole: boolean): void;
}

/**
 * Shorter names are ordinary words, and so are longer ones of letters alone: "gpt" must not be cut out of
 * "gpt-4-turbo", nor "embedding" out of the format's keys.
 */
const DISTINCTIVE = 6;

/** The key of a longer string is read before its content: a vector of 8 KB takes 2 µs instead of 17. */
const LONG = 256;

/** The member that holds a tool's name, among others. */
const TOOL_NAME = 'name';
/** How members end that hold the name of a model. */
const MODEL = 'model';

/** Bit of what may be written with an escape; the other seven are shared by the needles. */
const ESCAPE = 0x80;

const LETTER = 1;
const JOINT = 2;
/** LETTER for letters and digits, JOINT for what joins the parts of a name. */
const KIND = Uint8Array.from({ length: 0x80 }, (_, c) => {
  const char = String.fromCharCode(c);
  return /[0-9a-z]/i.test(char) ? LETTER : /[-_./:@]/.test(char) ? JOINT : 0;
});
/** Letters of other scripts do not continue a name: Chinese has no spaces between words. */
const LATIN = /\p{Script=Latin}/u;

/**
 * Names and secrets of what stands behind one model, whatever their case. A name counts where it is the whole string.
 * Within a longer string it counts if no Latin letter or digit stands before or behind it; one that is not distinctive
 * must also have none of - _ . / : @ there. A name that the slug contains counts as a whole string only, and one that is
 * an ordinary word as the whole value of a member for a model alone.
 */
export class Hidden {
  /** No string of fewer bytes can hold a needle. */
  readonly shortest: number;
  readonly #needles: readonly Needle[];
  /** Bits of the needles whose first byte is this; two bytes that share a bit may begin a needle. */
  readonly #first = new Uint8Array(256);
  readonly #second = new Uint8Array(256).fill(ESCAPE);
  readonly #generated: ReadonlySet<string>;
  readonly #formatWords: ReadonlySet<string>;
  /** What `#search` found, and where it ends. */
  #found: Needle | null = null;
  #end = 0;

  constructor(slug: string, { names, secrets, isWord, generated, formatWords }: HiddenTexts) {
    const needle = (
      text: string,
      isName: boolean,
      chars: readonly string[] = Array.from(text),
    ): Needle => ({
      lower: chars.map((char) => char.toLowerCase().codePointAt(0) as number),
      upper: chars.map((char) => char.toUpperCase().codePointAt(0) as number),
      isName,
      within:
        !slug.toLowerCase().includes(text.toLowerCase()) && !(isName && isWord(text.toLowerCase())),
      distinctive: text.length >= DISTINCTIVE && /[^a-z]/i.test(text),
      isToolName: /^[\w-]+$/.test(text),
      isWord: isWord(text.toLowerCase()),
    });
    const halves = names.filter((name) => name !== slug && Array.from(name).length < name.length);
    this.#needles = [
      ...names.filter((name) => name !== slug).map((name) => needle(name, true)),
      ...halves.map((name) => needle(name, true, name.split(''))),
      ...secrets.map((secret) => needle(secret, false)),
    ]
      .filter(({ lower }) => lower.length > 0)
      .sort((a, b) => b.lower.length - a.lower.length);
    this.shortest = Math.min(...this.#needles.map(({ lower }) => lower.length));
    this.#generated = generated;
    this.#formatWords = formatWords;
    this.#first[BACKSLASH] = ESCAPE;
    this.#second[BACKSLASH] = 0xff;
    this.#needles.forEach(({ lower, upper }, k) => {
      const bit = 1 << (k % 7);
      for (const units of [lower, upper]) {
        const [first, second] = Buffer.from(String.fromCodePoint(...units)) as unknown as [
          number,
          number?,
        ];
        this.#first[first] = (this.#first[first] as number) | bit;
        for (let c = 0; c < 256; c++)
          if (c === (second ?? c)) this.#second[c] = (this.#second[c] as number) | bit;
      }
    });
  }

  /** Whether the string with the content [from, to) holds a needle. */
  isIn(b: Buffer, from: number, to: number): boolean {
    const last = to - this.shortest;
    const i = this.#next(b, from, last);
    return i <= last && this.#search(b, i, from, to) >= 0;
  }

  /** Tells the spans of the needles in the string with the content [from, to). Nearly always there are none. */
  find(b: Buffer, from: number, to: number, isKey: boolean, spans: HiddenSpans): void {
    if (to - from > LONG || this.isIn(b, from, to)) this.#tell(b, from, to, isKey, spans);
  }

  /** The rest of `find`, which is small so that V8 inlines it: 5 % of an event that is walked. */
  #tell(b: Buffer, from: number, to: number, isKey: boolean, spans: HiddenSpans): void {
    const key = isKey ? '' : keyBefore(b, from);
    if (this.#generated.has(key)) return;
    for (
      let i = this.#search(b, from, from, to);
      i >= 0;
      i = this.#search(b, this.#end, from, to)
    ) {
      const { isName, distinctive } = this.#found as Needle;
      if (isKey ? !distinctive : this.#mayHold(key, this.#found as Needle)) continue;
      const isWhole = i === from && this.#end === to;
      if (isWhole && isName) spans.hide(from - 1, to + 1, true, true);
      else spans.hide(i, this.#end, isName, isWhole);
    }
  }

  /** Whether the value of this member is, or may be, something other than what is behind. */
  #mayHold(key: string, { isName, isWord, isToolName }: Needle): boolean {
    if (isName && isWord) return !key.endsWith(MODEL);
    if (isName || isWord) return this.#formatWords.has(key) || (isToolName && key === TOOL_NAME);
    return false;
  }

  /** Where the next needle in the string [from, to) begins, at i or behind it; -1 if there is none. */
  #search(b: Buffer, i: number, from: number, to: number): number {
    const last = to - this.shortest;
    for (i = this.#next(b, i, last); i <= last; i = this.#next(b, i + widthAt(b, i), last)) {
      if (this.#isAt(b, i, from, to)) return i;
    }
    return -1;
  }

  /** The first offset from i to `last` at which a needle may begin; else `last` + 1. */
  #next(b: Buffer, i: number, last: number): number {
    for (; i <= last; i++) {
      const bits = this.#first[b[i] as number] as number;
      if (bits !== 0 && (bits & (this.#second[b[i + 1] as number] as number)) !== 0) break;
    }
    return i;
  }

  /** Whether a needle begins at i. Finds the longest. */
  #isAt(b: Buffer, i: number, from: number, to: number): boolean {
    const char = charAt(b, i);
    if (char < 0x80 && ((this.#first[char] as number) & ~ESCAPE) === 0) return false; // an escape of another character
    for (const needle of this.#needles) {
      const end = endOf(needle, b, i, to);
      if (end === 0) continue;
      const isWhole = i === from && end === to;
      if (!isWhole && !(needle.within && isApart(needle, b, i, end, from, to))) continue;
      this.#found = needle;
      this.#end = end;
      return true;
    }
    return false;
  }
}

/** The end of the text at i, whose characters may be escaped; 0 if it is another. */
function endOf({ lower, upper }: Needle, b: Buffer, i: number, to: number): number {
  for (let k = 0; k < lower.length; k++) {
    if (i >= to) return 0;
    const char = charAt(b, i);
    if (char !== lower[k] && char !== upper[k]) return 0;
    i += widthAt(b, i);
  }
  return i > to ? 0 : i;
}

/** What the escape of one letter stands for. */
const LETTERS = Uint8Array.from({ length: 256 }, (_, c) => c);
for (const [k, letter] of Buffer.from('bfnrt').entries())
  LETTERS[letter] = '\b\f\n\r\t'.charCodeAt(k);

/** The character at i, which may be escaped; the half that the escape at i stands for, where a character takes two. */
function charAt(b: Buffer, i: number): number {
  let char = b[i] as number;
  if (char === BACKSLASH) {
    const letter = b[i + 1] as number;
    return letter === LETTER_U ? (hex(b, i + 2) << 8) | hex(b, i + 4) : (LETTERS[letter] as number);
  }
  if (char < 0xc0) return char;
  const more = sequenceLength(char) - 1;
  char &= 0x3f >> more;
  for (let k = 1; k <= more; k++) char = (char << 6) | ((b[i + k] as number) & 0x3f);
  return char;
}

/** The byte written in the two hexadecimal digits at i. */
function hex(b: Buffer, i: number): number {
  return ((HEX[b[i] as number] as number) << 4) | (HEX[b[i + 1] as number] as number);
}

/** Bytes of the character at i. */
function widthAt(b: Buffer, i: number): number {
  const c = b[i] as number;
  return c !== BACKSLASH ? sequenceLength(c) : b[i + 1] === LETTER_U ? 6 : 2;
}

/** Where the character before i begins. */
function charBefore(b: Buffer, i: number): number {
  if (b[i - 5] === LETTER_U && isEscape(b, i - 6)) return i - 6;
  if (isEscape(b, i - 2)) return i - 2;
  do i--;
  while (((b[i] as number) & 0xc0) === 0x80);
  return i;
}

/** Whether an escape begins at i: a backslash that no other escapes. */
function isEscape(b: Buffer, i: number): boolean {
  let first = i;
  while (b[first] === BACKSLASH) first--;
  return ((i - first) & 1) === 1;
}

/** Whether nothing that continues a name adjoins [i, end) in the string [from, to). */
function isApart(
  { distinctive }: Needle,
  b: Buffer,
  i: number,
  end: number,
  from: number,
  to: number,
): boolean {
  const before = i === from ? 0 : kindAt(b, charBefore(b, i));
  const behind = end === to ? 0 : kindAt(b, end);
  return distinctive ? before !== LETTER && behind !== LETTER : before === 0 && behind === 0;
}

function kindAt(b: Buffer, i: number): number {
  const char = charAt(b, i);
  return char < 0x80 ? (KIND[char] as number) : LATIN.test(String.fromCharCode(char)) ? LETTER : 0;
}

/** The name of the member whose value is the string with the content at `from`; '' for an array's. */
function keyBefore(b: Buffer, from: number): string {
  let i = spaceBefore(b, from - 1);
  if (b[i] !== COLON) return '';
  i = spaceBefore(b, i);
  const end = i;
  do i--;
  while (i >= 0 && b[i] !== QUOTE);
  return b.toString('latin1', i + 1, end);
}

/** The offset of the last byte before i that is not whitespace. */
function spaceBefore(b: Buffer, i: number): number {
  do i--;
  while (i >= 0 && (b[i] as number) <= SPACE);
  return i;
}
