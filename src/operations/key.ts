import { randomUUID } from 'node:crypto';
import { FieldError } from '../domain/field.ts';
import { digestOf, MOST_OVERLAP, possibleKeysIn } from '../domain/key.ts';
import { type Moment, readMoment } from '../domain/price.ts';
import {
  createKey,
  findKey,
  idsOfDigests,
  type KeyChanges,
  keysWithCompany,
  type NewKey,
  revokeKey,
  rotateKey,
  setKey,
} from '../store/company/key.ts';
import type { Sql } from '../store/connection/pool.ts';
import { enterCompany, leaveCompany } from '../store/connection/tenant-role.ts';
import { type KeyFilter, keysAfter, keysThatFit } from '../store/users/cursor-lists.ts';
import { unknownModels } from './model.ts';
import type { Call, Operation, PageQuery, Resource } from './operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './operation.ts';
import { readAt, refuse } from './problem.ts';
import * as schema from './schemas.ts';

/** As JSON has it: the expiry is a text. */
type Told<T> = Omit<T, 'expires_at'> & { readonly expires_at?: string | null };
/** The settings of a key that is created. */
export type KeySettings = Told<Omit<NewKey, 'company_id' | 'created_by' | 'id' | 'key'>>;

const KEY: Resource = {
  table: 'api_keys',
  param: 'key',
  find: (sql, { params }) => findKey(sql, params.key as string, params.company as string),
};
const LIST = '/companies/{company}/keys';
const PATH = `${LIST}/{key}`;
const MODELS = 'allowed_model_slugs';
const MOST_FOUND = 1000; // looked up at once
const FIND = {
  isReading: true,
  body: schema.object({
    text: { ...schema.text, description: 'a key, or a text that has keys in it; it is not stored' },
  }),
  answer: schema.object({
    looked_up: { type: 'integer', description: 'how many parts of the text may be keys' },
    data: schema.array(schema.object({ ...schema.key.properties, company_name: schema.string })),
  }),
} as const;

export const keyOperations: readonly Operation[] = [
  get<PageQuery & KeyFilter>('listKeys', LIST, {
    summary: 'List the keys of a company, dead ones included, ordered by id',
    action: 'key.read',
    query: schema.listQuery({ name: schema.presentName, state: schema.oneOf(['active', 'expired', 'revoked']) }),
    answer: schema.pageOf(schema.key),
    run(sql, { params, query }) {
      const company = params.company as string;
      return pageOf(
        query,
        (range) => keysAfter(sql, company, query, range),
        (range) => keysThatFit(sql, company, query, range),
      );
    },
  }),
  post<KeySettings>('createKey', LIST, {
    summary: 'Create a key. Its text is in the answer, and nowhere else',
    action: 'key.write',
    body: schema.object(schema.keySettings, ['name', 'scopes']),
    answer: schema.mintedKey,
    status: 201,
    secret: 'key',
    async run(sql, { services, actor, params, body }) {
      const asked = await checkedKey(sql, { company_id: params.company as string, created_by: actor }, body);
      return createKey(sql, services.keyPrefix, asked);
    },
  }),
  getOne('getKey', PATH, KEY, { summary: 'Read a key, without its text', action: 'key.read', answer: schema.key }),
  patch<Told<KeyChanges>>('changeKey', PATH, {
    summary: 'Change a key that is not revoked; members that are left out stay as they are',
    action: 'key.write',
    body: schema.changeOf(schema.keySettings),
    answer: schema.key,
    resource: KEY,
    async run(sql, { params, body }) {
      const { key: id = '', company = '' } = params;
      const before = await findKey(sql, id, company);
      refuse(await unknownModels(sql, company, MODELS, body[MODELS], before[MODELS]));
      return setKey(sql, id, { ...body, expires_at: endOf(body.expires_at) }, company);
    },
  }),
  remove('revokeKey', PATH, {
    summary: 'Revoke a key. Every gateway refuses it within a second; it stays in the list',
    action: 'key.write',
    resource: KEY,
    run: (sql, { params }) => revokeKey(sql, params.key as string, params.company as string),
  }),
  post<{ readonly overlap_seconds: number }>('rotateKey', `${PATH}/rotate`, {
    summary:
      'Create a key with the same settings in place of another, which ends after the overlap; 0 for a leaked key',
    action: 'key.write',
    body: schema.object({ overlap_seconds: { type: 'integer', minimum: 0, maximum: MOST_OVERLAP } }),
    answer: schema.mintedKey,
    status: 201,
    secret: 'key',
    run: (sql, { services, actor, params, body }) =>
      rotateKey(sql, services.keyPrefix, {
        id: params.key as string,
        company_id: params.company as string,
        overlap: body.overlap_seconds,
        created_by: actor,
        new_id: randomUUID(),
      }),
  }),
  post<{ readonly text: string }>('findKeys', '/keys/find', {
    ...FIND,
    summary: 'Find which keys of all companies are in a text, such as a leaked log. Only digests are looked up',
    action: 'key.find',
    run: find,
  }),
  post<{ readonly text: string }>('findKeysOfCompany', `${LIST}/find`, {
    ...FIND,
    summary: 'Find which keys of a company are in a text, such as a leaked log. Only digests are looked up',
    action: 'key.write',
    run: find,
  }),
];

/** A key as it is to be created. @throws Problem 409 that names what a rule has against its settings */
export async function checkedKey(
  sql: Sql,
  whose: Pick<NewKey, 'company_id' | 'created_by'>,
  settings: KeySettings,
): Promise<NewKey> {
  refuse(await unknownModels(sql, whose.company_id, MODELS, settings[MODELS]));
  return { ...settings, expires_at: endOf(settings.expires_at), ...whose };
}

/**
 * The digests of what may be keys in a text that was sent; a command reads longer ones.
 * @throws FieldError when there are too many; it says nothing of the text
 */
export function digestsIn(text: string, prefix: string): string[] {
  const found = possibleKeysIn(text, prefix);
  if (found.length > MOST_FOUND) {
    throw new FieldError(`has more than ${MOST_FOUND} parts that may be keys: send less of it`);
  }
  return found.map(digestOf);
}

/** Keys whose digests are those of parts of a text: the tenant role may not read digests, and then sees its own keys alone. */
async function find(sql: Sql, { services, params, body, role }: Call<{ readonly text: string }>): Promise<object> {
  const digests = readAt('#/text', () => digestsIn(body.text, services.keyPrefix));
  const { company } = params;
  if (company !== undefined) await leaveCompany(sql);
  const ids = await idsOfDigests(sql, digests);
  if (company !== undefined) await enterCompany(sql, company, role);
  return { looked_up: digests.length, data: await keysWithCompany(sql, ids, company ?? null, true) };
}

function endOf(text: string | null | undefined): Moment | null | undefined {
  return typeof text === 'string' ? readMoment(text) : text;
}
