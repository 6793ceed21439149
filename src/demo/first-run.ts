import { randomBytes } from 'node:crypto';
import { actingAs } from '../store/actor.ts';
import { createAssistant } from '../store/assistant.ts';
import { createCompany, listCompanies } from '../store/company.ts';
import type { Database, Sql } from '../store/database.ts';
import { createKey } from '../store/key.ts';
import { createModel } from '../store/model.ts';
import { createUser, listUsers } from '../store/user.ts';
import { DEMO_CHAT_MODEL, DEMO_EMBEDDING_MODEL } from './server.ts';

/** What `make run` prints: what is shown once, on the first start, and later how to get in again. */
export interface Welcome {
  readonly companyId: string;
  /** Only on the first start; the database has the digest of the key and the hash of the password. */
  readonly first: { readonly key: string; readonly email: string; readonly password: string } | null;
  /** E-mail address of the first operator; null when all were removed. */
  readonly operator: string | null;
}

const COMPANY = 'Demo company';
const OPERATOR = 'operator@localhost';
/** Actor in the audit log. */
const ACTOR = 'make run';

/**
 * Creates a demo company with models, an assistant, an operator and a key on the first start.
 * Later starts change nothing.
 * @returns null when the database has companies but no demo company; it is then not changed
 */
export async function welcome(db: Database, keyPrefix: string): Promise<Welcome | null> {
  return actingAs(db, ACTOR, 10_000, async (sql) => {
    // so that two first starts at the same time create one company
    await sql`select pg_advisory_xact_lock(hashtext('tollgate first run'))`;
    const companies = await listCompanies(sql);
    const existing = companies.find(({ name }) => name === COMPANY);
    if (existing !== undefined) {
      const operator = (await listUsers(sql, null)).find(({ role }) => role === 'operator');
      return { companyId: existing.id, first: null, operator: operator?.email ?? null };
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
    const { key } = await createKey(sql, keyPrefix, {
      company_id: company.id,
      name: 'first key',
      scopes: ['chat', 'embeddings', 'assistants'],
      created_by: ACTOR,
    });
    return { companyId: company.id, first: { key, email: OPERATOR, password }, operator: OPERATOR };
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
