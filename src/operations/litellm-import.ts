import type { LitellmPlan } from '../domain/settings/litellm.ts';
import { type CompanyRow, companiesOf } from '../store/company/company.ts';
import { lockName } from '../store/company/idempotent-form.ts';
import type { KeyRow } from '../store/company/key.ts';
import { keysThatCame } from '../store/company/litellm.ts';
import { listModels } from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import { changeCompany, createCompany, pauseCompany } from './company.ts';
import type { Mistake } from './frame/refused.ts';
import { adoptKey, pauseKey } from './key.ts';
import { createModel } from './model.ts';

/** Something that came: what it is now, and what its settings do not say. */
export interface Came {
  readonly done: 'create' | 'change';
  readonly what: string;
  readonly settings: object;
  readonly notes: readonly string[];
}

/** Something that came before, or was here: it stays as it is. */
export interface Kept {
  readonly what: string;
  readonly now: object;
  /** As it would come. */
  readonly settings: object;
}

/**
 * Brings what is in a LiteLLM database and not here yet. What came once stays as it is here, whatever it is there now. To be
 * run in a transaction.
 * @param actor as the audit log names who asked
 */
export async function importLitellm(sql: Sql, actor: string, plan: LitellmPlan) {
  await lockName(sql, 'tollgate import litellm');
  const came: Came[] = [];
  const kept: Kept[] = [];
  const left = [...plan.left];
  const caller = (notes: string[]) => ({
    actor,
    judge: (found: readonly Mistake[]) =>
      void notes.push(...found.map(({ detail, passed = detail }) => passed)),
  });

  const wanted = plan.companies.map(({ id, settings: { name } }) => ({ id, name }));
  const present = new Map((await companiesOf(sql, wanted)).map((row) => [row.id, row]));
  const companies = new Map<string, CompanyRow>(present);
  for (const { id, settings, notes: told, paused } of plan.companies) {
    const what = `company ${settings.name}`;
    const row = present.get(id);
    if (row !== undefined) kept.push(keptOf(what, row, settings, paused));
    else {
      const notes = [...told];
      companies.set(id, await createCompany(sql, caller(notes), { id, ...settings }));
      if (paused !== null) await pauseCompany(sql, id, paused);
      came.push({ done: 'create', what, settings, notes: [...notes, ...pauseOf(paused)] });
    }
  }

  const models = new Map(
    (await listModels(sql)).map((row) => [`${row.company_id} ${row.slug}`, row]),
  );
  const shared: string[] = [];
  for (const { slug, company: company_id, settings, notes: told } of plan.models) {
    const what = `model ${slug}${company_id === null ? '' : ` of ${companies.get(company_id)?.name}`}`;
    const row = models.get(`${company_id} ${slug}`);
    if (row !== undefined) kept.push({ what, now: row, settings });
    else if (company_id !== null && !isOpen(companies.get(company_id)))
      left.push({ what, why: CLOSED });
    else {
      const notes = [...told];
      await createModel(sql, caller(notes), { slug, company_id, ...settings });
      came.push({ done: 'create', what, settings, notes });
      if (company_id === null) shared.push(slug);
    }
  }

  // a company of the import may use none of the new models that its team may not use there
  const all = [...models.values()]
    .flatMap(({ slug, company_id }) => (company_id === null ? slug : []))
    .concat(shared);
  for (const { id, settings, only } of plan.companies) {
    const isNew = !present.has(id);
    const disable =
      only === null ? [] : (isNew ? all : shared).filter((slug) => !only.includes(slug));
    if (disable.length === 0 || !isOpen(companies.get(id))) continue;
    await changeCompany(sql, caller([]), id, { disable });
    if (!isNew)
      came.push({
        done: 'change',
        what: `company ${settings.name}`,
        settings: {},
        notes: [`may not use ${disable.join(', ')}`],
      });
  }

  const found = await keysThatCame(sql, plan.keys);
  const byId = new Map(found.map((row) => [row.id, row]));
  const byDigest = new Map(found.map((row) => [row.digest, row]));
  for (const { id, company, digest, prefix, settings, notes: told, paused } of plan.keys) {
    const owner = companies.get(company);
    const what = `key ${settings.name}${owner === undefined ? '' : ` of ${owner.name}`}`;
    const row = byId.get(id) ?? byDigest.get(digest);
    if (row !== undefined) kept.push(keptOf(what, row, settings, paused));
    else if (!isOpen(owner)) left.push({ what, why: CLOSED });
    else {
      const notes = [...told];
      const text = { digest: Buffer.from(digest, 'hex'), prefix };
      await adoptKey(sql, caller(notes), company, { id, ...settings }, text);
      if (paused !== null) await pauseKey(sql, { role: 'operator' }, id, company, paused);
      came.push({
        done: 'create',
        what: `${what} (${prefix})`,
        settings,
        notes: [...notes, ...pauseOf(paused)],
      });
    }
  }
  return { came, kept, left };
}

const CLOSED = 'its company is closed here';

const pauseOf = (reason: string | null) => (reason === null ? [] : [`paused: ${reason}`]);

function keptOf(
  what: string,
  row: CompanyRow | KeyRow,
  settings: object,
  paused: string | null,
): Kept {
  return {
    what,
    now: { ...row, paused: row.paused_at !== null },
    settings: { ...settings, paused: paused !== null },
  };
}

function isOpen(company: CompanyRow | undefined): boolean {
  return company?.closed_at === null;
}
