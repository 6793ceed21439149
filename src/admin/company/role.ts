import type { UserRow } from '../../store/people/user.ts';
import { type Html, html } from '../page/html.ts';
import { badge, muted } from '../page/layout.ts';

type Held = Pick<UserRow, 'role' | 'oidc_group'>;

/** The role of somebody in a list, and the group of the identity provider that gives it. */
export function roleCell({ role, oidc_group }: Held): Html {
  return html`${badge('plain', role)}${oidc_group === null ? '' : html`<br>${muted(html`by the group ${oidc_group}`)}`}`;
}

/** What becomes of somebody who is removed, as it follows "is signed out at once and". */
export function comesBack({ oidc_group }: Held): string {
  return oidc_group === null
    ? 'cannot sign in again'
    : `comes back at the next sign-in, unless the identity provider takes the group ${oidc_group} away first`;
}
