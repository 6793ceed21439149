import { sumUsage, type UsageSums } from '../../domain/usage.ts';
import { type EndUserRow, endUsersById } from '../company/end-user.ts';
import type { Sql } from '../connection/pool.ts';
import { grouped, SUMMED, usageSums } from './cube.ts';

/** What the people behind keys cost in a billing month. Sums and names may be on different servers: each is read by itself. */

export type EndUserUsage = UsageSums & Pick<EndUserRow, 'id' | 'name' | 'erased_at'>;

export interface EndUsersUsage {
  /** How many people cost anything. */
  readonly count: number;
  /** The highest cost first. */
  readonly end_users: readonly EndUserUsage[];
}

/**
 * What each person cost.
 * @param month its first day
 * @param most people returned; null: all
 */
export async function readUsageByEndUser(
  sql: Sql,
  company: string,
  month: string,
  most: number | null,
): Promise<EndUsersUsage> {
  const rows = await sql<(UsageSums & { readonly id: string; readonly count: number })[]>`
    select end_user_id as id, ${usageSums(sql)}, count(*) over ()::integer as count
    from usage_end_user_days where company_id = ${company} and billing_month = ${month}::date
    group by end_user_id order by sum(cost_eur) desc, end_user_id limit ${most}`;
  const people = await endUsersById(
    sql,
    rows.map(({ id }) => id),
  );
  const known = new Map(people.map((person) => [person.id, person]));
  const end_users = rows.map(({ count: _, ...row }) => {
    const { name = null, erased_at = null } = known.get(row.id) ?? {};
    return { ...row, name, erased_at };
  });
  return { count: rows[0]?.count ?? 0, end_users };
}

/** A key and what it lets the person cost in a month now: what each of its end users may, or the person's own budget; null: any amount. */
export interface KeyOfUser {
  readonly id: string;
  readonly name: string | null;
  readonly end_user_budget_eur: string | null;
}

export interface EndUserMonth extends UsageSums {
  readonly by_day: readonly (UsageSums & { readonly day: string })[];
  readonly by_model: readonly (UsageSums & { readonly model_slug: string })[];
  readonly by_key: readonly (UsageSums & KeyOfUser)[];
}

/** What one person cost, by day, model and key. @param month its first day */
export async function readEndUserMonth(
  sql: Sql,
  company: string,
  id: string,
  month: string,
): Promise<EndUserMonth> {
  const ways = [[], ['day'], ['model_slug'], ['api_key_id']];
  const calls = sql`(select * from usage_end_user_days
    where company_id = ${company} and billing_month = ${month}::date and end_user_id = ${id}) d`;
  const rows = await sql<
    (UsageSums & { of: number; day: string; model_slug: string; api_key_id: string })[]
  >`
    select of, day::text as day, model_slug, api_key_id, ${sql.unsafe(SUMMED.join(', '))}
    from (${grouped(sql, ways, usageSums(sql), calls)}) g where requests > 0
    order by of, day, cost_eur::numeric desc, model_slug, api_key_id`;
  const keys = await sql<KeyOfUser[]>`
    select id, name, case when end_users <> 'off' and end_user_budget_eur > 0 then trim_scale(coalesce(
      (select monthly_budget_eur from end_users u where u.id = ${id} and u.company_id = ${company}), end_user_budget_eur))::text end as end_user_budget_eur
    from api_keys where id = any(${rows.flatMap(({ api_key_id }) => api_key_id ?? [])}::uuid[])`;
  const known = new Map(keys.map((key) => [key.id, key]));
  const group = (of: number) => rows.filter((row) => row.of === of);
  return {
    ...sumUsage(group(0)),
    by_day: group(1).map((row) => ({ day: row.day, ...sumUsage([row]) })),
    by_model: group(2).map((row) => ({ model_slug: row.model_slug, ...sumUsage([row]) })),
    by_key: group(3).map(({ api_key_id: id, ...row }) => ({
      ...(known.get(id) ?? { id, name: null, end_user_budget_eur: null }),
      ...sumUsage([row]),
    })),
  };
}
