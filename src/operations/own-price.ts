import { orNone, type Read, readPrice, readSlug, refuse } from '../domain/field.ts';
import {
  eachPrice,
  type MODEL,
  modelPrices,
  PRICE_NAMES,
  PRICES,
  type PriceName,
  type SomePrices,
} from '../domain/settings/model.ts';
import type { New } from '../domain/settings/setting.ts';
import { type ModelRow, sharedModels } from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import { type Mistake, refuse as refuseMistakes } from './frame/refused.ts';
import { createModel, unknownModels } from './model.ts';

/** What one company pays for a shared model. */
export type OwnPrice = New<Pick<typeof MODEL, keyof ReturnType<typeof modelPrices<SomePrices>>>> &
  Pick<ModelRow, 'slug'>;

const MEMBER = 'own_prices';

/** Reads "fast=0.002,0.008": a slug, and its prices per 1000 tokens in the order of PRICES; those of the cache may be left out. */
export const readOwnPrice: Read<OwnPrice> = (text) => {
  const [, slug, listed = ''] =
    /^([^=\s]+)=([^,\s]+(?:(?:,[^,\s]+){1}|(?:,[^,\s]+){3}))$/.exec(text) ??
    refuse(OWN_PRICE_FORM, text);
  const texts = listed.split(',');
  const price = (name: PriceName) => {
    const text = texts[PRICE_NAMES.indexOf(name)];
    return text === undefined
      ? undefined
      : (PRICES[name].isNullable ? orNone(readPrice) : readPrice)(text);
  };
  return { slug: readSlug(slug as string), ...modelPrices(eachPrice(price)) } as OwnPrice;
};

const OWN_PRICE_FORM =
  'must be SLUG=INPUT,OUTPUT such as fast=0.002,0.008, in EUR per 1000 tokens; CACHE_READ,CACHE_WRITE may follow, each a price or none';

const RATED =
  'names a model with rates, which prices of its own leave behind: create a model of the company with prices and rates';

/**
 * Gives a company prices of its own: a model of its own for each, which is the shared one but for its prices.
 * @returns what the rules of models have against them, with pointers below `own_prices`; then nothing was created
 */
export async function createOwnPrices(
  sql: Sql,
  company: string,
  prices: readonly OwnPrice[],
): Promise<Mistake[]> {
  const slugs = prices.map(({ slug }) => slug);
  const unknown = await unknownModels(sql, company, MEMBER, slugs);
  const mistakes: Mistake[] = unknown.map(({ pointer, detail }) => ({
    pointer: `${pointer}/slug`,
    detail,
  }));
  for (const [n, slug] of slugs.entries()) {
    if (slugs.indexOf(slug) < n) {
      mistakes.push({
        pointer: `#/${MEMBER}/${n}/slug`,
        detail: `names ${JSON.stringify(slug)} a second time`,
      });
    }
  }
  if (mistakes.length > 0) return mistakes;
  const shared = new Map((await sharedModels(sql, slugs)).map((model) => [model.slug, model]));
  for (const [n, slug] of slugs.entries()) {
    if (shared.get(slug)?.rates != null)
      mistakes.push({ pointer: `#/${MEMBER}/${n}/slug`, detail: RATED });
  }
  if (mistakes.length > 0) return mistakes;
  for (const price of prices) {
    const model = shared.get(price.slug) as ModelRow;
    const own = Object.fromEntries(
      Object.entries(price).filter(([, value]) => value !== undefined),
    );
    await createModel(sql, { judge: refuseMistakes }, { ...model, ...own, company_id: company });
  }
  return [];
}
