import { decodeString, equals } from './bytes.ts';
import type { ObjectWalk } from './object-walk.ts';

const DEFAULT = Buffer.from('default');

/** The service tier that the object in the walk says; undefined: none. */
export function toldTier(walk: ObjectWalk, b: Buffer): string | undefined {
  const { tierStart, tierEnd } = walk;
  if (tierStart < 0) return undefined;
  if (equals(b, tierStart, tierEnd - tierStart, DEFAULT)) return 'default'; // nearly always
  return decodeString(b, tierStart, tierEnd) || undefined;
}
