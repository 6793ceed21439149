import { readInstant, readName, readScope, readUuid } from '../domain/field.ts';
import { createKey, listKeys, revokeKey } from '../store/key.ts';
import { type Command, command, optional, repeated, required } from './command.ts';
import { ACTOR } from './database.ts';
import { card, instant, listing, minute, orDash } from './text.ts';

export const keyCommands: readonly Command[] = [
  command({
    name: 'key create',
    summary: 'make an API key for a company; it is shown this once',
    options: {
      company: required('ID', readUuid, 'whose key'),
      name: required('NAME', readName, 'what it is for'),
      scope: repeated('SCOPE', readScope, 'chat, embeddings or assistants; may be given several times', 1),
      expires: optional(
        'ISO_TIME',
        readInstant,
        'when it stops working, such as 2027-01-31T18:00:00Z; never unless given',
      ),
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
    summary: 'all keys of a company, revoked ones too',
    options: { company: required('ID', readUuid, 'whose keys') },
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
          'The company has no keys; "tollgate key create" makes one.',
        ),
      };
    },
  }),
  command({
    name: 'key revoke',
    summary: 'end a key for good, within one second on every running gateway',
    operand: { shown: 'KEY_ID', meaning: 'the key, as "tollgate key list" shows it', read: readUuid },
    options: {},
    notes: 'Revoking a key again changes nothing and says when it was revoked.',
    async run({ transact }, _values, id) {
      const { key, already } = await transact((sql) => revokeKey(sql, id));
      const what = `${key.prefix}… "${key.name}"`;
      const when = instant(key.revoked_at as Date);
      return {
        json: { ...key, already_revoked: already },
        text: already ? `Key ${what} was revoked before, on ${when}.` : `Key ${what} is revoked since ${when}.`,
      };
    },
  }),
];
