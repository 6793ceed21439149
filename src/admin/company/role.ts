import type { Words } from '../../domain/language/en.ts';
import type { UserRow } from '../../store/users/user.ts';
import { type Html, html } from '../page/html.ts';
import { badge, muted } from '../page/layout.ts';

type Held = Pick<UserRow, 'role' | 'oidc_group'>;

/** The role of somebody in a list, and the group of the identity provider that gives it. */
export function roleCell({ role, oidc_group }: Held, { roles, members }: Words): Html {
  const by = oidc_group === null ? '' : html`<br>${muted(members.byTheGroup(oidc_group))}`;
  return html`${badge('plain', roles[role])}${by}`;
}

/** Whether a removed person can come back, in words that follow "is signed out at once and". */
export function comesBack({ oidc_group }: Held, { members }: Words): string {
  return oidc_group === null ? members.noReturn : members.returns(oidc_group);
}
