import { type Action, may } from '../../operations/frame/permission.ts';
import { ownKeyIds } from '../../store/company/own-key.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { holderOf } from '../page/caller.ts';
import { companyOf, type PageContext } from '../page/context.ts';

/**
 * How far somebody sees a company: all of its keys and calls, or, as a member, those of the own keys alone. Pages that
 * both read are at other addresses for members, below "own".
 */

/** The lists of keys as routes have them, each with the permissions to change a key of it and to see one. */
export const KEY_LISTS = [
  ['/companies/:company/keys', 'key.write', 'key.read'],
  ['/companies/:company/own/keys', 'own-key.write', 'own-key.read'],
] as const satisfies readonly (readonly [string, Action, Action])[];

/** Whether the reader sees own keys and calls alone. @param company null: pages of all companies, which operators read */
export function seesOwnAlone(c: PageContext, company: string | null): boolean {
  return company !== null && !may(c.var.session.user, 'usage.read', company);
}

/** Ids of the keys whose calls the reader may see; null: all. */
export async function keysInReach(
  c: PageContext,
  sql: Sql,
  company: string | null,
): Promise<readonly string[] | null> {
  return seesOwnAlone(c, company) ? ownKeyIds(sql, holderOf(c)) : null;
}

/** The address of the list of keys. Those of single keys are below it. */
export function keysPath(c: PageContext, company: string): string {
  return `/companies/${company}/${seesOwnAlone(c, company) ? 'own/keys' : 'keys'}`;
}

/** The address of the list of requests. Those of single requests are below it. */
export function requestsPath(c: PageContext, company: string): string {
  return `/companies/${company}/${seesOwnAlone(c, company) ? 'own/' : ''}requests`;
}

/** The address of the usage page. */
export function usagePath(c: PageContext, company: string): string {
  return `/companies/${company}/${seesOwnAlone(c, company) ? 'own/' : ''}usage`;
}

/** The address of the page of usage that is shown: of the company of the path, or of all. */
export function usageAddress(c: PageContext): string {
  const company = companyOf(c);
  return company === null ? '/usage' : usagePath(c, company);
}
