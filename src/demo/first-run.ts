import { randomBytes } from 'node:crypto';
import { actingAs } from '../store/actor.ts';
import { createAssistant } from '../store/assistant.ts';
import { createCompany, listCompanies } from '../store/company.ts';
import type { Database, Sql } from '../store/database.ts';
import { createKey } from '../store/key.ts';
import { createModel } from '../store/model.ts';
import { createUser } from '../store/user.ts';
import { DEMO_CHAT_MODEL, DEMO_EMBEDDING_MODEL } from './server.ts';

/** What `make run` prints, so that the first request can be made by pasting one line. */
export interface Welcome {
  readonly companyId: string;
  readonly key: string;
  /** Set on the first start only: a password is shown once. */
  readonly login: { readonly email: string; readonly password: string } | null;
  /** When the key expires; null for the first one. */
  readonly keyExpires: Date | null;
}

const COMPANY = 'Demo company';
const OPERATOR = 'operator@localhost';
/** Who the audit log names. */
const ACTOR = 'make run';
const DAY_MS = 86_400_000;

/**
 * The first start creates a demo company with models, an assistant, an operator and a key.
 * Keys are stored as digests alone, so each later start makes a new one that lasts a day.
 * A database that holds companies of its own is left as it is.
 * @returns null when there is no demo company to welcome anybody to
 */
export async function welcome(db: Database, keyPrefix: string, now: number): Promise<Welcome | null> {
  return actingAs(db, ACTOR, 10_000, async (sql) => {
    // two first starts at once must not make two companies
    await sql`select pg_advisory_xact_lock(hashtext('tollgate first run'))`;
    const companies = await listCompanies(sql);
    const known = companies.find(({ name }) => name === COMPANY);
    if (known !== undefined) {
      const expires_at = new Date(now + DAY_MS);
      const { key } = await createDemoKey(sql, keyPrefix, known.id, expires_at);
      return { companyId: known.id, key, login: null, keyExpires: expires_at };
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
  const shared = { company_id: null, eu_hosted: true } as const;
  await createModel(sql, {
    ...shared,
    slug: 'demo-chat',
    upstream_model: DEMO_CHAT_MODEL,
    kind: 'chat',
    cost_eur_per_1k_input: '0.00015',
    cost_eur_per_1k_output: '0.0006',
  });
  await createModel(sql, {
    ...shared,
    slug: 'demo-chat-us',
    eu_hosted: false,
    upstream_model: `${DEMO_CHAT_MODEL}-us`,
    kind: 'chat',
    cost_eur_per_1k_input: '0.0001',
    cost_eur_per_1k_output: '0.0004',
  });
  await createModel(sql, {
    ...shared,
    slug: 'demo-embedding',
    upstream_model: DEMO_EMBEDDING_MODEL,
    kind: 'embedding',
    cost_eur_per_1k_input: '0.00002',
    cost_eur_per_1k_output: '0',
  });
}
