import * as schema from '../../domain/settings/schema.ts';
import { revokeToken } from '../../operations/token.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type TokenRow, tokensAfter } from '../../store/users/token.ts';
import { type ApiCall, type ApiOperation, getList, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const token = schema.object({
  id: schema.id,
  name: schema.string,
  company_id: { ...schema.orNull(schema.id), description: 'whose owner it acts like; null: like an operator' },
  access: schema.oneOf(['read', 'write']),
  created_at: schema.instant,
  created_by: resource.createdBy,
  expires_at: schema.orNull(schema.instant),
  last_used_at: schema.orNull(schema.instant),
  revoked_at: schema.orNull(schema.instant),
  state: schema.oneOf(['active', 'expired', 'revoked']),
});

const OF_COMPANY = '/companies/{company}/tokens';

/** Tokens like the one that the program sends. A program makes none: a leaked token must not outlive its revocation. */
export const tokenOperations: readonly ApiOperation[] = [
  getList('listTokens', '/tokens', {
    row: token,
    summary: 'List administration tokens, of operators and of all companies, ordered by id',
    action: 'token.read',
    read: (sql, _call, range) => tokensAfter(sql, null, range),
  }),
  post('revokeToken', '/tokens/{token}/revoke', {
    answer: token,
    summary: 'Revoke an administration token: it gets 401 at once',
    action: 'token.write',
    run: revoke,
  }),
  getList('listTokensOfCompany', OF_COMPANY, {
    row: token,
    summary: 'List administration tokens of a company, ordered by id',
    action: 'company-token.read',
    read: (sql, _call, range, company) => tokensAfter(sql, company, range),
  }),
  post('revokeTokenOfCompany', `${OF_COMPANY}/{token}/revoke`, {
    answer: token,
    summary: 'Revoke an administration token of a company: it gets 401 at once',
    action: 'company-token.write',
    run: revoke,
  }),
];

function revoke(sql: Sql, { params }: ApiCall): Promise<TokenRow> {
  return revokeToken(sql, params.token as string, params.company ?? null);
}
