import { KEY_STATES, MOST_OVERLAP } from '../../domain/key.ts';
import * as schema from '../../domain/settings/schema.ts';
import {
  changeKey,
  createKey,
  digestsIn,
  pauseKey,
  resumeKey,
  revokeKey,
  rotateKey,
} from '../../operations/key.ts';
import { readAt } from '../../operations/problem.ts';
import {
  findKey,
  idsOfDigests,
  KEY_ROW,
  keysAfter,
  keysWithCompany,
} from '../../store/company/key.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { enterCompany, leaveCompany } from '../../store/connection/tenant-role.ts';
import { noun } from './frame/noun.ts';
import { type ApiCall, type ApiOperation, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const LIST = '/companies/{company}/keys';

const keys = noun({
  name: 'Key',
  path: LIST,
  param: 'key',
  table: 'api_keys',
  answer: KEY_ROW,
  reads: 'key.read',
  writes: 'key.write',
  find: (sql, company, id) => findKey(sql, id, company),
});

const FIND = {
  isReading: true,
  body: schema.object({
    text: { ...schema.text, description: 'a key, or a text that has keys in it; it is not stored' },
  }),
  answer: schema.object({
    looked_up: { type: 'integer', description: 'how many parts of the text may be keys' },
    data: schema.array(schema.object({ ...KEY_ROW.properties, company_name: schema.string })),
  }),
} as const;

export const keyOperations: readonly ApiOperation[] = [
  keys.list({
    summary: 'List the keys of a company, dead ones included, ordered by id',
    filters: { name: schema.presentName, state: schema.oneOf(KEY_STATES) },
    read: (sql, { query }, range, company) => keysAfter(sql, company, query, range),
  }),
  keys.create({
    summary: 'Create a key. Its text is in the answer, and nowhere else',
    body: resource.newKey,
    answer: resource.mintedKey,
    secret: 'key',
    run: (sql, call, company) => createKey(sql, call, company, call.body),
  }),
  keys.get('Read a key, without its text'),
  keys.change({
    summary: 'Change a key that is not revoked; members that are left out stay as they are',
    body: schema.changeOf(resource.keySettings),
    run: (sql, call, company, id) => changeKey(sql, call, id, company, call.body),
  }),
  keys.remove({
    id: 'revokeKey',
    summary: 'Revoke a key. Every gateway refuses it within a second; it stays in the list',
    run: (sql, call, company, id) => revokeKey(sql, call, id, company),
  }),
  post('rotateKey', `${keys.one}/rotate`, {
    summary:
      'Create a key with the same settings in place of another, which ends after the overlap; 0 for a leaked key',
    action: 'key.write',
    body: schema.object({
      overlap_seconds: { type: 'integer', minimum: 0, maximum: MOST_OVERLAP },
    }),
    answer: resource.mintedKey,
    status: 201,
    secret: 'key',
    run(sql, call) {
      const { key: id = '', company = '' } = call.params;
      return rotateKey(sql, call, company, { id, overlap: call.body.overlap_seconds });
    },
  }),
  post('pauseKey', `${keys.one}/pause`, {
    summary:
      'Pause a key: every gateway refuses it with 403 within a second. One that an operator paused is resumed by operators alone',
    action: 'key.write',
    body: resource.pause,
    answer: KEY_ROW,
    run: (sql, call) =>
      pauseKey(sql, call, call.params.key as string, call.company, call.body.reason),
  }),
  post('resumeKey', `${keys.one}/resume`, {
    summary: 'End the pause of a key; one that is not paused stays as it is',
    action: 'key.write',
    answer: KEY_ROW,
    run: (sql, call) => resumeKey(sql, call, call.params.key as string, call.company),
  }),
  post('findKeys', '/keys/find', {
    ...FIND,
    summary:
      'Find which keys of all companies are in a text, such as a leaked log. Only digests are looked up',
    action: 'key.find',
    run: find,
  }),
  post('findKeysOfCompany', `${LIST}/find`, {
    ...FIND,
    summary:
      'Find which keys of a company are in a text, such as a leaked log. Only digests are looked up',
    action: 'key.write',
    run: find,
  }),
];

/** Keys whose digests are those of parts of a text: the tenant role may not read digests, and then sees its own keys alone. */
async function find(
  sql: Sql,
  { services, params, body, role }: ApiCall<{ readonly text: string }>,
): Promise<object> {
  const digests = readAt('#/text', () => digestsIn(body.text, services.keyPrefix));
  const { company } = params;
  if (company !== undefined) await leaveCompany(sql);
  const ids = await idsOfDigests(sql, digests);
  if (company !== undefined) await enterCompany(sql, company, role);
  return {
    looked_up: digests.length,
    data: await keysWithCompany(sql, ids, company ?? null, true),
  };
}
