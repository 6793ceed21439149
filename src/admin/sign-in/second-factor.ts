import { renderSVG } from 'uqr';
import {
  beginSetup,
  cancelSetup,
  confirmSetup,
  mustHaveFactor,
  pendingSetup,
  renewRecoveryCodes,
  type Setup,
  turnOff,
} from '../../operations/second-factor.ts';
import { REVEAL_SECONDS } from '../../store/company/key-reveal.ts';
import { countRecoveryCodes } from '../../store/people/second-factor.ts';
import { tellOfFactor } from '../company/mail.ts';
import { changeAsOperator as change, type PageContext, type Route, read } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { copyable, page } from '../page/layout.ts';
import { redirectToSecret, secretOf } from '../page/shown-once.ts';
import { checkPassword } from './account.ts';
import { checkCode, codeFields } from './code.ts';

const PATH = '/account/second-factor';
/** For who has to set one up before anything else, too. */
const OPEN = { action: 'account.use', lacking: ['setup'] } as const;

/** The own second factor: setting it up, recovery codes, another app, turning it off. */
export const secondFactorRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, ...OPEN, handle: factorPage },
  { method: 'POST', path: PATH, ...OPEN, handle: begin, page: factorPage },
  { method: 'POST', path: `${PATH}/confirm`, ...OPEN, handle: confirm, page: factorPage },
  { method: 'POST', path: `${PATH}/cancel`, ...OPEN, handle: cancel },
  { method: 'POST', path: `${PATH}/codes`, action: 'account.use', handle: renew, page: factorPage },
  { method: 'POST', path: `${PATH}/off`, action: 'account.use', handle: off, page: factorPage },
  { method: 'GET', path: `${PATH}/shown`, action: 'account.use', handle: shownPage },
];

async function factorPage(c: PageContext, form: Form): Promise<Response> {
  const { services, session } = c.var;
  const { user } = session;
  const [setup, left] = await read(c, async (sql) => [
    await pendingSetup(sql, user, services.secondFactor),
    await countRecoveryCodes(sql, user.user_id),
  ]);
  const isOn = user.second_factor_since !== null;
  const isRequired = mustHaveFactor(user.role, services.secondFactor);
  const body = html`<h1>Second factor</h1>
${isRequired && !isOn ? html`<p class="notice warn-notice">This service requires a second factor of you: set it up to go on.</p>` : ''}
<p class="lead">After your password, signing in asks for a code that an app on your phone shows. ${
    isOn ? html`It has been so since ${c.var.format.instant(user.second_factor_since as Date)}.` : ''
  }</p>
${setup !== null ? setupCard(c, form, setup) : isOn ? onCards(c, form, isRequired, left) : offCard(c, form)}
<p><a href="/account">Your account</a></p>`;
  return page(c, 'Second factor', body);
}

function offCard(c: PageContext, form: Form): Html {
  const { secondFactor, oidc } = c.var.services;
  const state = formState(form, PATH);
  if (secondFactor.keys.length === 0) {
    return html`<p class="empty">This service has no key for second factors. Its operator sets <code>SECOND_FACTOR_KEY</code>.</p>`;
  }
  if (!c.var.session.user.has_password) {
    return html`<p class="empty">You sign in with your organisation, whose identity provider is your second factor.</p>`;
  }
  return html`<section class="card"><h2>Set it up</h2>${state.summary}
<p>You need an app for one-time codes, such as Aegis, 2FAS, Google Authenticator, Microsoft Authenticator or your password manager.</p>
<form method="post" action="${PATH}" class="stack">${csrfInput(c)}
${passwordField(state)}
<div class="actions"><button class="primary">Set up</button></div></form>
${oidc === null ? '' : html`<p class="hint">Signing in with your organisation asks for no code here: its identity provider is the second factor.</p>`}</section>`;
}

function passwordField(state: ReturnType<typeof formState>): Html {
  return field(state, {
    name: 'current',
    label: 'Your password',
    type: 'password',
    required: true,
    autocomplete: 'current-password',
  });
}

function setupCard(c: PageContext, form: Form, { secret, uri }: Setup): Html {
  const state = formState(form, `${PATH}/confirm`);
  const picture = renderSVG(uri, { border: 4, pixelSize: 4 }).replace(
    '<svg',
    '<svg role="img" aria-label="QR code for your app"',
  );
  return html`<section class="card"><h2>1. Scan this with your app</h2>
<div class="qr">${raw(picture)}</div>
<details><summary>I cannot scan it</summary>
<p>Type this key into the app, as a key based on time:</p>
${copyable('secret', 'Key for your app', secret.replaceAll(/.{4}(?=.)/g, '$& '))}</details></section>
<section class="card"><h2>2. Type the code that it shows</h2>${state.summary}
<form method="post" action="${PATH}/confirm" class="stack">${csrfInput(c)}
${field(state, { name: 'sign-in.code', label: 'Code of your app', required: true, autocomplete: 'one-time-code', inputmode: 'numeric', secret: true, hint: 'Six digits, which change every half a minute.' })}
<div class="actions"><button class="primary">Turn on</button></div></form>
<form method="post" action="${PATH}/cancel" class="actions">${csrfInput(c)}<button class="quiet">Stop, and change nothing</button></form></section>`;
}

function onCards(c: PageContext, form: Form, isRequired: boolean, left: number): Html {
  const codes = formState(form, `${PATH}/codes`);
  const move = formState(form, PATH);
  const turnedOff = formState(form, `${PATH}/off`);
  return html`<section class="card"><h2>Recovery codes</h2>${codes.summary}
<p>They let you in when you do not have your phone. You have ${left === 0 ? 'none' : left} left. New ones end those you have.</p>
${openIf(
  codes,
  'Make new recovery codes',
  html`<form method="post" action="${PATH}/codes" class="stack">${csrfInput(c)}${codeFields(codes)}
<div class="actions"><button class="primary">Make new codes</button></div></form>`,
)}</section>
<section class="card"><h2>Another phone or app</h2>${move.summary}
<p>The present one holds until you have given a code of the new one.</p>
${openIf(
  move,
  'Move to another app',
  html`<form method="post" action="${PATH}" class="stack">${csrfInput(c)}${passwordField(move)}${codeFields(move)}
<div class="actions"><button class="primary">Go on</button></div></form>`,
)}</section>
${
  isRequired
    ? html`<p class="empty">This service requires a second factor of you: it cannot be turned off.</p>`
    : html`<section class="card"><h2>Turn it off</h2>${turnedOff.summary}
<p>Signing in asks for your password alone then.</p>
${openIf(
  turnedOff,
  'Turn the second factor off',
  html`<form method="post" action="${PATH}/off" class="stack">${csrfInput(c)}${codeFields(turnedOff)}
<div class="actions"><button class="danger">Turn off</button></div></form>`,
)}</section>`
}`;
}

/** Three forms that ask for a code are folded, and the one that was sent is open. */
function openIf(state: ReturnType<typeof formState>, title: string, form: Html): Html {
  return html`<details${state.isSent ? raw(' open') : ''}><summary>${title}</summary>${form}</details>`;
}

async function begin(c: PageContext, form: Form): Promise<Response> {
  const { user } = c.var.session;
  await checkPassword(c, form);
  if (user.second_factor_since !== null) await checkCode(c, form);
  await change(c, (sql) => beginSetup(sql, user, c.var.services.secondFactor));
  return c.redirect(PATH, 303);
}

async function cancel(c: PageContext): Promise<Response> {
  await change(c, (sql) => cancelSetup(sql, c.var.session.user));
  return c.redirect(PATH, 303);
}

async function confirm(c: PageContext, form: Form): Promise<Response> {
  const { services, session } = c.var;
  const { user } = session;
  const code = form.required('sign-in.code', (text) => text);
  form.check();
  const codes = await change(c, (sql) => confirmSetup(sql, user, code, services.secondFactor, services.clock()));
  if (codes === null) form.refuse('sign-in.code', 'is wrong. Is the clock of your phone right?');
  form.check();
  tellOfFactor(c, user.email, { kind: 'on' });
  return showCodes(c, codes as readonly string[]);
}

async function renew(c: PageContext, form: Form): Promise<Response> {
  const { user } = c.var.session;
  await checkCode(c, form);
  const codes = await change(c, (sql) => renewRecoveryCodes(sql, user));
  tellOfFactor(c, user.email, { kind: 'codes' });
  return showCodes(c, codes);
}

/** Redirects to the only page that shows recovery codes. Under a new token: the session has given a code. */
async function showCodes(c: PageContext, codes: readonly string[]): Promise<Response> {
  const { services, session } = c.var;
  const raised = await services.sessions.raise(c, session);
  if (raised === null) return c.redirect('/sign-in?done=ended', 303);
  c.set('session', raised);
  return redirectToSecret(c, `${PATH}/shown`, codes.join('\n'), new Date(services.clock()));
}

async function off(c: PageContext, form: Form): Promise<Response> {
  const { services, session } = c.var;
  await checkCode(c, form);
  await change(c, (sql) => turnOff(sql, session.user, services.secondFactor));
  tellOfFactor(c, session.user.email, { kind: 'off' });
  return c.redirect(`${PATH}?done=factor-off`, 303);
}

async function shownPage(c: PageContext): Promise<Response> {
  const codes = secretOf(c);
  const back = html`<p><a class="button primary" href="${PATH}">I have kept them</a></p>`;
  if (codes === null) {
    c.status(410);
    const body = html`<h1>These codes can no longer be shown</h1>
<section class="card"><p>Recovery codes are shown for ${REVEAL_SECONDS} seconds, and only once. If you did not keep them, make new ones.</p></section>
<p><a class="button primary" href="${PATH}">To the second factor</a></p>`;
    return page(c, 'These codes can no longer be shown', body);
  }
  const body = html`<h1>Your second factor is on</h1>
<div class="notice strong" role="status"><strong>This is the only time your recovery codes are shown.</strong> For ${REVEAL_SECONDS} seconds a reload of this page shows them again.</div>
<section class="card reveal"><p>Print them, or keep them in your password manager: each lets you in once when you do not have your phone.</p>
${copyable('codes', 'Recovery codes', codes)}</section>
${back}`;
  return page(c, 'Recovery codes', body);
}
