import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  CR,
  decodeString,
  LF,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  stringEnd,
  TAB,
} from './json.ts';

/** Top-level members that name what stands behind the gateway; taken out with their comma. */
const LEAKS = ['provider', '_hidden_params', 'provider_specific_fields'];

/** Nested members whose string values are text the model generated. */
const GENERATED = ['content', 'reasoning_content', 'reasoning', 'refusal', 'arguments', 'text'].map((name) =>
  Buffer.from(name),
);

// What a top-level member is to us.
const PLAIN = 0;
const MODEL = 1;
const ERROR = 2;
const LEAK = 3;
const USAGE = 4;
const GROQ = 5;
const CHOICES = 6;

interface Known {
  readonly bytes: Buffer;
  readonly kind: number;
}

/** The members we know, by the length of their names. */
const KNOWN: readonly (readonly Known[])[] = (() => {
  const table: Known[][] = Array.from({ length: 32 }, () => []);
  const add = (name: string, kind: number) => (table[name.length] as Known[]).push({ bytes: Buffer.from(name), kind });
  add('model', MODEL);
  add('error', ERROR);
  add('usage', USAGE);
  add('x_groq', GROQ);
  add('choices', CHOICES);
  for (const name of LEAKS) add(name, LEAK);
  return table;
})();

/**
 * A place inside an object up to which it was walked: just behind the opening quote of a
 * string below a top-level member. A walk of another object that begins with the same
 * bytes can start here. Offsets count from where the object's line begins.
 */
export class Cut {
  offset = 0;
  depth = 0;
  stack = 0;
  kind = PLAIN;
  generating = false;
  generated = 0;
  kept = 0;
  hasModel = false;
  readonly edits: number[] = [];
  editCount = 0;
}

/**
 * Walks one JSON object of an upstream's answer and finds what has to change in it: the
 * values of its top-level `model`, and members that name what stands behind. What else the
 * gateway wants to know of the answer falls out of the same pass. Brackets and strings are
 * checked, scalars below the top level are not.
 *
 * A removed member takes the comma before it along; where nothing kept stands before it,
 * everything up to the next member kept.
 */
export class ObjectWalk {
  /** Triples start, end, kind: offsets into the walked buffer; kind 1 puts the slug there, 0 nothing. */
  readonly edits: number[] = [];
  editCount = 0;
  hasModel = false;
  /** Members left when the edits are made. */
  kept = 0;
  /** The span of a top-level `error` that is not null; start is -1 when there is none. */
  errorStart = -1;
  errorEnd = -1;
  /** The span of the last non-empty `usage` object; start is -1 when there is none. */
  usageStart = -1;
  usageEnd = -1;
  /** The span of the last `x_groq` object, which may hold a `usage` of its own. */
  groqStart = -1;
  groqEnd = -1;
  /** A choice has a finish_reason. */
  finished = false;
  /** Bytes of generated text, as written in JSON. */
  generated = 0;

  /** Where line ends count as whitespace: in whole bodies and joined data lines, not within one line. */
  #lineEnds = false;
  /** The last place at which a cut may be made; before it, walking records the latest one. */
  #cutLimit = -1;
  #base = 0;
  #cut = new Cut();
  #hasCut = false;

  /**
   * Walks the object that begins at i.
   * @param lineEnds whether CR and LF count as whitespace
   * @returns the offset behind its closing brace; -1 when there is no whole object
   */
  walk(b: Buffer, i: number, end: number, lineEnds: boolean): number {
    this.#lineEnds = lineEnds;
    this.editCount = 0;
    return this.#run(b, i, end, null);
  }

  /** Goes on from a cut in an object whose line begins at base and shares all bytes before the cut. */
  resume(b: Buffer, base: number, end: number, cut: Cut): number {
    this.#lineEnds = false;
    const { edits, editCount } = cut;
    for (let k = 0; k < editCount; k += 3) {
      this.edits[k] = (edits[k] as number) + base;
      this.edits[k + 1] = (edits[k + 1] as number) + base;
      this.edits[k + 2] = edits[k + 2] as number;
    }
    this.editCount = editCount;
    return this.#run(b, base + cut.offset, end, cut);
  }

  /**
   * Walks like `walk` and makes a cut at the last possible place at or before limit.
   * @param base where the line begins
   * @returns as walk; the cut is taken with takeCut
   */
  walkToCut(b: Buffer, i: number, end: number, base: number, limit: number): number {
    this.#lineEnds = false;
    this.editCount = 0;
    this.#cutLimit = limit;
    this.#base = base;
    this.#hasCut = false;
    const result = this.#run(b, i, end, null);
    this.#cutLimit = -1;
    return result;
  }

  /** The cut the last walkToCut made, or null. */
  takeCut(): Cut | null {
    if (!this.#hasCut) return null;
    const cut = this.#cut;
    this.#cut = new Cut();
    this.#hasCut = false;
    return cut;
  }

  #run(b: Buffer, start: number, end: number, cut: Cut | null): number {
    const cutLimit = this.#cutLimit;
    let i = start;
    let depth = 0; // brackets open below the top level
    let stack = 0; // their kinds, one bit each, innermost lowest; 1 is an array
    let kind = PLAIN;
    let kept = 0;
    let hasModel = false;
    let generating = false; // the next string is generated text
    let generated = 0;
    let finished = false;
    let keyStart = -1;
    let comma = -1;
    let removeFrom = -1; // where a removal at the head of the object began
    let removeTo = -1;
    let stringStart = 0; // the last string, to know it when a colon makes it a key
    let stringStop = 0;
    this.errorStart = -1;
    this.usageStart = -1;
    this.groqStart = -1;

    if (cut === null) {
      if (i >= end || b[i] !== OPEN_BRACE) return -1;
      i = this.#space(b, i + 1, end);
      if (i < end && b[i] === CLOSE_BRACE) return this.#done(i + 1, 0, false, 0, false);
    } else {
      depth = cut.depth;
      stack = cut.stack;
      kind = cut.kind;
      kept = cut.kept;
      hasModel = cut.hasModel;
      stringStart = i;
      i = stringEnd(b, i, end);
      if (i < 0) return -1;
      stringStop = i;
      generated = cut.generated + (cut.generating ? i - stringStart : 0);
      i++;
    }

    for (;;) {
      let valueStart = i;
      if (depth === 0) {
        // "key" : value
        if (i >= end || b[i] !== QUOTE) return -1;
        keyStart = i;
        i = stringEnd(b, i + 1, end);
        if (i < 0) return -1;
        kind = kindOf(b, keyStart + 1, i);
        i = this.#space(b, i + 1, end);
        if (i >= end || b[i] !== COLON) return -1;
        i = this.#space(b, i + 1, end);
        if (i >= end) return -1;
        valueStart = i;
        if (kind !== LEAK) {
          if (removeFrom >= 0) {
            this.#edit(removeFrom, keyStart, 0);
            removeFrom = -1;
          }
          kept++;
        }
        const c = b[i] as number;
        if (c === QUOTE) {
          i = stringEnd(b, i + 1, end);
          if (i < 0) return -1;
          i++;
        } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
          depth = 1;
          stack = c === OPEN_BRACKET ? 1 : 0;
          i++;
        } else {
          i = scalarEnd(b, i, end);
          if (i < 0) return -1;
        }
      }

      if (depth > 0) {
        for (; ; i++) {
          if (i >= end) return -1;
          const c = b[i] as number;
          if (c === QUOTE) {
            stringStart = i + 1;
            if (stringStart <= cutLimit && removeFrom < 0 && (kind === PLAIN || kind === CHOICES) && !finished) {
              this.#record(stringStart, depth, stack, kind, generating, generated, kept, hasModel);
            }
            i = stringEnd(b, stringStart, end);
            if (i < 0) return -1;
            stringStop = i;
            if (generating) {
              generated += i - stringStart;
              generating = false;
            }
          } else if (c === COLON) {
            // the last string was a key
            const length = stringStop - stringStart;
            generating = length >= 4 && isGenerated(b, stringStart, length);
            if (length === 13 && kind === CHOICES && depth === 2 && b[stringStart] === 0x66) {
              if (equals(b, stringStart, FINISH_REASON)) {
                const value = this.#space(b, i + 1, end);
                if (value + 1 < end && b[value] === QUOTE && b[value + 1] !== QUOTE) finished = true;
              }
            }
          } else if (c === COMMA) {
            generating = false;
          } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
            generating = false;
            if (++depth <= MAX_TYPED) stack = (stack << 1) | (c === OPEN_BRACKET ? 1 : 0);
          } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
            if (depth <= MAX_TYPED) {
              if ((stack & 1) !== (c === CLOSE_BRACKET ? 1 : 0)) return -1;
              stack >>>= 1;
            }
            if (--depth === 0) break;
          } else if (c < SPACE && c !== TAB && !(this.#lineEnds && (c === LF || c === CR))) {
            return -1;
          }
        }
        i++;
      }

      // behind a value
      if (kind !== PLAIN) {
        if (kind === MODEL) {
          hasModel = true;
          this.#edit(valueStart, i, 1);
        } else if (kind === LEAK) {
          if (kept > 0) this.#edit(comma, i, 0);
          else {
            if (removeFrom < 0) removeFrom = keyStart;
            removeTo = i;
          }
        } else if (kind === ERROR) {
          if (b[valueStart] !== 0x6e) {
            this.errorStart = valueStart;
            this.errorEnd = i;
          }
        } else if (kind === USAGE) {
          if (b[valueStart] === OPEN_BRACE && this.#space(b, valueStart + 1, end) !== i - 1) {
            this.usageStart = valueStart;
            this.usageEnd = i;
          }
        } else if (kind === GROQ && b[valueStart] === OPEN_BRACE) {
          this.groqStart = valueStart;
          this.groqEnd = i;
        }
      }
      i = this.#space(b, i, end);
      if (i >= end) return -1;
      const c = b[i];
      if (c === CLOSE_BRACE) {
        if (removeFrom >= 0) this.#edit(removeFrom, removeTo, 0);
        return this.#done(i + 1, kept, hasModel, generated, finished);
      }
      if (c !== COMMA) return -1;
      comma = i;
      i = this.#space(b, i + 1, end);
    }
  }

  #done(i: number, kept: number, hasModel: boolean, generated: number, finished: boolean): number {
    this.kept = kept;
    this.hasModel = hasModel;
    this.generated = generated;
    this.finished = finished;
    return i;
  }

  #edit(start: number, end: number, kind: number): void {
    const at = this.editCount;
    this.edits[at] = start;
    this.edits[at + 1] = end;
    this.edits[at + 2] = kind;
    this.editCount = at + 3;
  }

  #record(
    at: number,
    depth: number,
    stack: number,
    kind: number,
    generating: boolean,
    generated: number,
    kept: number,
    hasModel: boolean,
  ): void {
    // what a later walk would not see again must not lie before the cut
    if (this.errorStart >= 0 || this.usageStart >= 0 || this.groqStart >= 0) return;
    const cut = this.#cut;
    cut.offset = at - this.#base;
    cut.depth = depth;
    cut.stack = stack;
    cut.kind = kind;
    cut.generating = generating;
    cut.generated = generated;
    cut.kept = kept;
    cut.hasModel = hasModel;
    cut.editCount = this.editCount;
    for (let k = 0; k < this.editCount; k += 3) {
      cut.edits[k] = (this.edits[k] as number) - this.#base;
      cut.edits[k + 1] = (this.edits[k + 1] as number) - this.#base;
      cut.edits[k + 2] = this.edits[k + 2] as number;
    }
    this.#hasCut = true;
  }

  #space(b: Buffer, i: number, end: number): number {
    for (; i < end; i++) {
      const c = b[i] as number;
      if (c > SPACE) return i;
      if (c !== SPACE && c !== TAB && !(this.#lineEnds && (c === LF || c === CR))) return i;
    }
    return end;
  }
}

/** How many levels of brackets are told apart by kind; deeper ones are only counted. */
const MAX_TYPED = 31;

const FINISH_REASON = Buffer.from('finish_reason');

/** What a top-level key, given without its quotes, is to us. */
function kindOf(b: Buffer, start: number, end: number): number {
  for (let i = start; i < end; i++) {
    if (b[i] === BACKSLASH) {
      const name = Buffer.from(decodeString(b, start - 1, end + 1) ?? '');
      return lookUp(name, 0, name.length);
    }
  }
  return lookUp(b, start, end - start);
}

function lookUp(b: Buffer, start: number, length: number): number {
  if (length >= KNOWN.length) return PLAIN;
  const known = KNOWN[length] as readonly Known[];
  for (let k = 0; k < known.length; k++) {
    const { bytes, kind } = known[k] as Known;
    if (equals(b, start, bytes)) return kind;
  }
  return PLAIN;
}

function isGenerated(b: Buffer, start: number, length: number): boolean {
  for (let k = 0; k < GENERATED.length; k++) {
    const name = GENERATED[k] as Buffer;
    if (name.length === length && equals(b, start, name)) return true;
  }
  return false;
}

function equals(b: Buffer, start: number, name: Buffer): boolean {
  for (let i = 0; i < name.length; i++) if (b[start + i] !== name[i]) return false;
  return true;
}

/** The end of a number, true, false or null, or -1. */
function scalarEnd(b: Buffer, start: number, end: number): number {
  const first = b[start] as number;
  if (first !== 0x2d && (first < 0x30 || first > 0x39) && first !== 0x74 && first !== 0x66 && first !== 0x6e) return -1;
  let i = start + 1;
  for (; i < end; i++) {
    const c = b[i] as number;
    if (c <= SPACE || c === COMMA || c === CLOSE_BRACE) break;
  }
  return i;
}
