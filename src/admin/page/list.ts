import { type ListPage, type ListQuery, PAGE_ROWS } from '../../store/lists/page.ts';
import { MAX_SEARCH } from '../../store/lists/search-pattern.ts';
import type { PageContext } from './context.ts';
import { options } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';
import { type Columns, emptyText, table } from './layout.ts';

/**
 * The orders of a list, in words. A name with a minus sorts downwards. The first is used unless the URL says otherwise.
 */
type Sorts = Readonly<Record<string, string>>;

/** A search and an order, whatever the page. */
type Order = Pick<ListQuery, 'search' | 'sort' | 'descending'>;

/** The query in the URL: `?q=` text, `&sort=` a name of `sorts`, `&page=` from 1. */
export function listQuery<S extends string>(c: PageContext, sorts: Sorts): ListQuery<S> {
  const asked = c.req.query('sort') ?? '';
  const sort = Object.hasOwn(sorts, asked) ? asked : (Object.keys(sorts)[0] as string);
  const page = c.req.query('page') ?? '';
  return {
    search: readSearch(c.req.query('q') ?? ''),
    sort: sort.replace('-', '') as S,
    descending: sort.startsWith('-'),
    page: /^[1-9]\d{0,5}$/.test(page) ? Number(page) : 1,
  };
}

/** The text to search. People copy the beginning of a key with the "…" that pages show behind it. */
export function readSearch(text: string): string {
  return text
    .replaceAll('\0', '')
    .trim()
    .slice(0, MAX_SEARCH)
    .replace(/(?<=.)\s*…$/, '');
}

interface List<T> extends Columns<T> {
  /** The path of the list; search and pages are in its query. */
  readonly path: string;
  readonly caption: string;
  readonly sorts: Sorts;
  /** Shown when there is nothing to list, whatever is searched. */
  readonly empty: Html | string;
  /** Further parameters of the URL, which search and pages keep. */
  readonly kept?: Readonly<Record<string, string>>;
}

/** A page of a list: search and order, the table, and the way to the other pages. */
export function list<T>(c: PageContext, spec: List<T>, query: ListQuery, { rows, page, total }: ListPage<T>): Html {
  const { path, caption, sorts, empty, kept = {} } = spec;
  if (total === 0 && query.search === '') return emptyText(empty);
  const { format } = c.var;
  const first = (page - 1) * PAGE_ROWS + 1;
  const words = format.words.list;
  const last = format.count(first + rows.length - 1);
  const range = words.range({ first: format.count(first), last, total: format.count(total) });
  const to = (number: number, rel: string, text: string) =>
    html`<a class="button quiet" rel="${rel}" href="${listUrl(path, query, { ...kept, page: String(number) })}">${text}</a>`;
  const isLast = page * PAGE_ROWS >= total;
  return html`${searchBar(c, path, sorts, query, kept)}
${total === 0 ? emptyText(words.nothing) : table(caption, rows, spec, true)}
${
  total === 0 || (page === 1 && isLast)
    ? ''
    : html`<nav class="pager" aria-label="${words.pages}">${page === 1 ? '' : to(page - 1, 'prev', words.previous)}
<span>${range}</span>${isLast ? '' : to(page + 1, 'next', words.next)}</nav>`
}`;
}

/** The form above a list. @param kept further parameters of the URL */
export function searchBar(
  c: PageContext,
  path: string,
  sorts: Sorts,
  query: Order,
  kept: List<unknown>['kept'] = {},
): Html {
  const words = c.var.format.words.list;
  return html`<form method="get" action="${path}" class="search" role="search">${Object.entries(kept).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )}
<label class="sr" for="list-q">${words.search}</label><input id="list-q" name="q" type="search" maxlength="${MAX_SEARCH}" placeholder="${words.search}" value="${query.search}">
<label class="sr" for="list-sort">${words.sortBy}</label><select id="list-sort" name="sort">${options(Object.entries(sorts), sortOf(query))}</select><button>${words.show}</button></form>`;
}

/** The way to the next page of a list that is not counted. @param text such as "Older events" */
export function toNext(c: PageContext, url: string, text: string): Html {
  return html`<nav class="pager" aria-label="${c.var.format.words.list.pages}"><a class="button quiet" rel="next" href="${url}">${text}</a></nav>`;
}

/** The URL of another page of a list, with the same search and order. */
export function listUrl(path: string, query: Order, more: Record<string, string>): string {
  const searched = query.search === '' ? {} : { q: query.search };
  return `${path}?${new URLSearchParams({ ...searched, sort: sortOf(query), ...more })}`;
}

/** The URL of a list with the filters that were sent to it. @param more other values; null removes one */
export function filteredUrl(form: Form, filters: readonly string[], more: Record<string, string | null>): string {
  const path = form.path as string;
  const sent = Object.fromEntries(filters.map((name) => [name, form.values.get(name)]));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...sent, ...more })) if (value) query.set(name, value);
  return query.size === 0 ? path : `${path}?${query}`;
}

function sortOf({ sort, descending }: Order): string {
  return `${descending ? '-' : ''}${sort}`;
}
