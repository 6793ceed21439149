import { oneOf, orNone, readName, readUuid } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import { createToken, revokeToken } from '../../operations/token.ts';
import { listTokens, type TokenRow } from '../../store/users/token.ts';
import { command, optional, required } from '../frame/command.ts';
import { ACTOR } from '../frame/database.ts';
import { commandsOf } from '../frame/noun.ts';
import { card, instant, plainly } from '../frame/text.ts';

const tokens = commandsOf<TokenRow>('token');

export const tokenCommands = [
  command({
    name: 'token create',
    summary:
      'create an administration token, by which a program administers over HTTP; it is shown once',
    options: {
      name: required('--name NAME', readName, 'what will use it'),
      company: optional(
        '--company ID',
        readUuid,
        'acts like an owner of this company; default: like an operator',
      ),
      access: optional(
        '--access ACCESS',
        oneOf('read', 'write'),
        'read, or write (default), which may change things',
      ),
      expires: optional(
        '--expires ISO_TIME|none',
        orNone(readMoment),
        'when it stops working, such as 2027-01-31T18:00:00Z; a date is its last day, in the billing time zone; default: never',
      ),
    },
    notes: `Programs send it as "Authorization: Bearer TOKEN" to {admin address}/api/v1/…;
{admin address}/api/v1/openapi.json describes the operations.`,
    async run({ transact }, { name, company = null, access = 'write', expires = null }) {
      const created = await transact((sql) =>
        createToken(
          sql,
          { actor: ACTOR },
          { name, company_id: company, access, expires_at: expires },
        ),
      );
      const text = card('Administration token created. It is shown only now:', {
        token: created.token,
        id: created.id,
        name,
        company: company ?? 'all',
        access,
        expires: created.expires_at === null ? 'never' : instant(created.expires_at),
      });
      return { json: created, text };
    },
  }),
  tokens.list({
    summary: 'list administration tokens, newest first',
    options: {
      company: optional('--company ID', readUuid, 'administration tokens of this company only'),
    },
    read: (sql, { company = null }) => listTokens(sql, company),
    columns: () => ({
      ...plainly('id', 'name'),
      COMPANY: ({ company_id }) => company_id ?? 'all',
      ...plainly('access', 'state'),
      'CREATED BY': ({ created_by }) => actorName(created_by),
      ...plainly('expires_at', 'last_used_at'),
    }),
    empty: 'There are no administration tokens.',
  }),
  tokens.revoke({
    summary: 'revoke an administration token; it stops working at once',
    operand: {
      shown: 'ID',
      meaning: 'id of the administration token, from "tollgate token list"',
      read: readUuid,
    },
    options: {},
    change: (sql, _caller, _values, id) => revokeToken(sql, id, null),
    show: (_done, { name }) => `Administration token ${name} is revoked.`,
  }),
];
