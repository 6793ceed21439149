import { refusal, throwConflict } from '../domain/refusal.ts';
import * as schema from '../domain/settings/schema.ts';
import { createOnce } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  insertToken,
  listTokens,
  type NewToken,
  endToken as revokeToken,
  TOKEN,
  type TokenRow,
  tokensAfter,
} from '../store/users/token.ts';
import type { Caller } from './frame/caller.ts';
import { type Call, getList, type Operation, post } from './frame/row.ts';

/**
 * Creates an administration token; its text is known only now. To be run in a transaction.
 * @param asked with the id of its form, which makes one token however often it is sent
 * @throws Refused as `insertToken`; conflict for a form that made its token already
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
export { revokeToken };

const OF_COMPANY = '/companies/{company}/tokens';

/** Tokens like the one that the program sends. A program makes none: a leaked token must not outlive its revocation. */
export const tokenOperations: readonly Operation[] = [
  getList('listTokens', '/tokens', {
    row: TOKEN,
    summary: 'List administration tokens, of operators and of all companies, ordered by id',
    action: 'token.read',
    read: (sql, _call, range) => tokensAfter(sql, null, range),
    command: {
      noun: 'token',
      all: (sql, { company_id = null }) => listTokens(sql, company_id),
      columns: [
        'id',
        'name',
        'company_id',
        'access',
        'state',
        'created_by',
        'expires_at',
        'last_used_at',
      ],
      empty: 'There are no administration tokens.',
      differs: {
        because: 'HTTP has an address for the tokens of one company, for its owners',
        filters: { company_id: schema.id },
      },
    },
  }),
  post('revokeToken', '/tokens/{token}/revoke', {
    answer: TOKEN,
    summary: 'Revoke an administration token: it gets 401 at once',
    action: 'token.write',
    command: { noun: 'token', verb: 'revoke', done: 'The administration token is revoked.' },
    run: revoke,
  }),
  getList('listTokensOfCompany', OF_COMPANY, {
    row: TOKEN,
    summary: 'List administration tokens of a company, ordered by id',
    action: 'company-token.read',
    read: (sql, { company }, range) => tokensAfter(sql, company, range),
  }),
  post('revokeTokenOfCompany', `${OF_COMPANY}/{token}/revoke`, {
    answer: TOKEN,
    summary: 'Revoke an administration token of a company: it gets 401 at once',
    action: 'company-token.write',
    run: revoke,
  }),
];

function revoke(sql: Sql, { id, params }: Call): Promise<TokenRow> {
  return revokeToken(sql, id, params.company ?? null);
}
