import { twoReadings } from '../../domain/errors.ts';
import type { StreamRequest } from '../../domain/request/request.ts';
import { ambiguous, type Member, type Members, memberNamed } from '../../json/members.ts';
import type { Edit } from '../../json/splice.ts';
import type { ValidBody } from '../request/body.ts';
import { bytesWithin, membersWithin } from './members-within.ts';

const OPTIONS = Buffer.from(',"stream_options":{"include_usage":true}');
const OPTIONS_VALUE = Buffer.from('{"include_usage":true}');
const INCLUDE_USAGE = Buffer.from('"include_usage":true');
const INCLUDE_USAGE_FIRST = Buffer.from('"include_usage":true,');
const TRUE = Buffer.from('true');

/** Sets `stream_options.include_usage`, whatever it was, and keeps the other options (spec section 4.2, streaming 4). */
export function usageEdit({ request, body, members }: ValidBody<StreamRequest>): Edit {
  const options = memberNamed(members, 'stream_options');
  if (options === undefined) {
    const end = (memberNamed(members, 'model') as Member).valueEnd;
    return { start: end, end, bytes: OPTIONS };
  }
  const { valueStart, valueEnd } = options;
  if (request.stream_options === null)
    return { start: valueStart, end: valueEnd, bytes: OPTIONS_VALUE };
  const inner = membersWithin(bytesWithin(body, options), options) as Members;
  if (ambiguous(inner, ['include_usage']) !== null)
    throw twoReadings('stream_options.include_usage');
  const include = memberNamed(inner, 'include_usage');
  if (include !== undefined) {
    return {
      start: valueStart + include.valueStart,
      end: valueStart + include.valueEnd,
      bytes: TRUE,
    };
  }
  const start = valueStart + 1;
  return { start, end: start, bytes: inner.length === 0 ? INCLUDE_USAGE : INCLUDE_USAGE_FIRST };
}
