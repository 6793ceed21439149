import { decryptText, encryptText } from '../../domain/encrypted-text.ts';
import { digestBytes } from '../../domain/key.ts';
import type { Sql } from '../connection/pool.ts';

/** A request that may be repeated under a key of the caller's. */
export interface Repeatable {
  readonly tokenId: string;
  /** The whole token. It is not stored, so nobody can decrypt the answers with the database alone. */
  readonly token: string;
  /** As the caller sent it. Only its digest is stored. */
  readonly key: string;
  /** Method, path and body. */
  readonly request: string;
}

/** The answer to the first request. */
interface Answered {
  readonly answer: object;
  /** The secret that was shown once; null after a minute. */
  readonly secret: string | null;
  /** The first request was another one. */
  readonly isOther: boolean;
}

/**
 * Takes the key for this request, in the transaction that does the work: a repetition waits for its end.
 * @returns the answer to the first request; null: this is the first
 */
export async function claim(sql: Sql, repeatable: Repeatable): Promise<Answered | null> {
  const { tokenId, token, key, request } = repeatable;
  const { count } = await sql`
    insert into idempotent_answers (token_id, key_digest, request, answer)
    values (${tokenId}, ${digestBytes(key)}, ${digestBytes(request)}, '{}') on conflict do nothing`;
  if (count > 0) return null;
  const [row] = await sql<[{ answer: object; secret: Buffer | null; request: Buffer }]>`
    select answer, secret, request from idempotent_answers where token_id = ${tokenId} and key_digest = ${digestBytes(key)}`;
  const secret = row.secret === null ? null : decryptText(row.secret, token, key);
  return { answer: row.answer, secret, isOther: !row.request.equals(digestBytes(request)) };
}

/** Keeps the answer of a request that was claimed. */
export async function keep(
  sql: Sql,
  repeatable: Repeatable,
  answer: object,
  secret: string | null,
): Promise<void> {
  const { tokenId, token, key } = repeatable;
  await sql`
    update idempotent_answers set answer = ${sql.json(answer as never)},
      secret = ${secret === null ? null : encryptText(secret, token, key)}
    where token_id = ${tokenId} and key_digest = ${digestBytes(key)}`;
}
