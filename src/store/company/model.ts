import { throwConflict, throwNotFound } from '../../domain/refusal.ts';
import { MODEL } from '../../domain/settings/model.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import type { New, Values } from '../../domain/settings/setting.ts';
import { matching, namedColumns, settingColumns } from '../connection/columns.ts';
import type { Range } from '../connection/cursor.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';
import { outside } from '../connection/tenant-role.ts';
import type { Changes } from './company.ts';

/** What names a model. */
export interface ModelName {
  readonly slug: string;
  /** The company whose own it is; null: shared by all companies. */
  readonly company_id: string | null;
}

/** Members are the columns of the table (contract section 3): those that people set, and these. */
export interface ModelRow extends ModelName, Values<typeof MODEL> {
  readonly id: string;
  readonly created_at: Date;
}

export type NewModel = ModelName & New<typeof MODEL>;
export type ModelChanges = Changes<Values<typeof MODEL>>;

const SETTINGS = namesOf(MODEL);

const ROWS = rowsIn<ModelRow>({
  table: 'models',
  noun: 'model',
  columns: (sql) => sql`id, slug, company_id, ${settingColumns(sql, MODEL)}, created_at`,
});

export const { find: findModelById, columns: modelColumns } = ROWS;

/** @throws Refused when there is a model of this slug already, or no such company */
export function insertModel(sql: Sql, model: NewModel): Promise<ModelRow> {
  const { slug, company_id: company } = model;
  const what =
    company === null ? `A shared model ${slug}` : `A model ${slug} of company ${company}`;
  const taken = () => throwConflict('model', `${what} exists already.`);
  return ROWS.insert(sql, namedColumns(sql, model, ['slug', 'company_id', ...SETTINGS]), company, {
    models_shared_slug: taken,
    models_company_slug: taken,
  });
}

/** @throws Refused missing */
export async function updateModel(
  sql: Sql,
  { slug, company_id }: ModelName,
  changes: ModelChanges,
): Promise<ModelRow> {
  const [row] = await sql<ModelRow[]>`
    update models set ${namedColumns(sql, changes, SETTINGS, { slug: sql`slug` })}
    where slug = ${slug} and company_id is not distinct from ${company_id}
    returning ${modelColumns(sql)}`;
  return row ?? unknownModel({ slug, company_id });
}

/** Every model, or the shared ones and those of one company. */
export function listModels(sql: Sql, company: string | null = null): Promise<ModelRow[]> {
  const where = sql`where ${usedBy(sql, company)} order by slug, company_id nulls first`;
  return outside(sql, () => ROWS.list(sql, where));
}

/** The same, or those of a slug, ordered by id. */
export function modelsAfter(sql: Sql, slug: string | null, company: string | null, range: Range) {
  const which = sql`${usedBy(sql, company)} ${matching(sql, { slug })}`;
  return outside(sql, () => ROWS.page(sql, null, range, null, which));
}

function usedBy(sql: Sql, company: string | null) {
  return sql`(${company}::uuid is null or company_id is null or company_id = ${company})`;
}

/** The shared models, or those of some slugs that there are, ordered by slug. */
export function sharedModels(
  sql: Sql,
  slugs: readonly string[] | null = null,
): Promise<ModelRow[]> {
  const among = slugs === null ? sql`` : sql`and slug in (select unnest(${[...slugs]}::text[]))`;
  return ROWS.list(sql, sql`where company_id is null ${among} order by slug`);
}

/** The slugs under which internal names are offered, to all companies or to some: names that are not offered are absent. */
export async function slugsOf(
  sql: Sql,
  names: readonly string[],
): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await sql<{ upstream_model: string; slugs: string[] }[]>`
    select upstream_model, array_agg(distinct slug order by slug) as slugs from models
    where upstream_model in (select unnest(${[...names]}::text[])) group by 1`;
  return new Map(rows.map(({ upstream_model, slugs }) => [upstream_model, slugs]));
}

/** A model by its name. @throws Refused missing */
export async function findModel(sql: Sql, name: ModelName): Promise<ModelRow> {
  const [row] = await ROWS.list(
    sql,
    sql`where slug = ${name.slug} and company_id is not distinct from ${name.company_id}`,
  );
  return row ?? unknownModel(name);
}

/** Keeps a model as it is until the transaction ends. */
export async function lockModel(sql: Sql, { slug, company_id }: ModelName): Promise<void> {
  await sql`select from models where slug = ${slug} and company_id is not distinct from ${company_id} for update`;
}

/** @throws Refused missing */
export async function deleteModel(sql: Sql, { slug, company_id }: ModelName): Promise<ModelRow> {
  const [row] = await sql<ModelRow[]>`
    delete from models where slug = ${slug} and company_id is not distinct from ${company_id} returning ${modelColumns(sql)}`;
  return row ?? unknownModel({ slug, company_id });
}

/** Which of some slugs name no model of a company, most likely by a typing error. */
export async function unknownSlugs(
  sql: Sql,
  company: string,
  slugs: readonly string[],
): Promise<string[]> {
  const rows = await sql<{ slug: string }[]>`
    select distinct slug from unnest(${[...slugs]}::text[]) as asked (slug)
    where not exists (select 1 from models m where m.slug = asked.slug and (m.company_id is null or m.company_id = ${company}))
    order by slug`;
  return rows.map(({ slug }) => slug);
}

/** @throws Refused */
export function unknownModel({ slug, company_id: company }: ModelName): never {
  const what =
    company === null ? `no shared model ${slug}` : `no model ${slug} of company ${company} alone`;
  throwNotFound('model', `There is ${what}.`);
}
