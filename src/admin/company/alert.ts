import { readEmail, readPercents } from '../../domain/field.ts';
import { CONFIRM_PATH, confirmationMail, STANDARD_PERCENTS } from '../../domain/text/alert.ts';
import { instantText } from '../../domain/text/invitation.ts';
import { addReceiver, askAgain, changeReceiver, MOST_RECEIVERS } from '../../operations/alert.ts';
import { findCompany } from '../../store/company/company.ts';
import {
  type AlertChoice,
  type AlertReceiverRow,
  CONFIRM_DAYS,
  findReceiver,
  listReceivers,
  removeReceiver,
} from '../../store/people/alert-receiver.ts';
import { change, mayNow, type PageContext, param, type Route, read, readOfCompany, removal } from '../page/context.ts';
import { checkbox, createCard, csrfInput, type FormState, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, confirmation, muted, page, table } from '../page/layout.ts';
import { countInvitation } from './invite.ts';
import { sendMail } from './mail.ts';

const BASE = '/companies/:company/alerts';
const ONE = `${BASE}/:receiver`;
const WRITE = { action: 'alert.write' } as const;

/** Who of a company is told of its budgets by e-mail, and at which percentages. */
export const alertRoutes: readonly Route[] = [
  { method: 'GET', path: BASE, action: 'alert.read', handle: listPage },
  { method: 'POST', path: BASE, ...WRITE, permits: 'mails', handle: add, page: listPage },
  { method: 'GET', path: ONE, ...WRITE, handle: editPage },
  { method: 'POST', path: ONE, ...WRITE, handle: save, page: editPage },
  { method: 'POST', path: `${ONE}/ask`, ...WRITE, permits: 'mails', handle: again, page: listPage },
  { method: 'GET', path: `${ONE}/remove`, ...WRITE, handle: removePage },
  { method: 'POST', path: `${ONE}/remove`, ...WRITE, handle: remove },
];

const TEAM = 'Owners and administrators';
const STANDARD: AlertChoice = { percents: STANDARD_PERCENTS, forecast: true };

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const { company, receivers } = await read(c, async (sql) => ({
    company: await findCompany(sql, id),
    receivers: await listReceivers(sql, id),
  }));
  const base = `/companies/${id}/alerts`;
  const team = receivers.find(({ email }) => email === null);
  const body = html`${companyHeading(c, company)}<h1>Budget alerts</h1>
<p class="lead">An e-mail when a part of a monthly budget is used: that of the company, and those of keys that have one. Each is sent once a month.</p>
${c.var.services.mail === null ? html`<p class="notice warn-notice">This service sends no e-mails: its operator has set no mail server. Your choice is kept until it does.</p>` : ''}
${form.path === null || form.path === base ? '' : formState(form, form.path).summary}
${receiverTable(c, base, team === undefined ? [null, ...receivers] : receivers)}
${mayNow(c, 'alert.write') ? addForm(c, form, base, team === undefined) : ''}
<p><a href="/companies/${id}/settings">Settings</a></p>`;
  return page(c, `Budget alerts of ${company.name}`, body);
}

/** @param rows null: owners and administrators, for whom there is no line */
function receiverTable(c: PageContext, base: string, rows: readonly (AlertReceiverRow | null)[]): Html {
  const mayWrite = mayNow(c, 'alert.write');
  return table('Who is told', rows, {
    cells: {
      Receiver: (row) =>
        row === null || row.email === null ? html`${TEAM}<br>${muted('who have no line of their own')}` : row.email,
      'Told at': (row) => choiceText(row ?? STANDARD),
      State: (row) => stateOf(c, row),
      Actions: (row) =>
        !mayWrite || row === null
          ? muted(row === null ? 'add a line to change it' : 'none')
          : html`<span class="row-actions"><a class="button quiet" href="${base}/${row.id}">Change<span class="sr"> what ${nameOf(row)} are told</span></a>
${isWaiting(row) ? button(c, `${base}/${row.id}/ask`, 'Send the link again', row) : ''}<a class="button danger" href="${base}/${row.id}/remove">Remove<span class="sr"> ${nameOf(row)}</span></a></span>`,
    },
  });
}

function button(c: PageContext, action: string, text: string, row: AlertReceiverRow): Html {
  return html`<form method="post" action="${action}" class="inline">${csrfInput(c)}<button class="quiet">${text}<span class="sr">: ${nameOf(row)}</span></button></form>`;
}

function nameOf({ email }: AlertReceiverRow): string {
  return email ?? TEAM.toLowerCase();
}

/** An address outside the company that has not agreed. */
function isWaiting({ is_person, confirmed_at }: AlertReceiverRow): boolean {
  return !is_person && confirmed_at === null;
}

function stateOf(c: PageContext, row: AlertReceiverRow | null): Html | string {
  const { format, services } = c.var;
  if (row === null || row.is_person) return 'of the company';
  if (row.confirmed_at !== null) return html`agreed on ${format.instant(row.confirmed_at)}`;
  if (row.expires_at === null) return badge('warn', 'has not agreed');
  return row.expires_at.getTime() > services.clock()
    ? html`${badge('warn', 'has not agreed')}<br>${muted(html`its link works until ${format.instant(row.expires_at)}`)}`
    : html`${badge('warn', 'has not agreed')}<br>${muted('its link has ended')}`;
}

/** "50, 80 and 100 %, and when the forecast passes the budget". */
function choiceText({ percents, forecast }: AlertChoice): Html | string {
  const listed = percents.map(String);
  const last = listed.pop();
  const told = [
    ...(last === undefined ? [] : [`${listed.length === 0 ? '' : `${listed.join(', ')} and `}${last} %`]),
    ...(forecast ? ['the forecast'] : []),
  ];
  return told.length === 0 ? muted('nothing') : told.join(', and ');
}

function choiceFields(state: FormState, { percents, forecast }: AlertChoice): Html {
  return html`${field(state, { name: 'percents', label: 'Percentages of the budget', value: percents.join(', '), hint: 'Whole ones from 1 to 100, ten at most; empty for none.' })}
${checkbox(state, { name: 'forecast', label: 'The forecast too', hint: 'From the third day of the month on: when the month will pass the budget at its pace.', checked: forecast })}`;
}

function addForm(c: PageContext, form: Form, base: string, isTeamFree: boolean): Html {
  const canAsk = c.var.services.mail !== null && c.var.services.adminUrl !== null;
  const hint = `${isTeamFree ? `Empty for ${TEAM.toLowerCase()} who have no line of their own. ` : ''}${
    canAsk
      ? `An address that is none of your people’s is sent a link first, and told nothing until its reader agrees, within ${CONFIRM_DAYS} days.`
      : 'Of one of your people: this service cannot ask other readers whether they agree.'
  }`;
  return createCard(c, form, {
    path: base,
    title: 'Add a receiver, or change who is told at what',
    button: 'Add',
    isFirst: false,
    fields: (state) => html`${field(state, { name: 'email', label: 'E-mail address', type: 'email', hint })}
${choiceFields(state, STANDARD)}
<p class="hint">At most ${MOST_RECEIVERS} lines. Whoever has one is told what it says and nothing else.</p>`,
  });
}

function readChoice(form: Form): AlertChoice {
  return { percents: form.optional('percents', readPercents) ?? [], forecast: form.checked('forecast') };
}

async function add(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const { services, session } = c.var;
  const email = form.optional('email', readEmail);
  const choice = readChoice(form);
  form.check();
  if (email !== null) countInvitation(c, form, company);
  const canAsk = services.mail !== null && services.adminUrl !== null;
  const { receiver, token } = await change(c, (sql) =>
    addReceiver(sql, company, { ...choice, email }, session.user.email, canAsk),
  );
  return asked(c, receiver, token, 'receiver-added');
}

/** Sends the link to an address outside the company, and leads back to the list. */
async function asked(
  c: PageContext,
  receiver: AlertReceiverRow,
  token: string | null,
  done: string,
): Promise<Response> {
  const base = `/companies/${receiver.company_id}/alerts`;
  if (token === null) return c.redirect(`${base}?done=${done}`, 303);
  const { adminUrl, calendar, clock } = c.var.services;
  const { name } = await read(c, (sql) => findCompany(sql, receiver.company_id));
  const link = new URL(CONFIRM_PATH + token, adminUrl as string).href;
  const until = instantText(new Date(clock() + CONFIRM_DAYS * 86_400_000), calendar.timeZone);
  const { user } = c.var.session;
  const message = confirmationMail(name, user.role === 'operator' ? null : user.email, link, until);
  const sent = await sendMail(
    c,
    receiver.email as string,
    message,
    'the question whether somebody wants budget alerts',
  );
  return c.redirect(`${base}?done=${sent ? 'receiver-asked' : 'receiver-unsent'}`, 303);
}

async function again(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  countInvitation(c, form, company);
  const { receiver, token } = await change(c, (sql) => askAgain(sql, company, param(c, 'receiver')));
  return asked(c, receiver, token, 'receiver-asked');
}

async function editPage(c: PageContext, form: Form): Promise<Response> {
  const [company, receiver] = await readOfCompany(c, (sql, id) => findReceiver(sql, id, param(c, 'receiver')));
  const base = `/companies/${company.id}/alerts`;
  const path = `${base}/${receiver.id}`;
  const state = formState(form, path);
  const title = receiver.email === null ? 'What owners and administrators are told' : `What ${receiver.email} is told`;
  const body = html`${companyHeading(c, company)}<h1>${title}</h1>
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${choiceFields(state, receiver)}
<div class="actions"><button class="primary">Save</button> <a class="button quiet" href="${base}">Cancel</a></div></form></section>`;
  return page(c, title, body);
}

async function save(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const choice = readChoice(form);
  form.check();
  await change(c, (sql) => changeReceiver(sql, company, param(c, 'receiver'), choice));
  return c.redirect(`/companies/${company}/alerts?done=saved`, 303);
}

async function removePage(c: PageContext): Promise<Response> {
  const [company, receiver] = await readOfCompany(c, (sql, id) => findReceiver(sql, id, param(c, 'receiver')));
  const base = `/companies/${company.id}/alerts`;
  const name = receiver.email ?? `the line for ${TEAM.toLowerCase()}`;
  const text = receiver.is_person
    ? html`<p>Whoever has no line is told as all owners and administrators are, members nothing. Where there is no line for these either, they are told at 50, 80 and 100 %, and when the forecast passes the budget.</p>`
    : html`<p>${receiver.email} is told nothing any more. To be told again, its reader has to agree again.</p>`;
  const body = html`${companyHeading(c, company)}<h1>Remove ${name}?</h1>
${confirmation(c, { action: `${base}/${receiver.id}/remove`, button: 'Remove', back: base, text })}`;
  return page(c, `Remove ${name}`, body);
}

async function remove(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  await removal(c, (sql) => removeReceiver(sql, company, param(c, 'receiver')));
  return c.redirect(`/companies/${company}/alerts?done=removed`, 303);
}
