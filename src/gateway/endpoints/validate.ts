import {
  type ErrorName,
  GatewayError,
  twoReadings,
  unsupportedParameter,
} from '../../domain/errors.ts';
import {
  isLimit,
  type LimitFormat,
  mayLimit,
  unclearLimit,
} from '../../domain/members/completion-limit.ts';
import { requireNoFiles } from '../../domain/request/stateless.ts';
import { REFUSED_WITHIN, type SteeringFilter } from '../../domain/request/steering.ts';
import { LETTER_N, QUOTE } from '../../json/bytes.ts';
import {
  ambiguous,
  type JsonFault,
  MAX_MEMBERS,
  MAX_NAMES,
  MAX_VALUES,
  type Member,
  type Members,
  memberNamed,
  type ParsedObject,
} from '../../json/members.ts';
import type { RequestBody, ValidBody } from '../request/body.ts';
import { bytesWithin, membersWithin, objectWithin, requireOnce } from './members-within.ts';
import { validateTools } from './tools.ts';

/** What the format of an endpoint says of a request body. */
export interface BodyRules<T> {
  /** Checks the schema. @throws GatewayError 400 */
  check(value: unknown): T;
  /** How the format limits an answer; undefined: it does not. */
  readonly limits?: LimitFormat;
  /** Members that the gateway decides by: refused where two readers could disagree about them. */
  readonly governed: readonly string[];
  /** Steering members that the endpoint checks itself. */
  readonly own?: readonly string[];
  /** Members whose items may name files, besides the plain ones. */
  readonly withParts?: readonly string[];
  /** The type of a tool that has none. */
  readonly untypedTool?: string | null;
}

/**
 * Checks a request body (spec section 4). It is parsed for the check and kept as bytes to be sent on.
 * @param steering members that could choose another model, host or key, which are refused; null: the schema refuses them
 * @throws GatewayError 400
 */
export function validateBody<T>(
  body: RequestBody,
  rules: BodyRules<T>,
  steering: SteeringFilter | null,
): ValidBody<T> {
  const { object } = body;
  if (typeof object === 'string') throw new GatewayError(...FAULTS[object]);
  const { members, watched, retyped } = object;
  const plain = PLAIN.get(rules);
  const isKnown =
    plain !== undefined && plain.steering === steering && haveNames(members, plain.names);
  if (!isKnown) {
    const twice = ambiguous(members, rules.governed) ?? ambiguous(members, GOVERNED_EVERYWHERE);
    if (twice !== null) throw twoReadings(twice);
  }
  for (const index of retyped) {
    const { name } = members[index] as Member;
    if (WITH_TYPES.includes(name)) throw twoReadings(`${name}[].type`);
  }
  if (watched.length > 0) {
    const found = watched.map(({ member, key }) => ({
      name: (members[member] as Member).name,
      key,
    }));
    requireNoFiles(found, (member) => steering?.refuses(member) !== false, rules.withParts);
  }
  const hasEmpty = steering !== null && !isKnown && refuseSteering(body, object, steering, rules);
  const request = rules.check(object.value);
  const limiting = isKnown ? plain.limiting : limitingNames(members);
  if (!isKnown && !hasEmpty) notePlain(members, rules, steering, limiting);
  const unclear =
    rules.limits === undefined ? null : unclearLimit(object.value, rules.limits, limiting);
  if (unclear !== null) throw twoReadings(unclear);
  return { request, body, members, limiting };
}

/** Names of members, in their order, with which nothing is wrong and in which nothing is to be checked. */
interface PlainNames {
  readonly steering: SteeringFilter | null;
  readonly names: readonly string[];
  /** Those that may limit the answer. */
  readonly limiting: readonly string[];
}

/** The names of the last such body of each format: most callers send the same ones again, and 0.7 µs are saved. */
const PLAIN = new WeakMap<object, PlainNames>();
/** The most names that are remembered. */
const MOST_PLAIN = 32;

function haveNames(members: Members, names: readonly string[]): boolean {
  if (members.length !== names.length) return false;
  for (let i = 0; i < names.length; i++) if ((members[i] as Member).name !== names[i]) return false;
  return true;
}

function notePlain(
  members: Members,
  rules: object,
  steering: SteeringFilter | null,
  limiting: readonly string[],
): void {
  if (members.length > MOST_PLAIN || members.some(({ name }) => CHECKED.has(name))) return;
  PLAIN.set(rules, { steering, names: members.map(({ name }) => name), limiting });
}

const NONE: readonly string[] = [];

/** Names of the members that may limit the answer. @throws GatewayError 400 for a limit that occurs twice */
function limitingNames(members: Members): readonly string[] {
  let names: Set<string> | null = null;
  for (const { name } of members) {
    if (!mayLimit(name)) continue;
    names ??= new Set();
    if (names.has(name) && isLimit(name)) throw twoReadings(name);
    names.add(name);
  }
  return names === null ? NONE : [...names];
}

/** Members whose items are checked by their type. */
const WITH_TYPES = ['tools', 'functions', 'input'];
/** Members that hold the form of the answer: null, or in a member of this name. */
const WITH_FORMAT: ReadonlyMap<string, string | null> = new Map([
  ['response_format', null],
  ['output_format', null],
  ['text', 'format'],
  ['output_config', 'format'],
]);
/** Members whose own members are checked. */
const WITH_MEMBERS = ['metadata', 'tools', 'functions', ...REFUSED_WITHIN, ...WITH_FORMAT.keys()];
const CHECKED: ReadonlySet<string> = new Set(WITH_MEMBERS);
const GOVERNED_EVERYWHERE = [...WITH_MEMBERS, 'service_tier'];
/** The largest member with a schema, in bytes: it is read once more, in one piece, which takes 2 to 5 ms. Providers take 120 kB. */
const MOST_SCHEMA = 262_144;

/** @returns whether a member passed because it is empty: another body with the same names may ask for something */
function refuseSteering(
  body: RequestBody,
  { members, value }: ParsedObject,
  steering: SteeringFilter,
  { own = NONE, untypedTool = null }: BodyRules<unknown>,
): boolean {
  let hasEmpty = false;
  for (const member of members) {
    const { name } = member;
    if (steering.refuses(name) && !own.includes(name)) {
      if (!isEmpty(body.slice(member.valueStart, member.valueEnd)) || steering.refusesEmpty(name))
        throw unsupportedParameter(name);
      hasEmpty = true;
    }
    if (!CHECKED.has(name)) continue;
    if (name === 'metadata') validateMetadata(body, member, steering);
    else if (name === 'tools') validateTools(body, member, value.tools, { steering, untypedTool });
    else if (name === 'functions')
      validateTools(body, member, value.functions, { steering, untypedTool: 'function' });
    else if (WITH_FORMAT.has(name))
      validateFormat(bytesWithin(body, member, MOST_SCHEMA), name, name, steering);
    else validateWithin(body, member, steering);
  }
  return hasEmpty;
}

/** Whether a value is null or an empty list, which ask for nothing. An empty object may: of defaults, as a search. */
function isEmpty(value: Buffer): boolean {
  return value.length <= MOST_EMPTY && EMPTY.test(value.toString('latin1'));
}

const EMPTY = /^(?:null|\[\s*\])$/;
/** The longest value, in bytes, that is looked at: an empty one may hold blanks. */
const MOST_EMPTY = 64;

/** Checks `metadata`: routers obey members of it too, and read text in it as JSON. */
function validateMetadata(body: RequestBody, member: Member, steering: SteeringFilter): void {
  const bytes = bytesWithin(body, member);
  if (bytes.equals(NULL)) return;
  const members = membersWithin(bytes, member);
  if (members === null) {
    throw new GatewayError(
      'invalid_type',
      "Invalid type for 'metadata': must be object or null.",
      'metadata',
    );
  }
  for (const { name, valueStart, valueEnd } of members) {
    if (!steering.refusesInMetadata(name, bytes[valueStart] === QUOTE)) continue;
    if (isEmpty(bytes.subarray(valueStart, valueEnd)) && !steering.refusesEmpty(name)) continue;
    throw unsupportedParameter(`metadata.${beforeNul(name)}`);
  }
}

/** Refuses members of one of REFUSED_WITHIN, unless they are null. */
function validateWithin(body: RequestBody, member: Member, steering: SteeringFilter): void {
  const bytes = bytesWithin(body, member, MOST_SCHEMA);
  if (bytes[0] === QUOTE) {
    // some read a text as JSON
    throw new GatewayError(
      'invalid_type',
      `Invalid type for '${member.name}': must be object or null.`,
      member.name,
    );
  }
  for (const { name, valueStart } of membersWithin(bytes, member) ?? []) {
    if (bytes[valueStart] === LETTER_N || !steering.refusesWithin(member.name, name)) continue;
    throw unsupportedParameter(`${member.name}.${beforeNul(name)}`);
  }
}

/**
 * Refuses forms of an answer that are programs: the engine would run them.
 * @param value what stands at `at`
 * @param name of the member or, below it, of the member of it, for which WITH_FORMAT says where the form is
 */
function validateFormat(value: Buffer, at: string, name: string, steering: SteeringFilter): void {
  const object = objectWithin(value, at);
  if (object === null) return;
  const inner = WITH_FORMAT.get(name) ?? null;
  requireOnce(object.members, inner ?? 'type', at);
  if (inner === null) {
    if (steering.refusesFormat(object.value.type))
      throw unsupportedParameter(`${at}.type`, PROGRAM);
    return;
  }
  const format = memberNamed(object.members, inner);
  if (format === undefined) return;
  validateFormat(
    value.subarray(format.valueStart, format.valueEnd),
    `${at}.${inner}`,
    inner,
    steering,
  );
}

const PROGRAM =
  ' Text, JSON objects and JSON schemas are available; patterns and grammars would run in the engine.';
const NULL = Buffer.from('null');

/** The name as a reader of C strings has it. */
function beforeNul(name: string): string {
  return name.split('\0', 1)[0] as string;
}

const FAULTS: Readonly<Record<JsonFault, readonly [ErrorName, text?: string]>> = {
  invalid_json: ['invalid_json'],
  not_an_object: ['invalid_type', 'The request body must be a JSON object.'],
  too_deep: ['invalid_request', 'The request body is nested too deeply.'],
  too_many_members: ['invalid_request', `The request body has more than ${MAX_MEMBERS} members.`],
  too_many_names: [
    'invalid_request',
    `The objects in the request body have more than ${MAX_NAMES} different member names.`,
  ],
  too_many_values: ['invalid_request', `The request body has more than ${MAX_VALUES} values.`],
};
