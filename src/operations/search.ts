import { UUID } from '../domain/field.ts';
import { idsOfDigests, keysWithCompany } from '../store/company/key.ts';
import type { Database, Sql } from '../store/connection/pool.ts';
import { within } from '../store/connection/tenant-role.ts';
import {
  type Finding,
  type Found,
  foundOf,
  KINDS,
  type Kind,
  search,
} from '../store/lists/search.ts';
import { findCostCenters } from '../store/usage/cost-center.ts';
import { findRequest } from '../store/usage/request.ts';
import type { UserRow } from '../store/users/user.ts';
import { type Action, may } from './frame/permission.ts';
import { digestsIn } from './key.ts';

/** The permission by which somebody finds things of each kind. */
const NEEDED: Readonly<Record<Kind, Action>> = {
  company: 'company.list',
  key: 'key.read',
  user: 'company-user.read',
  invitation: 'company-user.read',
  end_user: 'end-user.read',
  model: 'company.read',
  assistant: 'assistant.read',
  cost_center: 'usage.read',
  statement: 'statement.read',
  request: 'request.read',
};

const DEADLINE_MS = 5000;

/** What a search found for somebody. */
export interface Searched {
  readonly found: readonly Found[];
  /** The text has a whole key, which nobody should see again. */
  readonly isSecret: boolean;
  /** The one thing whose id or whole key was searched; null: there is a choice, or nothing. */
  readonly only: Finding | null;
}

/** Who searches. */
type Searcher = Pick<UserRow, 'role' | 'company_id'>;

/** The kinds of things that somebody may find; none for members. */
export function searchable(user: Searcher): Kind[] {
  return KINDS.filter((kind) => may(user, NEEDED[kind], user.company_id));
}

/** Finds what somebody may see: operators everything, others what is of their company. */
export async function searchFor(
  db: Database,
  user: Searcher,
  text: string,
  keyPrefix: string,
): Promise<Searched> {
  const kinds = searchable(user);
  const company = user.company_id;
  const digests = kinds.includes('key') ? digestsIn(text, keyPrefix) : [];
  const ids =
    digests.length === 0 ? [] : await db.run(DEADLINE_MS, (sql) => idsOfDigests(sql, digests));
  if (ids.length > 0) {
    const keys = await within(
      db,
      company,
      DEADLINE_MS,
      (sql) => keysWithCompany(sql, ids, company, true),
      user.role,
    );
    const rows = keys.map(({ id, name, prefix, state, company_id, company_name }) => ({
      kind: 'key' as const,
      ...{ id, name, company_id, company_name },
      detail: `${prefix}…${state === 'active' ? '' : `, ${state}`}`,
    }));
    const found = rows.length === 0 ? [] : [{ kind: 'key' as const, rows, hasMore: false }];
    return { found, isSecret: true, only: rows.length === 1 ? (rows[0] as Finding) : null };
  }
  if (text === '' || kinds.length === 0) return { found: [], isSecret: false, only: null };
  const found = await within(
    db,
    company,
    DEADLINE_MS,
    async (sql) => [
      ...(await search(sql, text, kinds, company)),
      ...(kinds.includes('cost_center') ? await findCostCenters(sql, text, company) : []),
      ...(await requestOf(sql, text, company)),
    ],
    user.role,
  );
  const rows = found.flatMap((each) => each.rows);
  const isId = rows.length === 1 && rows[0]?.id === text.toLowerCase();
  return { found, isSecret: false, only: isId ? (rows[0] as Finding) : null };
}

/** The request whose x-request-id the text is. */
async function requestOf(
  sql: Sql,
  text: string,
  company: string | null,
): Promise<readonly Found[]> {
  const row = UUID.test(text.toLowerCase())
    ? await findRequest(sql, text.toLowerCase(), company)
    : null;
  if (row === null) return [];
  const { request_id: id, company_id, company_name, status } = row;
  return foundOf('request', [
    { id, name: id, detail: String(status ?? ''), company_id, company_name },
  ]);
}
