import { FieldError } from '../domain/field.ts';
import { digestOf, possibleKeysIn } from '../domain/key.ts';
import { type Moment, readMoment } from '../domain/price.ts';
import type { NewKey } from '../store/company/key.ts';
import type { Sql } from '../store/connection/pool.ts';
import { unknownModels } from './model.ts';
import { refuse } from './problem.ts';

/** As JSON has it: the expiry is a text. */
type Told<T> = Omit<T, 'expires_at'> & { readonly expires_at?: string | null };

/** The settings of a key that is created. */
export type KeySettings = Told<Omit<NewKey, 'company_id' | 'created_by' | 'id' | 'key'>>;

export const MODELS = 'allowed_model_slugs';

const MOST_FOUND = 1000; // looked up at once

/** A key as it is to be created. @throws Problem 409 that names what a rule has against its settings */
export async function checkedKey(
  sql: Sql,
  whose: Pick<NewKey, 'company_id' | 'created_by'>,
  settings: KeySettings,
): Promise<NewKey> {
  refuse(await unknownModels(sql, whose.company_id, MODELS, settings[MODELS]));
  return { ...settings, expires_at: expiryOf(settings.expires_at), ...whose };
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

export function expiryOf(text: string | null | undefined): Moment | null | undefined {
  return typeof text === 'string' ? readMoment(text) : text;
}
