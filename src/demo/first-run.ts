import { randomBytes } from 'node:crypto';
import { actingAs } from '../store/actor.ts';
import { createAssistant } from '../store/assistant.ts';
import { createCompany, listCompanies } from '../store/company.ts';
import type { Database, Sql } from '../store/database.ts';
import { createKey } from '../store/key.ts';
import { createModel } from '../store/model.ts';
import { createUser } from '../store/user.ts';
import { DEMO_CHAT_MODEL, DEMO_EMBEDDING_MODEL } from './server.ts';

/** What `make run` prints for the first request. */
export interface Welcome {
  readonly companyId: string;
  readonly key: string;
  /** Only on the first start: the password is shown once. */
  readonly login: { readonly email: string; readonly password: string } | null;
  /** null: the first key, which does not expire. */
  readonly keyExpires: Date | null;
}

const COMPANY = 'Demo company';
const OPERATOR = 'operator@localhost';
/** Actor in the audit log. */
const ACTOR = 'make run';
const DAY_MS = 86_400_000;

/**
 * Creates a demo company with models, an assistant, an operator and a key on the first start.
 * Later starts create one more key, valid for a day, because the database has only digests of keys.
 * @param now milliseconds since the epoch
 * @returns null when the database has companies but no demo company; it is then not changed
 */
export async function welcome(db: Database, keyPrefix: string, now: number): Promise<Welcome | null> {
  return actingAs(db, ACTOR, 10_000, async (sql) => {
    // so that two first starts at the same time create one company
    await sql`select pg_advisory_xact_lock(hashtext('tollgate first run'))`;
    const companies = await listCompanies(sql);
    const existing = companies.find(({ name }) => name === COMPANY);
    if (existing !== undefined) {
      const keyExpires = new Date(now + DAY_MS);
      const { key } = await createDemoKey(sql, keyPrefix, existing.id, keyExpires);
      return { companyId: existing.id, key, login: null, keyExpires };
    }
    if (companies.length > 0) return null;
    const company = await createCompany(sql, { name: COMPANY, monthly_budget_eur: '50' });
    await createDemoModels(sql);
    await createAssistant(sql, {
      company_id: company.id,
      name: 'Summariser',
      system_prompt: 'Summarise what you are given in three sentences, in the language it is written in.',
      model_slug: 'demo-chat',
    });
    const password = randomBytes(12).toString('base64url');
    await createUser(sql, { email: OPERATOR, password, role: 'operator', company_id: null });
    const { key } = await createDemoKey(sql, keyPrefix, company.id, null);
    return { companyId: company.id, key, login: { email: OPERATOR, password }, keyExpires: null };
  });
}

function createDemoKey(sql: Sql, keyPrefix: string, companyId: string, expires_at: Date | null) {
  return createKey(sql, keyPrefix, {
    company_id: companyId,
    name: expires_at === null ? 'first key' : 'key of one start',
    scopes: ['chat', 'embeddings', 'assistants'],
    expires_at,
    created_by: ACTOR,
  });
}

async function createDemoModels(sql: Sql): Promise<void> {
  const model = (slug: string, upstream_model: string, kind: 'chat' | 'embedding', input: string, output: string) =>
    createModel(sql, {
      slug,
      company_id: null,
      upstream_model,
      kind,
      eu_hosted: slug !== 'demo-chat-us',
      cost_eur_per_1k_input: input,
      cost_eur_per_1k_output: output,
    });
  await model('demo-chat', DEMO_CHAT_MODEL, 'chat', '0.00015', '0.0006');
  await model('demo-chat-us', `${DEMO_CHAT_MODEL}-us`, 'chat', '0.0001', '0.0004');
  await model('demo-embedding', DEMO_EMBEDDING_MODEL, 'embedding', '0.00002', '0');
}
