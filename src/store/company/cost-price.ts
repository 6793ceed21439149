import { nilId, TODAY } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** Cost prices of the operator. For operators only: no tenant may read this table. */

/** EUR per 1000 tokens that the operator pays, since a day of the billing time zone; exact decimal text. */
export interface CostPriceRow {
  readonly id: string;
  readonly slug: string;
  readonly company_id: string | null;
  readonly company_name: string | null;
  /** "2026-11-01". */
  readonly valid_from: string;
  readonly input: string;
  readonly output: string;
  readonly changed_by: string;
}

/** Cost prices of a slug, the latest first, of the shared model and companies' own. */
export async function costPrices(sql: Sql, slug: string): Promise<CostPriceRow[]> {
  return sql<CostPriceRow[]>`
    select p.id, slug, company_id, c.name as company_name, valid_from::text as valid_from, trim_scale(input)::text as input,
      trim_scale(output)::text as output, changed_by
    from model_cost_prices p left join companies c on c.id = company_id
    where slug = ${slug} order by valid_from desc, company_id nulls first`;
}

/**
 * Sets the cost price of a model from a day on. The day may be in the past.
 * @param day null: today in the billing time zone
 */
export async function setCostPrice(
  sql: Sql,
  price: Pick<CostPriceRow, 'slug' | 'company_id' | 'input' | 'output'>,
  day: string | null,
): Promise<CostPriceRow> {
  const [row] = await sql<[CostPriceRow]>`
    insert into model_cost_prices as p (slug, company_id, valid_from, input, output)
    values (${price.slug}, ${price.company_id}, coalesce(${day}::date, ${sql.unsafe(TODAY)}), ${price.input}, ${price.output})
    on conflict (slug, coalesce(company_id, ${nilId(sql)}), valid_from)
    do update set input = excluded.input, output = excluded.output, changed_by = excluded.changed_by
    returning id, slug, company_id, (select name from companies where id = p.company_id) as company_name,
      valid_from::text as valid_from, trim_scale(input)::text as input, trim_scale(output)::text as output, changed_by`;
  return row;
}

export async function removeCostPrice(sql: Sql, id: string): Promise<void> {
  await sql`delete from model_cost_prices where id = ${id}`;
}
