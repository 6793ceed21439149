import type { Company } from './company.ts';
import { GatewayError, modelNotFound, type SlugParam, unsupportedParameter } from './errors.ts';
import type { Restriction } from './key.ts';
import type { Model, ModelKind } from './model.ts';
import { STANDARD_TIERS } from './pricing/rates.ts';

/**
 * The model gate (spec sections 2.9, 4.1, 7; contract section 5): the only place that decides which models a key may
 * list and call. A key may use the models of its company, or those of them that its restriction names.
 */

/** The columns of companies and of keys that keep models from calls. */
export const DISABLED_MODELS = 'disabled_model_slugs';
export const ALLOWED_MODELS = 'allowed_model_slugs';

/** The settings of a company that decide which models it has. */
export type Catalogue = Pick<
  Company,
  'disabledSlugs' | 'allowNonEu' | 'ownModels' | 'sharedModels'
>;

/** The model a slug names for a key; undefined when it is unknown, disabled or not allowed to the key. */
function findModel(
  company: Catalogue,
  slug: string,
  allowed: Restriction['models'] = null,
): Model | undefined {
  if (company.disabledSlugs.has(slug) || (allowed !== null && !allowed.has(slug))) return undefined;
  return company.ownModels.get(slug) ?? company.sharedModels.get(slug);
}

/**
 * The model of a call.
 * @param param the member the error names
 * @param allowed the only slugs of the key; null: all of its company's
 * @throws GatewayError 404 when unknown, disabled, not allowed to the key or of the other kind; 403 when the EU gate
 * refuses it
 */
export function admitModel(
  company: Catalogue,
  slug: string,
  kind: ModelKind,
  param: SlugParam = 'model',
  allowed: Restriction['models'] = null,
): Model {
  const model = findModel(company, slug, allowed);
  if (model === undefined) {
    const error = modelNotFound(slug, param);
    if (company.disabledSlugs.has(slug)) throw error.by(`company.${DISABLED_MODELS}`);
    throw allowed === null || allowed.has(slug) ? error : error.by(`key.${ALLOWED_MODELS}`);
  }
  if (model.kind !== kind)
    throw isListed(company, model) ? wrongKind(model, param) : modelNotFound(slug, param);
  if (!model.euHosted && !company.allowNonEu)
    throw new GatewayError('non_eu_model_blocked', undefined, param);
  return model;
}

/**
 * Token ids mean nothing to a model with another vocabulary, so its operator has to say that it takes them.
 * @param param the member that has them
 * @throws GatewayError 400
 */
export function admitTokenIds({ slug, acceptsTokens }: Model, param: 'input' | 'prompt'): void {
  if (acceptsTokens) return;
  const more = param === 'input' ? LANGCHAIN : '';
  throw new GatewayError(
    'invalid_type',
    `The model '${slug}' takes text, not token ids, in '${param}'.${more}`,
    param,
  );
}

/**
 * A service tier has a price of its own: without a rate that names it, it would be charged as the standard one.
 * @param asked `service_tier` of the request; undefined: it says none
 * @throws GatewayError 400
 */
export function admitTier({ slug, prices }: Model, asked: unknown): string | null {
  if (asked === undefined || asked === null || STANDARD_TIERS.has(asked)) return null;
  if (prices.rates.some(({ tier }) => tier === asked)) return asked as string;
  throw unsupportedParameter('service_tier', ` The model '${slug}' has no price for this tier.`);
}

const LANGCHAIN =
  ' LangChain for Python sends text with OpenAIEmbeddings(check_embedding_ctx_length=False).';

/** The models that GET /models lists, sorted by slug (spec section 4.1). */
export function listModels(company: Catalogue, allowed: Restriction['models'] = null): Model[] {
  const slugs = new Set([...company.ownModels.keys(), ...company.sharedModels.keys()]);
  const listed: Model[] = [];
  for (const slug of slugs) {
    const model = findModel(company, slug, allowed);
    if (model !== undefined && isListed(company, model)) listed.push(model);
  }
  return listed.sort((a, b) => (a.slug < b.slug ? -1 : 1));
}

/** The same, for the row of a key. */
export function modelsOf(
  company: Catalogue,
  key: { readonly [ALLOWED_MODELS]: readonly string[] | null },
): Model[] {
  const slugs = key[ALLOWED_MODELS];
  return listModels(company, slugs && new Set(slugs));
}

/** Whether the API offers a model of a company, and if not, why: for the people who manage it. */
export type ModelState = 'available' | 'disabled' | 'replaced' | 'blocked';

/**
 * disabled: by the company, 404. replaced: a shared model where the company has its own of the same slug. blocked:
 * by the EU gate, 403.
 * @param isShared whether it is the shared model of its slug
 */
export function modelState(company: Catalogue, slug: string, isShared: boolean): ModelState {
  if (company.disabledSlugs.has(slug)) return 'disabled';
  if (isShared && company.ownModels.has(slug)) return 'replaced';
  return findModel(company, slug)?.euHosted === false && !company.allowNonEu
    ? 'blocked'
    : 'available';
}

function isListed({ allowNonEu }: Catalogue, { euHosted }: Model): boolean {
  return euHosted || allowNonEu;
}

const ENDPOINTS: Readonly<Record<ModelKind, string>> = {
  chat: 'is a chat model: call it at /chat/completions',
  embedding: 'makes embeddings: call it at /embeddings',
  rerank: 'ranks documents: call it at /rerank',
};

/** Only for a model that the caller may list: else the text would tell of models that are hidden. */
function wrongKind({ slug, kind }: Model, param: SlugParam): GatewayError {
  return new GatewayError('not_found', `The model '${slug}' ${ENDPOINTS[kind]}.`, param);
}
