/** Roles of people who sign in to the administration area. Operators belong to no company, the others to one. */
export const ROLES = ['operator', 'owner', 'administrator', 'member'] as const;
export type Role = (typeof ROLES)[number];

/** The roles of people of a company, to which one can be invited. */
export const COMPANY_ROLES = [
  'owner',
  'administrator',
  'member',
] as const satisfies readonly Role[];
export type CompanyRole = (typeof COMPANY_ROLES)[number];

/** Whether a company fits a role: why not, as it follows the name of the company's field; null: it does. */
export function companyMistake(role: Role, company: string | null): string | null {
  if ((role === 'operator') === (company === null)) return null;
  return role === 'operator'
    ? 'must be left out for an operator'
    : 'must be given for every role but operator';
}

/** Seconds after its last use, and after sign-in, at which a session ends. */
export const SESSION_LIMITS = { idle: 2 * 3600, absolute: 12 * 3600 };
