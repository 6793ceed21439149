import { searchFor } from '../../operations/search.ts';
import { type Finding, type Found, type Kind, MOST_OF_KIND } from '../../store/lists/search.ts';
import type { PageContext, Route } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { companyLink, emptyText, page, table } from '../page/layout.ts';
import { readSearch } from '../page/list.ts';

/** What the search of the header finds: of all companies for operators, of their own for others. */
export const searchRoutes: readonly Route[] = [
  { method: 'GET', path: '/search', action: 'account.use', handle: searchPage },
];

const TITLES: Readonly<Record<Kind, string>> = {
  company: 'Companies',
  key: 'Keys',
  person: 'People',
  invitation: 'Invitations',
  model: 'Models',
  assistant: 'Assistants',
  statement: 'Statements',
  request: 'Requests',
};

async function searchPage(c: PageContext): Promise<Response> {
  const { services, session } = c.var;
  const text = readSearch(c.req.query('q') ?? '');
  const { found, isSecret, only } = await searchFor(services.db, session.user, text, services.keyPrefix);
  if (only !== null) return c.redirect(addressOf(c, only), 303);
  const asked = isSecret ? 'a whole key' : `“${text}”`;
  const body = html`<h1>Search</h1>
${text === '' ? html`<p class="lead">Type a name, an e-mail address, the beginning of a key, an x-request-id, or a month such as 2026-10 into the field above.</p>` : html`<p class="lead" role="status">${found.length === 0 ? 'Nothing was found for' : 'Found for'} ${asked}.</p>`}
${found.map((each) => group(c, each, text))}
${text !== '' && found.length === 0 ? emptyText('Names, e-mail addresses, beginnings of keys, months of statements and x-request-ids are searched, whatever their case and accents.') : ''}`;
  return page(c, 'Search', body, isSecret ? '' : text);
}

function group(c: PageContext, { kind, rows, hasMore }: Found, text: string): Html {
  const ofAll = c.var.session.user.company_id === null && kind !== 'company';
  const details = rows.some(({ detail }) => detail !== '');
  const cells = {
    [TITLES[kind]]: (row: Finding) => html`<a href="${addressOf(c, row)}">${nameOf(c, row)}</a>`,
    ...(details && { Details: (row: Finding) => html`${row.detail}` }),
    ...(ofAll && { Company: (row: Finding) => companyLink(row, 'usage', kind === 'person' ? 'operator' : 'all') }),
  };
  const list = listOf(c, kind, text);
  const all = list === null ? 'Type more of the name.' : html`<a href="${list}">All of them</a>`;
  return html`<section><h2>${TITLES[kind]}</h2>${table(TITLES[kind], rows, { cells }, true)}${hasMore ? html`<p>The first ${MOST_OF_KIND} are shown. ${all}</p>` : ''}</section>`;
}

function nameOf(c: PageContext, { kind, name, id }: Finding): Html {
  if (kind === 'request') return html`<code>${name}</code>`;
  return kind === 'statement' ? html`${id} · ${c.var.format.month(`${name}-01`)}` : html`${name}`;
}

/** Where a thing is shown. */
function addressOf(c: PageContext, { kind, id, name, company_id }: Finding): string {
  const company = `/companies/${company_id}`;
  const isOperator = c.var.session.user.company_id === null;
  switch (kind) {
    case 'company':
      return `${company}/usage`;
    case 'key':
      return `${company}/access/${id}`;
    case 'person':
    case 'invitation':
      if (kind === 'person' && isOperator) return `/users/${id}`;
      return `${company}/people?${new URLSearchParams({ q: name })}`;
    case 'model':
      return isOperator ? `/models/${id}` : `/companies/${c.var.session.user.company_id}/models`;
    case 'assistant':
      return `${company}/assistants/${id}`;
    case 'statement':
      return `${company}/statements/month?month=${name}`;
    case 'request':
      return company_id === null || isOperator ? `/requests/${id}` : `${company}/requests/${id}`;
  }
}

/** The list that has all things of a kind; null where there is none. */
function listOf(c: PageContext, kind: Kind, text: string): string | null {
  const { company_id } = c.var.session.user;
  const own = { key: 'access', person: 'people', invitation: 'people', assistant: 'assistants' }[kind as string];
  const path =
    company_id === null
      ? { company: '/companies', person: '/users', model: '/models' }[kind as string]
      : own && `/companies/${company_id}/${own}`;
  return path === undefined ? null : `${path}?${new URLSearchParams({ q: text })}`;
}
