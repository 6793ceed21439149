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
import { countRecoveryCodes } from '../../store/users/second-factor.ts';
import { tellOfAccount } from '../company/mail.ts';
import {
  backTo,
  changeAsOperator as change,
  formAt,
  type PageContext,
  pageAt,
  type Route,
  read,
} from '../page/context.ts';
import { actionForm, type FormState, field, formState, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { copyable, page, titledCard } from '../page/layout.ts';
import { replaceSession } from '../page/session.ts';
import {
  gonePage,
  neverCompressed,
  redirectToSecret,
  secretOf,
  shownPage,
} from '../page/shown-once.ts';
import { checkPassword } from './account.ts';
import { checkCode, codeField, codeFields } from './code.ts';

const PATH = '/account/second-factor';
/** Also open to a session that has to set one up first. */
const OPEN = { lacking: ['setup'] } as const;

/** The own second factor: setting it up, recovery codes, another app, turning it off. */
export const secondFactorRoutes: readonly Route[] = [
  pageAt(PATH, 'account.use', factorPage, OPEN),
  formAt(PATH, 'account.use', begin, { ...OPEN, page: factorPage }),
  formAt(`${PATH}/confirm`, 'account.use', confirm, { ...OPEN, page: factorPage }),
  formAt(`${PATH}/cancel`, 'account.use', cancel, OPEN),
  formAt(`${PATH}/codes`, 'account.use', renew, { page: factorPage }),
  formAt(`${PATH}/off`, 'account.use', off, { page: factorPage }),
  pageAt(`${PATH}/shown`, 'account.use', codesPage),
];

async function factorPage(c: PageContext, form: Form): Promise<Response> {
  const { format, services, session } = c.var;
  const { account, secondFactor: words } = format.words;
  const { user } = session;
  const [setup, left] = await read(c, async (sql) => [
    await pendingSetup(sql, user, services.secondFactor, services.brand.name),
    await countRecoveryCodes(sql, user.user_id),
  ]);
  const { second_factor_since: since } = user;
  const isRequired = mustHaveFactor(user.role, services.secondFactor);
  const body = html`<h1>${words.title}</h1>
${isRequired && since === null ? html`<p class="notice warn-notice">${words.mustSetUp}</p>` : ''}
<p class="lead">${words.lead}${since === null ? '' : words.since(format.instant(since))}</p>
${setup !== null ? setupCard(c, form, setup) : since !== null ? onCards(c, form, isRequired, left) : offCard(c, form)}
<p><a href="/account">${account.title}</a></p>`;
  return page(c, words.title, body);
}

function offCard(c: PageContext, form: Form): Html {
  const { secondFactor, oidc } = c.var.services;
  const words = c.var.format.words.secondFactor;
  const state = formState(form, PATH);
  if (secondFactor.keys.length === 0) return html`<p class="empty">${words.noKey}</p>`;
  if (!c.var.session.user.has_password) return html`<p class="empty">${words.organisation}</p>`;
  return titledCard(
    words.setUp,
    html`${state.summary}
<p>${words.apps}</p>
${saveForm(c, PATH, passwordField(c, state), words.begin)}
${oidc === null ? '' : html`<p class="hint">${words.organisationToo}</p>`}`,
  );
}

function passwordField(c: PageContext, state: FormState): Html {
  return field(state, {
    name: 'current',
    label: c.var.format.words.secondFactor.password,
    type: 'password',
    required: true,
    autocomplete: 'current-password',
  });
}

function setupCard(c: PageContext, form: Form, { secret, uri }: Setup): Html {
  const words = c.var.format.words.secondFactor;
  const state = formState(form, `${PATH}/confirm`);
  neverCompressed(c);
  const picture = renderSVG(uri, { border: 4, pixelSize: 4 }).replace(
    '<svg',
    `<svg role="img" aria-label="${words.qr}"`,
  );
  return html`${titledCard(
    words.scan,
    html`<div class="qr">${raw(picture)}</div>
<details><summary>${words.cannotScan}</summary>
<p>${words.typeKey}</p>
${copyable(c, 'secret', words.key, secret.replaceAll(/.{4}(?=.)/g, '$& '))}</details>`,
  )}
${titledCard(
  words.typeCode,
  html`${state.summary}
${saveForm(c, `${PATH}/confirm`, codeField(state, words, true), words.turnOn)}
${actionForm(c, `${PATH}/cancel`, words.stop, 'quiet')}`,
)}`;
}

function onCards(c: PageContext, form: Form, isRequired: boolean, left: number): Html {
  const words = c.var.format.words.secondFactor;
  const codes = formState(form, `${PATH}/codes`);
  const move = formState(form, PATH);
  const turnedOff = formState(form, `${PATH}/off`);
  return html`${titledCard(
    words.codes,
    html`${codes.summary}
<p>${words.codesText(left)}</p>
${openIf(
  codes,
  words.newCodes,
  saveForm(c, `${PATH}/codes`, codeFields(codes, words), words.makeCodes),
)}`,
  )}
${titledCard(
  words.other,
  html`${move.summary}
<p>${words.otherText}</p>
${openIf(
  move,
  words.move,
  saveForm(c, PATH, html`${passwordField(c, move)}${codeFields(move, words)}`, words.goOn),
)}`,
)}
${
  isRequired
    ? html`<p class="empty">${words.required}</p>`
    : titledCard(
        words.off,
        html`${turnedOff.summary}
<p>${words.offHint}</p>
${openIf(
  turnedOff,
  words.turnOff,
  saveForm(c, `${PATH}/off`, codeFields(turnedOff, words), words.offButton, '', 'danger'),
)}`,
      )
}`;
}

/** Three forms that ask for a code are folded, and the one that was sent is open. */
function openIf(state: FormState, title: string, form: Html): Html {
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
  const codes = await change(c, (sql) =>
    confirmSetup(sql, user, code, services.secondFactor, services.clock()),
  );
  if (codes === null) form.refuse('sign-in.code', form.words.secondFactor.clock);
  form.check();
  tellOfAccount(c, user.user_id, { kind: 'on' });
  return showCodes(c, codes as readonly string[]);
}

async function renew(c: PageContext, form: Form): Promise<Response> {
  const { user } = c.var.session;
  await checkCode(c, form);
  const codes = await change(c, (sql) => renewRecoveryCodes(sql, user));
  tellOfAccount(c, user.user_id, { kind: 'codes' });
  return showCodes(c, codes);
}

/** Redirects to the only page that shows recovery codes. Under a new token: the session has given a code. */
async function showCodes(c: PageContext, codes: readonly string[]): Promise<Response> {
  const { services, session } = c.var;
  const raised = await replaceSession(c, session);
  if (raised === null) return backTo(c, '/sign-in', 'ended');
  c.set('session', raised);
  return redirectToSecret(c, `${PATH}/shown`, codes.join('\n'), new Date(services.clock()));
}

async function off(c: PageContext, form: Form): Promise<Response> {
  const { services, session } = c.var;
  await checkCode(c, form);
  await change(c, (sql) => turnOff(sql, session.user, services.secondFactor));
  tellOfAccount(c, session.user.user_id, { kind: 'off' });
  return backTo(c, PATH, 'factor-off');
}

async function codesPage(c: PageContext): Promise<Response> {
  const words = c.var.format.words.secondFactor;
  const codes = secretOf(c);
  const after = html`<p><a class="button primary" href="${PATH}">${codes === null ? words.toFactor : words.kept}</a></p>`;
  if (codes === null)
    return gonePage(c, {
      title: words.gone,
      text: html`<p>${words.goneText(REVEAL_SECONDS)}</p>`,
      after,
    });
  return shownPage(c, {
    title: words.isOn,
    name: words.codes,
    once: words.once,
    reload: words.reload(REVEAL_SECONDS),
    body: html`<section class="card reveal"><p>${words.keepThem}</p>
${copyable(c, 'codes', words.codes, codes)}</section>`,
    after,
  });
}
