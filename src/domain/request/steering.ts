import { NameSet } from '../members/name-set.ts';
import {
  CALLERS_DATED_TOOLS,
  CALLERS_TOOLS,
  CALLERS_UNNAMED_TOOLS,
  EMPTY_COUNTS,
  HARMLESS,
  PLAIN_FORMATS,
  REFERENCE_MEMBERS,
  STEERING_METADATA,
  STEERING_TABLE,
  STEERING_WITHIN,
} from '../members/steering-table.ts';

/**
 * The standard list of refused members: `x` at the top level, and in `metadata` unless it is a string
 * there; `metadata.x` there alone, `metadata.x[]` there unless it is a string; `tools.x` a type of
 * tool; `formats.x` a type of the answer's form; `y.x` within one of REFUSED_WITHIN. `*` is as in NameSet. The table
 * says who obeys them and what they would do.
 */
export const STEERING: readonly string[] = [
  ...STEERING_TABLE.flatMap(namesOf),
  ...STEERING_WITHIN.flatMap(namesOf),
  'tools.*',
  'formats.*',
  ...STEERING_METADATA.flatMap(namesOf).map((name) => `metadata.${name}`),
];

/** The names of a row. */
function namesOf([names]: readonly [names: string, ...unknown[]]): string[] {
  return names.split(/\s+/);
}

/** Members of the reference format: allowed unless the list names them exactly. */
export const REFERENCE: ReadonlySet<string> = new Set(REFERENCE_MEMBERS.split(/\s+/));

/** Members of the reference format that the gateway decides by: other spellings are refused. */
const GOVERNED = [
  'stream_options',
  'encoding_format',
  'service_tier', // Bedrock's is `serviceTier`, an object
  'max_tokens',
  'max_completion_tokens',
  'tools',
  'functions',
];

/** Members in which others are refused, besides `metadata` and tools. */
export const REFUSED_WITHIN: readonly string[] = [
  ...new Set(STEERING_WITHIN.flatMap(namesOf).map((name) => name.split('.', 1)[0] as string)),
];

const METADATA = 'metadata.';
const TOOLS = 'tools.';
const FORMATS = 'formats.';
const PARENTS = [METADATA, TOOLS, FORMATS, ...REFUSED_WITHIN.map((parent) => `${parent}.`)];
const NOT_A_STRING = '[]';

/** A list in the form of STEERING, prepared for look-ups: each takes as long as the longest entry at most. */
export class SteeringFilter {
  /** Of the top level, and of `metadata` unless it is a string there. */
  readonly #members: NameSet;
  readonly #governed = new NameSet(GOVERNED);
  readonly #evenEmpty = new NameSet(EMPTY_COUNTS.split(/\s+/));
  readonly #metadata: NameSet;
  readonly #structured: NameSet;
  readonly #within: ReadonlyMap<string, NameSet>;
  readonly #allowedStructured: NameSet;
  readonly #harmless: ReadonlySet<string>;
  readonly #tools: NameSet;
  readonly #callersTools: readonly string[];
  readonly #exemptTools: ReadonlySet<string>;
  readonly #formats: NameSet;
  readonly #plainFormats: ReadonlySet<unknown>;

  /** @param names entries that begin with `-` are exempt from the patterns */
  constructor(names: readonly string[]) {
    const listed = names.filter((name) => !name.startsWith('-'));
    const exempt = names.filter((name) => name.startsWith('-')).map((name) => name.slice(1));
    const inMetadata = within(listed, METADATA);
    const members = listed.filter((name) => !PARENTS.some((parent) => name.startsWith(parent)));
    const structured = inMetadata.filter((name) => name.endsWith(NOT_A_STRING)).map(withoutMark);
    this.#members = new NameSet(members);
    this.#metadata = new NameSet(inMetadata.filter((name) => !name.endsWith(NOT_A_STRING)));
    this.#structured = new NameSet(structured);
    this.#allowedStructured = new NameSet(within(exempt, METADATA).map(withoutMark));
    this.#within = new Map(
      REFUSED_WITHIN.map((parent) => [parent, new NameSet(within(listed, `${parent}.`))]),
    );
    const harmless = new Set([...REFERENCE, ...HARMLESS.flatMap(namesOf)]);
    for (const name of members) harmless.delete(name);
    for (const name of exempt) harmless.add(name);
    this.#harmless = harmless;
    const tools = within(listed, TOOLS);
    this.#tools = new NameSet(tools);
    this.#callersTools = CALLERS_TOOLS.filter((type) => !tools.includes(type));
    this.#exemptTools = new Set(within(exempt, TOOLS));
    const formats = within(listed, FORMATS);
    this.#formats = new NameSet(formats);
    this.#plainFormats = new Set([
      ...PLAIN_FORMATS.filter((type) => !formats.includes(type)),
      ...within(exempt, FORMATS),
    ]);
  }

  /** Whether a top-level member is refused. */
  refuses(name: string): boolean {
    return !this.#harmless.has(name) && (this.#members.has(name) || this.#governed.has(name));
  }

  /** Whether a refused member is refused where it is null or empty, too. */
  refusesEmpty(name: string): boolean {
    return this.#evenEmpty.has(name) || this.#governed.has(name);
  }

  /** Whether a member of `metadata` is refused. */
  refusesInMetadata(name: string, isString: boolean): boolean {
    if (this.#metadata.has(name)) return true;
    if (isString || this.#allowedStructured.has(name)) return false;
    return this.#members.has(name) || this.#structured.has(name);
  }

  /** Whether a member within one of REFUSED_WITHIN is refused. */
  refusesWithin(parent: string, name: string): boolean {
    return this.#within.get(parent)?.has(name) === true;
  }

  /** Whether a form of the answer of this type is refused. One without a type is text, or a schema. */
  refusesFormat(type: unknown): boolean {
    if (type === undefined || type === null || this.#plainFormats.has(type)) return false;
    return this.#formats.has(typeof type === 'string' ? type : 'null');
  }

  /** Whether a tool of this type is refused. A tool of the caller's own has a name, and a type that is a string. */
  refusesTool(type: unknown, isNamed = true): boolean {
    const name = typeof type === 'string' ? type : 'null';
    if (!this.#tools.has(name) || this.#exemptTools.has(name)) return false;
    return !isNamed || !(this.#callersTools.includes(name) || CALLERS_DATED_TOOLS.test(name));
  }
}

/** Whether the tool is the caller's own though it has no name. With other members a router may make another tool of it. */
export function isCallersUnnamedTool(tool: Readonly<Record<string, unknown>>): boolean {
  const { type, execution } = tool;
  if (typeof type !== 'string') return false;
  const [, needed, members = ''] =
    CALLERS_UNNAMED_TOOLS.find(([pattern]) => pattern.test(type)) ?? [];
  const allowed = members.split(' ');
  return execution === needed && Object.keys(tool).every((name) => allowed.includes(name));
}

function within(names: readonly string[], parent: string): string[] {
  return names.filter((name) => name.startsWith(parent)).map((name) => name.slice(parent.length));
}

function withoutMark(name: string): string {
  return name.endsWith(NOT_A_STRING) ? name.slice(0, -NOT_A_STRING.length) : name;
}

/**
 * The list that REFUSED_PARAMETERS asks for. Names with + or - add to the standard list or remove
 * from it, or exempt from a pattern in it; names without replace it. The configuration refuses a mixture.
 */
export function refusedNames(setting: string): readonly string[] {
  const items = setting.split(/[\s,]+/).filter((item) => item !== '');
  const adjusting = items.filter((item) => /^[+-]/.test(item));
  if (adjusting.length === 0) return items.length === 0 ? STEERING : items;
  const removed = new Set(
    items.filter((item) => item.startsWith('-')).map((item) => item.slice(1)),
  );
  const added = items.filter((item) => item.startsWith('+')).map((item) => item.slice(1));
  const exempt = [...removed].filter((name) => !STEERING.includes(name)).map((name) => `-${name}`);
  return [...STEERING.filter((name) => !removed.has(name)), ...added, ...exempt];
}
