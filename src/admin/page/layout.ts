import type { ContentfulStatusCode as Status } from 'hono/utils/http-status';
import { UUID } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { LANGUAGE_NAMES, LANGUAGES } from '../../domain/languages.ts';
import { type Action, may } from '../../operations/frame/permission.ts';
import { searchable } from '../../operations/search.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import { MAX_SEARCH } from '../../store/lists/search-pattern.ts';
import { ICON, SCRIPT, STYLE } from './assets.ts';
import { budgetNotices } from './budget-notice.ts';
import { companyOf, mayNow, type PageContext, presentCompany } from './context.ts';
import { csrfInput } from './field.ts';
import { type Html, html, raw } from './html.ts';
import { pageLanguage } from './locale.ts';

/** The document around every page, and parts that pages share. */

/** The navigation of operators by groups. The first one needs no name. */
const OPERATOR_LINKS = {
  '': { '/': 'Overview', '/usage': 'Usage' },
  Customers: { '/companies': 'Companies', '/users': 'Users' },
  Service: { '/models': 'Models', '/margin': 'Margin', '/month-end': 'Month-end' },
  Records: {
    '/requests': 'Requests',
    '/audit': 'Audit log',
    '/events': 'Events',
    '/tokens': 'Administration tokens',
  },
};

/** The pages of a company, and the permission that each needs. */
const COMPANY_TABS = {
  usage: 'usage.read',
  statements: 'statement.read',
  requests: 'request.read',
  keys: 'key.read',
  models: 'company.read',
  assistants: 'assistant.read',
  users: 'company-user.read',
  settings: 'company.read',
  audit: 'company-audit.read',
} as const satisfies Readonly<Record<keyof Words['tabs'], Action>>;

/** Those of a member. */
const MEMBER_TABS = {
  'own/keys': 'own-key.read',
  'own/usage': 'own-usage.read',
  'own/requests': 'own-usage.read',
  playground: 'playground.use',
} as const satisfies Readonly<Record<keyof Words['memberTabs'], Action>>;

/** Pages that a tab leads to although their addresses are not below its own: their parts of the path. */
const BELOW: Readonly<Record<string, readonly string[]>> = {
  '/companies': ['companies/new'],
  '/users': ['groups'],
  usage: ['cost-centers', 'cost-center', 'end-users'],
  models: ['playground'],
  settings: ['tokens', 'close', 'kept', 'alerts'],
};

/** The parameter of an address that asks for exact amounts. */
const EXACT = 'exact';

const GATE = raw(
  '<svg class="logo" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="M3 21V8a9 9 0 0 1 18 0v13h-4V9a5 5 0 0 0-10 0v12z"/><path d="M10.5 11h3v10h-3z"/></svg>',
);

/** The sign of the service and its name. */
export function brandMark(c: PageContext): Html {
  const { brand, assets } = c.var.services;
  // the name beside it says the same
  return html`${assets.logo === null ? GATE : html`<img class="logo" src="${assets.logo.path}" alt="">`} <span class="brand-name">${brand.name}</span>`;
}

const LENS = raw(
  '<svg class="lens" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 4 4"/></svg>',
);

/**
 * Answers with a page for a user who is signed in. Its header has only the links that the user may open.
 * @param searched the text in the search of the header
 */
export async function page(
  c: PageContext,
  title: string,
  body: Html,
  searched = '',
): Promise<Response> {
  const { user } = c.var.session;
  const { words } = c.var.format;
  const header = html`
<a class="brand" href="/">${brandMark(c)}</a>
${searchable(user).length === 0 ? '' : searchForm(words.search, searched)}
${may(user, 'company.list', null) ? operatorLinks(c) : ''}
<div class="who">${tab(c, '/account', user.email)}
<form method="post" action="/sign-out">${csrfInput(c)}<button class="quiet">${words.frame.signOut}</button></form></div>
`;
  return c.html(document(c, title, header, body));
}

/** On a phone it is one row that scrolls: each page is one click away, and each group says what it is of. */
function operatorLinks(c: PageContext): Html {
  return html`<nav class="scrolling" aria-label="Administration">${Object.entries(
    OPERATOR_LINKS,
  ).map(([name, links], at) => {
    const tabs = Object.entries(links).map(([href, text]) => tab(c, href, text, BELOW[href]));
    return name === ''
      ? tabs
      : html`<div class="group" role="group" aria-labelledby="links-${at}"><span class="group-name" id="links-${at}">${name}</span>${tabs}</div>`;
  })}</nav>`;
}

/** The search for everything. The key "/" leads to it where JavaScript runs. */
function searchForm({ title, everything }: Words['search'], text: string): Html {
  return html`<form method="get" action="/search" class="find" role="search" aria-label="${everything}"><input id="find" name="q" type="search" maxlength="${MAX_SEARCH}" placeholder="${title}" aria-label="${everything}" aria-keyshortcuts="/" value="${text}"><button class="quiet" aria-label="${everything}">${LENS}</button></form>`;
}

/** Answers with a page that needs no session: sign-in and errors. */
export async function plainPage(
  c: PageContext,
  title: string,
  body: Html,
  status?: Status,
): Promise<Response> {
  return c.html(document(c, title, html`<span class="brand">${brandMark(c)}</span>`, body), status);
}

function document(c: PageContext, title: string, header: Html, body: Html): Html {
  const notice = noticeOf(c);
  const { services, format } = c.var;
  const { assets, brand } = services;
  const { words } = format;
  const icon = assets.logo ?? ICON;
  return html`<!doctype html>
<html lang="${pageLanguage(format.language)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${c.var.isRefused ? words.frame.error : ''}${title} · ${brand.name}</title>
<link rel="icon" type="${icon.type.split(';', 1)}" href="${icon.path}">
<link rel="stylesheet" href="${STYLE.path}">
${
  assets.style === null
    ? ''
    : html`<link rel="stylesheet" href="${assets.style.path}">
`
}<script src="${SCRIPT.path}" defer></script>
</head>
<body>
<a class="skip" href="#content">${words.frame.skip}</a>
<header class="top">${header}</header>
<main id="content">
${notice === undefined ? '' : html`<p class="notice" role="status">${notice}</p>`}${body}
</main>
<footer>${brandLinks(c)}${languageSwitch(c)}</footer>
</body>
</html>`;
}

/** Whether the address asks for amounts with all their digits. */
export function asksExact(c: PageContext): boolean {
  return c.req.query(EXACT) === '1';
}

/** The way to the same page with exact amounts, and back: tooltips are for a mouse alone. */
export function exactSwitch(c: PageContext): Html {
  const { isExact, words } = c.var.format;
  const query = new URL(c.req.url).searchParams;
  if (isExact) query.delete(EXACT);
  else query.set(EXACT, '1');
  return html`<a class="on-screen" href="?${query}">${isExact ? words.numbers.showRounded : words.numbers.showExact}</a>`;
}

/** Where the operator of the service can be reached and what the law asks for. */
function brandLinks(c: PageContext): Html | string {
  const { support, imprint, privacy } = c.var.services.brand;
  const { frame } = c.var.format.words;
  const links = Object.entries({
    [frame.support]: support,
    [frame.imprint]: imprint,
    [frame.privacy]: privacy,
  });
  const given = links.filter(([, href]) => href !== null);
  if (given.length === 0) return '';
  return html`<nav aria-label="${frame.links}">${given.map(([text, href]) => html`<a href="${href}">${text}</a>`)}</nav>`;
}

/** The choice of a language, each by its own name. Pages of operators are in English. */
function languageSwitch(c: PageContext): Html | string {
  const { session, format } = c.var;
  if (session?.user.role === 'operator') return '';
  const present = pageLanguage(format.language);
  const { path } = c.req;
  const back = c.var.pageAddress ?? path + new URL(c.req.url).search;
  return html`<form method="post" action="/language" class="languages" aria-label="${format.words.frame.language}"><input type="hidden" name="back" value="${back}">${LANGUAGES.map(
    (each) =>
      html`<button class="quiet" name="language" value="${each}" lang="${each}"${each === present ? raw(' aria-current="true"') : ''}>${LANGUAGE_NAMES[each]}</button>`,
  )}</form>`;
}

function noticeOf(c: PageContext): Html | string | undefined {
  const done = c.req.query('done') ?? '';
  const key = c.req.query('key') ?? '';
  const { words } = c.var.format;
  const notices: Readonly<Record<string, string>> = words.notices;
  const text = Object.hasOwn(notices, done) ? notices[done] : undefined;
  // the list of active keys does not have it any more
  if (done !== 'revoked' || !UUID.test(key)) return text;
  return html`${text}${words.revokedKey((its) => html`<a href="${c.req.path}/${key}">${its}</a>`)}`;
}

/**
 * The heading of a company's pages, with links to those that the user may open, and the notices of its budgets.
 * @param company default: the one of the path; null: none, and no heading
 */
export function companyHeading(
  c: PageContext,
  company: Pick<CompanyRow, 'id' | 'name'> | null = companyOf(c) === null
    ? null
    : presentCompany(c),
): Html {
  if (company === null) return html``;
  const { user } = c.var.session;
  const { tabs, memberTabs, frame } = c.var.format.words;
  const isMember = may(user, 'own-key.read', company.id);
  const texts: Readonly<Record<string, string>> = isMember ? memberTabs : tabs;
  const links = Object.entries<Action>(isMember ? MEMBER_TABS : COMPANY_TABS)
    .filter(([, action]) => may(user, action, company.id))
    .map(([name]) =>
      tab(c, `/companies/${company.id}/${name}`, texts[name] as string, BELOW[name]),
    );
  const alerts = budgetNotices(c, company.id);
  return html`<div class="company"><p class="eyebrow">${frame.company}</p><p class="company-name">${company.name}${alerts.then(({ dot }) => dot)}</p>
<nav class="tabs scrolling" aria-label="${frame.company}">${links}</nav></div>${closedNotice(c)}${pausedNotice(c)}${alerts.then(({ notices }) => notices)}`;
}

function closedNotice(c: PageContext): Html | string {
  const { company, format } = c.var;
  return company?.closed_at
    ? html`<p class="problem"><strong>${format.words.closedOn(format.instant(company.closed_at))}</strong> ${format.words.closedText}</p>`
    : '';
}

/** Says that a company is paused; to its owners, and to operators, why. */
function pausedNotice(c: PageContext): Html | string {
  const { company, format, session } = c.var;
  if (!company?.paused_at) return '';
  const { id, paused_at: at, pause_reason: reason } = company;
  const { pause: words } = format.words;
  const resume = mayNow(c, 'company.pause')
    ? html` <a href="/companies/${id}/settings#pause">Resume it</a>`
    : html` ${words.byOperatorOnly} ${supportLink(c)}`;
  return html`<p class="problem"><strong>${words.company(format.instant(at))}</strong> ${words.companyText}${reason !== null && may(session.user, 'company-audit.read', id) ? html` ${words.reason(reason)}` : ''}${resume}</p>`;
}

/** The way to the operator of the service, where there is one. */
export function supportLink(c: PageContext): Html | string {
  const { support } = c.var.services.brand;
  return support === null ? '' : html`<a href="${support}">${c.var.format.words.frame.contact}</a>`;
}

/**
 * A link that is marked when it leads to this page or one below it.
 * @param below the last parts of other addresses whose pages belong to it
 */
function tab(c: PageContext, href: string, text: string, below: readonly string[] = []): Html {
  const { path } = c.req;
  const isAt = (address: string) => path === address || path.startsWith(`${address}/`);
  const current = isAt(href) || below.some((part) => isAt(href.replace(/[^/]*$/, part)));
  // a company's pages mark themselves in its own navigation
  const mark =
    href === '/companies' && /^\/companies\/[0-9a-f-]{36}\//.test(path) ? 'true' : 'page';
  return html`<a href="${href}"${current ? raw(` aria-current="${mark}"`) : ''}>${text}</a>`;
}

/** Headings of columns with buttons, which paper leaves out. */
const ACTIONS: ReadonlySet<string> = new Set(
  LANGUAGES.map(wordsOf).flatMap(({ frame, models }) => [frame.actions, models.action]),
);

/** The cells of a row by their headings. */
export type Cells<T> = Columns<T>['cells'];

/** The columns of a table. */
export interface Columns<T> {
  /** The cells of a row by their headings. */
  readonly cells: Readonly<Record<string, (row: T) => Html | string | number>>;
  /** Headings of columns that are aligned right, with digits of equal width; of `sums`, without it, all but the first. */
  readonly figures?: readonly string[];
  /** Headings by which the rows are sorted: where a click leads, and the present order; null: by another one. */
  readonly sorted?: Readonly<
    Record<string, { readonly href: string; readonly order: 'ascending' | 'descending' | null }>
  >;
}

/**
 * A table of at least one row. On a phone a row is its first cell, and below it the others, as many in a line as there is
 * room for; explicit roles keep it a table for screen readers.
 * @param isTitled a heading of the page names the table: its caption is for screen readers only
 * @param look `sums`: it stays a table on a phone, and scrolls there; `rows`: a row of it has two lines there
 */
export function table<T>(
  caption: string,
  rows: readonly T[],
  columns: Columns<T>,
  isTitled = false,
  look: 'sums' | 'rows' | null = null,
): Html {
  const { cells, sorted = {} } = columns;
  const figures = columns.figures ?? (look === 'sums' ? Object.keys(cells).slice(1) : []);
  const style = (title: string) =>
    figures.includes(title)
      ? raw(' class="figure"')
      : ACTIONS.has(title)
        ? raw(' class="actions-cell"')
        : '';
  const whole = html`<table role="table"${look === null ? '' : raw(` class="${look}"`)}><caption${isTitled ? raw(' class="sr"') : ''}>${caption}</caption><thead role="rowgroup"><tr role="row">${Object.keys(
    cells,
  ).map(
    (title) =>
      html`<th role="columnheader" scope="col"${style(title)}${sorted[title]?.order ? html` aria-sort="${sorted[title].order}"` : ''}>${
        sorted[title] === undefined ? title : html`<a href="${sorted[title].href}">${title}</a>`
      }</th>`,
  )}</tr></thead><tbody role="rowgroup">${rows.map(
    (row) =>
      html`<tr role="row">${Object.entries(cells).map(([title, cell], at) =>
        at === 0
          ? html`<th role="rowheader" scope="row">${cell(row)}</th>`
          : html`<td role="cell" data-label="${title}"${style(title)}><span>${cell(row)}</span></td>`,
      )}</tr>`,
  )}</tbody></table>`;
  return look !== 'sums'
    ? whole
    : html`<div class="scroll" role="region" aria-label="${caption}" tabindex="0">${whole}</div>`;
}

/** Says that there is nothing to show. */
export function emptyText(text: Html | string): Html {
  return html`<p class="empty">${text}</p>`;
}

export function badge(tone: 'good' | 'warn' | 'bad' | 'plain' | 'eu', text: Html | string): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** A remark, or a word where there is nothing to show. */
export function muted(text: Html | string): Html {
  return html`<span class="muted">${text}</span>`;
}

/** What a page explains to whoever asks, at its end. */
export function about({ format }: PageContext['var'], text: Html | string): Html {
  return html`<details class="foot muted"><summary>${format.words.frame.about}</summary><p>${text}</p></details>`;
}

/** A part of a page, with its heading. */
export function titledCard(title: Html | string, body: Html | string): Html {
  return html`<section class="card"><h2>${title}</h2>${body}</section>`;
}

/** A link that looks like a button. @param of what it belongs to, for screen readers */
export function linkButton(href: string, text: Html | string, of = '', tone = 'quiet'): Html {
  return html`<a class="button ${tone}" href="${href}">${text}${of === '' ? '' : html`<span class="sr"> ${of}</span>`}</a>`;
}

/** The way out of a form, beside its button. */
export function cancelLink(c: PageContext, href: string): Html {
  return linkButton(href, c.var.format.words.form.cancel);
}

/** The same, to what cannot be undone. */
export function dangerLink(href: string, text: Html | string, of = ''): Html {
  return linkButton(href, text, of, 'danger');
}

/** A text of a row in one line; what has no room is cut, and its tooltip has all of it. */
export function clipped(text: string, shown: Html | string = text): Html {
  return html`<span class="clipped" title="${text}">${shown}</span>`;
}

/**
 * What can be done with a row, behind a button that works without a script; one is open at a time.
 * @param name of the row
 */
export function rowMenu({ format }: PageContext['var'], name: string, links: Html): Html {
  return html`<details class="menu" name="menu"><summary aria-label="${format.words.frame.actions}: ${name}">…</summary><div>${links}</div></details>`;
}

/** A row that belongs to one company, or to none. The name is null for none, and for a removed one. */
export interface Owned {
  readonly company_id: string | null;
  readonly company_name: string | null;
}

/** The company of a row by name, with a link to one of its pages. @param none the words if there is none */
export function companyLink(
  { company_id: id, company_name: name }: Owned,
  tab = 'usage',
  none = 'all',
): Html {
  if (id === null) return muted(none);
  return name === null
    ? muted('a removed company')
    : clipped(name, html`<a href="/companies/${id}/${tab}">${name}</a>`);
}

/** Text to copy, with a button where JavaScript runs. */
export function copyable(c: PageContext, id: string, label: string, text: string): Html {
  const { copy, copied } = c.var.format.words.frame;
  return html`<figure class="copy"><figcaption>${label}</figcaption><pre tabindex="0" id="${id}" aria-label="${label}">${text}</pre><button type="button" class="quiet" data-copy="${id}" data-copied="${copied}" hidden>${copy}<span class="sr"> ${label}</span></button></figure>`;
}

interface Confirmation {
  readonly action: string;
  readonly button: string;
  /** Where the link leads that does nothing, and its words; absent: there is none, the page shows more. */
  readonly back?: string;
  readonly keep?: string;
  readonly text: Html;
  /** Hidden fields. */
  readonly inputs?: Html;
}

/** Asks before something is done that cannot be undone. */
export function confirmation(c: PageContext, spec: Confirmation): Html {
  const { action, button, back, keep = c.var.format.words.frame.keep, text, inputs = '' } = spec;
  return html`<section class="card">${text}
<form method="post" action="${action}" class="actions">${csrfInput(c)}${inputs}<button class="danger">${button}</button>${back === undefined ? '' : html` <a class="button quiet" href="${back}">${keep}</a>`}</form></section>`;
}
