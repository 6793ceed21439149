import { BACKSLASH, LONG_STRING, unescaped } from './members.ts';

/** What a top-level member of an upstream's object is to the gateway. */
export const OTHER = 0;
export const MODEL = 1;
export const ERROR = 2;
export const LEAKING = 3;
export const USAGE = 4;
export const GROQ = 5;
export const CHOICES = 6;

interface Entry {
  readonly bytes: Buffer;
  readonly kind: number;
}

/** Entries by the length of their names: most keys are told apart by that alone. */
type ByLength = readonly (readonly Entry[])[];

/** The names to look for in an upstream's objects, prepared once by `memberTable`. */
export interface MemberTable {
  readonly topLevel: ByLength;
  /** The same by name, for keys written with escapes. */
  readonly byName: ReadonlyMap<string, number>;
  readonly generated: ByLength;
  /** The members of a usage that tell its price; null: they stay. */
  readonly price: MemberTable | null;
}

/** Members of every upstream's objects. Groq has the usage in an object of its own. */
const FORMAT: readonly (readonly [string, number])[] = [
  ['model', MODEL],
  ['error', ERROR],
  ['usage', USAGE],
  ['x_groq', GROQ],
  ['choices', CHOICES],
];

const NO_ENTRIES: readonly Entry[] = [];

/**
 * @param leaking top-level members to remove
 * @param generated nested members whose string values are generated text
 * @param price members of a usage to remove
 */
export function memberTable(
  leaking: readonly string[],
  generated: readonly string[],
  price: readonly string[] = [],
): MemberTable {
  const topLevel = [...FORMAT, ...leaking.map((name) => [name, LEAKING] as const)];
  return {
    topLevel: byLength(topLevel),
    byName: new Map(topLevel),
    generated: byLength(generated.map((name) => [name, OTHER])),
    price: price.length === 0 ? null : memberTable(price, []),
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
  const entries = length < table.topLevel.length ? (table.topLevel[length] as readonly Entry[]) : NO_ENTRIES;
  for (let k = 0; k < entries.length; k++) {
    const { bytes, kind } = entries[k] as Entry;
    if (equals(b, start, length, bytes)) return kind;
  }
  if (length > LONG_STRING) return OTHER;
  for (let i = start; i < start + length; i++) {
    if (b[i] === BACKSLASH) return table.byName.get(unescaped(b, start, start + length)) ?? OTHER;
  }
  return OTHER;
}

/** Whether string values of this nested key are generated text. */
export function isGenerated(generated: ByLength, b: Buffer, start: number, length: number): boolean {
  if (length >= generated.length) return false;
  const entries = generated[length] as readonly Entry[];
  for (let k = 0; k < entries.length; k++) if (equals(b, start, length, (entries[k] as Entry).bytes)) return true;
  return false;
}

export function equals(b: Buffer, start: number, length: number, name: Buffer): boolean {
  if (length !== name.length) return false;
  for (let i = 0; i < length; i++) if (b[start + i] !== name[i]) return false;
  return true;
}
