import { randomUUID } from 'node:crypto';
import { isLimited } from '../domain/budget.ts';
import { checkMemberBudget } from '../domain/ceiling.ts';
import { FieldError } from '../domain/field.ts';
import { ALLOWED_MODELS as MODELS } from '../domain/gate.ts';
import { digestOf, KEY_STATES, MOST_OVERLAP, possibleKeysIn } from '../domain/key.ts';
import { type End, readMoment } from '../domain/price.ts';
import { parseEur } from '../domain/pricing/money.ts';
import { refusal, throwConflict, throwNotFound } from '../domain/refusal.ts';
import { type END_USER, type KEY, NEW_KEY } from '../domain/settings/key.ts';
import * as schema from '../domain/settings/schema.ts';
import type { New, Values } from '../domain/settings/setting.ts';
import type { Role } from '../domain/user.ts';
import {
  endKey,
  findKey,
  freeKeyTexts,
  idsOfDigests,
  insertKey,
  insertKeyOf,
  KEY_ROW,
  type KeptText,
  type KeyChanges,
  type KeyRow,
  keysAfter,
  keysWithCompany,
  type NewKey,
  readKey,
  replaceKey,
  updateKey,
  updateKeyPause,
} from '../store/company/key.ts';
import { type Claim, makeKeyOnce, type RevealedKey } from '../store/company/key-reveal.ts';
import { lockRow } from '../store/company/last-change.ts';
import { type KeyHolder, lockHolder, readAllowance } from '../store/company/own-key.ts';
import {
  insertPlaygroundKey,
  isPlaygroundRevoked,
  lockPlaygroundKey,
  type Player,
} from '../store/company/playground-key.ts';
import { OPERATOR } from '../store/connection/actor.ts';
import type { Sql } from '../store/connection/pool.ts';
import { enterCompany, leaveCompany } from '../store/connection/tenant-role.ts';
import { usedUp } from './company.ts';
import type { Caller, OperationServices } from './frame/caller.ts';
import { noun } from './frame/noun.ts';
import type { Mistake } from './frame/refused.ts';
import { readAt } from './frame/refused.ts';
import * as resource from './frame/resources.ts';
import { type Call, type Operation, post } from './frame/row.ts';
import { unknownModels } from './model.ts';

/**
 * Keys of companies and of persons. A member makes as many as the company allows, each with a budget of at most what it
 * allows (`member_max_keys`, `member_key_budget_eur`), and manages these alone: keys of others are not found. A setting
 * that is lowered later holds for what is made from then on: keys that exist keep working, with their budgets, and so does
 * a key that replaces one of them. For the gateway they are keys like any other; they end with their person, by the
 * trigger end_keys_of_person.
 */

/** Who makes keys. */
export type KeyMaker = Pick<Caller, 'actor' | 'judge' | 'member'> & {
  readonly services: Pick<OperationServices, 'keyPrefix'>;
};

/** As JSON has it: the end may be a text. */
type Told<T> = Omit<T, 'expires_at'> & { readonly expires_at?: End | string | null | undefined };

/** The settings of a key that is created; id and text where they are known already. */
export type KeySettings = Told<
  Omit<NewKey, 'company_id' | 'created_by' | 'rotated_from' | 'user_id'>
>;

/** The rotation of a key. */
interface AskedRotation {
  readonly id: string;
  /** Seconds that the old key works beside the new one; 0 revokes it at once. */
  readonly overlap: number;
  /** Id of the new key; random unless given. */
  readonly new_id?: string;
}

const MOST_FOUND = 1000; // looked up at once

/**
 * A key that the caller may see: of the company, or one of the own.
 * @param company if given, keys of other companies count as not found
 * @throws Refused missing
 */
export async function findKeyInReach(
  sql: Sql,
  { member }: Pick<Caller, 'member'>,
  id: string,
  company: string | null,
): Promise<KeyRow> {
  const key = await findKey(sql, id, member?.company_id ?? company);
  return member === undefined || key.user_id === member.user_id
    ? key
    : throwNotFound('key', `There is no key ${id}.`);
}

/**
 * Creates a key of a company, or of the member who asks; a budget that a member leaves out is the most that the company
 * allows. To be run in a transaction.
 * @param claim of a form: the same form makes one key, and gets its text again for a minute
 * @throws Refused when a member may have no more keys; what the caller makes of the rules
 */
export async function createKey(
  sql: Sql,
  caller: KeyMaker,
  company_id: string,
  settings: KeySettings,
  claim: Claim | null = null,
): Promise<RevealedKey> {
  const { id = randomUUID(), monthly_budget_eur: budget = null } = settings;
  const { actor: created_by, member, services } = caller;
  const most = member === undefined ? null : await mostBudget(sql, member, id);
  caller.judge([
    ...(await unknownModels(sql, company_id, MODELS, settings[MODELS])),
    ...(most === null ? [] : tooHigh(budget, most)),
    ...allowanceOfNobody({ ...NEW_KEY, end_user_budget_eur: null }, settings),
  ]);
  const isWithout = budget === null || parseEur(budget) === 0n; // 0 is no budget
  const row = {
    ...settings,
    ...(most !== null && isWithout && { monthly_budget_eur: most }),
    ...{
      id,
      company_id,
      created_by,
      user_id: member?.user_id,
      expires_at: endIn(settings.expires_at),
    },
  };
  return makeKeyOnce(sql, id, row, claim, () => insertKey(sql, services.keyPrefix, row));
}

/** Creates a key that another program made, by its digest: its holders keep it. @throws as `createKey` */
export async function adoptKey(
  sql: Sql,
  caller: Pick<KeyMaker, 'actor' | 'judge'>,
  company_id: string,
  settings: New<typeof KEY> & { readonly id: string },
  text: KeptText,
): Promise<KeyRow> {
  caller.judge(await unknownModels(sql, company_id, MODELS, settings[MODELS]));
  return insertKeyOf(sql, text, { ...settings, company_id, created_by: caller.actor });
}

/**
 * Changes a key that is not revoked.
 * @param company if given, keys of other companies count as not found
 * @throws Refused as `updateKey`; what the caller makes of the rules
 */
export async function changeKey(
  sql: Sql,
  caller: Pick<Caller, 'judge' | 'member'>,
  id: string,
  company: string | null,
  changes: Told<KeyChanges>,
): Promise<KeyRow> {
  await lockRow(sql, 'api_keys', id);
  const before = await findKeyInReach(sql, caller, id, company);
  const { company_id } = before;
  caller.judge([
    ...(await unknownModels(sql, company_id, MODELS, changes[MODELS], before[MODELS])),
    ...(await usedUp(sql, before, changes, company_id, id)),
    ...allowanceOfNobody(before, changes),
  ]);
  return updateKey(sql, id, { ...changes, expires_at: endIn(changes.expires_at) }, company_id);
}

/** A key that gets a text: a new one, by `createKey`, or one that is there, by `changeKeyText`. */
export interface KeyText {
  /** Null: the key is to be created. */
  readonly id: string | null;
  readonly key: string;
  give(): Promise<unknown>;
}

/** Gives keys their texts, in any order: a text that another one of them has yet is taken away first. @param begin called before each */
export async function giveKeyTexts<T extends KeyText>(
  sql: Sql,
  texts: readonly T[],
  begin: (text: T) => void,
) {
  await freeKeyTexts(sql, texts);
  for (const text of texts) {
    begin(text);
    await text.give();
  }
}

/** Gives a key another text: the old one stops working at once. */
export { updateKeyText as changeKeyText } from '../store/company/key.ts';

/**
 * Rotates a key. A member may do so at once always; an overlap may begin while the member has no more active keys than
 * allowed, so that there is one more at most. To be run in a transaction.
 * @param claim as of `createKey`
 * @throws Refused as `replaceKey`
 */
export async function rotateKey(
  sql: Sql,
  caller: Omit<KeyMaker, 'judge'>,
  company: string | null,
  { id, overlap, new_id = randomUUID() }: AskedRotation,
  claim: Claim | null = null,
): Promise<RevealedKey> {
  const { actor: created_by, member, services } = caller;
  if (member !== undefined) await lock(sql, member);
  const { company_id } = await findKeyInReach(sql, caller, id, company);
  if (member !== undefined && overlap > 0) {
    const { most, active } = await readAllowance(sql, member);
    if (active > most && !(await isMadeAlready(sql, member, new_id))) {
      throwConflict('key', refusal('memberKeysOverlap', { most }));
    }
  }
  const rotation = { id, overlap, new_id, company_id, created_by };
  return makeKeyOnce(sql, new_id, rotation, claim, () =>
    replaceKey(sql, services.keyPrefix, rotation),
  );
}

/** Revokes a key for good; one that was revoked keeps its time. @throws Refused missing */
export async function revokeKey(
  sql: Sql,
  caller: Pick<Caller, 'member'>,
  id: string,
  company: string | null,
): Promise<{ readonly key: KeyRow; readonly already: boolean }> {
  const { company_id } = await findKeyInReach(sql, caller, id, company);
  return endKey(sql, id, company_id);
}

/**
 * Pauses a key: gateways refuse it with 403 within a second, until it is resumed. A key that is paused keeps its time, and
 * gets another reason.
 * @throws Refused missing; conflict for a revoked key, and for one that the operator paused, unless an operator asks
 */
export const pauseKey = (
  sql: Sql,
  caller: Pauser,
  id: string,
  company: string | null,
  reason: string,
) => setPause(sql, caller, id, company, reason);

/** Ends the pause of a key, if there is one. @throws Refused as `pauseKey` */
export const resumeKey = (sql: Sql, caller: Pauser, id: string, company: string | null) =>
  setPause(sql, caller, id, company, null);

type Pauser = Pick<Caller, 'role' | 'member'>;

async function setPause(
  sql: Sql,
  caller: Pauser,
  id: string,
  company: string | null,
  reason: string | null,
) {
  await lockRow(sql, 'api_keys', id);
  const { company_id, paused_by } = await findKeyInReach(sql, caller, id, company);
  if (isLocked(caller.role, paused_by)) throwConflict('key', refusal('pausedByOperator'));
  return updateKeyPause(sql, id, company_id, reason);
}

/** Whether only an operator may end a pause: the row tells others this name for every pause of an operator, and for no other. */
export function isLocked(role: Role, paused_by: string | null): boolean {
  return role !== 'operator' && paused_by === OPERATOR;
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

function endIn(told: End | string | null | undefined): End | null | undefined {
  return typeof told === 'string' ? readMoment(told) : told;
}

/** The most that the budget of a new key of a member may be; null: any. @throws Refused when it may have no more keys */
async function mostBudget(sql: Sql, member: KeyHolder, id: string): Promise<string | null> {
  await lock(sql, member);
  const { most, budget, active } = await readAllowance(sql, member);
  if (await isMadeAlready(sql, member, id)) return budget;
  if (most === 0) throwConflict('key', refusal('memberKeysOff'));
  if (active >= most) throwConflict('key', refusal('memberKeysFull', { most }));
  return budget;
}

/** The rule of a member's key whose budget is above what the company allows. */
function tooHigh(budget: string | null, most: string): Mistake[] {
  const reason = checkMemberBudget(budget, most);
  return reason === null ? [] : [{ pointer: '#/monthly_budget_eur', detail: reason.text, reason }];
}

/** An allowance of end users of a key whose calls name none would hold nobody. */
type Allowance = Values<typeof END_USER>;
function allowanceOfNobody(
  before: Allowance,
  changes: { readonly [K in keyof Allowance]?: Allowance[K] | undefined },
): Mistake[] {
  const { end_users = before.end_users, end_user_budget_eur: budget = before.end_user_budget_eur } =
    changes;
  if (end_users !== 'off' || !isLimited(budget)) return [];
  const reason = refusal('allowanceOfNobody');
  return [{ pointer: '#/end_user_budget_eur', detail: reason.text, reason }];
}

/** @throws Refused when the person was removed meanwhile */
async function lock(sql: Sql, member: KeyHolder): Promise<void> {
  if (!(await lockHolder(sql, member))) throwNotFound('user');
}

/** Whether a request has made its key. @throws Refused for the id of another one's key */
async function isMadeAlready(
  sql: Sql,
  { company_id, user_id }: KeyHolder,
  id: string,
): Promise<boolean> {
  const key = await readKey(sql, id, company_id);
  if (key !== null && key.user_id !== user_id)
    throwConflict('key', 'A key with this id exists already.');
  return key !== null;
}

/**
 * Gives a person's playground key a new text, which works for ten minutes; an earlier text stops. The key is created
 * at its first use. To be run in a transaction.
 * @throws Refused conflict when the key was revoked, until `allowPlayground` makes another
 */
export async function mintPlaygroundKey(
  sql: Sql,
  keyPrefix: string,
  player: Player,
): Promise<string> {
  await lockPlaygroundKey(sql, player);
  if (await isPlaygroundRevoked(sql, player)) throwConflict('key', refusal('playgroundRevoked'));
  return insertPlaygroundKey(sql, keyPrefix, player);
}

/** Makes a new playground key in place of one that was revoked. To be run in a transaction. */
export async function allowPlayground(sql: Sql, keyPrefix: string, player: Player): Promise<void> {
  await insertPlaygroundKey(sql, keyPrefix, player);
}

const LIST = '/companies/{company}/keys';

const keys = noun({
  name: 'Key',
  path: LIST,
  param: 'key',
  table: 'api_keys',
  answer: KEY_ROW,
  reads: 'key.read',
  writes: 'key.write',
  find: (sql, { company, id }) => findKey(sql, id, company),
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

export const keyOperations: readonly Operation[] = [
  keys.list({
    summary: 'List the keys of a company, dead ones included, ordered by id',
    filters: { name: schema.presentName, state: schema.oneOf(KEY_STATES) },
    read: (sql, { query, company }, range) => keysAfter(sql, company, query, range),
  }),
  keys.create({
    summary: 'Create a key. Its text is in the answer, and nowhere else',
    body: resource.newKey,
    answer: resource.mintedKey,
    secret: 'key',
    run: (sql, call) => createKey(sql, call, call.company, call.body),
  }),
  keys.get('Read a key, without its text'),
  keys.change({
    summary: 'Change a key that is not revoked; members that are left out stay as they are',
    body: schema.changeOf(resource.keySettings),
    run: (sql, call) => changeKey(sql, call, call.id, call.company, call.body),
  }),
  keys.remove({
    id: 'revokeKey',
    summary: 'Revoke a key. Every gateway refuses it within a second; it stays in the list',
    run: (sql, call) => revokeKey(sql, call, call.id, call.company),
  }),
  keys.act('rotate')({
    summary:
      'Create a key with the same settings in place of another, which ends after the overlap; 0 for a leaked key',
    body: schema.object({
      overlap_seconds: { type: 'integer', minimum: 0, maximum: MOST_OVERLAP },
    }),
    answer: resource.mintedKey,
    status: 201,
    secret: 'key',
    run: (sql, call) =>
      rotateKey(sql, call, call.company, { id: call.id, overlap: call.body.overlap_seconds }),
  }),
  keys.act('pause')({
    summary:
      'Pause a key: every gateway refuses it with 403 within a second. One that an operator paused is resumed by operators alone',
    body: resource.pause,
    run: (sql, call) => pauseKey(sql, call, call.id, call.company, call.body.reason),
  }),
  keys.act('resume')({
    summary: 'End the pause of a key; one that is not paused stays as it is',
    run: (sql, call) => resumeKey(sql, call, call.id, call.company),
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
  { services, params, body, role }: Call<{ readonly text: string }>,
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
