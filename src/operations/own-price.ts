import { type Read, readPrice, readSlug, refuse } from '../domain/field.ts';
import { modelPrices, type PriceTexts } from '../domain/settings/model.ts';
import { type ModelRow, sharedModels } from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import { createModel, unknownModels } from './model.ts';
import { type Mistake, refuse as refuseMistakes } from './problem.ts';

/** What one company pays for a shared model. */
export type OwnPrice = Pick<ModelRow, 'slug' | keyof ReturnType<typeof modelPrices<PriceTexts>>>;

const MEMBER = 'own_prices';

/** Reads "fast=0.002,0.008": a slug, and its prices per 1000 prompt and completion tokens. */
export const readOwnPrice: Read<OwnPrice> = (text) => {
  const [, slug, input, output] =
    /^([^=\s]+)=([^,\s]+),([^,\s]+)$/.exec(text) ??
    refuse('must be SLUG=INPUT,OUTPUT such as fast=0.002,0.008, in EUR per 1000 tokens', text);
  const prices = { input: readPrice(input as string), output: readPrice(output as string) };
  return { slug: readSlug(slug as string), ...modelPrices(prices) };
};

/**
 * Gives a company prices of its own: a model of its own for each, which is the shared one but for its prices.
 * @returns what the rules of models have against them, with pointers below `own_prices`; then nothing was created
 */
export async function createOwnPrices(sql: Sql, company: string, prices: readonly OwnPrice[]): Promise<Mistake[]> {
  const slugs = prices.map(({ slug }) => slug);
  const unknown = await unknownModels(sql, company, MEMBER, slugs);
  const mistakes: Mistake[] = unknown.map(({ pointer, detail }) => ({ pointer: `${pointer}/slug`, detail }));
  for (const [n, slug] of slugs.entries()) {
    if (slugs.indexOf(slug) < n) {
      mistakes.push({ pointer: `#/${MEMBER}/${n}/slug`, detail: `names ${JSON.stringify(slug)} a second time` });
    }
  }
  if (mistakes.length > 0) return mistakes;
  const shared = new Map((await sharedModels(sql, slugs)).map((model) => [model.slug, model]));
  for (const price of prices) {
    const model = shared.get(price.slug) as ModelRow;
    await createModel(sql, { judge: refuseMistakes }, { ...model, ...price, company_id: company });
  }
  return [];
}
