import { ROLES, type Role } from '../domain/user.ts';

/**
 * Who may do what in the administration area. Every route names one action, and the
 * listener asks `may` before the route's code runs: there is no other check.
 */

const OPERATOR = ['operator'] as const;
const MANAGERS = ['operator', 'owner', 'administrator'] as const;

/** Roles that have an action. Owner and administrator have it for their own company only. */
export const PERMISSIONS = {
  'account.use': ROLES,
  'company.list': OPERATOR,
  'company.create': OPERATOR,
  'company.rename': OPERATOR,
  'company.read': MANAGERS,
  'company.set': MANAGERS,
  'usage.read': MANAGERS,
  'key.read': MANAGERS,
  'key.write': MANAGERS,
  'assistant.read': MANAGERS,
  'assistant.write': MANAGERS,
  'assistant.run': MANAGERS,
  'model.read': OPERATOR,
  'model.write': OPERATOR,
  'user.read': OPERATOR,
  'user.write': OPERATOR,
  'audit.read': OPERATOR,
} as const satisfies Record<string, readonly Role[]>;

export type Action = keyof typeof PERMISSIONS;

export interface Person {
  readonly role: Role;
  /** null for an operator. */
  readonly companyId: string | null;
}

/** @param companyId the company the action is about; null when it is about none */
export function may(person: Person, action: Action, companyId: string | null): boolean {
  const roles: readonly Role[] = PERMISSIONS[action];
  return roles.includes(person.role) && (companyId === null || isTheirs(person, companyId));
}

/** Whether a person may know that a company exists. */
export function isTheirs(person: Person, companyId: string): boolean {
  return person.role === 'operator' || person.companyId === companyId;
}
