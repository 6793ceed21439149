import { revokeToken } from '../../operations/token.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { TOKEN, type TokenRow, tokensAfter } from '../../store/users/token.ts';
import { type ApiCall, type ApiOperation, getList, post } from './frame/operation.ts';

const OF_COMPANY = '/companies/{company}/tokens';

/** Tokens like the one that the program sends. A program makes none: a leaked token must not outlive its revocation. */
export const tokenOperations: readonly ApiOperation[] = [
  getList('listTokens', '/tokens', {
    row: TOKEN,
    summary: 'List administration tokens, of operators and of all companies, ordered by id',
    action: 'token.read',
    read: (sql, _call, range) => tokensAfter(sql, null, range),
  }),
  post('revokeToken', '/tokens/{token}/revoke', {
    answer: TOKEN,
    summary: 'Revoke an administration token: it gets 401 at once',
    action: 'token.write',
    run: revoke,
  }),
  getList('listTokensOfCompany', OF_COMPANY, {
    row: TOKEN,
    summary: 'List administration tokens of a company, ordered by id',
    action: 'company-token.read',
    read: (sql, _call, range, company) => tokensAfter(sql, company, range),
  }),
  post('revokeTokenOfCompany', `${OF_COMPANY}/{token}/revoke`, {
    answer: TOKEN,
    summary: 'Revoke an administration token of a company: it gets 401 at once',
    action: 'company-token.write',
    run: revoke,
  }),
];

function revoke(sql: Sql, { params }: ApiCall): Promise<TokenRow> {
  return revokeToken(sql, params.token as string, params.company ?? null);
}
