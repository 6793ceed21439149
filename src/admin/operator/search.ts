import { costCenterPage } from '../../domain/wording/alert.ts';
import { may } from '../../operations/frame/permission.ts';
import { searchFor } from '../../operations/search.ts';
import { type Finding, type Found, type Kind, MOST_OF_KIND } from '../../store/lists/search.ts';
import type { PageContext, Route } from '../page/context.ts';
import { pageAt } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { type Cells, companyLink, emptyText, page, table } from '../page/layout.ts';
import { readSearch } from '../page/list.ts';

/** What the search of the header finds: of all companies for operators, of their own for others. */
export const searchRoutes: readonly Route[] = [pageAt('/search', 'account.use', searchPage)];

async function searchPage(c: PageContext): Promise<Response> {
  const { services, session } = c.var;
  const text = readSearch(c.req.query('q') ?? '');
  const { found, isSecret, only } = await searchFor(
    services.db,
    session.user,
    text,
    services.keyPrefix,
  );
  if (only !== null) return c.redirect(addressOf(c, only), 303);
  if (isSecret) c.set('pageAddress', '/search'); // the form for another language sends the address of its page
  const { search: words } = c.var.format.words;
  const asked = isSecret ? words.wholeKey : words.quoted(text);
  const isFound = found.length > 0;
  const lead =
    text === ''
      ? html`<p class="lead">${words.empty}</p>`
      : html`<p class="lead" role="status">${isFound ? words.found(asked) : words.nothing(asked)}</p>`;
  const body = html`<h1>${words.title}</h1>
${lead}
${found.map((each) => group(c, each, text))}
${text !== '' && !isFound ? emptyText(words.searched) : ''}
${may(session.user, 'key.find', null) ? html`<p><a href="/keys">${c.var.format.words.key.find.title}</a></p>` : ''}`;
  return page(c, words.title, body, isSecret ? '' : text);
}

function group(c: PageContext, { kind, rows, hasMore }: Found, text: string): Html {
  const ofAll = c.var.session.user.company_id === null && kind !== 'company';
  const details = rows.some(({ detail }) => detail !== '');
  const { words, count } = c.var.format;
  const { [kind]: title } = words.search.kinds;
  const cells: Cells<Finding> = {
    [title]: (row) => html`<a href="${addressOf(c, row)}">${nameOf(c, row)}</a>`,
    ...(details && { [words.search.details]: (row) => html`${row.detail}` }),
    ...(ofAll && {
      [words.search.company]: (row) =>
        companyLink(row, 'usage', kind === 'user' ? 'operator' : 'all'),
    }),
  };
  const list = listOf(c, kind, text);
  const all = list === null ? words.search.more : html`<a href="${list}">${words.search.all}</a>`;
  return html`<section><h2>${title}</h2>${table(title, rows, { cells }, true)}${hasMore ? html`<p>${words.search.first(count(MOST_OF_KIND))} ${all}</p>` : ''}</section>`;
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
      return `${company}/keys/${id}`;
    case 'user':
    case 'invitation':
      if (kind === 'user' && isOperator) return `/users/${id}`;
      return `${company}/users?${new URLSearchParams({ q: name })}`;
    case 'model':
      return isOperator ? `/models/${id}` : `/companies/${c.var.session.user.company_id}/models`;
    case 'end_user':
      return `${company}/end-users/${id}`;
    case 'assistant':
      return `${company}/assistants/${id}`;
    case 'cost_center':
      return costCenterPage(company_id ?? '', name);
    case 'statement':
      return `${company}/statements/month?month=${name}`;
    case 'request':
      return company_id === null || isOperator ? `/requests/${id}` : `${company}/requests/${id}`;
  }
}

/** The list that has all things of a kind; null where there is none. */
function listOf(c: PageContext, kind: Kind, text: string): string | null {
  const { company_id } = c.var.session.user;
  const own = {
    key: 'keys',
    user: 'users',
    invitation: 'users',
    end_user: 'end-users',
    assistant: 'assistants',
  }[kind as string];
  const path =
    company_id === null
      ? { company: '/companies', user: '/users', model: '/models' }[kind as string]
      : own && `/companies/${company_id}/${own}`;
  return path === undefined ? null : `${path}?${new URLSearchParams({ q: text })}`;
}
