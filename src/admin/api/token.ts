import * as schema from '../../domain/settings/schema.ts';
import { revokeToken } from '../../operations/token.ts';
import { findCompany } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { tokensAfter } from '../../store/lists/cursor.ts';
import type { TokenRow } from '../../store/users/token.ts';
import { type ApiCall, type ApiOperation, get, pageOf, post } from './frame/operation.ts';
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

const LIST = { query: resource.listQuery(), answer: resource.pageOf(token) } as const;

const OF_COMPANY = '/companies/{company}/tokens';

/** Tokens like the one that the program sends. A program makes none: a leaked token must not outlive its revocation. */
export const tokenOperations: readonly ApiOperation[] = [
  get('listTokens', '/tokens', {
    ...LIST,
    summary: 'List administration tokens, of operators and of all companies, ordered by id',
    action: 'token.read',
    run: (sql, { query }) => pageOf(query, (range) => tokensAfter(sql, null, range)),
  }),
  post('revokeToken', '/tokens/{token}/revoke', {
    answer: token,
    summary: 'Revoke an administration token: it gets 401 at once',
    action: 'token.write',
    run: revoke,
  }),
  get('listTokensOfCompany', OF_COMPANY, {
    ...LIST,
    summary: 'List administration tokens of a company, ordered by id',
    action: 'company-token.read',
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOf(query, (range) => tokensAfter(sql, id, range));
    },
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
