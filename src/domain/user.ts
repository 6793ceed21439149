/** Roles of people who sign in to the administration area. Operators belong to no company, the others to one. */
export const ROLES = ['operator', 'owner', 'administrator', 'member'] as const;
export type Role = (typeof ROLES)[number];
