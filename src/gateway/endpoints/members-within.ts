import { GatewayError, twoReadings } from '../../domain/errors.ts';
import {
  ambiguous,
  MAX_MEMBERS,
  MAX_NAMES,
  type Member,
  type Members,
  type ParsedObject,
} from '../../json/members.ts';
import { parseObject } from '../../json/parser.ts';
import type { RequestBody } from '../request/body.ts';

/** The largest value that is read once more, in bytes; for tools there is another limit. */
const MOST_BYTES = 65_536;

/**
 * The value of a member whose own members are checked. The check runs in one piece, so the size is bounded:
 * 20 MiB of `metadata` took 6 s.
 * @param most size in bytes
 * @throws GatewayError 400
 */
export function bytesWithin(
  body: RequestBody,
  { name, valueStart, valueEnd }: Member,
  most: number = MOST_BYTES,
): Buffer {
  if (valueEnd - valueStart <= most) return body.slice(valueStart, valueEnd);
  throw tooLarge(name, most);
}

/** A value is larger than what is read once more. */
export function tooLarge(name: string, most: number): GatewayError {
  return new GatewayError('invalid_request', `'${name}' is larger than ${most} bytes.`, name);
}

/**
 * The members of a value; null when it is no object.
 * @throws GatewayError 400
 */
export function membersWithin(value: Buffer, { name }: Member): Members | null {
  return objectWithin(value, name)?.members ?? null;
}

/**
 * The value parsed as an object; null when it is none.
 * @param name where the value stands, for the error
 * @throws GatewayError 400
 */
export function objectWithin(value: Buffer, name: string): ParsedObject | null {
  const object = parseObject(value);
  if (typeof object !== 'string') return object;
  const most =
    object === 'too_many_members' ? MAX_MEMBERS : object === 'too_many_names' ? MAX_NAMES : null;
  if (most === null) return null;
  throw new GatewayError('invalid_request', `'${name}' has more than ${most} members.`, name);
}

/** @throws GatewayError 400 if two readers could take different members for the one of this name */
export function requireOnce(members: Members, name: string, at: string): void {
  if (ambiguous(members, [name]) !== null) throw twoReadings(`${at}.${name}`);
}
