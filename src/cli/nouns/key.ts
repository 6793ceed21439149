import { readDuration, readUuid } from '../../domain/field.ts';
import { digestOf, MOST_OVERLAP, possibleKeysIn } from '../../domain/key.ts';
import { END_USER, KEY, PURPOSE, RESTRICTIONS, scopesOf } from '../../domain/settings/key.ts';
import { restrictionTexts } from '../../domain/settings/limit-text.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import {
  changeKey,
  createKey,
  pauseKey,
  resumeKey,
  revokeKey,
  rotateKey,
} from '../../operations/key.ts';
import {
  findKey,
  idsOfDigests,
  type KeyRow,
  keysWithCompany,
  listKeys,
} from '../../store/company/key.ts';
import type { RevealedKey } from '../../store/company/key-reveal.ts';
import { ArgumentError, command, flag, optional, required, someChange } from '../frame/command.ts';
import { readBytes } from '../frame/files.ts';
import { commandsOf } from '../frame/noun.ts';
import { callerOf, changeOptions, newOptions } from '../frame/setting.ts';
import { instant, listing, minute, plainly } from '../frame/text.ts';
import { limitColumn, PLAIN, pauseText, reason } from './company.ts';

const { expires_at } = KEY;

const DAY = 86_400;
/** Bytes of a text that is searched for keys. */
const MOST_TEXT = 64 << 20;

const keyId = {
  shown: 'KEY_ID',
  meaning: 'id of the key, from "tollgate key list"',
  read: readUuid,
};

const keys = commandsOf('key', KEY, (key: KeyRow & Partial<RevealedKey>) => ({
  ...(key.key && { key: key.key }),
  id: key.id,
  name: key.name,
  ...(key.user_id !== null && { of: ofText(key) }),
  ...pauseText(key),
}));

export const keyCommands = [
  keys.create({
    summary: 'create a key; it is shown only once',
    options: {
      company_id: required('--company ID', readUuid, 'company of the key'),
      ...newOptions({ ...PURPOSE, expires_at }, false),
      ...changeOptions({ ...RESTRICTIONS, ...END_USER }),
    },
    change: (sql, caller, { company_id, ...values }) => createKey(sql, caller, company_id, values),
    done: 'Key created. It is shown only this once: store it now, like a password.',
  }),
  keys.set({
    summary: 'change the name, scopes, expiry, limits or restrictions of a key',
    operand: keyId,
    options: changeOptions({ ...PURPOSE, expires_at, ...RESTRICTIONS, ...END_USER }),
    notes:
      'What is not given stays as it is. Scopes, models and networks that are given replace the ones before; the value none clears a setting. Running gateways apply the change within one second.',
    change: (sql, caller, values, id) => changeKey(sql, caller, id, null, someChange(values)),
  }),
  keys.list({
    summary: 'list all keys of a company, including revoked ones',
    options: { company: required('--company ID', readUuid, 'company of the keys') },
    read: (sql, { company }) => listKeys(sql, company),
    columns: (keys) => ({
      ...plainly('id', 'prefix', 'name'),
      SCOPES: (key) => scopesOf(key).join(', '),
      'CREATED (UTC)': ({ created_at }) => minute(created_at),
      BY: ({ created_by }) => actorName(created_by),
      ...(keys.some(({ user_id }) => user_id !== null) && { OF: ofText }),
      ...plainly('last_used_at', 'expires_at', 'state'),
      ...limitColumn(keys, (key) => restrictionTexts(key, PLAIN)),
    }),
    empty: 'The company has no keys; "tollgate key create" creates one.',
  }),
  command({
    name: 'key rotate',
    summary: 'replace a key by one with the same settings',
    operand: keyId,
    options: {
      leaked: flag('--leaked', 'the key leaked: the old one stops at once'),
      overlap: optional(
        '--overlap DURATION',
        readDuration,
        'how long both work, such as 1h or 7d; default: 1d',
      ),
    },
    notes:
      'The new key is shown only once. Within one second of its end, running gateways refuse the old key.',
    async run(context, { leaked, overlap }, id) {
      if (leaked && overlap !== undefined)
        throw new ArgumentError('a leaked key has no overlap; leave out --overlap');
      if (overlap !== undefined && overlap > MOST_OVERLAP)
        throw new ArgumentError('--overlap must be at most 30d');
      const asked = { id, overlap: leaked ? 0 : (overlap ?? DAY) };
      const { created, old } = await context.transact(async (sql) => ({
        created: await rotateKey(sql, callerOf(context, KEY), null, asked),
        old: await findKey(sql, id),
      }));
      const end = leaked ? 'has stopped working' : `works until ${instant(old.expires_at as Date)}`;
      const sentence = `The old key ${old.prefix}… ${end}. The new one is shown only this once: store it now, like a password.`;
      const text = keys.show(sentence, created);
      return { json: { ...created, replaces: old }, text };
    },
  }),
  command({
    name: 'key find',
    summary: 'find which keys of any company are in a text',
    options: {
      stdin: flag('--stdin', 'read the text from standard input: a key, a log, an .env file', true),
    },
    notes:
      'Only digests are looked up, and nothing of the text is printed. Example:\n  tollgate key find --stdin < leaked.env\n\nTo replace a key that leaked: tollgate key rotate KEY_ID --leaked',
    async run({ read, config, stdin }) {
      const input = (await readBytes('-', stdin, MOST_TEXT)).toString();
      const digests = possibleKeysIn(input, config.keyPrefix).map(digestOf);
      const keys = await read(async (sql) =>
        keysWithCompany(sql, await idsOfDigests(sql, digests), null),
      );
      const text = listing(
        keys,
        {
          ...plainly('id', 'prefix', 'name'),
          COMPANY: ({ company_name }) => company_name,
          ...plainly('last_used_at', 'state'),
        },
        `No key was found; ${digests.length} ${digests.length === 1 ? 'part' : 'parts'} of the text may be a key.`,
      );
      return { json: keys, text };
    },
  }),
  command({
    name: 'key revoke',
    summary: 'revoke a key; gateways refuse it within one second',
    operand: keyId,
    options: {},
    notes: 'Revoking a key again changes nothing and prints when it was revoked.',
    async run({ transact }, _values, id) {
      const { key, already } = await transact((sql) => revokeKey(sql, {}, id, null));
      const what = `${key.prefix}… "${key.name}"`;
      const when = instant(key.revoked_at as Date);
      const text = `Key ${what} was ${already ? 'already ' : ''}revoked at ${when}.`;
      return { json: { ...key, already_revoked: already }, text };
    },
  }),
  keys.pause({
    summary: 'refuse a key with 403 until it is resumed',
    operand: keyId,
    options: { reason },
    notes:
      'Gateways refuse it within one second; calls in flight end and are booked. Again: another reason.',
    change: (sql, caller, { reason }, id) => pauseKey(sql, caller, id, null, reason),
  }),
  keys.resume({
    summary: 'accept a paused key again',
    operand: keyId,
    options: {},
    change: (sql, caller, _values, id) => resumeKey(sql, caller, id, null),
  }),
];

/** Whose key it is. */
function ofText({ user_id, person }: KeyRow): string {
  return person ?? (user_id === null ? '-' : 'a removed person');
}
