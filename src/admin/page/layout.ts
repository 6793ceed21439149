import type { ContentfulStatusCode as Status } from 'hono/utils/http-status';
import { UUID } from '../../domain/field.ts';
import { type Action, may } from '../../operations/permission.ts';
import { ICON, SCRIPT, STYLE } from './assets.ts';
import { budgetNotices } from './budget-notice.ts';
import type { PageContext } from './context.ts';
import { csrfInput } from './field.ts';
import { type Html, html, raw } from './html.ts';

/** The document around every page, and parts that pages share. */

/** The notice of a page after a change, by the parameter `done` of its URL. */
const NOTICES = new Map([
  ['saved', 'Saved. Every gateway applies it within a second.'],
  ['created', 'Created.'],
  ['removed', 'Removed.'],
  ['scheduled', 'The price begins at its date, on every gateway at once.'],
  ['price-withdrawn', 'The price is withdrawn.'],
  ['imported', 'Imported. Every gateway applies it within a second.'],
  ['revoked', 'The key is revoked. Every gateway refuses it within a second.'],
  ['token-revoked', 'The token is revoked.'],
  ['password', 'The password is changed. Other sessions of this user are signed out.'],
  ['session-ended', 'The session is ended.'],
  ['sessions-ended', 'All other sessions are ended.'],
  ['factor-off', 'The second factor is off. Signing in asks for your password alone.'],
  ['factor-reset', 'The second factor is taken away. The person is signed out everywhere.'],
  ['erasure-asked', 'Your request is noted. Those who decide are told.'],
  ['erasure-withdrawn', 'Your request is withdrawn.'],
  ['erased', 'The person is erased.'],
  ['receiver-added', 'Added.'],
  ['receiver-asked', 'Added. The address was sent a link, and is told nothing until its reader agrees.'],
  ['receiver-unsent', 'Added, but the link could not be sent. Send it again in a while.'],
  ['month-closed', 'The month is closed. This is its statement.'],
  ['closed', 'The company is closed. Every gateway refuses its keys within a second.'],
  ['reopened', 'The company is open again. Every gateway accepts its keys within a second.'],
  ['replayed', 'The event is sent again within seconds, once there is a webhook.'],
  ['withdrawn', 'The invitation is withdrawn. Its link does not work any more.'],
  ['joined', 'Welcome. Create a key, and the API is yours to use.'],
  ['signed-out', 'You are signed out.'],
  ['ended', 'Your session ended. Sign in to go on.'],
]);

const OPERATOR_LINKS = {
  '/': 'Overview',
  '/companies': 'Companies',
  '/models': 'Models',
  '/margin': 'Margin',
  '/keys': 'Keys',
  '/users': 'Users',
  '/requests': 'Requests',
  '/audit': 'Audit log',
  '/events': 'Events',
  '/tokens': 'Tokens',
};

/** The pages of a company, and the permission that each needs. */
const COMPANY_TABS: Readonly<Record<string, Action>> = {
  Usage: 'usage.read',
  Statements: 'statement.read',
  Requests: 'request.read',
  Access: 'key.read',
  Models: 'company.read',
  Assistants: 'assistant.read',
  People: 'people.read',
  Settings: 'company.read',
  Audit: 'company-audit.read',
};

/** Pages that a tab leads to although their addresses are not below its own: their parts of the path. */
const BELOW: Readonly<Record<string, readonly string[]>> = {
  Companies: ['companies/statements'],
  Models: ['playground'],
  Settings: ['tokens', 'close', 'kept', 'alerts'],
};

const LOGO = raw(
  '<svg class="logo" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="M3 21V8a9 9 0 0 1 18 0v13h-4V9a5 5 0 0 0-10 0v12z"/><path d="M10.5 11h3v10h-3z"/></svg>',
);

/** Answers with a page for a user who is signed in. Its header has only the links that the user may open. */
export async function page(c: PageContext, title: string, body: Html): Promise<Response> {
  const { user } = c.var.session;
  const links = may(user, 'company.list', null) ? Object.entries(OPERATOR_LINKS) : [];
  const header = html`
<a class="brand" href="/">${LOGO} Tollgate</a>
${links.length === 0 ? '' : html`<nav aria-label="Administration">${links.map(([href, text]) => tab(c, href, text, text === 'Companies' ? BELOW[text] : []))}</nav>`}
<div class="who">${tab(c, '/account', user.email)}
<form method="post" action="/sign-out">${csrfInput(c)}<button class="quiet">Sign out</button></form></div>
`;
  const zone = html`<footer>Times, days and months are those of ${c.var.services.calendar.timeZone}.</footer>`;
  return c.html(document(c, title, header, body, zone));
}

/** Answers with a page that needs no session: sign-in and errors. */
export async function plainPage(c: PageContext, title: string, body: Html, status?: Status): Promise<Response> {
  return c.html(document(c, title, html`<span class="brand">${LOGO} Tollgate</span>`, body), status);
}

function document(c: PageContext, title: string, header: Html, body: Html, footer: Html | string = ''): Html {
  const notice = noticeOf(c);
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${c.var.isRefused ? 'Error: ' : ''}${title} · Tollgate</title>
<link rel="icon" type="image/svg+xml" href="${ICON.path}">
<link rel="stylesheet" href="${STYLE.path}">
<script src="${SCRIPT.path}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="top">${header}</header>
<main id="content">
${notice === undefined ? '' : html`<p class="notice" role="status">${notice}</p>`}${body}
</main>
${footer}
</body>
</html>`;
}

function noticeOf(c: PageContext): Html | string | undefined {
  const done = c.req.query('done') ?? '';
  const key = c.req.query('key') ?? '';
  const text = NOTICES.get(done);
  // the list of active keys does not have it any more
  if (done !== 'revoked' || !UUID.test(key)) return text;
  return html`${text} <a href="${c.req.path}/${key}">Its page</a> tells whether somebody still uses it.`;
}

/** The heading of a company's pages, with links to those that the user may open, and the notices of its budgets. */
export function companyHeading(c: PageContext, company: { readonly id: string; readonly name: string }): Html {
  const { user } = c.var.session;
  const links = Object.entries(COMPANY_TABS)
    .filter(([, action]) => may(user, action, company.id))
    .map(([text]) => tab(c, `/companies/${company.id}/${text.toLowerCase()}`, text, BELOW[text]));
  return html`<div class="company"><p class="eyebrow">Company</p><p class="company-name">${company.name}</p>
<nav class="tabs" aria-label="Company">${links}</nav></div>${closedNotice(c)}${budgetNotices(c, company.id)}`;
}

function closedNotice(c: PageContext): Html | string {
  const { closedAt, format } = c.var;
  return closedAt === null
    ? ''
    : html`<p class="problem"><strong>This company was closed on ${format.instant(closedAt)}.</strong> Its keys are refused with 401, and nothing of it can be changed.</p>`;
}

/**
 * A link that is marked when it leads to this page or one below it.
 * @param below the last parts of other addresses whose pages belong to it
 */
function tab(c: PageContext, href: string, text: string, below: readonly string[] = []): Html {
  const { path } = c.req;
  const isAt = (address: string) => path === address || path.startsWith(`${address}/`);
  // a company's pages are not below the list of companies
  const current =
    path === href || (isAt(href) && href !== '/companies') || below.some((part) => isAt(href.replace(/[^/]+$/, part)));
  return html`<a href="${href}"${current ? raw(' aria-current="page"') : ''}>${text}</a>`;
}

/** The columns of a table. */
export interface Columns<T> {
  /** The cells of a row by their headings. */
  readonly cells: Readonly<Record<string, (row: T) => Html | string | number>>;
  /** Headings of columns that are aligned right, with digits of equal width. */
  readonly figures?: readonly string[];
}

/**
 * A table of at least one row. On a phone each row is shown as a card; explicit roles keep it a table for
 * screen readers.
 * @param isTitled a heading of the page names the table: its caption is for screen readers only
 */
export function table<T>(caption: string, rows: readonly T[], columns: Columns<T>, isTitled = false): Html {
  const { cells, figures = [] } = columns;
  const style = (title: string) => (figures.includes(title) ? raw(' class="figure"') : '');
  return html`<table role="table"><caption${isTitled ? raw(' class="sr"') : ''}>${caption}</caption><thead role="rowgroup"><tr role="row">${Object.keys(
    cells,
  ).map(
    (title) => html`<th role="columnheader" scope="col"${style(title)}>${title}</th>`,
  )}</tr></thead><tbody role="rowgroup">${rows.map(
    (row) =>
      html`<tr role="row">${Object.entries(cells).map(([title, cell], at) =>
        at === 0
          ? html`<th role="rowheader" scope="row">${cell(row)}</th>`
          : html`<td role="cell" data-label="${title}"${style(title)}><span>${cell(row)}</span></td>`,
      )}</tr>`,
  )}</tbody></table>`;
}

/** Says that there is nothing to show. */
export function emptyText(text: Html | string): Html {
  return html`<p class="empty">${text}</p>`;
}

export function badge(tone: 'good' | 'warn' | 'bad' | 'plain' | 'eu', text: string): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** A remark, or a word where there is nothing to show. */
export function muted(text: Html | string): Html {
  return html`<span class="muted">${text}</span>`;
}

/** A row that belongs to one company, or to none. The name is null for none, and for a removed one. */
export interface Owned {
  readonly company_id: string | null;
  readonly company_name: string | null;
}

/** The company of a row by name, with a link to one of its pages. @param none the words if there is none */
export function companyLink({ company_id: id, company_name: name }: Owned, tab = 'usage', none = 'all'): Html {
  if (id === null) return muted(none);
  return name === null ? muted('a removed company') : html`<a href="/companies/${id}/${tab}">${name}</a>`;
}

/** Text to copy, with a button where JavaScript runs. */
export function copyable(id: string, label: string, text: string): Html {
  return html`<figure class="copy"><figcaption>${label}</figcaption><pre tabindex="0" id="${id}" aria-label="${label}">${text}</pre><button type="button" class="quiet" data-copy="${id}" hidden>Copy<span class="sr"> ${label}</span></button></figure>`;
}

interface Confirmation {
  readonly action: string;
  readonly button: string;
  /** Where the link leads that does nothing, and its words. */
  readonly back: string;
  readonly keep?: string;
  readonly text: Html;
  /** Hidden fields. */
  readonly inputs?: Html;
}

/** Asks before something is done that cannot be undone. */
export function confirmation(c: PageContext, spec: Confirmation): Html {
  const { action, button, back, keep = 'Keep it', text, inputs = '' } = spec;
  return html`<section class="card">${text}
<form method="post" action="${action}" class="actions">${csrfInput(c)}${inputs}<button class="danger">${button}</button> <a class="button quiet" href="${back}">${keep}</a></form></section>`;
}
