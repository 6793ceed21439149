import { randomBytes } from 'node:crypto';
import { DEMO_ACTOR as ACTOR, DEMO_COMPANY as COMPANY, DEMO_ASSISTANT, DEMO_MODELS } from '../domain/demo.ts';
import { hashPassword } from '../domain/password.ts';
import { actingAs } from '../store/actor.ts';
import { createAssistant } from '../store/assistant.ts';
import { createCompany, listCompanies } from '../store/company.ts';
import type { Database, Sql } from '../store/database.ts';
import { lockFirstRun } from '../store/demo.ts';
import { createKey } from '../store/key.ts';
import { createModel } from '../store/model.ts';
import { createUser, findUser, listUsers } from '../store/user.ts';

/** What `make run` prints: what is shown once, on the first start, and later how to get in again. */
export interface Welcome {
  /** The demo company; null where there are only others. */
  readonly companyId: string | null;
  /** Only on a first start; the database has the digest of the key and the hash of the password. */
  readonly first: { readonly key: string; readonly login: Login | null } | null;
  /** E-mail address of the first operator; null when all were removed. */
  readonly operator: string | null;
}

interface Login {
  readonly email: string;
  readonly password: string;
}

const OPERATOR = 'operator@localhost';

/**
 * Creates a demo company with models, an assistant, an operator and a key on the first start.
 * Later starts, and a database with other companies, change nothing.
 */
export async function welcome(db: Database, keyPrefix: string): Promise<Welcome> {
  return actingAs(db, ACTOR, 10_000, async (sql) => {
    await lockFirstRun(sql); // two first starts at the same time create one company
    const companies = await listCompanies(sql);
    if (companies.length > 0) {
      const existing = companies.find(({ name }) => name === COMPANY);
      const operator = (await listUsers(sql, null)).find(({ role }) => role === 'operator');
      return { companyId: existing?.id ?? null, first: null, operator: operator?.email ?? null };
    }
    const company = await createCompany(sql, { name: COMPANY, monthly_budget_eur: '50' });
    await createDemoModels(sql);
    await createAssistant(sql, {
      company_id: company.id,
      name: DEMO_ASSISTANT,
      system_prompt: 'Summarise what you are given in three sentences, in the language it is written in.',
      model_slug: 'demo-chat',
    });
    const login = await createOperator(sql);
    const { key } = await createKey(sql, keyPrefix, {
      company_id: company.id,
      name: 'first key',
      scopes: ['chat', 'embeddings', 'assistants'],
      created_by: ACTOR,
    });
    return { companyId: company.id, first: { key, login }, operator: OPERATOR };
  });
}

/** null where the operator is there already: the demo was removed, and its operator was not. */
async function createOperator(sql: Sql): Promise<Login | null> {
  if ((await findUser(sql, OPERATOR)) !== null) return null;
  const password = randomBytes(12).toString('base64url');
  const hash = await hashPassword(password);
  await createUser(sql, { email: OPERATOR, role: 'operator', company_id: null }, hash);
  return { email: OPERATOR, password };
}

async function createDemoModels(sql: Sql): Promise<void> {
  const models = [
    ['demo-chat', 'chat', true, '0.00015', '0.0006'],
    ['demo-chat-us', 'chat', false, '0.0001', '0.0004'],
    ['demo-embedding', 'embedding', true, '0.00002', '0'],
  ] as const;
  for (const [slug, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output] of models) {
    const upstream_model = DEMO_MODELS[slug] as string;
    const prices = { cost_eur_per_1k_input, cost_eur_per_1k_output };
    await createModel(sql, { slug, company_id: null, upstream_model, kind, eu_hosted, ...prices });
  }
}
