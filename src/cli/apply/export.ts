import { stringify } from 'yaml';
import { listAssistants } from '../../store/assistant.ts';
import { type CompanyRow, listCompanies } from '../../store/company.ts';
import type { Sql } from '../../store/database.ts';
import { listKeys } from '../../store/key.ts';
import { listModels } from '../../store/model.ts';
import type { UserRow } from '../../store/user.ts';
import { CONFIGURATION } from './schema.ts';

type Members = Readonly<
  Record<string, { readonly properties?: Members; readonly items?: { readonly properties: Members } }>
>;
const FILE = CONFIGURATION.properties as unknown as Members;
const COMPANY = FILE.companies?.items?.properties as Members;

/** What is there, as a file that `tollgate apply` reads. It holds no secrets: keys that are missing later need their text. */
export async function exportConfiguration(sql: Sql): Promise<object> {
  const [models, companies, users] = [await listModels(sql), await listCompanies(sql), await allUsers(sql)];
  const of = (company: string | null) => ({
    models: models.filter(({ company_id }) => company_id === company).map((row) => pick(row, FILE.models)),
    users: users.filter(({ company_id }) => company_id === company).map((row) => pick(row, FILE.operators)),
  });
  const { models: shared, users: operators } = of(null);
  const named = new Map<string, number>();
  for (const { name } of companies) named.set(name, (named.get(name) ?? 0) + 1);
  const told: object[] = [];
  for (const row of companies) {
    const assistants = (await listAssistants(sql, row.id)).map((each) => pick(each, COMPANY.assistants));
    const keys = (await listKeys(sql, row.id)).filter(({ state, purpose }) => state === 'active' && purpose === null);
    const { id, ...settings } = pick(row, { items: { properties: COMPANY } }) as CompanyRow;
    told.push({
      ...((named.get(row.name) ?? 0) > 1 ? { id } : {}),
      ...settings,
      ...of(row.id),
      assistants,
      keys: keys.map((each) => pick(each, COMPANY.keys)),
    });
  }
  return { models: shared, companies: told, operators };
}

/** The file's text. */
export function yamlOf(configuration: object): string {
  return stringify(configuration, { lineWidth: 0 });
}

/** The members of a row that the file can hold; those that say nothing are left out. */
function pick(row: object, list: Members[string] | undefined): object {
  const members = Object.keys(list?.items?.properties ?? {});
  const entries = Object.entries(row).filter(([name, value]) => members.includes(name) && !isEmpty(value));
  return Object.fromEntries(
    entries.map(([name, value]) => [name, value instanceof Date ? value.toISOString() : value]),
  );
}

function isEmpty(value: unknown): boolean {
  return value === null || (Array.isArray(value) && value.length === 0);
}

function allUsers(sql: Sql): PromiseLike<UserRow[]> {
  return sql<UserRow[]>`select id, email, company_id, role, created_at from users order by email`;
}
