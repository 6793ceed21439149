/**
 * JSON readers of many tempers, none of them ours: what an upstream might make of a body.
 * One lenient parser keeps every member in order; the readers differ in which one they take.
 */

/** An object as written: members in order, duplicates and all. */
export type Pairs = readonly (readonly [string, Value])[];
export type Value =
  | { readonly pairs: Pairs }
  | { readonly items: readonly Value[] }
  | { readonly scalar: unknown };

export interface Reader {
  readonly name: string;
  /** The member of this name, as this reader finds it; undefined when it finds none. */
  member(pairs: Pairs, name: string): Value | undefined;
}

const last = (pairs: Pairs, is: (key: string) => boolean) =>
  pairs.findLast(([key]) => is(key))?.[1];
const first = (pairs: Pairs, is: (key: string) => boolean) => pairs.find(([key]) => is(key))?.[1];

/** Go's simple case folding, as far as ASCII names are concerned. */
const goFold = (key: string) =>
  key.toLowerCase().replaceAll('\u017f', 's').replaceAll('\u212a', 'k');
/** Character by character, upper then lower, as Java compares ignoring case. */
const javaFold = (key: string) =>
  [...key].map((c) => c.toUpperCase().toLowerCase()[0] ?? c).join('');
const beforeNul = (key: string) => key.split('\0')[0] as string;
const camel = (name: string) => name.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase());

export const READERS: readonly Reader[] = [
  { name: 'last wins', member: (pairs, name) => last(pairs, (key) => key === name) },
  { name: 'first wins', member: (pairs, name) => first(pairs, (key) => key === name) },
  { name: 'Go, last wins', member: (pairs, name) => last(pairs, (key) => goFold(key) === name) },
  { name: 'Go, first wins', member: (pairs, name) => first(pairs, (key) => goFold(key) === name) },
  {
    name: 'Java ignoring case',
    member: (pairs, name) => last(pairs, (key) => javaFold(key) === name),
  },
  {
    name: 'names end at a NUL',
    member: (pairs, name) => last(pairs, (key) => beforeNul(key) === name),
  },
  {
    name: 'camel case as well',
    member: (pairs, name) => last(pairs, (key) => key === name || key === camel(name)),
  },
];

/** The value as plain JavaScript, read by one reader's habits where objects hold duplicates. */
export function plain(value: Value | undefined): unknown {
  if (value === undefined) return undefined;
  if ('scalar' in value) return value.scalar;
  if ('items' in value) return value.items.map(plain);
  return Object.fromEntries(value.pairs.map(([key, inner]) => [key, plain(inner)]));
}

/**
 * Reads what any reader might accept: a byte order mark, comments, trailing commas, NaN,
 * Infinity, single quotes, bare words as keys, and whatever follows the object.
 * @returns null when even that is too much
 */
export function readLeniently(bytes: Buffer): Pairs | null {
  const text = bytes.toString('utf8').replace(/^\ufeff/, '');
  let i = 0;

  function space(): void {
    for (;;) {
      const skipped = /^(?:[\s\0]+|\/\/[^\n]*|\/\*[\s\S]*?\*\/|#[^\n]*)/.exec(
        text.slice(i, i + 4000),
      );
      if (skipped === null) return;
      i += skipped[0].length;
    }
  }
  function fail(): never {
    throw new SyntaxError(`at ${i}`);
  }
  function string(quote: string): string {
    let out = '';
    for (i++; text[i] !== quote; i++) {
      if (i >= text.length) fail();
      if (text[i] !== '\\') {
        out += text[i];
        continue;
      }
      const c = text[++i] as string;
      if (c === 'u') {
        out += String.fromCharCode(Number.parseInt(text.slice(i + 1, i + 5), 16));
        i += 4;
      } else out += { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }[c] ?? c;
    }
    i++;
    return out;
  }
  function word(): string {
    const [found] = /^[\w$.+-]+/.exec(text.slice(i, i + 4000)) ?? [];
    if (found === undefined) fail();
    i += found.length;
    return found;
  }
  function value(): Value {
    space();
    const c = text[i];
    if (c === '{') return { pairs: object() };
    if (c === '"' || c === "'") return { scalar: string(c) };
    if (c !== '[') {
      const found = word();
      const known: Record<string, unknown> = { true: true, false: false, null: null };
      return { scalar: found in known ? known[found] : Number(found) };
    }
    i++;
    const items: Value[] = [];
    for (space(); text[i] !== ']'; space()) {
      items.push(value());
      space();
      if (text[i] === ',') i++;
      else if (text[i] !== ']') fail();
    }
    i++;
    return { items };
  }
  function object(): Pairs {
    i++;
    const pairs: [string, Value][] = [];
    for (space(); text[i] !== '}'; space()) {
      const c = text[i];
      const key = c === '"' || c === "'" ? string(c) : word();
      space();
      if (text[i++] !== ':') fail();
      pairs.push([key, value()]);
      space();
      if (text[i] === ',') i++;
      else if (text[i] !== '}') fail();
    }
    i++;
    return pairs;
  }

  try {
    space();
    return text[i] === '{' ? object() : null;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null;
    throw error;
  }
}
