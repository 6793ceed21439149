import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  CR,
  decodeString,
  LF,
  numberEnd,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  stringEnd,
  TAB,
} from './members.ts';

/** Top-level members that name what stands behind the gateway; taken out with their comma. */
const LEAKS = [
  'provider',
  '_hidden_params',
  'provider_specific_fields',
  '_response_headers',
  '_response_ms',
  'response_ms',
  'response_cost',
  'litellm_params',
  'litellm_metadata',
  'litellm_call_id',
  'deployment',
  'deployment_id',
  'deployment_name',
  'api_base',
  'base_url',
  'model_id',
  'model_info',
  'model_group',
  'upstream',
  'upstream_model',
  'router',
  'backend',
  'region',
  'server',
  'host',
  'hostname',
];

/** Nested members whose string values are text the model generated. */
const GENERATED = byLength(
  ['content', 'reasoning_content', 'reasoning', 'refusal', 'arguments', 'text'].map((name) => [
    name,
    Buffer.from(name),
  ]),
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

/** The members we know: for names written with escapes, and by length for all others. */
const NAMED = new Map<string, number>([
  ['model', MODEL],
  ['error', ERROR],
  ['usage', USAGE],
  ['x_groq', GROQ],
  ['choices', CHOICES],
  ...LEAKS.map((name): [string, number] => [name, LEAK]),
]);
const KNOWN = byLength<Known>([...NAMED].map(([name, kind]) => [name, { bytes: Buffer.from(name), kind }]));
const NO_NAMES: readonly Known[] = [];

/** A table of lists by the length of names, so that most names are told apart by a length alone. */
function byLength<T>(entries: readonly (readonly [string, T])[]): readonly (readonly T[])[] {
  const table: T[][] = Array.from({ length: 32 }, () => []);
  for (const [name, entry] of entries) table[name.length]?.push(entry);
  return table;
}

/**
 * Walks one JSON object of an upstream's answer and finds what has to change in it: the
 * values of its top-level `model`, and members that name what stands behind. What else the
 * gateway wants to know of the answer falls out of the same pass. What JSON.parse would
 * refuse has no end here.
 *
 * A removed member takes the comma before it along; where nothing kept stands before it,
 * everything up to the next member kept.
 */
export class ObjectWalk {
  /** Triples start, end, kind: offsets into the walked buffer; kind REPLACE puts the slug there, REMOVE nothing. */
  readonly edits: number[] = [];
  editCount = 0;
  hasModel = false;
  /** `choices` is an array. */
  hasChoices = false;
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
  /** The longest piece of it, without its quotes. */
  textStart = 0;
  textEnd = 0;

  /**
   * Walks the object that begins at i.
   * @param lineEnds whether CR and LF count as whitespace
   * @returns the offset behind its closing brace; -1 when there is no whole object
   */
  walk(b: Buffer, i: number, end: number, lineEnds: boolean): number {
    let comma = -1; // before the member at hand
    let removeFrom = -1; // where a removal at the head of the object began
    let removeTo = -1;
    this.begin();
    if (i >= end || b[i] !== OPEN_BRACE) return -1;
    i = spaceEnd(b, i + 1, end, lineEnds);
    if (i < end && b[i] === CLOSE_BRACE) return i + 1;
    for (;;) {
      if (i >= end || b[i] !== QUOTE) return -1;
      const keyStart = i;
      i = stringEnd(b, i + 1, end);
      if (i < 0) return -1;
      const kind = kindOf(b, keyStart + 1, i - keyStart - 1);
      i = spaceEnd(b, i + 1, end, lineEnds);
      if (i >= end || b[i] !== COLON) return -1;
      const valueStart = spaceEnd(b, i + 1, end, lineEnds);
      i = this.#valueEnd(b, valueStart, end, kind, lineEnds);
      if (i < 0) return -1;

      if (kind === LEAK) {
        if (this.kept > 0) this.edit(comma, i, REMOVE);
        else {
          if (removeFrom < 0) removeFrom = keyStart;
          removeTo = i;
        }
      } else {
        this.kept++;
        if (removeFrom >= 0) {
          this.edit(removeFrom, keyStart, REMOVE);
          removeFrom = -1;
        }
        if (kind !== PLAIN) this.#note(b, kind, valueStart, i, lineEnds);
      }

      i = spaceEnd(b, i, end, lineEnds);
      if (i >= end) return -1;
      if (b[i] === CLOSE_BRACE) break;
      if (b[i] !== COMMA) return -1;
      comma = i;
      i = spaceEnd(b, i + 1, end, lineEnds);
    }
    if (removeFrom >= 0) this.edit(removeFrom, removeTo, REMOVE);
    return i + 1;
  }

  /** Forgets what the last walk found. */
  begin(): void {
    this.editCount = 0;
    this.hasModel = false;
    this.hasChoices = false;
    this.kept = 0;
    this.errorStart = -1;
    this.usageStart = -1;
    this.groqStart = -1;
    this.finished = false;
    this.generated = 0;
    this.textStart = 0;
    this.textEnd = 0;
  }

  /** Notes an edit, behind those noted before. */
  edit(start: number, end: number, kind: number): void {
    const at = this.editCount;
    this.edits[at] = start;
    this.edits[at + 1] = end;
    this.edits[at + 2] = kind;
    this.editCount = at + 3;
  }

  /** Notes a member that is something to us. */
  #note(b: Buffer, kind: number, start: number, end: number, lineEnds: boolean): void {
    const first = b[start];
    if (kind === MODEL) {
      this.hasModel = true;
      this.edit(start, end, REPLACE);
    } else if (kind === ERROR) {
      if (first !== 0x6e) {
        this.errorStart = start;
        this.errorEnd = end;
      }
    } else if (kind === USAGE) {
      if (first === OPEN_BRACE && spaceEnd(b, start + 1, end, lineEnds) !== end - 1) {
        this.usageStart = start;
        this.usageEnd = end;
      }
    } else if (kind === CHOICES) {
      this.hasChoices = first === OPEN_BRACKET;
    } else if (kind === GROQ && first === OPEN_BRACE) {
      this.groqStart = start;
      this.groqEnd = end;
    }
  }

  /** The end of a top-level value, or -1. */
  #valueEnd(b: Buffer, i: number, end: number, kind: number, lineEnds: boolean): number {
    if (i >= end) return -1;
    const start = i;
    const first = b[i] as number;
    if (first === QUOTE) return stringEnd(b, i + 1, end) + 1 || -1;
    if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return scalarEnd(b, i, end);

    let depth = 1; // brackets open
    let stack = first === OPEN_BRACKET ? 1 : 0; // their kinds, innermost lowest; 1 is an array
    let next = first === OPEN_BRACKET ? VALUE_OR_CLOSE : KEY_OR_CLOSE;
    let deepFrom = -1; // where brackets were too deep to tell their kinds
    let generating = false; // the next string is generated text
    let from = 0; // the last string, to know it when a colon makes it a key
    let to = 0;
    for (i++; i < end; i++) {
      const c = b[i] as number;
      if (c === SPACE || c === TAB) continue;
      if (c === QUOTE) {
        if (next >= COLON_ONLY) return -1;
        next = next >= KEY ? COLON_ONLY : AFTER_VALUE;
        from = i + 1;
        i = to = stringEnd(b, from, end);
        if (i < 0) return -1;
        if (generating) {
          this.generated += to - from;
          if (to - from > this.textEnd - this.textStart) {
            this.textStart = from;
            this.textEnd = to;
          }
        }
        generating = false;
      } else if (c === COLON) {
        if (next !== COLON_ONLY) return -1;
        next = VALUE;
        generating = isGenerated(b, from, to - from);
        if (kind === CHOICES && depth === 2 && equals(b, from, to - from, FINISH_REASON)) {
          const value = spaceEnd(b, i + 1, end, lineEnds);
          if (value + 1 < end && b[value] === QUOTE && b[value + 1] !== QUOTE) this.finished = true;
        }
      } else if (c === COMMA) {
        if (next !== AFTER_VALUE) return -1;
        next = (stack & 1) === 1 ? VALUE : KEY;
        generating = false;
      } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
        if (next > VALUE_OR_CLOSE) return -1;
        next = c === OPEN_BRACKET ? VALUE_OR_CLOSE : KEY_OR_CLOSE;
        generating = false;
        if (++depth > MAX_TYPED) {
          // nobody nests like this: worth no stack of its own
          deepFrom = i;
          break;
        }
        stack = (stack << 1) | (c === OPEN_BRACKET ? 1 : 0);
      } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
        if (next !== AFTER_VALUE && next !== (c === CLOSE_BRACKET ? VALUE_OR_CLOSE : KEY_OR_CLOSE)) return -1;
        if ((stack & 1) !== (c === CLOSE_BRACKET ? 1 : 0)) return -1;
        stack >>>= 1;
        next = AFTER_VALUE;
        if (--depth === 0) return i + 1;
      } else if (c === LF || c === CR) {
        if (!lineEnds) return -1;
      } else {
        if (next > VALUE_OR_CLOSE) return -1;
        next = AFTER_VALUE;
        i = scalarEnd(b, i, end) - 1;
        if (i < 0) return -1;
      }
    }
    return deepFrom < 0 ? -1 : deepEnd(b, start, deepFrom, depth, end, lineEnds);
  }
}

/** Kinds of edits. */
export const REMOVE = 0;
export const REPLACE = 1;

// What may come next, in an order that lets one comparison tell.
const VALUE = 0;
const VALUE_OR_CLOSE = 1;
const KEY = 2;
const KEY_OR_CLOSE = 3;
const COLON_ONLY = 4;
const AFTER_VALUE = 5;

/** How many levels of brackets are told apart by kind. */
const MAX_TYPED = 31;

const FINISH_REASON = Buffer.from('finish_reason');

/** What a top-level key, given without its quotes, is to us. */
function kindOf(b: Buffer, start: number, length: number): number {
  const known = length < KNOWN.length ? (KNOWN[length] as readonly Known[]) : NO_NAMES;
  for (let k = 0; k < known.length; k++) {
    const { bytes, kind } = known[k] as Known;
    if (equals(b, start, length, bytes)) return kind;
  }
  for (let i = start; i < start + length; i++) {
    if (b[i] !== BACKSLASH) continue;
    const name = decodeString(b, start - 1, start + length + 1) ?? '';
    return NAMED.get(name) ?? PLAIN;
  }
  return PLAIN;
}

/** Whether string values of this key are text the model generated. */
export function isGenerated(b: Buffer, start: number, length: number): boolean {
  if (length < 4 || length >= GENERATED.length) return false;
  const names = GENERATED[length] as readonly Buffer[];
  for (let k = 0; k < names.length; k++) if (equals(b, start, length, names[k] as Buffer)) return true;
  return false;
}

function equals(b: Buffer, start: number, length: number, name: Buffer): boolean {
  if (length !== name.length) return false;
  for (let i = 0; i < length; i++) if (b[start + i] !== name[i]) return false;
  return true;
}

/** The end of a number, true, false or null, or -1. What follows it is not looked at. */
function scalarEnd(b: Buffer, i: number, end: number): number {
  const first = b[i] as number;
  if (first === 0x6e) return i + 4 <= end && equals(b, i, 4, NULL) ? i + 4 : -1;
  if (first === 0x74) return i + 4 <= end && equals(b, i, 4, TRUE) ? i + 4 : -1;
  if (first === 0x66) return i + 5 <= end && equals(b, i, 5, FALSE) ? i + 5 : -1;
  return numberEnd(b, i, end);
}

const NULL = Buffer.from('null');
const TRUE = Buffer.from('true');
const FALSE = Buffer.from('false');

/** The end of the value that begins at start and has `depth` brackets open with the one at i; -1 when it is no JSON. */
function deepEnd(b: Buffer, start: number, i: number, depth: number, end: number, lineEnds: boolean): number {
  for (i++; i < end; i++) {
    const c = b[i] as number;
    if (c === QUOTE) {
      i = stringEnd(b, i + 1, end);
      if (i < 0) return -1;
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) depth++;
    else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      if (--depth > 0) continue;
      try {
        JSON.parse(b.utf8Slice(start, i + 1));
        return i + 1;
      } catch {
        return -1;
      }
    } else if (!lineEnds && (c === LF || c === CR)) return -1;
  }
  return -1;
}

function spaceEnd(b: Buffer, i: number, end: number, lineEnds: boolean): number {
  for (; i < end; i++) {
    const c = b[i] as number;
    if (c > SPACE) return i;
    if (c !== SPACE && c !== TAB && !(lineEnds && (c === LF || c === CR))) return i;
  }
  return end;
}
