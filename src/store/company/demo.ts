import {
  DEMO_ACTOR,
  DEMO_ASSISTANT,
  DEMO_COMPANY,
  DEMO_MODELS,
} from '../../domain/wording/demo.ts';
import type { Sql } from '../connection/pool.ts';

/** Makes the second of two first starts wait until the end of the first one's transaction. */
export async function lockFirstRun(sql: Sql): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtext('tollgate first run'))`;
}

/**
 * Whether something has the names of the demo. Its maker is looked up only before a removal, because that reads the
 * audit log.
 */
export async function hasDemo(sql: Sql): Promise<boolean> {
  const [{ found }] = await sql<[{ found: boolean }]>`
    select exists (select 1 from companies where name = ${DEMO_COMPANY})
      or exists (select 1 from models where ${isDemoModel(sql)}) as found`;
  return found;
}

function isDemoModel(sql: Sql) {
  return sql`company_id is null and (slug, upstream_model) in (
    select * from unnest(${Object.keys(DEMO_MODELS)}::text[], ${Object.values(DEMO_MODELS).map(([name]) => name)}::text[]))`;
}

/** The company and the models that the first start created, by the audit log, and the other users of these models. */
export async function findDemo(sql: Sql) {
  const made = (subject: string) => sql`(select subject_id from audit_log
    where subject = ${subject} and action = 'insert' and actor = ${DEMO_ACTOR})`;
  const [company] = await sql<{ id: string }[]>`
    select id from companies where name = ${DEMO_COMPANY} and id in ${made('companies')}`;
  const demo = company?.id ?? null;
  const models = await sql<{ slug: string; users: string[] }[]>`
    with used as materialized (
      select distinct company_id, model_slug from usage_daily
      where billing_month >= billing_month(now() - interval '1 month')
        and model_slug = any(array(select slug from models m where ${isDemoModel(sql)}))
    )
    select slug, array(
      select c.name from companies c where c.id is distinct from ${demo} and (
        exists (select 1 from assistants a where a.company_id = c.id and a.model_slug = slug)
        or exists (select 1 from api_keys k where k.company_id = c.id and slug = any(k.allowed_model_slugs) and k.revoked_at is null)
        or exists (select 1 from used d where d.company_id = c.id and d.model_slug = slug))
      order by 1 limit 10) as users
    from models m
    where ${isDemoModel(sql)} and id in ${made('models')} order by slug`;
  return { company: demo, models };
}

/** The things of the company that the demo did not create. */
export async function usesOfCompany(sql: Sql, company: string): Promise<string[]> {
  const [{ uses }] = await sql<[{ uses: string[] }]>`
    select array_remove(array[
      case when exists (select 1 from users where company_id = ${company}) then 'users' end,
      case when exists (select 1 from api_keys where company_id = ${company} and created_by is distinct from ${DEMO_ACTOR}) then 'keys of its own' end,
      case when exists (select 1 from assistants where company_id = ${company} and name <> ${DEMO_ASSISTANT}) then 'assistants' end,
      case when exists (select 1 from models where company_id = ${company}) then 'models' end,
      case when exists (select 1 from chat_usage where company_id = ${company}) then 'in-app chat' end], null) as uses`;
  return uses;
}

export async function deleteDemoCompany(sql: Sql, id: string): Promise<void> {
  await sql`delete from companies where id = ${id}`;
}
