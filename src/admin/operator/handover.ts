import type { Onboarded } from '../../operations/onboarding.ts';
import { findKey } from '../../store/company/key.ts';
import { REVEAL_SECONDS } from '../../store/company/key-reveal.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import {
  invitationCard,
  type ShownInvitation,
  sendInvitation,
  shownInvitation,
} from '../company/invite.ts';
import { keyCard } from '../company/key-reveal.ts';
import { type PageContext, pageAt, param, read } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { titledCard } from '../page/layout.ts';
import { gonePage, redirectToSecret, secretOf, shownPage } from '../page/shown-once.ts';

/** The page that follows the one on which a company is created: all that its operator hands over, shown once. */

export const handoverRoute = pageAt(
  '/companies/:company/onboarding/shown',
  'company.create',
  handoverPage,
  { whileClosed: true },
);

/** What was made, null where it was not asked for. */
interface Shown {
  readonly key: { readonly id: string; readonly text: string } | null;
  readonly invitation: ShownInvitation | null;
}

/**
 * Sends the invitation, where that is set up, and redirects to the page that shows what was made.
 * @param hasOwner somebody was invited
 */
export async function redirectToHandover(
  c: PageContext,
  done: Onboarded,
  hasOwner: boolean,
): Promise<Response> {
  const { company, invitation, key, already } = done;
  const path = `/companies/${company.id}/onboarding/shown`;
  const isGone = (key !== null && key.key === null) || (hasOwner && invitation === null); // for who repeats the form too late
  if (isGone) return redirectToSecret(c, path, null, company.created_at);
  const sent = invitation === null || already ? null : await sendInvitation(c, company, invitation);
  const shown: Shown = {
    key: key === null ? null : { id: key.id, text: key.key as string },
    invitation: invitation && shownInvitation(c, invitation, sent),
  };
  return redirectToSecret(c, path, JSON.stringify(shown), company.created_at);
}

async function handoverPage(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const text = secretOf(c);
  const shown = text === null ? null : (JSON.parse(text) as Shown);
  const { company, key } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    key: shown?.key ? await findKey(sql, shown.key.id, id) : null,
  }));
  if (shown === null) {
    const text = html`<p><strong>${company.name}</strong> was created with all that was asked for. Link and key are shown to whoever created it only, and for ${REVEAL_SECONDS} seconds: after that nobody can read them.</p>
<p>If nobody has the link, <a href="/companies/${id}/users">renew the invitation</a>; if nobody has the key, <a href="/companies/${id}/keys">replace it</a>.</p>`;
    return gonePage(c, { title: 'Link and key can no longer be shown', text });
  }
  const { invitation } = shown;
  const what = [...(invitation ? ['link'] : []), ...(key ? ['key'] : [])];
  const body = html`${invitation === null ? '' : html`<h2>For its owner</h2>${invitationCard(c, company, invitation)}`}
${key === null ? '' : html`<h2>For whoever builds with it</h2>${keyCard(c, company, { ...key, key: shown.key?.text as string })}`}
${nextSteps(c, id, shown)}`;
  return shownPage(c, {
    title: `${company.name} is ready`,
    once:
      what.length === 0 ? '' : `This is the only time the ${what.join(' and the ')} can be seen.`,
    reload: `For ${REVEAL_SECONDS} seconds a reload of this page shows the same again.`,
    body,
  });
}

function nextSteps(c: PageContext, id: string, { key, invitation }: Shown): Html {
  const base = `/companies/${id}`;
  const steps = [
    invitation === null
      ? html`<a href="${base}/users">Invite its owner</a>, who then sets the budget, makes keys and invites others.`
      : invitation.sent === true
        ? html`The owner opens the link of the e-mail, chooses a password, and then invites others and makes keys.`
        : html`Give the link to <strong>${invitation.email}</strong>, who chooses a password with it, and then invites others and makes keys.`,
    key === null
      ? html`<a href="${base}/keys">Make a key</a>, or leave that to the owner. The base address is <code>${c.var.services.publicUrl}</code>.`
      : html`Give the key on by a way that others cannot read, with the base address <code>${c.var.services.publicUrl}</code>. The call above works as it is.`,
    html`A call stands in its <a href="${base}/requests">requests</a> at once, and in its <a href="${base}/usage">usage</a> with what it cost.`,
    html`Budget, EU gate and limits are changed in its <a href="${base}/settings">settings</a>, models in its <a href="${base}/models">list of models</a>.`,
  ];
  return html`${titledCard('Next steps', html`<ol>${steps.map((step) => html`<li>${step}</li>`)}</ol>`)}
<p><a class="button primary" href="${base}/usage">${key === null && invitation === null ? 'Open company' : 'Done, open company'}</a></p>`;
}
