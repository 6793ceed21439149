import { decryptText, encryptText } from '../domain/encrypted-text.ts';
import { digestBytes, mintKey } from '../domain/key.ts';
import { type Refusal, refusal, throwConflict } from '../domain/refusal.ts';
import type { Role } from '../domain/user.ts';
import type { AccountNotice } from '../domain/wording/person-mail.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  type FactorRow,
  findPending,
  lockFactor,
  noteFactor,
  removeFactor,
  setFactor,
  setPending,
} from '../store/users/second-factor.ts';
import { deleteSessionsOf, type SessionRow } from '../store/users/session.ts';

/**
 * The second factor of people who sign in with a password: codes of an app (TOTP, RFC 6238), and recovery codes. With
 * OpenID Connect the identity provider is the second factor. Administration tokens have none.
 */

/** What this deployment says about second factors. */
export interface FactorPolicy {
  /** Keys that encrypt the secrets: the first one encrypts, all decrypt. Empty: nobody can set one up. */
  readonly keys: readonly string[];
  /** Who must have one; null: nobody. */
  readonly required: 'operators' | 'all' | null;
}

/** The step that a session has yet to take before it is let in. */
export type Lack = 'code' | 'setup';

type FactorUser = Pick<SessionRow, 'user_id' | 'email' | 'role'>;

const PERIOD = 30; // seconds
const DIGITS = 6;
/** Codes of this many periods before and after the present one are taken: clocks of phones differ. */
const WINDOW = 1;
const RECOVERY_CODES = 10;
const RECOVERY_LETTERS = 16; // of base32: 80 bits
/** Wrong codes in a row after which none is taken for a while, which doubles with each further one. */
const MOST_WRONG = 5;
const FIRST_PAUSE_MS = 15 * 60_000;
const MAX_PAUSE_MS = 86_400_000;
/** Whether everybody of a role must have a second factor. */
export function mustHaveFactor(role: Role, { required }: Pick<FactorPolicy, 'required'>): boolean {
  return required === 'all' || (required === 'operators' && role === 'operator');
}

/** What a session lacks; null: nothing. It is asked for at each request, so that a new requirement holds at once. */
export function lackOf(
  session: Pick<SessionRow, 'role' | 'second_factor' | 'second_factor_since'>,
  policy: Pick<FactorPolicy, 'required'>,
): Lack | null {
  if (session.second_factor === 'provider') return null;
  if (session.second_factor_since === null)
    return mustHaveFactor(session.role, policy) ? 'setup' : null;
  return session.second_factor === 'code' ? null : 'code';
}

/** What became of a code. The counting is kept, also where it was wrong: to be committed in either case. */
export type TakenCode = {
  /** Why the code is refused; null: it was right. */
  readonly refusal: Refusal | null;
  /** What the user has to be told by e-mail; null: nothing. */
  readonly notice: AccountNotice | null;
};

const RIGHT: TakenCode = { refusal: null, notice: null };

/**
 * Takes a code of the app, each once, or a recovery code. After five wrong ones in a row codes of the app are refused
 * for a quarter of an hour, then twice as long after each further one, up to a day; recovery codes, which nobody can
 * guess, are still taken.
 * @param now milliseconds since 1970
 */
export async function takeCode(
  sql: Sql,
  { user_id }: Pick<FactorUser, 'user_id'>,
  text: string,
  policy: FactorPolicy,
  now: number,
): Promise<TakenCode> {
  const row = await lockFactor(sql, user_id);
  if (row?.secret == null) return refused(refusal('factorGone'));
  const typed = text.replace(/[\s-]/g, '').toLowerCase();
  if (!/^\d*$/.test(typed)) return takeRecoveryCode(sql, user_id, typed, row, now);
  const closedFor = (row.closed_until?.getTime() ?? 0) - now;
  if (closedFor > 0)
    return refused(refusal('codesClosed', { minutes: Math.ceil(closedFor / 60_000) }));
  const secret = decrypted(row.secret, user_id, policy);
  if (secret === null) return refused(refusal('factorUnreadable'));
  const step = await stepOf(secret, typed, now);
  if (step === null) return countWrong(sql, user_id, row, now, refusal('codeWrong'));
  if (step <= row.last_step) return refused(refusal('codeUsed'));
  const again = encrypted(secret, user_id, policy); // with the present key
  await setFactor(sql, user_id, { secret: again, last_step: step, wrong: 0, closed_until: null });
  return RIGHT;
}

async function takeRecoveryCode(
  sql: Sql,
  userId: string,
  typed: string,
  row: FactorRow,
  now: number,
): Promise<TakenCode> {
  const digest = digestBytes(typed);
  const recovery = row.recovery.filter((each) => !each.equals(digest));
  const left = recovery.length;
  if (left === row.recovery.length)
    return countWrong(sql, userId, row, now, refusal('recoveryWrong'));
  await setFactor(sql, userId, { recovery, wrong: 0, closed_until: null });
  await noteFactor(sql, userId, { isNew: false, left });
  return { refusal: null, notice: { kind: 'recovery', left } };
}

async function countWrong(
  sql: Sql,
  userId: string,
  row: FactorRow,
  now: number,
  why: Refusal,
): Promise<TakenCode> {
  const wrong = row.wrong + 1;
  const pause =
    wrong < MOST_WRONG ? 0 : Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (wrong - MOST_WRONG));
  await setFactor(sql, userId, {
    wrong,
    ...(pause > 0 && { closed_until: new Date(now + pause) }),
  });
  return { refusal: why, notice: pause > 0 ? { kind: 'closed', wrong } : null };
}

function refused(why: Refusal): TakenCode {
  return { refusal: why, notice: null };
}

/** A secret that waits for its first code, as the person types or scans it. */
export interface Setup {
  /** In base32. */
  readonly secret: string;
  /** `otpauth://totp/…`, which apps read. */
  readonly uri: string;
}

/** Makes the secret of an app; the present second factor, if there is one, holds until `confirmSetup`. @throws Refused */
export async function beginSetup(
  sql: Sql,
  { user_id }: FactorUser,
  policy: FactorPolicy,
): Promise<void> {
  if (policy.keys.length === 0) throwConflict('user', refusal('noFactorKey'));
  await setPending(sql, user_id, encrypted(mintKey(''), user_id, policy));
}

export async function cancelSetup(sql: Sql, { user_id }: FactorUser): Promise<void> {
  if ((await findPending(sql, user_id)) !== null) await setPending(sql, user_id, null);
}

/** The secret that waits for its first code; null: none, or one that cannot be read. @param issuer the name of the service, as apps show it */
export async function pendingSetup(
  sql: Sql,
  user: FactorUser,
  policy: FactorPolicy,
  issuer: string,
): Promise<Setup | null> {
  const pending = await findPending(sql, user.user_id);
  const secret = pending === null ? null : decrypted(pending, user.user_id, policy);
  if (secret === null) return null;
  const { TOTP } = await import('otpauth');
  const totp = new TOTP({
    // a colon ends the issuer in the form of the address, and apps refuse one within it
    issuer: issuer.replaceAll(/[\s:]+/g, ' ').trim(),
    label: user.email.replaceAll(':', ' '),
    secret: secret.toUpperCase(),
    digits: DIGITS,
    period: PERIOD,
  });
  return { secret, uri: totp.toString() };
}

/**
 * Sets the second factor up with the first code of the app. The session that asks has given a code by that; others of
 * the user are asked for one.
 * @returns the recovery codes, which are shown once; null: the code is wrong
 */
export async function confirmSetup(
  sql: Sql,
  { user_id }: FactorUser,
  text: string,
  policy: FactorPolicy,
  now: number,
): Promise<readonly string[] | null> {
  const row = await lockFactor(sql, user_id);
  const secret = row?.pending == null ? null : decrypted(row.pending, user_id, policy);
  const step = secret === null ? null : await stepOf(secret, text.replaceAll(/\s/g, ''), now);
  if (secret === null || step === null) return null;
  const codes = newRecoveryCodes();
  await setFactor(sql, user_id, {
    secret: encrypted(secret, user_id, policy),
    pending: null,
    last_step: step,
    recovery: codes.map(digestOf),
    wrong: 0,
    closed_until: null,
  });
  await noteFactor(sql, user_id, { isNew: true, left: codes.length });
  return codes;
}

/** Makes new recovery codes; the former ones end. @returns them, which are shown once */
export async function renewRecoveryCodes(
  sql: Sql,
  { user_id }: FactorUser,
): Promise<readonly string[]> {
  const codes = newRecoveryCodes();
  await setFactor(sql, user_id, { recovery: codes.map(digestOf) });
  await noteFactor(sql, user_id, { isNew: false, left: codes.length });
  return codes;
}

/** The user turns the second factor off. @throws Refused where it is required */
export async function turnOff(
  sql: Sql,
  { user_id, role }: FactorUser,
  policy: FactorPolicy,
): Promise<void> {
  if (mustHaveFactor(role, policy)) throwConflict('user', refusal('factorRequired'));
  await removeFactor(sql, user_id);
}

/** An operator takes the second factor of a person away, who is signed out everywhere. @throws Refused */
export async function resetFactor(sql: Sql, userId: string): Promise<void> {
  if (!(await removeFactor(sql, userId))) throwConflict('user', 'This user has no second factor.');
  await deleteSessionsOf(sql, userId);
}

/** The period of a right code; null: it is wrong. @param secret in base32 */
async function stepOf(secret: string, code: string, now: number): Promise<number | null> {
  const { TOTP } = await import('otpauth');
  const totp = new TOTP({ secret: secret.toUpperCase(), digits: DIGITS, period: PERIOD });
  const delta = new RegExp(`^\\d{${DIGITS}}$`).test(code)
    ? totp.validate({ token: code, timestamp: now, window: WINDOW })
    : null;
  return delta === null ? null : Math.floor(now / 1000 / PERIOD) + delta;
}

function newRecoveryCodes(): readonly string[] {
  return Array.from({ length: RECOVERY_CODES }, () =>
    mintKey('')
      .slice(0, RECOVERY_LETTERS)
      .replace(/.{4}(?=.)/g, '$&-'),
  );
}

function digestOf(code: string): Buffer {
  return digestBytes(code.replaceAll('-', ''));
}

function encrypted(secret: string, userId: string, { keys }: FactorPolicy): Buffer {
  return encryptText(secret, keys[0] as string, contextOf(userId));
}

function decrypted(bytes: Buffer, userId: string, { keys }: FactorPolicy): string | null {
  for (const key of keys) {
    const secret = decryptText(bytes, key, contextOf(userId));
    if (secret !== null) return secret;
  }
  return null;
}

/** The secret of one user cannot be decrypted as that of another. */
function contextOf(userId: string): string {
  return `second factor ${userId}`;
}
