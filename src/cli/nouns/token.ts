import { oneOf, orNone, readName, readUuid } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import { createToken } from '../../operations/token.ts';
import { command, optional, required } from '../frame/command.ts';
import { ACTOR } from '../frame/database.ts';
import { card, instant } from '../frame/text.ts';

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
];
