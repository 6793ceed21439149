import { randomUUID } from 'node:crypto';
import { keysAfter } from '../../store/after.ts';
import { createKey, findKey, type KeyChanges, type NewKey, revokeKey, rotateKey, setKey } from '../../store/key.ts';
import { type Operation, operation, type PageQuery, pageOf, type Resource } from './operation.ts';
import * as schema from './schemas.ts';

/** As JSON has it: the expiry is a text. */
type Told<T> = Omit<T, 'expires_at'> & { readonly expires_at?: string | null };

const KEY: Resource = {
  table: 'api_keys',
  param: 'key',
  find: (sql, { params }) => findKey(sql, params.key as string, params.company as string),
};
const LIST = '/companies/{company}/keys';
const PATH = `${LIST}/{key}`;
const MAX_OVERLAP = 30 * 86_400;

export const keyOperations: readonly Operation[] = [
  operation<never, PageQuery & { readonly name?: string }>({
    id: 'listKeys',
    method: 'get',
    path: LIST,
    summary: 'List the keys of a company, dead ones included, ordered by id',
    action: 'key.read',
    query: schema.listQuery({ name: schema.keySettings.name }),
    answer: schema.pageOf(schema.key),
    status: 200,
    run: (sql, { params, query }) =>
      pageOf(query, (after, limit) => keysAfter(sql, params.company as string, query.name ?? null, { after, limit })),
  }),
  operation<Told<Omit<NewKey, 'company_id' | 'created_by' | 'id'>>>({
    id: 'createKey',
    method: 'post',
    path: LIST,
    summary: 'Create a key. Its text is in the answer, and nowhere else',
    action: 'key.write',
    body: schema.object(schema.keySettings, ['name', 'scopes']),
    answer: schema.mintedKey,
    status: 201,
    secret: 'key',
    run: (sql, { services, actor, params, body }) =>
      createKey(sql, services.keyPrefix, {
        ...body,
        expires_at: instantOf(body.expires_at),
        company_id: params.company as string,
        created_by: actor,
      }),
  }),
  operation({
    id: 'getKey',
    method: 'get',
    path: PATH,
    summary: 'Read a key, without its text',
    action: 'key.read',
    answer: schema.key,
    status: 200,
    resource: KEY,
    run: KEY.find,
  }),
  operation<Told<KeyChanges>>({
    id: 'changeKey',
    method: 'patch',
    path: PATH,
    summary: 'Change a key that is not revoked; members that are left out stay as they are',
    action: 'key.write',
    body: schema.changeOf(schema.keySettings),
    answer: schema.key,
    status: 200,
    resource: KEY,
    run: (sql, { params, body }) =>
      setKey(sql, params.key as string, { ...body, expires_at: instantOf(body.expires_at) }, params.company as string),
  }),
  operation({
    id: 'revokeKey',
    method: 'delete',
    path: PATH,
    summary: 'Revoke a key. Every gateway refuses it within a second; it stays in the list',
    action: 'key.write',
    answer: null,
    status: 204,
    resource: KEY,
    async run(sql, { params }) {
      await revokeKey(sql, params.key as string, params.company as string);
      return null;
    },
  }),
  operation<{ readonly overlap_seconds?: number }>({
    id: 'rotateKey',
    method: 'post',
    path: `${PATH}/rotate`,
    summary:
      'Create a key with the same settings in place of another, which ends after the overlap; 0 for a leaked key',
    action: 'key.write',
    body: schema.object({ overlap_seconds: { type: 'integer', minimum: 0, maximum: MAX_OVERLAP } }),
    answer: schema.mintedKey,
    status: 201,
    secret: 'key',
    run: (sql, { services, actor, params, body }) =>
      rotateKey(sql, services.keyPrefix, {
        id: params.key as string,
        company_id: params.company as string,
        overlap: body.overlap_seconds as number,
        created_by: actor,
        new_id: randomUUID(),
      }),
  }),
];

function instantOf(text: string | null | undefined): Date | null | undefined {
  return typeof text === 'string' ? new Date(text) : text;
}
