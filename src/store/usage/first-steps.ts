import { KEY_MODELS, SCOPED } from '../../domain/settings/key.ts';
import type { Values } from '../../domain/settings/setting.ts';
import { settingColumns } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';
import { findRequest, pageOfRequests, type RequestRow } from './request.ts';

/** Facts about a new installation or company. Each is found by one row, however large its table is. */

/** The row of `settings` by which an operator has put the first steps away. */
const DISMISSED = 'first_steps';

/** Which of an installation's first steps are done. */
export interface FirstSteps {
  readonly isDismissed: boolean;
  readonly model: boolean;
  readonly company: boolean;
  /** An owner is there, or invited. */
  readonly owner: boolean;
  readonly key: boolean;
  /** A call was booked. */
  readonly call: boolean;
}

export async function readFirstSteps(sql: Sql): Promise<FirstSteps> {
  const [row] = await sql<[FirstSteps]>`
    with call as materialized (select company_id from api_usage limit 1)
    select exists (select 1 from settings where name = ${DISMISSED}) as "isDismissed",
      exists (select 1 from models) as model, exists (select 1 from companies) as company,
      exists (select 1 from users where role = 'owner') or exists (select 1 from invitations where role = 'owner') as owner,
      exists (select 1 from api_keys where purpose is null) as key, exists (select 1 from call) as call`;
  return row;
}

/** Puts the first steps away, for all operators. */
export async function dismissFirstSteps(sql: Sql): Promise<void> {
  await sql`insert into settings (name, value) values (${DISMISSED}, 'dismissed') on conflict (name) do nothing`;
}

/** The company whose steps come next, and the scopes and models of its newest key; null: there is none. */
export interface NewestCompany {
  readonly id: string;
  readonly name: string;
  readonly key: NewestKey | null;
}
const CALLED = { ...SCOPED, ...KEY_MODELS };
export type NewestKey = Values<typeof CALLED>;

/** The open company whose key is the newest that works, or else the newest one. Reads all keys, so only for installations without calls. */
export async function companyToCall(sql: Sql): Promise<NewestCompany | null> {
  const [row] = await sql<NewestCompany[]>`
    select c.id, c.name, case when k.company_id is not null then to_jsonb(k) - 'company_id' end as key
    from companies c
    left join (${newestKeys(sql)} limit 1) k on k.company_id = c.id
    where c.closed_at is null order by (k.company_id is not null) desc, c.created_at desc limit 1`;
  return row ?? null;
}

/** The newest open company. */
export async function newestCompany(sql: Sql): Promise<NewestCompany | null> {
  const [row] = await sql<NewestCompany[]>`
    select id, name, null as key from companies where closed_at is null order by created_at desc limit 1`;
  return row ?? null;
}

/** The newest key of a company that works; null: there is none. */
export async function newestKey(sql: Sql, company: string): Promise<NewestKey | null> {
  const [row] = await sql<NewestKey[]>`
    select ${settingColumns(sql, CALLED)} from (${newestKeys(sql)}) k where company_id = ${company} limit 1`;
  return row ?? null;
}

function newestKeys(sql: Sql) {
  return sql`
    select company_id, ${settingColumns(sql, CALLED)} from api_keys
    where purpose is null and revoked_at is null and (expires_at is null or expires_at > now()) order by created_at desc`;
}

/** Which of a company's first steps are done. */
export interface OwnerSteps {
  readonly key: boolean;
  readonly call: boolean;
  /** Somebody else is there, or invited; null: the reader invites nobody. */
  readonly colleague: boolean | null;
  /** There were calls in a month before the present one: the company has begun, whatever is missing. */
  readonly hasBegun: boolean;
}

/** @param invites whether the reader may invite people */
export async function readOwnerSteps(
  sql: Sql,
  company: string,
  invites: boolean,
): Promise<OwnerSteps> {
  const [row] = await sql<[OwnerSteps]>`
    with spend as materialized (
      select billing_month from monthly_spend where company_id = ${company} and requests > 0 order by billing_month limit 1),
    begun as materialized (select exists (select 1 from spend where billing_month < billing_month(now())) as has_begun)
    select exists (select 1 from api_keys where company_id = ${company} and purpose is null) as key,
      exists (select 1 from spend) as call, has_begun as "hasBegun",
      case when ${invites} then has_begun or exists (select 1 from invitations where company_id = ${company})
        or (select count(*) from (select 1 from users where company_id = ${company} limit 2) u) > 1 end as colleague
    from begun`;
  return row;
}

/**
 * A call that is booked; while none is, the newest request, whatever became of it.
 * @param company null: of all companies, for operators
 * @param isBooked there is a call in the ledger
 * @returns null where there is none, or of a booked call no row yet, or no more
 */
export async function readFirstCall(
  sql: Sql,
  company: string | null,
  isBooked: boolean,
): Promise<RequestRow | null> {
  if (isBooked) {
    const [booked] = await sql<{ request_id: string }[]>`
      select request_id from api_usage ${company === null ? sql`` : sql`where company_id = ${company}`} limit 1`;
    return booked === undefined ? null : await findRequest(sql, booked.request_id, company);
  }
  const all = {
    key: null,
    model: null,
    endpoint: null,
    status: null,
    from: null,
    to: null,
    before: null,
  };
  const { rows } = await pageOfRequests(sql, { ...all, company, limit: 1 });
  return rows[0] ?? null;
}
