import { readPassword, verifyPassword } from '../../domain/password.ts';
import { partsOfBrowser } from '../../domain/wording/browser-name.ts';
import { chooseSummary, endSessions } from '../../operations/user.ts';
import { type ListedSession, listSessions } from '../../store/users/session.ts';
import { findUser, wantsSummary } from '../../store/users/user.ts';
import { replacePassword } from '../operator/user.ts';
import {
  backTo,
  change,
  clientOf,
  formAt,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
  sharerOf,
} from '../page/context.ts';
import { actionForm, buttonForm, checkbox, field, formState, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, type Cells, linkButton, muted, page, table, titledCard } from '../page/layout.ts';
import { unitCard } from '../page/price-unit.ts';
import { closeSession } from '../page/session.ts';
import { waitText } from '../process/throttle.ts';
import { knownBrowser, rememberBrowser } from './sign-in-attempt.ts';

/** For every user who may sign in: the own account, signing out. */
export const accountRoutes: readonly Route[] = [
  pageAt('/account', 'account.use', accountPage),
  formAt('/account/password', 'account.use', setPassword, { page: accountPage }),
  formAt('/account/mails', 'account.use', saveMails, { page: accountPage }),
  formAt('/account/sessions/:session/sign-out', 'account.use', endOne),
  formAt('/account/sessions/sign-out-others', 'account.use', endOthers),
  formAt('/sign-out', 'account.use', signOut, { lacking: ['code', 'setup'] }),
];

async function accountPage(c: PageContext, form: Form): Promise<Response> {
  const { user } = c.var.session;
  const state = formState(form, '/account/password');
  const { account, roles, signIn } = c.var.format.words;
  const company =
    user.company_name === null ? '.' : account.of(html`<strong>${user.company_name}</strong>`);
  const body = html`<h1>${account.title}</h1>
<p class="lead">${account.lead({ email: user.email, role: roles[user.role] })}${company}</p>
${user.role === 'member' ? html`<p>${account.member((text) => html`<a href="/">${text}</a>`)}</p>` : ''}
${
  user.has_password
    ? titledCard(
        account.change,
        html`${state.summary}
${saveForm(
  c,
  '/account/password',
  html`${field(state, { name: 'current', label: account.current, type: 'password', required: true, autocomplete: 'current-password' })}
${field(state, { name: 'new', label: account.new, type: 'password', required: true, autocomplete: 'new-password', hint: signIn.passwordHint })}`,
  account.button,
)}`,
      )
    : html`<p class="empty">${account.organisation}</p>`
}
${user.has_password ? factorCard(c) : ''}
${await mailsCard(c, form)}
${unitCard(c)}
${await sessionsCard(c)}
${keptCard(c)}`;
  return page(c, account.title, body);
}

function factorCard(c: PageContext): Html {
  const { second_factor_since: since } = c.var.session.user;
  const { secondFactor } = c.var.format.words;
  const text =
    since === null ? secondFactor.offText : secondFactor.onText(c.var.format.instant(since));
  return titledCard(
    secondFactor.title,
    html`<p>${text}</p>
<div class="actions"><a class="button" href="/account/second-factor">${since === null ? secondFactor.setUpLink : secondFactor.manageLink}</a></div>`,
  );
}

/** For whoever may have summaries, where they are sent. */
async function mailsCard(c: PageContext, form: Form): Promise<Html | ''> {
  const { user } = c.var.session;
  if (c.var.services.mail === null || !['owner', 'administrator'].includes(user.role)) return '';
  const { account } = c.var.format.words;
  const checked = await read(c, (sql) => wantsSummary(sql, user.user_id));
  const state = formState(form, '/account/mails');
  return titledCard(
    account.mails,
    saveForm(
      c,
      '/account/mails',
      checkbox(state, { name: 'summary', label: account.summary, checked }),
      account.saveMails,
    ),
  );
}

async function saveMails(c: PageContext, form: Form): Promise<Response> {
  await change(c, (sql) => chooseSummary(sql, c.var.session.user.user_id, form.checked('summary')));
  return backTo(c, '/account', 'saved');
}

function keptCard(c: PageContext): Html {
  const { company_id: company } = c.var.session.user;
  const { erasure } = c.var.format.words;
  return titledCard(
    erasure.ofYou,
    html`<p>${erasure.ofYouText}</p>
<div class="actions">${company === null ? '' : html`<a class="button" href="/companies/${company}/kept">${erasure.what}</a> `}${linkButton('/account/erasure', erasure.askLink)}</div>`,
  );
}

/** The live sessions of the user. */
async function sessionsCard(c: PageContext): Promise<Html> {
  const { format, session } = c.var;
  const { frame, sessions: words } = format.words;
  const sessions = await read(c, (sql) => listSessions(sql, session.user.user_id, session.digest));
  const named = (browser: string | null) => {
    const known = browser === null ? null : partsOfBrowser(browser);
    return known === null ? (browser ?? words.unknown) : words.on(known);
  };
  const by = ({ second_factor }: ListedSession) => {
    if (second_factor !== null) return words[second_factor];
    return session.user.second_factor_since === null ? words.password : words.waits;
  };
  const cells: Cells<ListedSession> = {
    [words.browser]: ({ browser, is_own }) =>
      html`${named(browser)}${is_own ? html` ${badge('good', words.own)}` : ''}`,
    [words.began]: ({ created_at }) => format.instant(created_at),
    [words.used]: ({ last_seen_at, is_own }) => (is_own ? words.now : format.ago(last_seen_at)),
    [words.by]: by,
    [frame.actions]: ({ id, browser, is_own }) =>
      is_own
        ? muted(words.above)
        : buttonForm(c, `/account/sessions/${id}/sign-out`, words.end, words.endOf(named(browser))),
  };
  return titledCard(
    words.where,
    html`<p>${words.lead}</p>
${table(words.caption, sessions, { cells }, true)}
${
  sessions.length > 1
    ? actionForm(c, '/account/sessions/sign-out-others', words.others, 'danger')
    : ''
}`,
  );
}

async function endOne(c: PageContext): Promise<Response> {
  await change(c, (sql) =>
    endSessions(sql, c.var.session.user.user_id, { only: param(c, 'session') }),
  );
  return backTo(c, '/account', 'session-ended');
}

async function endOthers(c: PageContext): Promise<Response> {
  const { user, digest } = c.var.session;
  await change(c, (sql) => endSessions(sql, user.user_id, { keep: digest }));
  return backTo(c, '/account', 'sessions-ended');
}

async function setPassword(c: PageContext, form: Form): Promise<Response> {
  const wanted = form.required('new', readPassword);
  const hash = await checkPassword(c, form);
  rememberBrowser(c, await replacePassword(c, c.var.session.user.user_id, wanted, hash));
  return backTo(c, '/account', 'password');
}

/**
 * Checks the field `current`, the password of the user who is signed in.
 * @returns its hash
 * @throws FormRefused
 */
export async function checkPassword(c: PageContext, form: Form): Promise<string> {
  const { email } = c.var.session.user;
  const { account } = form.words;
  const current = form.required('current', (text) => text);
  form.check();
  // as at sign-in: nobody may use an open session to guess the password
  const attempt = c.var.services.attempts(clientOf(c), email, await knownBrowser(c, email));
  const seconds = attempt.closedFor();
  if (seconds > 0) form.refuse('current', account.wrongTooOften(waitText(form.words, seconds)));
  form.check();
  attempt.count();
  const hash = await hashIfRight(c, email, current).catch((error: Error) => {
    attempt.forgive(); // the failure is ours
    throw error;
  });
  if (hash === null) form.refuse('current', account.wrong);
  form.check();
  attempt.forgive();
  return hash as string;
}

/** The stored hash of a user's password; null: it is another one. */
async function hashIfRight(
  c: PageContext,
  email: string,
  password: string,
): Promise<string | null> {
  const user = await read(c, (sql) => findUser(sql, email));
  const hash = user?.password_hash ?? null;
  return (await c.var.services.hashing.run(sharerOf(c), () => verifyPassword(password, hash)))
    ? hash
    : null;
}

async function signOut(c: PageContext): Promise<Response> {
  await closeSession(c);
  c.header('clear-site-data', '"cache"'); // answers to forms, which browsers keep for Back and Forward
  return backTo(c, '/sign-in', 'signed-out');
}
