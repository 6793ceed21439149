import { decryptText, encryptText } from '../../domain/encrypted-text.ts';
import type { Sql } from '../connection/pool.ts';
import { pruneReveals } from '../gateway/expired.ts';
import { lockName } from './idempotent-form.ts';
import { type KeyRow, type MintedKey, readKey } from './key.ts';

/** Keys that are created once, however often they are asked for; for a minute the answer has the key's text again. */

/** How long the text of a new key can be shown again. Seconds. */
export const REVEAL_SECONDS = 60;

/** The proof that a repeated request has the same sender as the first one. */
export interface Claim {
  /** At least 128 random bits, which every repetition has and Tollgate does not store. */
  readonly secret: string;
  /** The only reader of the repeated text, such as a session: the secret is of no use to others. */
  readonly holder: string;
}

/** `key` is null when the key was created before, and its text cannot be shown any more. */
export type RevealedKey = KeyRow & { readonly key: string | null };

/**
 * Makes a key, or returns the one that the same request made before. To be run in a transaction.
 * @param id of the key: that of the request, the same in each repetition
 * @param asked what the request asks for: the text is shown again for the same alone
 * @param claim null: the request is never repeated
 * @returns the text of an active key for `REVEAL_SECONDS`, if claim and input are those of the first request
 * @throws Refused conflict when the id is that of another company's key
 */
export async function makeKeyOnce(
  sql: Sql,
  id: string,
  asked: { readonly company_id: string },
  claim: Claim | null,
  make: () => Promise<MintedKey>,
): Promise<RevealedKey> {
  if (claim === null) return make();
  const { holder, secret } = claim;
  const { company_id: company } = asked;
  const context = JSON.stringify([holder, asked]);
  // the second of two clicks waits here for the first
  await lockName(sql, id);
  await pruneReveals(sql);
  const existing = await readKey(sql, id, company);
  if (existing !== null) {
    const [row] = await sql<{ ciphertext: Buffer }[]>`
      select ciphertext from key_reveals where key_id = ${id} and company_id = ${company}`;
    const isShown = row !== undefined && existing.state === 'active';
    return { ...existing, key: isShown ? decryptText(row.ciphertext, secret, context) : null };
  }
  const created = await make();
  await sql`
    insert into key_reveals (company_id, key_id, ciphertext, expires_at)
    values (${company}, ${id}, ${encryptText(created.key, secret, context)}, now() + make_interval(secs => ${REVEAL_SECONDS}))`;
  return created;
}
