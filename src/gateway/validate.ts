import { isLimit, type LimitFormat, mayLimit, unclearLimit } from '../domain/completion-limit.ts';
import { type ErrorName, GatewayError, twoReadings, unsupportedParameter } from '../domain/errors.ts';
import { FILE_ID, requireNoFiles } from '../domain/stateless.ts';
import { REFUSED_WITHIN, type SteeringFilter } from '../domain/steering.ts';
import { LETTER_N, QUOTE } from '../json/bytes.ts';
import {
  ambiguous,
  type JsonFault,
  MAX_MEMBERS,
  MAX_NAMES,
  MAX_VALUES,
  type Member,
  type Members,
  type ParsedObject,
} from '../json/members.ts';
import type { RequestBody, ValidBody } from './body.ts';
import { bytesWithin, membersWithin } from './members-within.ts';
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
  /** The type of a tool that has none. */
  readonly untypedTool?: string | null;
}

/**
 * Checks a request body (spec section 4). It is parsed for the check and kept as bytes to be sent on.
 * @param steering members that could choose another model, host or key, which are refused; null: the schema refuses them
 * @throws GatewayError 400
 */
export function validateBody<T>(body: RequestBody, rules: BodyRules<T>, steering: SteeringFilter | null): ValidBody<T> {
  const { object } = body;
  if (typeof object === 'string') throw new GatewayError(...FAULTS[object]);
  const { members, watched, retyped } = object;
  const twice = ambiguous(members, rules.governed) ?? ambiguous(members, WITH_MEMBERS);
  if (twice !== null) throw twoReadings(twice);
  for (const index of retyped) {
    const { name } = members[index] as Member;
    if (WITH_TYPES.includes(name)) throw twoReadings(`${name}[].type`);
  }
  if (watched.length > 0 && steering?.refuses(FILE_ID) !== false) {
    requireNoFiles(watched.map(({ member, key }) => ({ name: (members[member] as Member).name, key })));
  }
  if (steering !== null) refuseSteering(body, object, steering, rules);
  const request = rules.check(object.value);
  const limiting = limitingNames(members);
  const unclear = rules.limits === undefined ? null : unclearLimit(object.value, rules.limits, limiting);
  if (unclear !== null) throw twoReadings(unclear);
  return { request, body, members, limiting };
}

const NONE: readonly string[] = [];

/** Names of the members that may limit the answer. @throws GatewayError 400 for a limit that occurs twice */
function limitingNames(members: Members): readonly string[] {
  let names: string[] | null = null;
  for (const { name } of members) {
    if (!mayLimit(name)) continue;
    names ??= [];
    if (names.includes(name) && isLimit(name)) throw twoReadings(name);
    names.push(name);
  }
  return names ?? NONE;
}

/** Members whose items are checked by their type. */
const WITH_TYPES = ['tools', 'functions', 'input'];
/** Members whose own members are checked. */
const WITH_MEMBERS = ['metadata', 'tools', 'functions', ...REFUSED_WITHIN];

function refuseSteering(
  body: RequestBody,
  { members, value }: ParsedObject,
  steering: SteeringFilter,
  { own = NONE, untypedTool = null }: BodyRules<unknown>,
): void {
  for (const member of members) {
    const { name } = member;
    if (steering.refuses(name) && !own.includes(name)) throw unsupportedParameter(name);
    if (name === 'metadata') validateMetadata(body, member, steering);
    else if (name === 'tools') validateTools(body, member, value.tools, { steering, untypedTool });
    else if (name === 'functions') validateTools(body, member, value.functions, { steering, untypedTool: 'function' });
    else if (REFUSED_WITHIN.includes(name)) validateWithin(body, member, steering);
  }
}

/** Checks `metadata`: routers obey members of it too, and read text in it as JSON. */
function validateMetadata(body: RequestBody, member: Member, steering: SteeringFilter): void {
  const bytes = bytesWithin(body, member);
  if (bytes.equals(NULL)) return;
  const members = membersWithin(bytes, member);
  if (members === null) {
    throw new GatewayError('invalid_type', "Invalid type for 'metadata': must be object or null.", 'metadata');
  }
  for (const { name, valueStart } of members) {
    if (!steering.refusesInMetadata(name, bytes[valueStart] === QUOTE)) continue;
    throw unsupportedParameter(`metadata.${beforeNul(name)}`);
  }
}

/** Refuses members of one of REFUSED_WITHIN, unless they are null. */
function validateWithin(body: RequestBody, member: Member, steering: SteeringFilter): void {
  const bytes = bytesWithin(body, member);
  for (const { name, valueStart } of membersWithin(bytes, member) ?? []) {
    if (bytes[valueStart] === LETTER_N || !steering.refusesWithin(member.name, name)) continue;
    throw unsupportedParameter(`${member.name}.${beforeNul(name)}`);
  }
}

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
