import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { FieldError } from './field.ts';
import { refusal } from './refusal.ts';

/**
 * Passwords of users of the administration area. A hash contains its parameters,
 * `$scrypt$ln=17,r=8,p=1$<salt>$<key>` (PHC string format, unpadded base64), so that the cost can rise
 * while stored hashes stay valid. One hash takes some 350 ms of a pool thread and 128 MiB.
 */

const MIN_CHARACTERS = 12;
const COST = { ln: 17, r: 8, p: 1 };
type Cost = typeof COST;
const STORED =
  /^\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;
const MAX_MEMORY = 256 * 1024 * 1024;

/**
 * Characters that nobody types: line breaks, the byte order mark of an editor, and the sign for bytes that are not
 * UTF-8.
 */
const UNTYPED = /[\p{Cc}\ufeff\ufffd]/u;

/** Checks a new password. @throws FieldError when it is too short or too long, or nobody could sign in with it */
export function readPassword(text: string): string {
  const { length } = [...text];
  if (length < MIN_CHARACTERS || length > 1024) {
    throw new FieldError(refusal('passwordLength', { least: MIN_CHARACTERS }));
  }
  if (UNTYPED.test(text)) throw new FieldError(refusal('passwordText'));
  return text;
}

/** Computes on a thread of the pool. */
const onPool = promisify<string, Buffer, number, ScryptOptions, Buffer>(scrypt);

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16);
  const key = await derive(password, salt, 32, COST);
  return `$scrypt$ln=${COST.ln},r=${COST.r},p=${COST.p}$${base64(salt)}$${base64(key)}`;
}

/**
 * Whether a hash is that of a password. Without a hash (no such user, or one without a password) it
 * takes as long and is false, so that the time does not reveal which users exist.
 * @throws Error when the stored text is not such a hash, or asks for more than 256 MiB
 */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  if (stored === null) {
    await derive(password, randomBytes(16), 32, COST);
    return false;
  }
  const [, ln, r, p, salt, key] = STORED.exec(stored) ?? [];
  if (salt === undefined || key === undefined)
    throw new Error('stored password hash is not in the format $scrypt$…');
  const expected = Buffer.from(key, 'base64');
  const cost = { ln: Number(ln), r: Number(r), p: Number(p) };
  const actual = await derive(password, Buffer.from(salt, 'base64'), expected.length, cost);
  return timingSafeEqual(actual, expected);
}

function derive(password: string, salt: Buffer, length: number, cost: Cost): Promise<Buffer> {
  const options: ScryptOptions = { N: 2 ** cost.ln, r: cost.r, p: cost.p, maxmem: MAX_MEMORY };
  // keyboards type the same letter composed or decomposed: NFC makes them equal
  return onPool(password.normalize('NFC'), salt, length, options);
}

function base64(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '');
}
