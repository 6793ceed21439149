import type { CompanyMonth } from '../../domain/documents/month-end.ts';
import { type ListedAssistant, listedAssistantColumns } from '../company/assistant.ts';
import { type CompanyRow, companyColumns } from '../company/company.ts';
import { type KeyRow, keyColumns } from '../company/key.ts';
import { type ModelRow, modelColumns } from '../company/model.ts';
import { CREATED_BY } from '../connection/actor.ts';
import { matching } from '../connection/columns.ts';
import { HAS_ALLOWANCE, IS_ACTIVE, TODAY } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { companyMonthColumns, companyMonths } from '../statement/month.ts';
import { type ListedGroup, listedGroupColumns } from '../users/group.ts';
import { type CompanyUserRow, type UserRow, userColumns } from '../users/user.ts';
import { searchPattern } from './search-pattern.ts';

/** Lists of the administration area, a page at a time. */

export const PAGE_ROWS = 50;

/** Which page of a list. */
export interface ListQuery<S extends string = string> {
  /** Rows that contain this text, as `searchPattern` finds it; empty: all. */
  readonly search: string;
  readonly sort: S;
  readonly descending: boolean;
  /** From 1. Beyond the last page the first is returned. */
  readonly page: number;
}

export interface ListPage<T> {
  readonly rows: readonly T[];
  /** Rows on all pages. */
  readonly total: number;
  readonly page: number;
}

/** A part of a statement. */
type Fragment = ReturnType<typeof keyColumns>;
type Counted<T> = T & { readonly total: number };
type Spent<T> = T & { readonly spent: string };
/** A row with the name of its company; null for none. */
type Named<T> = T & { readonly company_name: string | null };

/** The orders of each list. */
export type CompanySort = 'name' | 'spent' | 'share' | 'refused' | 'called';
export type KeySort = 'created' | 'name' | 'used' | 'expires' | 'cost';
export type ModelSort = 'slug' | 'upstream' | 'company';
export type AssistantSort = 'name' | 'created';
export type UserSort = 'company' | 'email' | 'role' | 'created';
export type GroupSort = 'company' | 'name' | 'role';
export type CompanyMonthSort = 'name' | 'cost' | 'open' | 'opened';
export type CompanyUserSort = 'role' | 'email' | 'seen';
export type CostCenterSort = 'spent' | 'share' | 'name';
export type EndUserSort = CostCenterSort | 'called';

/** A company in the list of customers. Amounts are exact decimal text, of the present month, in-app chat included. */
export interface ListedCompany extends CompanyRow {
  readonly spent: string;
  /** How much of the budget is spent in percent, rounded down to one decimal; null: it is unlimited. */
  readonly percent: number | null;
  /** Requests of today, in the billing time zone, that were refused. */
  readonly refused: number;
  /** When one of its keys was last used; null: never. */
  readonly called_at: Date | null;
  /** EUR that its calls cost on the last thirty days that have any, by day: floats, for a picture. */
  readonly days: Readonly<Record<string, number>>;
}

/** An expression over companies, and the figures of `FIGURES` that it needs. */
type OfCompanies = readonly [sql: string, figures?: 'spent' | 'refused' | 'called'];

const ORDERS: Readonly<Record<CompanySort, OfCompanies>> = {
  name: ['name'],
  spent: ['coalesce(spent, 0)', 'spent'],
  share: ['coalesce(spent, 0) / company_budget(monthly_budget_eur, credit_limit_eur)', 'spent'],
  refused: ['coalesce(refused, 0)', 'refused'],
  called: ['called_at', 'called'],
};

/** The conditions of companies in some state. */
const STATES = {
  near: [
    'company_budget(monthly_budget_eur, credit_limit_eur) * 0.8 <= coalesce(spent, 0)',
    'spent',
  ],
  'used-up': [
    'company_budget(monthly_budget_eur, credit_limit_eur) <= coalesce(spent, 0)',
    'spent',
  ],
  refused: ['refused > 0', 'refused'],
  quiet: ["coalesce(called_at < now() - interval '30 days', true) and closed_at is null", 'called'],
  new: ["created_at > now() - interval '30 days'"],
  'non-eu': ['company_allows_non_eu(companies)'],
  paused: ['paused_at is not null'],
  closed: ['closed_at is not null'],
} as const satisfies Readonly<Record<string, OfCompanies>>;
export type CompanyState = keyof typeof STATES;

/** Figures of companies, from sums of all of them: none reads a call. */
const FIGURES = {
  spent: `select company_id, api_cost_eur + chat_cost_eur as spent from monthly_spend where billing_month = (select billing_month(now()))`,
  refused: `select company_id, sum(refused)::bigint as refused from request_days where refused > 0 and day = ${TODAY} group by 1`,
  called: 'select company_id, max(last_used_at) as called_at from api_keys group by 1',
};

/**
 * The list of customers. They are found by their people and keys, too. Only what the order and the state need is read of all
 * companies, the rest of those on the page.
 * @param state those in it; null: all
 */
export function pageOfCompanies(
  sql: Sql,
  query: ListQuery<CompanySort>,
  state: CompanyState | null = null,
): Promise<ListPage<ListedCompany>> {
  const [by, ofOrder] = ORDERS[query.sort];
  const [condition, ofState]: OfCompanies = state === null ? ['true'] : STATES[state];
  const needed = new Set([ofOrder, ofState].flatMap((name) => name ?? []));
  const joined = [...needed]
    .map((name) => `left join (${FIGURES[name]}) ${name} on ${name}.company_id = id`)
    .join(' ');
  const isListed = 'company_id = any(array(select id from listed))';
  const figures = Object.entries(FIGURES).map(
    ([name, rows]) => `${name} as materialized (select * from (${rows}) r where ${isListed})`,
  );
  const joins = [...Object.keys(FIGURES), 'costs']
    .map((name) => `left join ${name} on ${name}.company_id = id`)
    .join(' ');
  return paged(sql, query, sql.unsafe(by), sql`id`, (tail) => {
    return sql<Counted<ListedCompany>[]>`
      with listed as materialized (
        select id, count(*) over ()::integer as total from companies ${sql.unsafe(joined)}
        where ${sql.unsafe(condition)} and (${contains(sql, query, sql`name, id`)} ${ofPeopleAndKeys(sql, query)}) ${tail}),
      ${sql.unsafe(figures.join(', '))},
      costs as materialized (
        select company_id, json_object_agg(day, cost) as days from (
          select company_id, day, sum(cost_eur)::float8 as cost
          from usage_company_days, (select ${sql.unsafe(TODAY)} as today) t
          where ${sql.unsafe(isListed)} and day between today - 29 and today
            and billing_month between (today - interval '2 months')::date and today group by 1, 2) d group by 1)
      select ${companyColumns(sql)}, total, trim_scale(coalesce(spent, 0))::text as spent,
        trunc(coalesce(spent, 0) * 100 / company_budget(monthly_budget_eur, credit_limit_eur), 1)::float8 as percent,
        coalesce(refused, 0)::float8 as refused, called_at, coalesce(days, '{}') as days
      from listed join companies using (id) ${sql.unsafe(joins)}
      order by array_position(array(select id from listed), id)`;
  });
}

/** The names of the first companies of the list, to choose from. */
export async function firstCompanyNames(sql: Sql): Promise<string[]> {
  const rows = await sql<
    { name: string }[]
  >`select name from companies order by name, id limit ${PAGE_ROWS}`;
  return rows.map(({ name }) => name);
}

/** Fewer letters are in too many addresses and prefixes to tell anything. */
const LEAST_OF_ADDRESS = 3;
export const LEAST_OF_PREFIX = 4;

/** Or whether one of a company's people or invitations has such an address, or one of its keys such a prefix. */
function ofPeopleAndKeys(sql: Sql, query: ListQuery): Fragment {
  const { search } = query;
  if (/\s/.test(search) || search.length < LEAST_OF_ADDRESS) return sql``;
  const having = (table: 'users' | 'invitations') =>
    sql`or id in (select company_id from ${sql(table)} where ${contains(sql, query, sql`email`)})`;
  const people = sql`${having('users')} ${having('invitations')}`;
  if (search.length < LEAST_OF_PREFIX || search.includes('@')) return people;
  // without a pattern: there may be many keys
  return sql`${people} or id in (select company_id from api_keys where strpos(lower(prefix), lower(${search})) > 0)`;
}

/** Keys of a company that work, or those that are revoked or expired. */
export type KeyLife = 'active' | 'dead';

/**
 * Keys of a company, but those of playgrounds, with what each cost in the present month. To be run in a transaction.
 * @param person id of the person whose keys they are; null: of all, and of the company
 */
export async function pageOfKeys(
  sql: Sql,
  company: string,
  life: KeyLife,
  query: ListQuery<KeySort>,
  person: string | null = null,
): Promise<ListPage<Spent<KeyRow>>> {
  const by = {
    created: sql`created_at`,
    name: sql`name`,
    used: sql`last_used_at`,
    expires: sql`coalesce(expires_at, 'infinity')`, // keys that never expire come last
    cost: sql`coalesce(d.cost, 0)`,
  }[query.sort];
  const chosen = sql`company_id = ${company} ${matching(sql, { user_id: person })} and purpose is null and ${sql.unsafe(IS_ACTIVE)} = ${life === 'active'}
    and ${contains(sql, query, sql`name, prefix, ${sql.unsafe(CREATED_BY)}, id, (select email from users where users.id = api_keys.user_id)`)}`;
  if (query.sort !== 'cost') {
    return paged(sql, query, by, sql`id`, (tail) => {
      const keys = sql`select ${keyColumns(sql)}, count(*) over ()::integer as total from api_keys where ${chosen} ${tail}`;
      return withCosts<Counted<KeyRow>>(sql, company, keys);
    });
  }
  // without statistics Postgres would read all sums for each key: 7 s for 10,000 of both
  await sql`set local enable_nestloop = off`;
  return paged(sql, query, by, sql`id`, (tail) => {
    return sql<Counted<Spent<KeyRow>>[]>`
      with d as materialized (
        select api_key_id, sum(cost_eur) as cost from usage_key_months
        where company_id = ${company} and billing_month = (select billing_month(now())) group by 1)
      select ${keyColumns(sql)}, trim_scale(coalesce(d.cost, 0))::text as spent, count(*) over ()::integer as total
      from api_keys left join d on d.api_key_id = id
      where ${chosen} ${tail}`;
  });
}

/**
 * Keys of a company with what each cost in the present month; only these are summed. Materialized: the sums may be on
 * another server than the keys.
 */
function withCosts<T extends KeyRow>(
  sql: Sql,
  company: string,
  keys: Fragment,
): PromiseLike<Spent<T>[]> {
  return sql<Spent<T>[]>`
    with k as materialized (${keys}),
    d as materialized (
      select api_key_id, sum(cost_eur) as cost from usage_key_months
      where company_id = ${company} and billing_month = (select billing_month(now())) and api_key_id = any(array(select id from k))
      group by 1
    )
    select k.*, trim_scale(coalesce((select cost from d where api_key_id = k.id), 0))::text as spent from k`;
}

/** How many keys of a company work now, and how many are revoked or expired; without those of playgrounds. */
export async function countKeys(
  sql: Sql,
  company: string,
  person: string | null = null,
): Promise<Readonly<Record<KeyLife, number>>> {
  const [row] = await sql<[Record<KeyLife, number>]>`
    select count(*) filter (where ${sql.unsafe(IS_ACTIVE)})::integer as active,
      count(*) filter (where not ${sql.unsafe(IS_ACTIVE)})::integer as dead
    from api_keys where company_id = ${company} ${matching(sql, { user_id: person })} and purpose is null`;
  return row;
}

/** Keys of a company's playgrounds that are not revoked, the fifty last used, with what each cost in the present month. */
export async function playgroundKeys(sql: Sql, company: string): Promise<Spent<KeyRow>[]> {
  return withCosts(
    sql,
    company,
    sql`select ${keyColumns(sql)} from api_keys where company_id = ${company} and purpose = 'playground' and revoked_at is null
      order by last_used_at desc nulls last, id limit ${PAGE_ROWS}`,
  );
}

/** Models of all companies, with the name of their company; null for shared ones. */
export function pageOfModels(
  sql: Sql,
  query: ListQuery<ModelSort>,
): Promise<ListPage<Named<ModelRow>>> {
  const by = { slug: sql`slug`, upstream: sql`upstream_model`, company: sql`company_name` }[
    query.sort
  ];
  return paged(sql, query, by, sql`slug, id`, (tail) => {
    return sql<Counted<Named<ModelRow>>[]>`
      select ${modelColumns(sql)}, company_name, count(*) over ()::integer as total
      from models left join (select id as owned_by, name as company_name from companies) c on owned_by = company_id
      where ${contains(sql, query, sql`slug, upstream_model, company_name`)} ${tail}`;
  });
}

/** Assistants of a company, including those that the API does not show. */
export function pageOfAssistants(
  sql: Sql,
  company: string,
  query: ListQuery<AssistantSort>,
): Promise<ListPage<ListedAssistant>> {
  const by = { name: sql`name`, created: sql`created_at` }[query.sort];
  return paged(sql, query, by, sql`id`, (tail) => {
    return sql<Counted<ListedAssistant>[]>`
      select ${listedAssistantColumns(sql)}, count(*) over ()::integer as total from assistants
      where company_id = ${company} and ${contains(sql, query, sql`name, model_slug, id`)} ${tail}`;
  });
}

/** Users with the name of their company; null for operators. */
export function pageOfUsers(
  sql: Sql,
  query: ListQuery<UserSort>,
): Promise<ListPage<Named<UserRow>>> {
  const by = {
    company: sql`c.name`,
    email: sql`email`,
    role: sql`role`,
    created: sql`u.created_at`,
  }[query.sort];
  return paged(sql, query, by, sql`email`, (tail) => {
    return sql<Counted<Named<UserRow>>[]>`
      select u.id, email, company_id, role, u.created_at, oidc_group, second_factor_since, erasure_asked_at, c.name as company_name, count(*) over ()::integer as total
      from users u left join companies c on c.id = company_id
      where ${contains(sql, query, sql`email, role, c.name, oidc_group`)} ${tail}`;
  });
}

/** Groups of the identity provider that give roles; those of operators first. */
export function pageOfGroups(
  sql: Sql,
  query: ListQuery<GroupSort>,
): Promise<ListPage<ListedGroup>> {
  const by = { company: sql`c.name`, name: sql`g.name`, role: sql`g.role` }[query.sort];
  return paged(sql, query, by, sql`g.name`, (tail) => {
    return sql<Counted<ListedGroup>[]>`
      select ${listedGroupColumns(sql)}, count(*) over ()::integer as total
      from oidc_groups g left join companies c on c.id = g.company_id
      where ${contains(sql, query, sql`g.name, g.role, c.name`)} ${tail}`;
  });
}

/** A user of a company, with how many active keys are the user's own. */
export type ListedCompanyUser = CompanyUserRow & { readonly keys: number };

/** The users of a company. Sorted by role: owners first, then administrators. */
export function pageOfCompanyUsers(
  sql: Sql,
  company: string,
  query: ListQuery<CompanyUserSort>,
): Promise<ListPage<ListedCompanyUser>> {
  const by = {
    email: sql`email`,
    seen: sql`last_sign_in_at`,
    role: sql`array_position(array['owner', 'administrator', 'member'], role)`,
  }[query.sort];
  return paged(sql, query, by, sql`email`, (tail) => {
    return sql<Counted<ListedCompanyUser>[]>`
      select ${userColumns(sql)}, last_sign_in_at, count(*) over ()::integer as total,
        (select count(*)::integer from api_keys where user_id = users.id and ${sql.unsafe(IS_ACTIVE)}) as keys
      from users where company_id = ${company} and ${contains(sql, query, sql`email, role, oidc_group`)} ${tail}`;
  });
}

/** The companies of a month, with their statements. @param month its first day */
export function pageOfCompanyMonths(
  sql: Sql,
  month: string,
  query: ListQuery<CompanyMonthSort>,
): Promise<ListPage<CompanyMonth>> {
  const by = {
    name: sql`company_name`,
    cost: sql`total_eur`,
    open: sql`(number is not null, company_name)`,
    opened: sql`opened_at`,
  }[query.sort];
  return paged(sql, query, by, sql`company_id`, (tail) => {
    return sql<Counted<CompanyMonth>[]>`
      select ${companyMonthColumns(sql)}, total from (
        select *, count(*) over ()::integer as total from (${companyMonths(sql, month)}) m
        where ${contains(sql, query, sql`company_name, company_id`)} ${tail}) m`;
  });
}

/** What a cost centre cost in a month. */
export interface ListedCostCenter {
  /** Empty: of calls that name none. */
  readonly name: string;
  /** Exact decimal text. */
  readonly spent: string;
  readonly requests: number;
  readonly tokens: number;
  /** Exact decimal text, and how much of it is spent in percent, rounded down to one decimal; null: it has none. */
  readonly budget_eur: string | null;
  readonly percent: number | null;
}

/**
 * Cost centres that calls of a month name, with those that have a budget.
 * @param month its first day
 * @param isPresent whether it is the present month: budgets are of that alone
 */
export function pageOfCostCenters(
  sql: Sql,
  company: string,
  { month, isPresent }: { month: string; isPresent: boolean },
  query: ListQuery<CostCenterSort>,
): Promise<ListPage<ListedCostCenter>> {
  const by = { spent: sql`coalesce(spent, 0)`, share: sql`spent / budget`, name: sql`name` }[
    query.sort
  ];
  return paged(sql, query, by, sql`name`, (tail) => {
    return sql<Counted<ListedCostCenter>[]>`
      with sums as materialized (
        select cost_center as name, sum(cost_eur) as spent, sum(requests) as requests,
          sum(prompt_tokens + completion_tokens) as tokens
        from usage_key_months where company_id = ${company} and billing_month = ${month}::date group by 1
      ),
      budgets as materialized (
        select name, monthly_budget_eur as budget from cost_center_budgets where company_id = ${company} and ${isPresent}
      )
      select name, trim_scale(coalesce(spent, 0))::text as spent, coalesce(requests, 0)::float8 as requests,
        coalesce(tokens, 0)::float8 as tokens, trim_scale(budget)::text as budget_eur,
        trunc(coalesce(spent, 0) * 100 / budget, 1)::float8 as percent, count(*) over ()::integer as total
      from sums full join budgets using (name) where ${contains(sql, query, sql`name`)} ${tail}`;
  });
}

/** What a person behind keys cost in a month. */
export interface ListedEndUser extends Pick<ListedCostCenter, 'spent' | 'budget_eur' | 'percent'> {
  readonly id: string;
  /** null: erased. */
  readonly name: string | null;
  /** Of a call that was booked, to the hour. */
  readonly last_seen: Date;
}

/**
 * The people whom calls of a month name. `budget_eur` is their own, or what a key lets each cost: of several keys the one of
 * which they used most. To be run in a transaction. Parameters as of `pageOfCostCenters`.
 * @param isReached only those who reached it
 */
export async function pageOfEndUserCosts(
  sql: Sql,
  company: string,
  { month, isPresent, isReached }: { month: string; isPresent: boolean; isReached: boolean },
  query: ListQuery<EndUserSort>,
): Promise<ListPage<ListedEndUser>> {
  const by = {
    spent: sql`p.spent`,
    share: sql`s.spent / s.budget`,
    name: sql`(name is null, lower(name))`,
    called: sql`last_seen`,
  }[query.sort];
  const found = contains(sql, query, sql`name, id`);
  const only =
    query.search === ''
      ? sql``
      : sql`and end_user_id = any(array(select id from end_users where company_id = ${company} and ${found}))`;
  await sql`set local enable_nestloop = off`; // as in pageOfKeys
  return paged(sql, query, by, sql`id`, (tail) => {
    return sql<Counted<ListedEndUser>[]>`
      with sums as materialized (
        select end_user_id as id, api_key_id, sum(cost_eur) as spent
        from usage_end_user_days where company_id = ${company} and billing_month = ${month}::date ${only} group by 1, 2
      ),
      people as (select id, sum(spent) as spent from sums group by 1),
      keys as materialized (
        select id, line, case when ${sql.unsafe(HAS_ALLOWANCE)} then end_user_budget_eur end as budget
        from api_keys where company_id = ${company} and ${isPresent}
      ),
      own as materialized (
        select id, monthly_budget_eur as budget from end_users where company_id = ${company} and monthly_budget_eur is not null
      ),
      shares as (
        select distinct on (s.id) s.id, s.spent, coalesce(o.budget, k.budget) as budget from (
          select s.id, line, sum(s.spent) as spent from sums s join keys k on k.id = s.api_key_id group by 1, 2) s
        join (select line, min(budget) as budget from keys group by 1) k using (line) left join own o on o.id = s.id
        where k.budget is not null order by s.id, s.spent / coalesce(o.budget, k.budget) desc
      )
      select id, name, last_seen, trim_scale(p.spent)::text as spent, trim_scale(s.budget)::text as budget_eur, trunc(s.spent * 100 / s.budget, 1)::float8 as percent, count(*) over ()::integer as total
      from people p join end_users using (id) left join shares s using (id)
      where ${isReached ? sql`s.spent >= s.budget` : sql`true`} ${tail}`;
  });
}

/** @param by the order @param then the order of equal rows */
async function paged<T>(
  sql: Sql,
  query: ListQuery,
  by: Fragment,
  then: Fragment,
  run: (tail: Fragment) => PromiseLike<readonly Counted<T>[]>,
): Promise<ListPage<T>> {
  const { page, descending } = query;
  const rows =
    await run(sql`order by ${by} ${descending ? sql`desc nulls last` : sql`asc nulls first`}, ${then}
    limit ${PAGE_ROWS} offset ${(page - 1) * PAGE_ROWS}`);
  if (rows.length === 0 && page > 1) return paged(sql, { ...query, page: 1 }, by, then, run);
  return { rows, total: rows[0]?.total ?? 0, page };
}

/** Whether one of some columns contains the text that is searched. A table scan: 40 ms for 20,000 rows. */
function contains(sql: Sql, { search }: ListQuery, columns: Fragment): Fragment {
  return search === '' ? sql`true` : sql`concat_ws(' ', ${columns}) ~ ${searchPattern(search)}`;
}
