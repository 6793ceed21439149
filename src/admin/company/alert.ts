import { CONFIRM_PATH, STANDARD_PERCENTS } from '../../domain/event.ts';
import { readEmail, readPercents } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { confirmationMail } from '../../domain/wording/alert.ts';
import { instantText } from '../../domain/wording/person-mail.ts';
import {
  addReceiver,
  askAgain,
  changeReceiver,
  MOST_RECEIVERS,
  removeReceiver,
} from '../../operations/alert.ts';
import {
  type AlertChoice,
  type AlertReceiverRow,
  CONFIRM_DAYS,
  findReceiver,
  listReceivers,
} from '../../store/users/alert-receiver.ts';
import { askedFirst } from '../page/confirmation.ts';
import {
  backTo,
  change,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  presentCompany,
  type Route,
  read,
  removal,
} from '../page/context.ts';
import {
  buttonForm,
  checkbox,
  createCard,
  type FormState,
  field,
  formState,
  saveForm,
} from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import {
  badge,
  cancelLink,
  companyHeading,
  dangerLink,
  linkButton,
  muted,
  page,
  table,
} from '../page/layout.ts';
import { countInvitation } from './invite.ts';
import { languageForOutsider, sendMail, wordsFor } from './mail.ts';

const BASE = '/companies/:company/alerts';
const ONE = `${BASE}/:receiver`;
const WRITE = 'alert.write';

/** Who of a company is told of its budgets by e-mail, and at which percentages. */
export const alertRoutes: readonly Route[] = [
  pageAt(BASE, 'alert.read', listPage),
  formAt(BASE, WRITE, add, { permits: 'mails', page: listPage }),
  formAt(ONE, WRITE, save, { page: listPage }),
  formAt(`${ONE}/ask`, WRITE, again, { permits: 'mails', page: listPage }),
  ...askedFirst(`${ONE}/remove`, WRITE, askRemoval, remove),
];

const STANDARD: AlertChoice = { percents: STANDARD_PERCENTS, forecast: true };

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { id, name } = presentCompany(c);
  const receivers = await read(c, (sql) => listReceivers(sql, id));
  const { alerts: words, settings } = c.var.format.words;
  const base = `/companies/${id}/alerts`;
  const team = receivers.find(({ email }) => email === null);
  const chosen = form.path ?? `${base}/${c.req.query('rule')}`;
  const changed = receivers.find((row) => chosen === `${base}/${row.id}`);
  const ruleForm = changed
    ? changeForm(c, form, base, changed)
    : addForm(c, form, base, team === undefined);
  const body = html`${companyHeading(c)}<h1>${words.title}</h1>
<p class="lead">${words.lead}</p>
${c.var.services.mail === null ? html`<p class="notice warn-notice">${words.noMail}</p>` : ''}
${changed !== undefined || form.path === null || form.path === base ? '' : formState(form, form.path).summary}
${receiverTable(c, base, team === undefined ? [null, ...receivers] : receivers)}
${mayNow(c, WRITE) ? ruleForm : ''}
<p><a href="/companies/${id}/settings">${settings.title}</a></p>`;
  return page(c, words.of(name), body);
}

/** @param rows null: owners and administrators, for whom there is no line */
function receiverTable(
  c: PageContext,
  base: string,
  rows: readonly (AlertReceiverRow | null)[],
): Html {
  const { alerts: words, frame } = c.var.format.words;
  const mayWrite = mayNow(c, 'alert.write');
  return table(words.caption, rows, {
    cells: {
      [words.receiver]: (row) =>
        row === null || row.email === null
          ? html`${words.team}<br>${muted(words.withoutLine)}`
          : row.email,
      [words.toldAt]: (row) => toldText(words, row ?? STANDARD),
      [words.state]: (row) => stateOf(c, row),
      [frame.actions]: (row) =>
        !mayWrite
          ? muted(frame.none)
          : row === null
            ? html`<a href="${base}#create">${words.addLine}</a>`
            : html`<span class="row-actions">${linkButton(`${base}?rule=${row.id}#rule`, words.change, words.changeOf(row.email ?? words.team))}
${isWaiting(row) ? askButton(c, base, row) : ''}${dangerLink(`${base}/${row.id}/remove`, words.remove, row.email ?? words.teamLine)}</span>`,
    },
  });
}

function askButton(c: PageContext, base: string, { id, email }: AlertReceiverRow): Html {
  const { alerts: words } = c.var.format.words;
  return buttonForm(c, `${base}/${id}/ask`, words.askAgain, words.to(email ?? ''));
}

/** An address outside the company that has not agreed. */
function isWaiting({ is_person, confirmed_at }: AlertReceiverRow): boolean {
  return !is_person && confirmed_at === null;
}

function stateOf(c: PageContext, row: AlertReceiverRow | null): Html | string {
  const { format, services } = c.var;
  const { alerts: words } = format.words;
  if (row === null || row.is_person) return words.ofCompany;
  if (row.confirmed_at !== null) return html`${words.agreed(format.instant(row.confirmed_at))}`;
  const waiting = badge('warn', words.notAgreed);
  if (row.expires_at === null) return waiting;
  return row.expires_at.getTime() > services.clock()
    ? html`${waiting}<br>${muted(html`${words.linkUntil(format.instant(row.expires_at))}`)}`
    : html`${waiting}<br>${muted(words.linkEnded)}`;
}

function toldText(words: Words['alerts'], { percents, forecast }: AlertChoice): string {
  return words.told({ percents: percents.map(String), forecast });
}

function choiceFields(
  state: FormState,
  words: Words['alerts'],
  { percents, forecast }: AlertChoice,
): Html {
  return html`${field(state, { name: 'percents', label: words.percents, value: percents.join(', '), hint: words.percentsHint })}
${checkbox(state, { name: 'forecast', label: words.forecast, hint: words.forecastHint, checked: forecast })}`;
}

function addForm(c: PageContext, form: Form, base: string, isTeamFree: boolean): Html {
  const { alerts: words } = c.var.format.words;
  const canAsk = c.var.services.mail !== null && c.var.services.adminUrl !== null;
  const hints = [
    ...(isTeamFree ? [words.emailForTeam] : []),
    canAsk ? words.emailAsked(CONFIRM_DAYS) : words.emailOwn,
  ];
  return createCard(c, form, {
    path: base,
    title: words.add,
    button: words.addButton,
    isFirst: false,
    fields: (
      state,
    ) => html`${field(state, { name: 'email', label: words.email, type: 'email', hint: hints.join(' ') })}
${choiceFields(state, words, STANDARD)}
<p class="hint">${words.most(MOST_RECEIVERS)}</p>`,
  });
}

/** The form of a rule that is there; it takes the place of that for a new one. */
function changeForm(c: PageContext, form: Form, base: string, row: AlertReceiverRow): Html {
  const { alerts: words } = c.var.format.words;
  const path = `${base}/${row.id}`;
  const state = formState(form, path);
  return html`<section class="card" id="rule"><h2>${words.toldOf(row.email)}</h2>${state.summary}
${saveForm(c, path, choiceFields(state, words, row), words.save, cancelLink(c, base))}</section>`;
}

function readChoice(form: Form): AlertChoice {
  return {
    percents: form.optional('percents', readPercents) ?? [],
    forecast: form.checked('forecast'),
  };
}

async function add(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const { services, session } = c.var;
  const email = form.optional('email', readEmail);
  const choice = readChoice(form);
  form.check();
  if (email !== null) countInvitation(c, form, company);
  const canAsk = services.mail !== null && services.adminUrl !== null;
  const added = { ...choice, email, language: languageForOutsider(c, presentCompany(c)) };
  const { receiver, token } = await change(c, (sql) =>
    addReceiver(sql, company, added, session.user.email, canAsk),
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
  if (token === null) return backTo(c, base, done);
  const { adminUrl, brand, calendar, clock } = c.var.services;
  const { name: company } = presentCompany(c);
  const words = wordsFor(receiver);
  const link = new URL(CONFIRM_PATH + token, adminUrl as string).href;
  const until = instantText(
    new Date(clock() + CONFIRM_DAYS * 86_400_000),
    calendar.timeZone,
    words,
  );
  const { user } = c.var.session;
  const by = user.role === 'operator' ? null : user.email;
  const message = confirmationMail({ company, by, link, until }, words, brand);
  const sent = await sendMail(
    c,
    receiver.email as string,
    message,
    'the question whether somebody wants budget alerts',
  );
  return backTo(c, base, sent ? 'receiver-asked' : 'receiver-unsent');
}

async function again(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  countInvitation(c, form, company);
  const { receiver, token } = await change(c, (sql) =>
    askAgain(sql, company, param(c, 'receiver')),
  );
  return asked(c, receiver, token, 'receiver-asked');
}

async function save(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const choice = readChoice(form);
  form.check();
  await change(c, (sql) => changeReceiver(sql, company, param(c, 'receiver'), choice));
  return backTo(c, `/companies/${company}/alerts`, 'saved');
}

async function askRemoval(c: PageContext) {
  const { email, is_person, company_id } = await find(c);
  const { alerts: words } = c.var.format.words;
  const name = email ?? words.teamLine;
  const text = html`<p>${is_person ? words.removePerson : words.removeOutsider(name)}</p>`;
  return {
    title: words.removeHeading(name),
    text,
    button: words.remove,
    back: `/companies/${company_id}/alerts`,
  };
}

async function remove(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  await removal(c, (sql) => removeReceiver(sql, param(c, 'receiver'), company));
  return backTo(c, `/companies/${company}/alerts`, 'removed');
}

function find(c: PageContext): Promise<AlertReceiverRow> {
  return read(c, (sql) => findReceiver(sql, param(c, 'receiver'), param(c, 'company')));
}
