import { type ErrorName, GatewayError } from '../domain/errors.ts';
import { ambiguous, type JsonFault, MAX_MEMBERS, type Member, type Members, QUOTE } from '../json/members.ts';
import { parseObject } from '../json/parser.ts';
import { MAX_VALUES } from '../json/stream-parser.ts';
import type { RequestBody } from './body.ts';

/** A request body that every reader understands in the same way: what was checked is what the bytes say. */
export interface ValidBody<T> {
  readonly request: T;
  readonly body: RequestBody;
  readonly members: Members;
}

/**
 * Checks a request body (spec section 4). It is parsed for the check and kept as bytes to be sent on.
 * @param check the schema check; throws GatewayError 400
 * @param governed members that the gateway decides by: refused where two readers could disagree about them
 * @param isSteering whether a member could choose another model, host or key: such are refused
 * @throws GatewayError 400
 */
export function validateBody<T>(
  body: RequestBody,
  check: (value: unknown) => T,
  governed: readonly string[],
  isSteering: (member: string) => boolean,
): ValidBody<T> {
  const { object } = body;
  if (typeof object === 'string') throw new GatewayError(FAULTS[object], FAULT_TEXTS[object]);
  const { value, members } = object;
  const twice = ambiguous(members, governed) ?? ambiguous(members, METADATA);
  if (twice !== null) throw twoReadings(twice);
  for (const member of members) {
    if (isSteering(member.name)) throw unsupported(member.name);
    if (member.name === 'metadata') validateMetadata(body, member, isSteering);
  }
  return { request: check(value), body, members };
}

const METADATA = ['metadata'];

/** Routers obey members of `metadata` too, and read text in it as JSON. */
function validateMetadata(body: RequestBody, member: Member, isSteering: (member: string) => boolean): void {
  const bytes = bytesWithin(body, member);
  if (bytes.equals(NULL)) return;
  const members = membersWithin(bytes, member);
  if (members === null) {
    throw new GatewayError('invalid_type', "Invalid type for 'metadata': must be object or null.", 'metadata');
  }
  for (const { name, valueStart } of members) {
    const dotted = `metadata.${beforeNul(name)}`;
    if (isSteering(dotted) || (bytes[valueStart] !== QUOTE && isSteering(`${dotted}[]`))) throw unsupported(dotted);
  }
}

const NULL = Buffer.from('null');

/**
 * The value of a member whose own members are checked. That is done at once, so the size is bounded:
 * 20 MiB of `metadata` took 6 s.
 * @throws GatewayError 400
 */
export function bytesWithin(body: RequestBody, { name, valueStart, valueEnd }: Member): Buffer {
  if (valueEnd - valueStart <= MOST_WITHIN) return body.slice(valueStart, valueEnd);
  throw new GatewayError('invalid_request', `'${name}' is larger than ${MOST_WITHIN} bytes.`, name);
}

/**
 * The members of such a value; null when it is no object.
 * @throws GatewayError 400
 */
export function membersWithin(value: Buffer, { name }: Member): Members | null {
  const object = parseObject(value);
  if (typeof object !== 'string') return object.members;
  if (object !== 'too_many_members') return null;
  throw new GatewayError('invalid_request', `'${name}' has more than ${MAX_MEMBERS} members.`, name);
}

const MOST_WITHIN = 65_536;

/** The name as a reader of C strings has it; what follows the NUL would hide the mark of `metadata.x[]`. */
function beforeNul(name: string): string {
  return name.split('\0', 1)[0] as string;
}

function unsupported(name: string): GatewayError {
  return new GatewayError('unsupported_parameter', `Unsupported parameter: '${name}'.`, name);
}

export function twoReadings(param: string): GatewayError {
  return new GatewayError('invalid_request', `The parameter '${param}' could be read in two ways.`, param);
}

const FAULTS: Readonly<Record<JsonFault, ErrorName>> = {
  invalid_json: 'invalid_json',
  not_an_object: 'invalid_type',
  too_deep: 'invalid_request',
  too_many_members: 'invalid_request',
  too_many_values: 'invalid_request',
};

const FAULT_TEXTS: Readonly<Record<JsonFault, string | undefined>> = {
  invalid_json: undefined,
  not_an_object: 'The request body must be a JSON object.',
  too_deep: 'The request body is nested too deeply.',
  too_many_members: `The request body has more than ${MAX_MEMBERS} members.`,
  too_many_values: `The request body has more than ${MAX_VALUES} values.`,
};

export function memberNamed(members: Members, name: string): Member | undefined {
  for (const member of members) if (member.name === name) return member;
  return undefined;
}
