import type { Company } from './company.ts';
import { GatewayError, modelNotFound } from './errors.ts';
import type { Model, ModelKind } from './model.ts';

/**
 * The model gate (spec sections 2.9, 4.1, 7). What a company may list and what it may
 * call are decided here and nowhere else.
 */

/** What of a company decides which models it has. */
export type Catalogue = Pick<Company, 'disabledSlugs' | 'allowNonEu' | 'ownModels' | 'sharedModels'>;

/** The model a slug names for a company, or undefined when it is unknown or disabled: the two look alike. */
export function findModel(company: Catalogue, slug: string): Model | undefined {
  if (company.disabledSlugs.has(slug)) return undefined;
  return company.ownModels.get(slug) ?? company.sharedModels.get(slug);
}

/** The request member a slug came from; null when it is an assistant's default. */
export type SlugParam = 'model' | 'model_slug' | null;

/**
 * The model a call may run.
 * @param param for the error answer
 * @throws GatewayError 404 when unknown, disabled or of the other kind; 403 when the EU gate closes on it
 */
export function admitModel(company: Catalogue, slug: string, kind: ModelKind, param: SlugParam = 'model'): Model {
  const model = findModel(company, slug);
  if (model === undefined || model.kind !== kind) throw modelNotFound(slug, param);
  if (!model.euHosted && !company.allowNonEu) throw new GatewayError('non_eu_model_blocked', undefined, param);
  return model;
}

/** The models GET /models lists, sorted by slug (spec section 4.1). */
export function listModels(company: Catalogue): Model[] {
  const slugs = new Set([...company.ownModels.keys(), ...company.sharedModels.keys()]);
  const listed: Model[] = [];
  for (const slug of slugs) {
    const model = findModel(company, slug);
    if (model !== undefined && (model.euHosted || company.allowNonEu)) listed.push(model);
  }
  return listed.sort((a, b) => (a.slug < b.slug ? -1 : 1));
}
