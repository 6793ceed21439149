import { readInstant, readName, readScope, readUuid } from '../domain/field.ts';
import { createKey, listKeys, revokeKey } from '../store/key.ts';
import { type Command, command, optional, repeated, required } from './command.ts';
import { ACTOR } from './database.ts';
import { card, instant, listing, minute, orDash } from './text.ts';

export const keyCommands: readonly Command[] = [
  command({
    name: 'key create',
    summary: 'create an API key; the key is shown only once',
    options: {
      company_id: required('--company ID', readUuid, 'company of the key'),
      name: required('--name NAME', readName, 'purpose of the key, such as its user or service'),
      scopes: repeated('--scope SCOPE', readScope, 'chat, embeddings or assistants; may be repeated', 1),
      expires_at: optional(
        '--expires ISO_TIME',
        readInstant,
        'when the key expires, such as 2027-01-31T18:00:00Z; default: never',
      ),
    },
    async run({ transact, config }, values) {
      const asked = { ...values, created_by: ACTOR };
      const created = await transact((sql) => createKey(sql, config.keyPrefix, asked));
      const text = card('API key created. It is shown only this once: store it now, like a password.', {
        key: created.key,
        id: created.id,
        name: created.name,
        scopes: created.scopes.join(', '),
        expires: created.expires_at === null ? 'never' : instant(created.expires_at),
      });
      return { json: created, text };
    },
  }),
  command({
    name: 'key list',
    summary: 'list all keys of a company, including revoked ones',
    options: { company: required('--company ID', readUuid, 'company of the keys') },
    async run({ transact }, { company }) {
      const keys = await transact((sql) => listKeys(sql, company));
      const text = listing(
        keys,
        {
          ID: ({ id }) => id,
          PREFIX: ({ prefix }) => prefix,
          NAME: ({ name }) => name,
          SCOPES: ({ scopes }) => scopes.join(', '),
          'CREATED (UTC)': ({ created_at }) => minute(created_at),
          BY: ({ created_by }) => orDash(created_by),
          'LAST USED (UTC)': ({ last_used_at }) => minute(last_used_at),
          'EXPIRES (UTC)': ({ expires_at }) => minute(expires_at),
          STATE: ({ state }) => state,
        },
        'The company has no keys; "tollgate key create" creates one.',
      );
      return { json: keys, text };
    },
  }),
  command({
    name: 'key revoke',
    summary: 'revoke a key; gateways refuse it within one second',
    operand: { shown: 'KEY_ID', meaning: 'id of the key, from "tollgate key list"', read: readUuid },
    options: {},
    notes: 'Revoking a key again changes nothing and prints when it was revoked.',
    async run({ transact }, _values, id) {
      const { key, already } = await transact((sql) => revokeKey(sql, id));
      const what = `${key.prefix}… "${key.name}"`;
      const when = instant(key.revoked_at as Date);
      return {
        json: { ...key, already_revoked: already },
        text: already ? `Key ${what} was already revoked at ${when}.` : `Key ${what} was revoked at ${when}.`,
      };
    },
  }),
];
