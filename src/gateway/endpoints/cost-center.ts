import { twoReadings } from '../../domain/errors.ts';
import { readCostCenter } from '../../domain/request/cost-center.ts';
import { type Member, type Members, memberNamed } from '../../json/members.ts';
import type { Edit } from '../../json/splice.ts';
import type { ValidBody } from '../request/body.ts';
import { bytesWithin, membersWithin } from './members-within.ts';

/** The cost centre of a call, and the edits that remove it from a body whose format has no place for it. */
interface NamedCostCenter {
  /** Empty: the body names none. */
  readonly name: string;
  readonly removal: readonly Edit[];
}

const NONE: NamedCostCenter = { name: '', removal: [] };
const NOTHING = Buffer.alloc(0);

/**
 * The cost centre that a request names in its `metadata`.
 * @param member the member of `metadata` that names it; null: there is none
 * @throws GatewayError 400
 */
export function costCenterOf(
  { body, members }: ValidBody<unknown>,
  member: string | null,
): NamedCostCenter {
  if (member === null) return NONE;
  const outer = memberNamed(members, 'metadata');
  if (outer === undefined) return NONE;
  const value = bytesWithin(body, outer);
  const inner = membersWithin(value, outer);
  const at = inner === null ? -1 : inner.findIndex(({ name }) => name === member);
  if (inner === null || at < 0) return NONE;
  if (inner.findLastIndex(({ name }) => name === member) !== at)
    throw twoReadings(`metadata.${member}`);
  const { valueStart, valueEnd } = inner[at] as Member;
  const name = readCostCenter(value.toString('utf8', valueStart, valueEnd), `metadata.${member}`);
  if (name === '') return NONE;
  if (inner.length > 1) return { name, removal: [without(value, inner, at, outer.valueStart)] };
  const index = members.indexOf(outer);
  // of the bytes only those around the first member are needed; there is another one: `model`
  const bytes = index === 0 ? body.slice(0, (members[1] as Member).valueStart) : NOTHING;
  return { name, removal: [without(bytes, members, index, 0)] };
}

/** Removes one of several members of an object, with the comma before it; of the first, with the comma behind it. */
function without(object: Buffer, members: Members, at: number, offset: number): Edit {
  const { valueEnd } = members[at] as Member;
  const [start, end] =
    at === 0
      ? [object.indexOf('{') + 1, object.indexOf(',', valueEnd) + 1]
      : [(members[at - 1] as Member).valueEnd, valueEnd];
  return { start: offset + start, end: offset + end, bytes: NOTHING };
}
