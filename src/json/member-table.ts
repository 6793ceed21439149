import { BACKSLASH, decodeString, equals, LONG_STRING } from './bytes.ts';
import { chatUsage, type UsageReader } from './usage.ts';

/** What a member of an upstream's object is to the gateway. */
export const OTHER = 0;
export const MODEL = 1;
export const ERROR = 2;
export const LEAKING = 3;
export const USAGE = 4;
/** A usage inside an object named after a provider, such as `x_groq`: it is read, and the object is removed. */
export const GROQ = 5;
export const CHOICES = 6;
/** The member that holds the whole answer, in dialects other than chat completions. */
export const RESULT = 7;
/** An object that holds the answer, or what is known of it. */
export const NESTED = 8;
/** The type of an event. */
export const TYPE = 9;
/** An id in which LiteLLM writes provider and deployment, in base64. */
export const CODED_ID = 10;
/** An object that may hold the usage, as Cohere and LiteLLM have it. */
export const META = 11;
/** The service tier that served the call. */
export const TIER = 12;
/** Generated text. */
export const DELTA = 13;
/** The input of a tool: generated text, or an object of which every name and value is generated. */
export const INPUT = 14;
/** Tokens of generated text that the answer has elsewhere as well; they may have any name. */
export const AGAIN = 15;
/** A value that the caller wrote and the answer repeats: members in it are the caller's, whatever their names. */
export const CALLERS = 16;
/** An object that repeats tokens of generated text, as members of kind AGAIN. */
export const PROBS = 17;
/** The caller's own text where it is a member of a result; a member of this name elsewhere is an ordinary one. */
export const OF_RESULT = 18;

interface Entry {
  readonly bytes: Buffer;
  readonly kind: number;
}

/** Names and their kinds. The length, the first and the last byte of a key say which few it is compared with. */
export interface NameTable {
  /** The index in `entries` of the names with each `slotOf`; 0: no name has it. */
  readonly slots: Uint8Array;
  readonly entries: readonly (readonly Entry[])[];
  /** `firsts`: the index in `parts` of the beginnings of names with each `pairOf` of the first two bytes; `lasts`: of the ends, by the last two bytes. 0: none. */
  readonly firsts: Uint8Array;
  readonly lasts: Uint8Array;
  readonly parts: readonly (readonly Entry[])[];
  /** Words that count anywhere in a key, and their first bytes. Only keys of a usage are searched for such words. */
  readonly middles: readonly Entry[];
  readonly middleFirsts: Uint8Array;
}

/** The names to look for in an upstream's objects, prepared once by `memberTable`. */
export interface MemberTable {
  readonly topLevel: NameTable;
  /** Nested members: MODEL, LEAKING, DELTA, INPUT, CALLERS, PROBS and OF_RESULT. */
  readonly below: NameTable;
  /** Members of a usage, however deep: MODEL and LEAKING; of its own: TIER. */
  readonly ofUsage: NameTable;
  /** Members of PROBS: MODEL, LEAKING and AGAIN. */
  readonly ofProbs: NameTable;
  /** Whether nested generated text is counted: it is new, and not the caller's. */
  readonly counts: boolean;
  /** Whether an answer that names no model gets one. */
  readonly addsModel: boolean;
  /** The table of the object in a NESTED member. */
  readonly nested: MemberTable | null;
  readonly usage: UsageReader;
}

/** What a member table is made of. */
interface MemberNames {
  /** The top-level members of the dialect and their kinds. */
  readonly format: Readonly<Record<string, number>>;
  /** Members to remove, however deep they are. `*` stands for the rest of a name, before or behind. */
  readonly leaking?: readonly string[];
  /** Words: a member of a usage whose name has one of them is removed. */
  readonly leakingInUsage?: readonly string[];
  /** Nested members whose string values are generated text. */
  readonly generated?: readonly string[];
  /** Nested members whose values are generated, strings and objects alike. */
  readonly inputs?: readonly string[];
  /** Nested members that repeat what the caller wrote. */
  readonly callers?: readonly string[];
  /** Nested members that repeat generated text, and their members that hold its tokens. */
  readonly probs?: readonly [names: readonly string[], tokens: readonly string[]];
  /** Members of a result that the caller wrote. */
  readonly ofResult?: readonly string[];
  /** Nested members whose string values name a model. Those of a usage always do. */
  readonly models?: readonly string[];
  /** Members of a usage that name the service tier. */
  readonly tiers?: readonly string[];
  readonly counts?: boolean;
  readonly addsModel?: boolean;
  readonly nested?: MemberTable;
  readonly usage?: UsageReader;
}

const SLOTS = 1024;
const PAIRS = 1024;
const REST = '*';
const TOKENS = Buffer.from('tokens');

/** The table for generated text and the caller's own text: no member within them is looked at. */
export const NO_NAMES: NameTable = nameTable([]);

export function memberTable(names: MemberNames): MemberTable {
  const {
    format,
    leaking = [],
    generated = [],
    inputs = [],
    callers = [],
    models = [],
    tiers = [],
    counts = true,
  } = names;
  const {
    addsModel = true,
    nested = null,
    usage = chatUsage,
    leakingInUsage = [],
    probs: [probs, tokens] = [[], []],
    ofResult = [],
  } = names;
  const leaks = of(leaking, LEAKING);
  return {
    topLevel: nameTable([...leaks, ...Object.entries(format)]),
    below: nameTable([
      ...leaks,
      ...of(generated, DELTA),
      ...of(inputs, INPUT),
      ...of(callers, CALLERS),
      ...of(probs, PROBS),
      ...of(ofResult, OF_RESULT),
      ...of(models, MODEL),
    ]),
    ofUsage: nameTable(
      [...leaks, ['model', MODEL], ...of(tiers, TIER)],
      of(leakingInUsage, LEAKING),
    ),
    ofProbs:
      tokens.length === 0
        ? NO_NAMES
        : nameTable([...leaks, ...of(models, MODEL), ...of(tokens, AGAIN)]),
    counts,
    addsModel,
    nested,
    usage,
  };
}

type Kinds = readonly (readonly [name: string, kind: number])[];

function of(names: readonly string[], kind: number): Kinds {
  return names.map((name) => [name, kind]);
}

/**
 * @param kinds names and their kinds; the last of two equal names counts
 * @param within words that count anywhere in a key, unless the key ends in "tokens", as most keys of a usage do
 */
export function nameTable(kinds: Kinds, within: Kinds = []): NameTable {
  const slots = new Uint8Array(SLOTS);
  const entries: Entry[][] = [[]];
  for (const [name, kind] of new Map(kinds)) {
    if (name.includes(REST)) continue;
    const bytes = Buffer.from(name);
    add(slots, slotOf(bytes, 0, bytes.length), entries, { bytes, kind });
  }
  const firsts = new Uint8Array(PAIRS);
  const lasts = new Uint8Array(PAIRS);
  const parts: Entry[][] = [[]];
  for (const [name, kind] of kinds) {
    if (!name.includes(REST)) continue;
    const bytes = Buffer.from(name.replace(REST, ''));
    if (bytes.length < 2)
      throw new RangeError(`a part of a name has two characters at least: ${name}`);
    if (name.endsWith(REST)) add(firsts, pairOf(bytes, 0), parts, { bytes, kind });
    else add(lasts, pairOf(bytes, bytes.length - 2), parts, { bytes, kind });
  }
  const middles = within.map(([name, kind]) => ({ bytes: Buffer.from(name), kind }));
  const middleFirsts = new Uint8Array(256);
  for (const { bytes } of middles) middleFirsts[bytes[0] as number] = 1;
  if (middles.length > 0) {
    const none = parts.push([]) - 1; // no ends, but kindOfPart is called
    for (let at = 0; at < PAIRS; at++)
      if (lasts[at] === 0 && at !== pairOf(TOKENS, 4)) lasts[at] = none;
  }
  return { slots, entries, firsts, lasts, parts, middles, middleFirsts };
}

function add(index: Uint8Array, at: number, entries: Entry[][], entry: Entry): void {
  if (index[at] === 0) index[at] = entries.push([]) - 1;
  entries[index[at] as number]?.push(entry);
}

function slotOf(b: Buffer, start: number, length: number): number {
  return (
    (length * 37 + (b[start] as number) * 11 + (b[start + length - 1] as number) * 5) & (SLOTS - 1)
  );
}

/** The hash of two bytes of a key. One byte would not tell keys apart: "content" begins and ends as "cost" does. */
function pairOf(b: Buffer, at: number): number {
  return ((b[at] as number) * 31 + (b[at + 1] as number)) & (PAIRS - 1);
}

/** The kind of the entry whose name is written at `start`, without escapes; OTHER where there is none. */
export function kindAmong(table: NameTable, b: Buffer, start: number, length: number): number {
  const slot = table.slots[slotOf(b, start, length)] as number;
  if (slot !== 0) {
    const entries = table.entries[slot] as readonly Entry[];
    for (let k = 0; k < entries.length; k++) {
      const { bytes, kind } = entries[k] as Entry;
      if (equals(b, start, length, bytes)) return kind;
    }
  }
  const first = table.firsts[pairOf(b, start)] as number; // of a key of one byte, one is its quote
  const last = table.lasts[pairOf(b, start + length - 2)] as number;
  return (first | last) === 0 ? OTHER : kindOfPart(table, first, last, b, start, length);
}

/** The kind of the entry that is a proper beginning or end of the key, or a word within it. */
function kindOfPart(
  table: NameTable,
  first: number,
  last: number,
  b: Buffer,
  start: number,
  length: number,
): number {
  const beginnings = table.parts[first] as readonly Entry[];
  for (let k = 0; k < beginnings.length; k++) {
    const { bytes, kind } = beginnings[k] as Entry;
    if (length > bytes.length && equals(b, start, bytes.length, bytes)) return kind;
  }
  const ends = table.parts[last] as readonly Entry[];
  for (let k = 0; k < ends.length; k++) {
    const { bytes, kind } = ends[k] as Entry;
    if (length > bytes.length && equals(b, start + length - bytes.length, bytes.length, bytes))
      return kind;
  }
  return table.middles.length === 0 ? OTHER : kindOfMiddle(table, b, start, start + length);
}

function kindOfMiddle(
  { middles, middleFirsts }: NameTable,
  b: Buffer,
  start: number,
  end: number,
): number {
  for (let i = start; i < end; i++) {
    if (middleFirsts[b[i] as number] === 0) continue;
    for (let k = 0; k < middles.length; k++) {
      const { bytes, kind } = middles[k] as Entry;
      if (end - i >= bytes.length && equals(b, i, bytes.length, bytes)) return kind;
    }
  }
  return OTHER;
}

/** As `kindAmong`, for a key that may be written with escapes. */
export function kindOfEscaped(table: NameTable, b: Buffer, start: number, length: number): number {
  if (length > LONG_STRING || !b.subarray(start, start + length).includes(BACKSLASH)) return OTHER;
  const name = Buffer.from(decodeString(b, start, start + length));
  return kindAmong(table, name, 0, name.length);
}
