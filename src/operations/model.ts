import { refusal } from '../domain/input/refusal.ts';
import { unknownSlugs } from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import type { Mistake } from './problem.ts';

/** A slug that names no model of its company. */
export interface UnknownModel extends Mistake {
  readonly slug: string;
}

/**
 * The rule of every setting that names models: a company's disabled ones, a key's, an assistant's. A slug has to be
 * that of a model of the company, but for those that were there before: their model may have been removed. Pages, files
 * and administration over HTTP refuse others; a command warns, because its operator may create the model afterwards.
 * @param member of the change
 * @param wanted what it is to be: a slug, or a list of them
 * @param before what it is
 */
export async function unknownModels(
  sql: Sql,
  company: string,
  member: string,
  wanted: Slugs,
  before: Slugs = null,
): Promise<UnknownModel[]> {
  const slugs = [wanted ?? []].flat();
  const kept = new Set([before ?? []].flat());
  const added = slugs.filter((slug) => !kept.has(slug));
  if (added.length === 0) return [];
  const unknown = await unknownSlugs(sql, company, added);
  return unknown.map((slug) => {
    const reason = refusal('notOfCompany', { slug });
    const pointer = `#/${member}${Array.isArray(wanted) ? `/${slugs.indexOf(slug)}` : ''}`;
    const passed = `the company has no model ${slug}; ${PASSED[member]}`;
    return { slug, pointer, detail: reason.text, reason, severity: 'warn', passed };
  });
}

/** What an unknown slug does where it passes. */
const PASSED: Readonly<Record<string, string>> = {
  disabled_model_slugs: 'the slug is disabled in case one is created',
  allowed_model_slugs: 'the key may use it in case one is created',
  model_slug: 'runs that name no model get 404',
};

type Slugs = string | readonly string[] | null | undefined;
