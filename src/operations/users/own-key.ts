import { checkMemberBudget } from '../../domain/ceiling.ts';
import { refusal } from '../../domain/input/refusal.ts';
import { parseEur } from '../../domain/money.ts';
import { throwConflict, throwNotFound } from '../../domain/text/refused-change.ts';
import { endKey, findKey, type KeyRow, type NewKey, readKey, updateKey } from '../../store/company/key.ts';
import { type Claim, insertKeyOnce, type RevealedKey, replaceKeyOnce } from '../../store/company/key-reveal.ts';
import { type KeyHolder, lockHolder, readAllowance } from '../../store/company/own-key.ts';
import type { Sql } from '../../store/connection/pool.ts';

/**
 * Keys of persons. A member makes as many as the company allows, each with a budget of at most what it allows
 * (`member_max_keys`, `member_key_budget_eur`), and manages these alone: keys of others are not found. A setting that is
 * lowered later holds for what is made from then on: keys that exist keep working, with their budgets, and so does a key
 * that replaces one of them. For the gateway they are keys like any other; they end with their person, by the trigger
 * end_keys_of_person.
 */

/** What a person may choose of a key; its id is that of the request. */
type AskedKey = Omit<NewKey, 'company_id' | 'created_by' | 'user_id' | 'key' | 'rotated_from'> & {
  readonly id: string;
};

/** The rotation of a key: `new_id` is that of the request. */
interface AskedRotation {
  readonly id: string;
  readonly new_id: string;
  /** Seconds that the old key works beside the new one; 0 revokes it at once. */
  readonly overlap: number;
}

/** A key of a person. @throws RefusedChange not_found, for those of others too */
export async function findOwnKey(sql: Sql, { company_id, user_id }: KeyHolder, id: string): Promise<KeyRow> {
  const key = await findKey(sql, id, company_id);
  return key.user_id === user_id ? key : throwNotFound('key', `There is no key ${id}.`);
}

/**
 * Creates a key of a person, or returns the one that the same request made. A budget that is left out is the most that
 * the company allows. To be run in a transaction.
 * @throws RefusedChange when the person may have no more keys, or not with that budget
 */
export async function createOwnKey(
  sql: Sql,
  keyPrefix: string,
  holder: KeyHolder,
  asked: AskedKey,
  claim: Claim,
): Promise<RevealedKey> {
  const { company_id, user_id, email: created_by } = holder;
  await lock(sql, holder);
  const { most, budget, active } = await readAllowance(sql, holder);
  if (!(await isMadeAlready(sql, holder, asked.id))) {
    if (most === 0) throwConflict('key', refusal('memberKeysOff'));
    if (active >= most) throwConflict('key', refusal('memberKeysFull', { most }));
  }
  const wanted = asked.monthly_budget_eur ?? null;
  const tooHigh = checkMemberBudget(wanted, budget);
  if (tooHigh !== null) throwConflict('key', tooHigh);
  const monthly_budget_eur = wanted === null || parseEur(wanted) === 0n ? budget : wanted; // 0 is no budget
  return insertKeyOnce(sql, keyPrefix, { ...asked, monthly_budget_eur, company_id, user_id, created_by }, claim);
}

/**
 * Rotates a key of a person, or returns the key that the same request made. At once it is always possible; an overlap
 * may begin while the person has no more active keys than allowed, so that there is one more at most. To be run in a
 * transaction.
 * @throws RefusedChange as `replaceKey`; not_found for keys of others
 */
export async function rotateOwnKey(
  sql: Sql,
  keyPrefix: string,
  holder: KeyHolder,
  asked: AskedRotation,
  claim: Claim,
): Promise<RevealedKey> {
  const { company_id, email: created_by } = holder;
  await lock(sql, holder);
  await findOwnKey(sql, holder, asked.id);
  const { most, active } = await readAllowance(sql, holder);
  if (asked.overlap > 0 && active > most && !(await isMadeAlready(sql, holder, asked.new_id))) {
    throwConflict('key', refusal('memberKeysOverlap', { most }));
  }
  return replaceKeyOnce(sql, keyPrefix, { ...asked, company_id, created_by }, claim);
}

/** Gives a key of a person another name. @throws RefusedChange as `updateKey`; not_found for keys of others */
export async function renameOwnKey(sql: Sql, holder: KeyHolder, id: string, name: string): Promise<KeyRow> {
  await findOwnKey(sql, holder, id);
  return updateKey(sql, id, { name }, holder.company_id);
}

/** Revokes a key of a person for good. @throws RefusedChange not_found, for those of others too */
export async function revokeOwnKey(sql: Sql, holder: KeyHolder, id: string): Promise<void> {
  await findOwnKey(sql, holder, id);
  await endKey(sql, id, holder.company_id);
}

/** @throws RefusedChange when the person was removed meanwhile */
async function lock(sql: Sql, holder: KeyHolder): Promise<void> {
  if (!(await lockHolder(sql, holder))) throwNotFound('user');
}

/** Whether a request has made its key. @throws RefusedChange for the id of another one's key */
async function isMadeAlready(sql: Sql, { company_id, user_id }: KeyHolder, id: string): Promise<boolean> {
  const key = await readKey(sql, id, company_id);
  if (key !== null && key.user_id !== user_id) throwConflict('key', 'A key with this id exists already.');
  return key !== null;
}
