import { ROLES, type Role } from '../../domain/user.ts';
import type { UserRow } from '../../store/users/user.ts';

/**
 * Who may do what in the administration area. Every route names one action, and pages.ts asks
 * `may` before the route's code runs: there is no other check.
 *
 *   operator       everything, of all companies; alone sets limits, ceilings, models and prices
 *   owner          of one company: its people, budgets and alerts, EU gate, statements and audit log, and all of the next line
 *   administrator  of one company: keys, choice of models, assistants, usage; reads its settings
 *   member         the own account, and keys of the own, what they used, and the playground as far as the company lets
 *                  its members; sees what is kept of the company
 */

const OPERATOR = ['operator'] as const;
const OWNERS = ['operator', 'owner'] as const;
const MANAGERS = ['operator', 'owner', 'administrator'] as const;
const MEMBERS = ['member'] as const;

/** The roles that may take an action; owners and administrators for their own company only. */
export const PERMISSIONS = {
  'account.use': ROLES,
  'overview.read': OPERATOR,
  'overview.dismiss': OPERATOR, // the first steps
  'overview.keep': OPERATOR, // a view of it
  'company.list': OPERATOR,
  'company.create': OPERATOR,
  'company.rename': OPERATOR,
  'company.read': MANAGERS,
  'company.set': OWNERS, // its budget and the EU gate, below the ceilings
  'company.limit': OPERATOR, // limits and ceilings
  'company.choose': MANAGERS, // which of the models it uses
  'company.close': OPERATOR,
  'company.pause': OPERATOR,
  'company.export': OWNERS,
  'company.erase': OPERATOR,
  'company-audit.read': OWNERS,
  'company.kept': ROLES, // what is stored about it
  'alert.read': OWNERS,
  'alert.write': OWNERS,
  'company-user.read': OWNERS,
  'company-user.write': OWNERS,
  'usage.read': MANAGERS,
  'usage.keep': MANAGERS,
  'cost-center.write': OWNERS, // budgets of cost centres
  'end-user.read': MANAGERS,
  'end-user.write': OWNERS, // their budgets
  'end-user.erase': OWNERS,
  'statement.read': OWNERS,
  'statement.close': OPERATOR,
  'key.read': MANAGERS,
  'key.write': MANAGERS,
  'key.find': OPERATOR,
  'own-key.read': MEMBERS, // all others see them among the keys of the company
  'own-key.write': MEMBERS, // how many: operations/key.ts
  'own-usage.read': MEMBERS,
  'own-usage.keep': MEMBERS,
  'assistant.read': MANAGERS,
  'assistant.write': MANAGERS,
  'assistant.run': MANAGERS,
  'playground.use': ROLES, // members where the company lets them
  'model.read': OPERATOR,
  'model.write': OPERATOR,
  'cost.read': OPERATOR,
  'cost.write': OPERATOR,
  'user.read': OPERATOR,
  'user.write': OPERATOR,
  'group.read': OPERATOR,
  'group.write': OPERATOR,
  'feed.read': OPERATOR,
  'audit.read': OPERATOR,
  'request.read': MANAGERS,
  'request.all': OPERATOR,
  'event.read': OPERATOR,
  'event.replay': OPERATOR,
  'token.read': OPERATOR,
  'token.write': OPERATOR,
  'company-token.read': OWNERS,
  'company-token.write': OWNERS,
} as const satisfies Record<string, readonly Role[]>;

export type Action = keyof typeof PERMISSIONS;

/**
 * The facts that permissions depend on: a role, its company (null for an operator), and whether the company lets its
 * members use the playground (default: no).
 */
type RoleHolder = Pick<UserRow, 'role' | 'company_id'> & { readonly member_playground?: boolean };

/** @param company id of the company that the action is about; null when it is about none */
export function may(holder: RoleHolder, action: Action, company: string | null): boolean {
  const roles: readonly Role[] = PERMISSIONS[action];
  if (action === 'playground.use' && holder.role === 'member' && holder.member_playground !== true)
    return false;
  return roles.includes(holder.role) && (company === null || canSee(holder, company));
}

/** Whether an action only shows something, so that it is there for a closed company too. */
export function isReading(action: Action): boolean {
  return action.endsWith('.read') || action === 'company.export' || action === 'company.kept';
}

/** Whether a user may know that a company exists. */
export function canSee(holder: RoleHolder, company: string): boolean {
  return holder.role === 'operator' || holder.company_id === company;
}
