import type { Prices } from '../domain/pricing/prices.ts';
import {
  addCalls,
  dependsOn,
  isPlain,
  notesOf,
  type PastSum,
  pastFigures,
  pricesIn,
  wholePrice,
} from '../domain/reports/price-preview.ts';
import type { SomePrices } from '../domain/settings/model.ts';
import * as schema from '../domain/settings/schema.ts';
import { companyNames } from '../store/company/company.ts';
import { lastMonth, pastCalls } from '../store/company/last-month.ts';
import type { ModelName } from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import { withinTime } from '../store/connection/within-time.ts';
import type { Caller } from './frame/caller.ts';
import type { Mistake, PricePreview } from './frame/refused.ts';
import { isSamePrice, wrongRates } from './rate.ts';

/** What the last month would have cost at another price: the calls of the ledger, priced as the gateway prices them. */

const MOST_COMPANIES = 10;
/** How long somebody waits for it who saves a price. */
const PREVIEW_MS = 3000;

const FIGURES = { calls: schema.count, cost_eur: schema.sum, would_eur: schema.sum };
export const PRICE_PREVIEW = schema.object({
  month: schema.month,
  ...FIGURES,
  companies: schema.array(
    schema.object({ company_id: schema.id, company_name: schema.textOrNull, ...FIGURES }),
    'the ten that paid most',
  ),
  notes: schema.array(
    schema.string,
    'what the ledger does not say of the calls, and how they were counted',
  ),
});

/**
 * Adds up what a month cost, by model and company, and what it would have cost at other prices.
 * @param owner as `pastCalls` has it
 * @param rest is called after each thousand groups
 */
export async function lastMonthAt(
  sql: Sql,
  month: string,
  wanted: ReadonlyMap<string, Prices>,
  owner: string | null = null,
  rest: () => void = () => {},
): Promise<PastSum[]> {
  const sums = new Map<string, PastSum>();
  for (const models of Map.groupBy(wanted, ([, prices]) => isPlain(prices)).values()) {
    const depends = dependsOn(
      models.map(([, prices]) => prices),
      month,
    );
    const slugs = models.map(([slug]) => slug);
    for await (const groups of pastCalls(sql, month, slugs, owner, depends)) {
      for (const group of groups)
        addCalls(sums, group, wanted.get(group.slug) as Prices, depends.counts);
      rest();
    }
  }
  return [...sums.values()];
}

/**
 * What the calls of the last month would have cost at another price of their model.
 * @param wanted what it leaves out is as in `before`
 * @param before null: the model is new
 */
export async function previewPrice(
  sql: Sql,
  { slug, company_id }: ModelName,
  wanted: SomePrices,
  before: SomePrices | null,
  rest?: () => void,
): Promise<PricePreview> {
  const month = await lastMonth(sql);
  const prices = pricesIn(wholePrice(wanted, before));
  const sums = await lastMonthAt(sql, month, new Map([[slug, prices]]), company_id, rest);
  const most = sums
    .sort((one, other) => Number(other.cost - one.cost) || Number(other.would - one.would))
    .slice(0, MOST_COMPANIES);
  const names = await companyNames(
    sql,
    most.map(({ company }) => company),
  );
  return {
    month: month.slice(0, 7),
    ...pastFigures(sums),
    companies: most.map((sum) => ({
      company_id: sum.company,
      company_name: names.get(sum.company) ?? null,
      ...pastFigures([sum]),
    })),
    notes: notesOf(prices, sums, before),
  };
}

/** The rule of another price of a model: who sets it learns first what the last month would have cost at it. */
export async function newPrice(
  sql: Sql,
  { isHeard }: Pick<Caller, 'isHeard'>,
  { slug, company_id }: ModelName,
  wanted: SomePrices,
  before: SomePrices | null,
): Promise<Mistake[]> {
  const isNone =
    (before !== null && isSamePrice(before, wanted)) ||
    wrongRates(before, wanted, Date.now()).length > 0; // it is refused
  if (!isHeard || isNone) return [];
  const preview = await withinTime(sql, PREVIEW_MS, (rest) =>
    previewPrice(sql, { slug, company_id }, wanted, before, rest),
  );
  if (preview?.calls === 0) return [];
  const passed =
    preview === null
      ? `its calls of the last month are too many to say at once what they would have cost: --dry-run adds them up`
      : previewText(slug, preview);
  const asked = { slug, price: wholePrice(wanted, before), preview };
  return [{ pointer: '#/prices', detail: 'change what is paid', severity: 'ask', passed, asked }];
}

/** A preview in one sentence. */
function previewText(slug: string, { month, cost_eur, would_eur, notes }: PricePreview): string {
  const told = `the calls of ${month} to ${slug} cost ${cost_eur} EUR; at this price they would have cost ${would_eur} EUR`;
  return [told, ...notes].join('; ');
}
