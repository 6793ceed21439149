import { BACKSLASH, decodeString, equals, LONG_STRING } from './bytes.ts';
import { chatUsage, type UsageReader } from './usage.ts';

/** What a top-level member of an upstream's object is to the gateway. */
export const OTHER = 0;
export const MODEL = 1;
export const ERROR = 2;
export const LEAKING = 3;
export const USAGE = 4;
/** A usage inside an object that bears the name of a provider: it is read, and removed. */
export const GROQ = 5;
export const CHOICES = 6;
/** What a whole answer consists of, in other dialects than that of chat completions. */
export const RESULT = 7;
/** An object that holds the answer, or what is known of it. */
export const NESTED = 8;
/** The type of an event. */
export const TYPE = 9;
/** Generated text. */
export const DELTA = 10;
/** Generated text, or an object that is generated with all in it: the input of a tool. */
export const INPUT = 11;
/** An id in which LiteLLM writes provider and deployment, in base64. */
export const CODED_ID = 12;

interface Entry {
  readonly bytes: Buffer;
  readonly kind: number;
}

/** Entries by the length of their names: most keys are told apart by that alone. */
type ByLength = readonly (readonly Entry[])[];

/** The names to look for in an upstream's objects, prepared once by `memberTable`. */
export interface MemberTable {
  readonly topLevel: ByLength;
  /** The entries of `topLevel` by name, for keys written with escapes. */
  readonly byName: ReadonlyMap<string, number>;
  /** Nested members: MODEL, DELTA and INPUT. Names with escapes are not looked up. */
  readonly below: ByLength;
  /** The members of a usage that tell its price; null: they stay. */
  readonly price: MemberTable | null;
  /** The table of the object in a NESTED member. */
  readonly nested: MemberTable | null;
  readonly usage: UsageReader;
}

/** What a member table is made of. */
interface MemberNames {
  /** The top-level members of the dialect and their kinds. */
  readonly format: Readonly<Record<string, number>>;
  /** Top-level members to remove. */
  readonly leaking?: readonly string[];
  /** Nested members whose string values are generated text. */
  readonly generated?: readonly string[];
  /** Of these, those whose objects are generated too. */
  readonly inputs?: readonly string[];
  /** Nested members whose string values name a model. Those of a usage always do. */
  readonly models?: readonly string[];
  /** Members of a usage to remove. */
  readonly price?: readonly string[];
  readonly nested?: MemberTable;
  readonly usage?: UsageReader;
}

const MODEL_MEMBER = { model: MODEL };

export function memberTable(names: MemberNames): MemberTable {
  const { format, leaking = [], generated = [], inputs = [], models = [], price = [] } = names;
  const { nested = null, usage = chatUsage } = names;
  const topLevel = [...leaking.map((name) => [name, LEAKING] as const), ...Object.entries(format)];
  return {
    topLevel: byLength(topLevel),
    byName: new Map(topLevel),
    below: byLength([
      ...models.map((name) => [name, MODEL] as const),
      ...inputs.map((name) => [name, INPUT] as const),
      ...generated.map((name) => [name, DELTA] as const),
    ]),
    price: price.length === 0 ? null : memberTable({ format: MODEL_MEMBER, leaking: price, models: ['model'] }),
    nested,
    usage,
  };
}

function byLength(names: readonly (readonly [string, number])[]): ByLength {
  const longest = Math.max(0, ...names.map(([name]) => name.length));
  return Array.from({ length: longest + 1 }, (_, length) =>
    names.filter(([name]) => name.length === length).map(([name, kind]) => ({ bytes: Buffer.from(name), kind })),
  );
}

/** What the top-level key with the content [start, start + length) is. */
export function kindOf(table: MemberTable, b: Buffer, start: number, length: number): number {
  const kind = kindAmong(table.topLevel, b, start, length);
  if (kind !== OTHER || length > LONG_STRING) return kind;
  for (let i = start; i < start + length; i++) {
    if (b[i] === BACKSLASH) return table.byName.get(decodeString(b, start, start + length)) ?? OTHER;
  }
  return OTHER;
}

/** The kind of the entry whose name is written at `start`, without escapes; OTHER where there is none. */
export function kindAmong(table: ByLength, b: Buffer, start: number, length: number): number {
  if (length >= table.length) return OTHER;
  const entries = table[length] as readonly Entry[];
  for (let k = 0; k < entries.length; k++) {
    const { bytes, kind } = entries[k] as Entry;
    if (equals(b, start, length, bytes)) return kind;
  }
  return OTHER;
}
