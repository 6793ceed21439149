import { html, raw } from 'hono/html';
import type { Assets } from './assets.ts';
import type { Html } from './html.ts';
import { may, type Person } from './permission.ts';
import type { Problem, Visit } from './visit.ts';

/** The frame of every page, and the parts pages are made of. */

/** What a page says after a form was done, by the word in its address. */
const NOTICES: Readonly<Record<string, string>> = {
  saved: 'Saved. It holds on every gateway within a second.',
  created: 'Created.',
  removed: 'Removed.',
  revoked: 'The key is revoked. It is refused everywhere within a second.',
  password: 'The password is changed. Other sessions of this person are signed out.',
  'signed-out': 'You are signed out.',
};

export function notice(query: URLSearchParams): Html {
  const text = NOTICES[query.get('done') ?? ''];
  return text === undefined ? html`` : html`<p class="notice" role="status">${text}</p>`;
}

const GATE = raw(
  '<svg class="logo" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d="M3 21V8a9 9 0 0 1 18 0v13h-4V9a5 5 0 0 0-10 0v12z"/><path d="M10.5 11h3v10h-3z"/></svg>',
);

/** A whole document. @param chrome what stands above the content */
export function document(assets: Assets, title: string, chrome: Html, body: Html): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Tollgate</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${assets.style.path}">
<script src="${assets.script.path}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
${chrome}
<main id="content">
${body}
</main>
</body>
</html>`;
}

/** The bar for people who are not signed in. */
export function plainChrome(): Html {
  return html`<header class="top"><span class="brand">${GATE} Tollgate</span></header>`;
}

interface Link {
  readonly href: string;
  readonly text: string;
}

/** The bar above every page: where a person may go, and nothing else. */
export function chrome({ person, csrf, path }: Visit): Html {
  const who: Person = { role: person.role, companyId: person.company_id };
  const links: Link[] = [];
  if (may(who, 'company.list', null)) {
    links.push({ href: '/companies', text: 'Companies' }, { href: '/models', text: 'Models' });
    links.push({ href: '/users', text: 'Users' }, { href: '/audit', text: 'Audit log' });
  }
  return html`<header class="top">
<a class="brand" href="/">${GATE} Tollgate</a>
${links.length === 0 ? '' : html`<nav aria-label="Administration">${links.map((link) => tab(link, isWithin(path, link.href)))}</nav>`}
<div class="who"><a href="/account"${path === '/account' ? raw(' aria-current="page"') : ''}>${person.email}</a>
<form method="post" action="/sign-out">${hidden(csrf)}<button class="quiet">Sign out</button></form></div>
</header>`;
}

/** The heading of a company's pages with the way from one to the next. */
export function companyHeading(visit: Visit, company: { readonly id: string; readonly name: string }): Html {
  const base = `/companies/${company.id}`;
  const links: Link[] = [
    { href: `${base}/usage`, text: 'Usage' },
    { href: `${base}/access`, text: 'Access' },
    { href: `${base}/models`, text: 'Models' },
    { href: `${base}/assistants`, text: 'Assistants' },
    { href: `${base}/settings`, text: 'Settings' },
  ];
  return html`<div class="company"><p class="eyebrow">Company</p><p class="company-name">${company.name}</p>
<nav class="tabs" aria-label="Company">${links.map((link) => tab(link, isWithin(visit.path, link.href)))}</nav></div>`;
}

function tab({ href, text }: Link, current: boolean): Html {
  return html`<a href="${href}"${current ? raw(' aria-current="page"') : ''}>${text}</a>`;
}

function isWithin(path: string, href: string): boolean {
  // a company's pages are not the list of companies
  return path === href || (path.startsWith(`${href}/`) && href !== '/companies');
}

export function hidden(csrf: string): Html {
  return html`<input type="hidden" name="csrf" value="${csrf}">`;
}

/** What is wrong with a form, above it. Shown only on the form it came from. */
export function problemOf(problem: Problem | null, path: string): FormState {
  const mine = problem !== null && problem.path === path ? problem : null;
  const messages = mine?.messages ?? {};
  const whole = messages[''];
  return {
    summary:
      mine === null
        ? html``
        : html`<div class="problem" role="alert">${whole ?? 'Please mend the marked fields. Nothing was changed.'}</div>`,
    message: (name) => messages[name] ?? null,
    value: (name, fallback) => mine?.values.get(name) ?? fallback,
    isChecked: (name, value, fallback) => (mine === null ? fallback : mine.values.getAll(name).includes(value)),
    refused: mine !== null,
  };
}

/** What to put into a form's fields: what was typed before, or what holds now. */
export interface FormState {
  readonly summary: Html;
  readonly refused: boolean;
  message(name: string): string | null;
  value(name: string, fallback: string): string;
  isChecked(name: string, value: string, fallback: boolean): boolean;
}

export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  /** What it holds unless something was typed. */
  readonly value?: string;
  readonly type?: 'text' | 'email' | 'password' | 'date' | 'textarea';
  readonly required?: boolean;
  readonly autocomplete?: string;
  readonly inputmode?: 'decimal' | 'numeric';
  readonly rows?: number;
  /** Distinguishes forms of one page. */
  readonly form?: string;
}

/** A labelled field with its hint and, after a refusal, what is wrong with it. */
export function field(state: FormState, spec: Field): Html {
  const { name, label, hint, type = 'text', required = false, autocomplete = 'off', inputmode } = spec;
  const id = `${spec.form ?? 'f'}-${name}`;
  const message = state.message(name);
  const described = [hint === undefined ? '' : `${id}-hint`, message === null ? '' : `${id}-wrong`].filter(Boolean);
  const attributes = raw(
    [
      required ? ' required' : '',
      described.length > 0 ? ` aria-describedby="${described.join(' ')}"` : '',
      message === null ? '' : ' aria-invalid="true"',
      inputmode === undefined ? '' : ` inputmode="${inputmode}"`,
    ].join(''),
  );
  // a password never travels back
  const value = type === 'password' ? '' : state.value(name, spec.value ?? '');
  return html`<div class="field"><label for="${id}">${label}</label>
${
  type === 'textarea'
    ? html`<textarea id="${id}" name="${name}" rows="${spec.rows ?? 5}" autocomplete="off"${attributes}>
${value}</textarea>`
    : html`<input id="${id}" name="${name}" type="${type}" value="${value}" autocomplete="${autocomplete}"${attributes}>`
}
${hint === undefined ? '' : html`<p class="hint" id="${id}-hint">${hint}</p>`}
${message === null ? '' : html`<p class="wrong" id="${id}-wrong">${label} ${message}</p>`}</div>`;
}

export interface Choice {
  readonly value: string;
  readonly text: string;
}

/** A labelled choice of one. */
export function select(
  state: FormState,
  spec: { name: string; label: string; choices: readonly Choice[]; value: string; hint?: string; form?: string },
): Html {
  const id = `${spec.form ?? 'f'}-${spec.name}`;
  const chosen = state.value(spec.name, spec.value);
  const message = state.message(spec.name);
  return html`<div class="field"><label for="${id}">${spec.label}</label>
<select id="${id}" name="${spec.name}"${spec.hint === undefined ? '' : raw(` aria-describedby="${id}-hint"`)}>${spec.choices.map(
    ({ value, text }) => html`<option value="${value}"${value === chosen ? raw(' selected') : ''}>${text}</option>`,
  )}</select>
${spec.hint === undefined ? '' : html`<p class="hint" id="${id}-hint">${spec.hint}</p>`}
${message === null ? '' : html`<p class="wrong">${spec.label} ${message}</p>`}</div>`;
}

/** One box to tick, with a label that says what a tick means. */
export function checkbox(
  state: FormState,
  spec: { name: string; label: string; value?: string; checked: boolean; hint?: string; form?: string },
): Html {
  const { name, value = 'true' } = spec;
  const id = `${spec.form ?? 'f'}-${name}-${value}`;
  return html`<div class="check"><input type="checkbox" id="${id}" name="${name}" value="${value}"${
    state.isChecked(name, value, spec.checked) ? raw(' checked') : ''
  }${spec.hint === undefined ? '' : raw(` aria-describedby="${id}-hint"`)}><label for="${id}">${spec.label}</label>${
    spec.hint === undefined ? '' : html`<p class="hint" id="${id}-hint">${spec.hint}</p>`
  }</div>`;
}

export interface Column {
  readonly title: string;
  /** Figures stand under each other. */
  readonly figure?: boolean;
}

/**
 * A table; on a phone every row becomes a card. Explicit roles keep it a table for screen readers there too.
 * @param isTitled the page's heading says what it is: its caption is for screen readers only
 */
export function table(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly (Html | string | number)[])[],
  empty: string,
  isTitled = false,
): Html {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const figure = (at: number) => (columns[at]?.figure ? raw(' class="figure"') : '');
  return html`<table role="table"><caption${isTitled ? raw(' class="sr"') : ''}>${caption}</caption><thead role="rowgroup"><tr role="row">${columns.map(
    ({ title }, at) => html`<th role="columnheader" scope="col"${figure(at)}>${title}</th>`,
  )}</tr></thead><tbody role="rowgroup">${rows.map(
    (row) =>
      html`<tr role="row">${row.map((cell, at) =>
        at === 0
          ? html`<th role="rowheader" scope="row">${cell}</th>`
          : html`<td role="cell" data-label="${columns[at]?.title ?? ''}"${figure(at)}><span>${cell}</span></td>`,
      )}</tr>`,
  )}</tbody></table>`;
}

export type Tone = 'good' | 'warn' | 'bad' | 'plain' | 'eu';

export function badge(tone: Tone, text: string): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** A button that sends a form of its own. */
export function postButton(
  csrf: string,
  action: string,
  text: string,
  fields: Readonly<Record<string, string>> = {},
  tone: 'quiet' | 'danger' | 'plain' = 'quiet',
  label: string = text,
): Html {
  return html`<form class="inline" method="post" action="${action}">${hidden(csrf)}${Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )}<button class="${tone}"${label === text ? '' : html` aria-label="${label}"`}>${text}</button></form>`;
}

/** Text to be copied as it is, with a button where there is JavaScript. */
export function copyable(id: string, label: string, text: string): Html {
  return html`<figure class="copy"><figcaption>${label}</figcaption><pre tabindex="0" id="${id}" aria-label="${label}">${text}</pre><button type="button" class="quiet" data-copy="${id}" hidden>Copy<span class="sr"> ${label}</span></button></figure>`;
}
