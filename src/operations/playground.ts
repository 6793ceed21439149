import { refusal } from '../domain/input/refusal.ts';
import { throwConflict } from '../domain/text/refused-change.ts';
import {
  insertPlaygroundKey,
  isPlaygroundRevoked,
  lockPlaygroundKey,
  type Player,
} from '../store/company/playground-key.ts';
import type { Sql } from '../store/connection/pool.ts';

/** Keys with which people try models and assistants on the pages. */

/**
 * Gives a person's playground key a new text, which works for ten minutes; an earlier text stops. The key is created
 * at its first use. To be run in a transaction.
 * @throws RefusedChange conflict when the key was revoked, until `allowPlayground` makes another
 */
export async function mintPlaygroundKey(sql: Sql, keyPrefix: string, player: Player): Promise<string> {
  await lockPlaygroundKey(sql, player);
  if (await isPlaygroundRevoked(sql, player)) throwConflict('key', refusal('playgroundRevoked'));
  return insertPlaygroundKey(sql, keyPrefix, player);
}

/** Makes a new playground key in place of one that was revoked. To be run in a transaction. */
export async function allowPlayground(sql: Sql, keyPrefix: string, player: Player): Promise<void> {
  await insertPlaygroundKey(sql, keyPrefix, player);
}
