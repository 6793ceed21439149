import { MOST_OVERLAP } from '../../domain/key.ts';
import * as schema from '../../domain/settings/schema.ts';
import { changeKey, createKey, digestsIn, revokeKey, rotateKey } from '../../operations/key.ts';
import { readAt } from '../../operations/problem.ts';
import { findKey, idsOfDigests, keysWithCompany } from '../../store/company/key.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { enterCompany, leaveCompany } from '../../store/connection/tenant-role.ts';
import { keysAfter, keysThatFit } from '../../store/lists/cursor.ts';
import type { ApiCall, ApiOperation, Resource } from './frame/operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const KEY: Resource = {
  table: 'api_keys',
  param: 'key',
  find: (sql, { params }) => findKey(sql, params.key as string, params.company as string),
};

const LIST = '/companies/{company}/keys';

const PATH = `${LIST}/{key}`;

const FIND = {
  isReading: true,
  body: schema.object({
    text: { ...schema.text, description: 'a key, or a text that has keys in it; it is not stored' },
  }),
  answer: schema.object({
    looked_up: { type: 'integer', description: 'how many parts of the text may be keys' },
    data: schema.array(schema.object({ ...resource.key.properties, company_name: schema.string })),
  }),
} as const;

export const keyOperations: readonly ApiOperation[] = [
  get('listKeys', LIST, {
    summary: 'List the keys of a company, dead ones included, ordered by id',
    action: 'key.read',
    query: resource.listQuery({ name: schema.presentName, state: schema.oneOf(['active', 'expired', 'revoked']) }),
    answer: resource.pageOf(resource.key),
    run(sql, { params, query }) {
      const company = params.company as string;
      return pageOf(
        query,
        (range) => keysAfter(sql, company, query, range),
        (range) => keysThatFit(sql, company, query, range),
      );
    },
  }),
  post('createKey', LIST, {
    summary: 'Create a key. Its text is in the answer, and nowhere else',
    action: 'key.write',
    body: resource.newKey,
    answer: resource.mintedKey,
    status: 201,
    secret: 'key',
    run: (sql, call) => createKey(sql, call, call.params.company as string, call.body),
  }),
  getOne('getKey', PATH, KEY, { summary: 'Read a key, without its text', action: 'key.read', answer: resource.key }),
  patch('changeKey', PATH, {
    summary: 'Change a key that is not revoked; members that are left out stay as they are',
    action: 'key.write',
    body: schema.changeOf(resource.keySettings),
    answer: resource.key,
    resource: KEY,
    run: (sql, call) => changeKey(sql, call, call.params.key as string, call.params.company as string, call.body),
  }),
  remove('revokeKey', PATH, {
    summary: 'Revoke a key. Every gateway refuses it within a second; it stays in the list',
    action: 'key.write',
    resource: KEY,
    run: (sql, call) => revokeKey(sql, call, call.params.key as string, call.params.company as string),
  }),
  post('rotateKey', `${PATH}/rotate`, {
    summary:
      'Create a key with the same settings in place of another, which ends after the overlap; 0 for a leaked key',
    action: 'key.write',
    body: schema.object({ overlap_seconds: { type: 'integer', minimum: 0, maximum: MOST_OVERLAP } }),
    answer: resource.mintedKey,
    status: 201,
    secret: 'key',
    run(sql, call) {
      const { key: id = '', company = '' } = call.params;
      return rotateKey(sql, call, company, { id, overlap: call.body.overlap_seconds });
    },
  }),
  post('findKeys', '/keys/find', {
    ...FIND,
    summary: 'Find which keys of all companies are in a text, such as a leaked log. Only digests are looked up',
    action: 'key.find',
    run: find,
  }),
  post('findKeysOfCompany', `${LIST}/find`, {
    ...FIND,
    summary: 'Find which keys of a company are in a text, such as a leaked log. Only digests are looked up',
    action: 'key.write',
    run: find,
  }),
];

/** Keys whose digests are those of parts of a text: the tenant role may not read digests, and then sees its own keys alone. */
async function find(sql: Sql, { services, params, body, role }: ApiCall<{ readonly text: string }>): Promise<object> {
  const digests = readAt('#/text', () => digestsIn(body.text, services.keyPrefix));
  const { company } = params;
  if (company !== undefined) await leaveCompany(sql);
  const ids = await idsOfDigests(sql, digests);
  if (company !== undefined) await enterCompany(sql, company, role);
  return { looked_up: digests.length, data: await keysWithCompany(sql, ids, company ?? null, true) };
}
