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
      company: required('ID', readUuid, 'company of the key'),
      name: required('NAME', readName, 'purpose of the key, such as its user or service'),
      scope: repeated('SCOPE', readScope, 'chat, embeddings or assistants; may be repeated', 1),
      expires: optional('ISO_TIME', readInstant, 'when the key expires, such as 2027-01-31T18:00:00Z; default: never'),
    },
    async run({ transact, config }, values) {
      const asked = {
        company_id: values.company,
        name: values.name,
        scopes: values.scope,
        expires_at: values.expires,
        created_by: ACTOR,
      };
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
    options: { company: required('ID', readUuid, 'company of the keys') },
    async run({ transact }, values) {
      const keys = await transact((sql) => listKeys(sql, values.company));
      const rows = keys.map((key) => [
        key.id,
        key.prefix,
        key.name,
        key.scopes.join(', '),
        minute(key.created_at),
        orDash(key.created_by),
        minute(key.last_used_at),
        minute(key.expires_at),
        key.state,
      ]);
      return {
        json: keys,
        text: listing(
          ['ID', 'PREFIX', 'NAME', 'SCOPES', 'CREATED (UTC)', 'BY', 'LAST USED (UTC)', 'EXPIRES (UTC)', 'STATE'],
          rows,
          'The company has no keys; "tollgate key create" creates one.',
        ),
      };
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
