import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { COMPANY, DISABLED } from '../../domain/settings/company.ts';
import { KEY } from '../../domain/settings/key.ts';
import { MODEL } from '../../domain/settings/model.ts';
import {
  array,
  count,
  id,
  instant,
  type Members,
  name,
  type ObjectSchema,
  object,
  orNull,
  type Properties,
  type Schema,
  slug,
  textOrNull,
} from '../../domain/settings/schema.ts';
import { neededOf, schemasOf } from '../../domain/settings/setting.ts';
import { KEY_ROW } from '../../store/company/key.ts';

/** Schemas of the things that administration over HTTP reads and writes: `domain/settings` has those of their settings. */

/** The body that pauses. */
export const pause = object({
  reason: {
    ...name,
    description: `${name.description}: owners of the company read it, callers do not`,
  },
});

/** A page of a list. */
export function pageOf<T>(items: Schema<T>) {
  return object({ data: array(items), next_cursor: textOrNull });
}

/** A cursor that is a number, as text: `next_cursor` is one, too. */
export const numberCursor: Schema<string> = { type: 'string', pattern: '^[1-9]\\d{0,14}$' };

/** The query of a list, with filters. */
export function listQuery<P extends Properties = Record<never, never>>(
  filters: P = {} as P,
  cursor: Schema<string> = id,
): ObjectSchema<ListQuery<P>> {
  const limit: Schema<number> = { type: 'integer', minimum: 1, maximum: 200 };
  const next = { ...cursor, description: 'the next_cursor of the page before' };
  return object({ limit, cursor: next, ...filters }, []) as ObjectSchema as ObjectSchema<
    ListQuery<P>
  >;
}
/** Which rows a call asks for. `cursor` is the `next_cursor` of the page before. */
export type ListQuery<P extends Properties> = {
  readonly limit?: number;
  readonly cursor?: string;
} & Members<P, never>;

/** Members of a company that is created. */
export const newCompany = schemasOf({ ...COMPANY, ...DISABLED });

/** Members of a model that can be changed. */
export const modelSettings = schemasOf(MODEL);
export const modelOwner = orNull({
  ...id,
  description: 'the company that the model belongs to; null: shared by all',
});
export const model = object({
  id,
  slug,
  company_id: modelOwner,
  ...modelSettings,
  created_at: instant,
});

/** Members of a key that can be set. */
export const keySettings = schemasOf(KEY);
/** Members of a key that is created. */
export const newKey = object(keySettings, neededOf(KEY));
export const mintedKey = object({
  ...KEY_ROW.properties,
  key: {
    type: ['string', 'null'],
    description: 'the key itself, shown once; null in a repeated answer after a minute',
  },
});

/** Members of an assistant that can be set. */
export const assistantSettings = schemasOf(ASSISTANT);
export const assistant = object({ id, company_id: id, ...assistantSettings, created_at: instant });

/** What an erasure reached, or would reach. */
export const erased = object({
  persons: { ...count, description: 'people whose addresses are replaced by pseudonyms' },
  rows: { type: 'object', additionalProperties: count, description: 'rows by table' },
});
