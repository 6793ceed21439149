import { type NewPrices, PRICED } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { schemasOf } from '../../domain/settings/setting.ts';
import { settingColumns } from '../connection/columns.ts';
import { nilId, TODAY } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import type { ModelName } from './model.ts';
import { priceValue } from './price.ts';

/** Cost prices of the operator. For operators only: no tenant may read this table. */

/** EUR per 1000 tokens that the operator pays, since a day of the billing time zone; exact decimal text. */
export const COST_PRICE = schema.object({
  id: schema.id,
  slug: schema.slug,
  company_id: schema.orNull(schema.id),
  company_name: schema.textOrNull,
  valid_from: schema.day,
  ...schemasOf(PRICED),
  changed_by: schema.string,
});
export type CostPriceRow = schema.Value<typeof COST_PRICE>;

const COLUMNS = schema.namesOf(PRICED);

/** Cost prices of slugs, the latest first, of shared models and companies' own. */
export async function costPrices(sql: Sql, slugs: readonly string[]): Promise<CostPriceRow[]> {
  return sql<CostPriceRow[]>`
    select ${columns(sql)} from model_cost_prices p
    where slug = any(${slugs}::text[]) order by p.valid_from desc, company_id nulls first`;
}

/**
 * Sets the cost price of a model from a day on, in place of one of that day. The day may be in the past.
 * @param day null: today in the billing time zone
 */
export async function insertCostPrice(
  sql: Sql,
  { slug, company_id, ...prices }: ModelName & NewPrices,
  day: string | null,
): Promise<CostPriceRow> {
  const [row] = await sql<[CostPriceRow]>`
    insert into model_cost_prices as p (slug, company_id, valid_from, ${sql(COLUMNS)})
    values (${slug}, ${company_id}, coalesce(${day}::date, ${sql.unsafe(TODAY)}) ${COLUMNS.map((name) => sql`, ${priceValue(sql, prices, name)}`)})
    on conflict (slug, coalesce(company_id, ${nilId(sql)}), valid_from)
    do update set changed_by = excluded.changed_by ${COLUMNS.map((name) => sql`, ${sql(name)} = excluded.${sql(name)}`)}
    returning ${columns(sql)}`;
  return row;
}

export async function deleteCostPrice(sql: Sql, id: string): Promise<void> {
  await sql`delete from model_cost_prices where id = ${id}`;
}

/** Of the row `p`. */
function columns(sql: Sql) {
  return sql`id, slug, company_id, (select name from companies where id = p.company_id) as company_name,
    valid_from::text as valid_from, ${settingColumns(sql, PRICED)}, changed_by`;
}
