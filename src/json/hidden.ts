import { BACKSLASH, COLON, HEX, LETTER_U, QUOTE, SPACE } from './bytes.ts';

/** Something that no string of an answer may hold. */
interface Needle {
  /** UTF-16 units. */
  readonly units: readonly number[];
  /** The slug takes its place; else it is removed. */
  readonly isName: boolean;
  /** Found within longer strings too. */
  readonly within: boolean;
  /** Long and unusual enough to be found before and behind `-`, `_`, `.`, `/` and `:`. */
  readonly distinctive: boolean;
  /** A tool may be named so: then it is the caller's name. */
  readonly isToolName: boolean;
}

/** Takes the spans that are hidden, in order; a span of a whole name includes the quotes. */
export interface HiddenSpans {
  hide(start: number, end: number, isName: boolean, isWhole: boolean): void;
}

/** Shorter names are ordinary words: "gpt" must not be cut out of "gpt-4-turbo". */
const DISTINCTIVE = 6;

/** The member that holds a tool's name, among others. */
const TOOL_NAME = 'name';

/** Bit of what may be written with an escape; the other seven are shared by the needles. */
const ESCAPE = 0x80;

const LETTER = 1;
const JOINT = 2;
/** LETTER for letters, digits and bytes of other scripts, JOINT for what joins the parts of a name. */
const KIND = Uint8Array.from({ length: 256 }, (_, c) => {
  const char = String.fromCharCode(c);
  return c >= 0x80 || /[0-9a-z]/i.test(char) ? LETTER : /[-_./:@]/.test(char) ? JOINT : 0;
});

/**
 * Names and secrets of what stands behind one model, looked for in strings as JSON writes them. One that
 * is the whole string counts; within a string, if no letter or digit adjoins it, and for an ordinary
 * word nothing that joins names does. What the slug itself holds is no secret.
 */
export class Hidden {
  /** No string of fewer bytes can hold one. */
  readonly shortest: number;
  readonly #needles: readonly Needle[];
  /** Bits of the needles whose first byte is this; two bytes that share a bit may begin one. */
  readonly #first = new Uint8Array(256);
  readonly #second = new Uint8Array(256).fill(ESCAPE);
  readonly #untouched: ReadonlySet<string>;

  /**
   * @param names replaced by the slug
   * @param secrets removed
   * @param untouched members whose values are words of the format, or generated
   */
  constructor(slug: string, names: readonly string[], secrets: readonly string[], untouched: ReadonlySet<string>) {
    const needle = (text: string, isName: boolean): Needle => ({
      units: Array.from({ length: text.length }, (_, i) => text.charCodeAt(i)),
      isName,
      within: !slug.includes(text),
      distinctive: text.length >= DISTINCTIVE && /[^a-z]/i.test(text),
      isToolName: /^[\w-]+$/.test(text),
    });
    this.#needles = [
      ...names.filter((name) => name !== slug).map((name) => needle(name, true)),
      ...secrets.map((secret) => needle(secret, false)),
    ]
      .filter(({ units }) => units.length > 0)
      .sort((a, b) => b.units.length - a.units.length);
    this.shortest = Math.min(...this.#needles.map(({ units }) => units.length));
    this.#untouched = untouched;
    this.#first[BACKSLASH] = ESCAPE;
    this.#second[BACKSLASH] = 0xff;
    this.#needles.forEach(({ units }, k) => {
      const bit = 1 << (k % 7);
      const [first, second] = Buffer.from(String.fromCharCode(...units)) as unknown as [number, number?];
      this.#first[first] = (this.#first[first] as number) | bit;
      for (let c = 0; c < 256; c++) if (c === (second ?? c)) this.#second[c] = (this.#second[c] as number) | bit;
    });
  }

  /** Whether the string with the content [from, to) holds one. */
  isIn(b: Buffer, from: number, to: number): boolean {
    const last = to - this.shortest;
    for (let i = from; i <= last; i++) {
      const bits = this.#first[b[i] as number] as number;
      if (bits === 0 || (bits & (this.#second[b[i + 1] as number] as number)) === 0) continue;
      if (this.#endAt(b, i, from, to) > 0) return true;
    }
    return false;
  }

  /** Tells the spans of those that the string with the content [from, to) holds. */
  find(b: Buffer, from: number, to: number, isKey: boolean, spans: HiddenSpans): void {
    if (!this.isIn(b, from, to)) return;
    const key = isKey ? '' : keyBefore(b, from);
    if (this.#untouched.has(key)) return;
    for (let i = from; i < to; i++) {
      const end = this.#endAt(b, i, from, to);
      if (end === 0) continue;
      const { isName, isToolName } = this.#found as Needle;
      if (isToolName && key === TOOL_NAME) continue;
      const isWhole = i === from && end === to;
      if (isWhole && isName) spans.hide(from - 1, to + 1, true, true);
      else spans.hide(i, end, isName, isWhole);
      i = end - 1;
    }
  }

  #found: Needle | null = null;

  /** The end of the longest one at i, or 0. */
  #endAt(b: Buffer, i: number, from: number, to: number): number {
    for (const needle of this.#needles) {
      const end = endOf(needle.units, b, i, to);
      if (end === 0) continue;
      const isWhole = i === from && end === to;
      if (!isWhole && !(needle.within && isApart(needle, b, i, end, from, to))) continue;
      this.#found = needle;
      return end;
    }
    return 0;
  }
}

/** The end of the text at i, whose characters may be escaped; 0 if it is another. */
function endOf(units: readonly number[], b: Buffer, i: number, to: number): number {
  for (let k = 0; k < units.length; k++) {
    if (i >= to) return 0;
    const c = b[i] as number;
    let unit = c;
    if (c === BACKSLASH) {
      const isHex = b[i + 1] === LETTER_U;
      unit = isHex ? hexUnit(b, i + 2) : (b[i + 1] as number);
      i += isHex ? 6 : 2;
    } else if (c < 0x80) i++;
    else {
      const isLong = c >= 0xe0; // characters of four bytes are in no name
      unit = isLong
        ? ((c & 15) << 12) | (((b[i + 1] as number) & 63) << 6) | ((b[i + 2] as number) & 63)
        : ((c & 31) << 6) | ((b[i + 1] as number) & 63);
      i += isLong ? 3 : 2;
    }
    if (unit !== units[k]) return 0;
  }
  return i > to ? 0 : i;
}

function hexUnit(b: Buffer, i: number): number {
  let unit = 0;
  for (let k = i; k < i + 4; k++) unit = unit * 16 + (HEX[b[k] as number] as number);
  return unit;
}

/** Whether nothing that continues a name adjoins [i, end) in the string [from, to). */
function isApart({ distinctive }: Needle, b: Buffer, i: number, end: number, from: number, to: number): boolean {
  const isEscaped = i - 1 > from && b[i - 2] === BACKSLASH; // "\nname"
  const before = i === from || isEscaped ? 0 : (KIND[b[i - 1] as number] as number);
  const behind = end === to ? 0 : (KIND[b[end] as number] as number);
  return distinctive ? before !== LETTER && behind !== LETTER : before === 0 && behind === 0;
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
