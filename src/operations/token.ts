import { refusal, throwConflict } from '../domain/refusal.ts';
import { createOnce } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';
import { insertToken, type NewToken, type TokenRow } from '../store/users/token.ts';
import type { Caller } from './caller.ts';

/**
 * Creates an administration token; its text is known only now. To be run in a transaction.
 * @param asked with the id of its form, which makes one token however often it is sent
 * @throws RefusedChange as `insertToken`; conflict for a form that made its token already
 */
export async function createToken(
  sql: Sql,
  { actor }: Pick<Caller, 'actor'>,
  asked: Omit<NewToken, 'created_by'>,
): Promise<TokenRow & { readonly token: string }> {
  const { id, name } = asked;
  const make = () => insertToken(sql, { ...asked, created_by: actor });
  if (id === undefined) return make();
  return (
    (await createOnce(sql, 'admin_tokens', id, make)) ??
    throwConflict('token', refusal('tokenSentTwice', { name }))
  );
}

/** Revokes a token for good; one that was revoked keeps its time. */
export { endToken as revokeToken } from '../store/users/token.ts';
