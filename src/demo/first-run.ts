import { randomBytes } from 'node:crypto';
import { hashPassword } from '../domain/password.ts';
import { TRIAL_KEY } from '../domain/settings/key.ts';
import {
  DEMO_ACTOR as ACTOR,
  DEMO_COMPANY as COMPANY,
  DEMO_ASSISTANT,
  DEMO_MODELS,
} from '../domain/wording/demo.ts';
import { insertAssistant } from '../store/company/assistant.ts';
import { insertCompany, listCompanies } from '../store/company/company.ts';
import { lockFirstRun } from '../store/company/demo.ts';
import { insertKey, listKeys } from '../store/company/key.ts';
import { insertModel } from '../store/company/model.ts';
import { actingAs } from '../store/connection/acting-person.ts';
import type { Database, Sql } from '../store/connection/pool.ts';
import { findUser, insertUser, listUsers } from '../store/users/user.ts';

/** The output of `make run`: secrets, which are shown once on the first start, and later the way to sign in again. */
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
const MS = 60_000; // on a busy machine; nothing but the start waits for it

/**
 * Creates a demo company with models and an assistant in a database without companies. Gateways are opened after it:
 * one that was open would not know the models for some milliseconds, while its key is printed already.
 */
export async function prepareDemo(db: Database): Promise<void> {
  await actingAs(db, ACTOR, MS, async (sql) => {
    await lockFirstRun(sql); // two first starts at the same time create one company
    if ((await listCompanies(sql)).length > 0) return;
    const company = await insertCompany(sql, { name: COMPANY, monthly_budget_eur: '50' });
    await createDemoModels(sql);
    await insertAssistant(sql, {
      company_id: company.id,
      name: DEMO_ASSISTANT,
      system_prompt:
        'Summarise what you are given in three sentences, in the language it is written in.',
      model_slug: 'demo-chat',
    });
  });
}

/** Creates an operator and a key where the demo company has none yet: at the first start that listens. */
export async function welcome(db: Database, keyPrefix: string): Promise<Welcome> {
  return actingAs(db, ACTOR, MS, async (sql) => {
    await lockFirstRun(sql);
    const companyId = (await listCompanies(sql)).find(({ name }) => name === COMPANY)?.id ?? null;
    if (companyId === null || (await listKeys(sql, companyId)).length > 0) {
      const operator = (await listUsers(sql, null)).find(({ role }) => role === 'operator');
      return { companyId, first: null, operator: operator?.email ?? null };
    }
    const login = await createOperator(sql);
    const { key } = await insertKey(sql, keyPrefix, {
      company_id: companyId,
      name: 'first key',
      ...TRIAL_KEY,
      created_by: ACTOR,
    });
    return { companyId, first: { key, login }, operator: OPERATOR };
  });
}

/** Creates the first operator; null where it is there already: the demo was removed, and its operator was not. */
export async function createOperator(sql: Sql): Promise<Login | null> {
  if ((await findUser(sql, OPERATOR)) !== null) return null;
  const password = randomBytes(12).toString('base64url');
  const hash = await hashPassword(password);
  await insertUser(sql, { email: OPERATOR, role: 'operator', company_id: null }, hash);
  return { email: OPERATOR, password };
}

async function createDemoModels(sql: Sql): Promise<void> {
  for (const [slug, [upstream_model, kind, eu_hosted, input, output]] of Object.entries(
    DEMO_MODELS,
  )) {
    const prices = { cost_eur_per_1k_input: input, cost_eur_per_1k_output: output };
    await insertModel(sql, { slug, company_id: null, upstream_model, kind, eu_hosted, ...prices });
  }
}
