import { type ListPage, type ListQuery, PAGE_ROWS } from '../../store/lists/page.ts';
import { MAX_SEARCH } from '../../store/lists/search-pattern.ts';
import type { PageContext } from './context.ts';
import { hiddenInputs, options } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';
import { type Columns, emptyText, table } from './layout.ts';

/**
 * Headings by the order that the first click on them gives; the next click gives the other way round. A name with a
 * minus sorts downwards. The first is used unless the URL says otherwise.
 */
type Sorts = Readonly<Record<string, string>>;

/** A search and an order, whatever the page. */
type Order = Pick<ListQuery, 'search' | 'sort' | 'descending'>;

/** The query in the URL: `?q=` text, `&sort=` a name of `sorts`, `&page=` from 1. */
export function listQuery<S extends string>(c: PageContext, sorts: Sorts): ListQuery<S> {
  const asked = c.req.query('sort') ?? '';
  const isKnown = Object.hasOwn(sorts, asked) || Object.hasOwn(sorts, reversed(asked));
  const sort = isKnown ? asked : (Object.keys(sorts)[0] as string);
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

/** The same order, the other way round. */
function reversed(sort: string): string {
  return sort.startsWith('-') ? sort.slice(1) : `-${sort}`;
}

/** A choice above a list, which stays in the address. */
interface Filter {
  readonly name: string;
  readonly label: string;
  /** Values with their words; the empty one is that of all. */
  readonly choices: readonly (readonly [value: string, text: string])[];
  readonly value: string;
}

interface List<T> extends Omit<Columns<T>, 'sorted'> {
  /** What stands in one line with the search, such as the heading of the page. */
  readonly beside?: Html;
  /** The path of the list; search and pages are in its query. */
  readonly path: string;
  readonly caption: string;
  readonly sorts: Sorts;
  /** Shown when there is nothing to list, whatever is searched. */
  readonly empty: Html | string;
  /** Further parameters of the URL, which search and pages keep. */
  readonly kept?: Readonly<Record<string, string>>;
  readonly filter?: Filter;
  /** What the search finds, in words; default: names. */
  readonly finds?: string;
  /** As of `table`. */
  readonly look?: 'rows';
}

/** A page of a list: the search, the table that its headings sort, and the way to the other pages. */
export function list<T>(
  c: PageContext,
  spec: List<T>,
  query: ListQuery,
  { rows, page, total }: ListPage<T>,
): Html {
  const { path, caption, sorts, empty, filter, look = null } = spec;
  const isFiltered = filter !== undefined && filter.value !== '';
  const bar = (search: Html | string) =>
    spec.beside === undefined ? search : html`<div class="title-row">${spec.beside}${search}</div>`;
  if (total === 0 && query.search === '' && !isFiltered) return html`${bar('')}${emptyText(empty)}`;
  const kept = { ...spec.kept, ...(isFiltered && { [filter.name]: filter.value }) };
  const { format } = c.var;
  const first = (page - 1) * PAGE_ROWS + 1;
  const words = format.words.list;
  const last = format.count(first + rows.length - 1);
  const range = words.range({ first: format.count(first), last, total: format.count(total) });
  const to = (number: number, rel: string, text: string) =>
    html`<a class="button quiet" rel="${rel}" href="${listUrl(path, query, { ...kept, page: String(number) })}">${text}</a>`;
  const isLast = page * PAGE_ROWS >= total;
  const sorted = headings(path, sorts, query, kept);
  return html`${bar(searchBar(c, spec, query))}
${total === 0 ? emptyText(words.nothing) : table(caption, rows, { ...spec, sorted }, true, look)}
${
  total === 0 || (page === 1 && isLast)
    ? ''
    : html`<nav class="pager" aria-label="${words.pages}">${page === 1 ? '' : to(page - 1, 'prev', words.previous)}
<span>${range}</span>${isLast ? '' : to(page + 1, 'next', words.next)}</nav>`
}`;
}

/** Where a click on each heading leads. */
function headings(
  path: string,
  sorts: Sorts,
  query: Order,
  kept: Readonly<Record<string, string>>,
) {
  const present = sortOf(query);
  const order = query.descending ? ('descending' as const) : ('ascending' as const);
  return Object.fromEntries(
    Object.entries(sorts).map(([first, title]) => {
      const isPresent = present === first || present === reversed(first);
      const sort = present === first ? reversed(first) : first;
      return [
        title,
        { href: listUrl(path, query, { ...kept, sort }), order: isPresent ? order : null },
      ];
    }),
  );
}

/** The form above a list. */
function searchBar<T>(
  c: PageContext,
  { path, kept = {}, filter, finds }: List<T>,
  query: Order,
): Html {
  const words = c.var.format.words.list;
  const choice = ({ name, label, choices, value }: Filter) =>
    html`<label class="sr" for="list-${name}">${label}</label><select id="list-${name}" name="${name}">${options(choices, value)}</select>`;
  return html`<form method="get" action="${path}" class="search" role="search"><label class="sr" for="list-q">${words.search}</label><input id="list-q" name="q" type="search" maxlength="${MAX_SEARCH}" placeholder="${finds ?? words.name}" value="${query.search}">
${filter === undefined ? '' : choice(filter)}${hiddenInputs(Object.entries({ ...kept, sort: sortOf(query) }))}<button>${words.show}</button></form>`;
}

/** The form that filters a list which is not counted, and the way back to all of it while it is filtered. */
export function filterBar(c: PageContext, path: string, isFiltered: boolean, fields: Html): Html {
  const { show, filters, unfiltered } = c.var.format.words.list;
  const all = html` <a class="button quiet" href="${path}" title="${unfiltered}" aria-label="${unfiltered}">×</a>`;
  return html`<form method="get" action="${path}" class="filters" role="search" aria-label="${filters}">${fields}
<div class="actions"><button>${show}</button>${isFiltered ? all : ''}</div></form>`;
}

/** The way to the next page of a list that is not counted. @param text such as "Older events" */
export function toNext(c: PageContext, url: string, text: string): Html {
  return html`<nav class="pager" aria-label="${c.var.format.words.list.pages}"><a class="button quiet" rel="next" href="${url}">${text}</a></nav>`;
}

/** The URL of another page of a list, with the same search and order. */
function listUrl(path: string, query: Order, more: Record<string, string>): string {
  const searched = query.search === '' ? {} : { q: query.search };
  return `${path}?${new URLSearchParams({ ...searched, sort: sortOf(query), ...more })}`;
}

/** The URL of a list with the filters that were sent to it. @param more other values; null removes one */
export function filteredUrl(
  form: Form,
  filters: readonly string[],
  more: Record<string, string | null>,
): string {
  const path = form.path as string;
  const sent = Object.fromEntries(filters.map((name) => [name, form.values.get(name)]));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...sent, ...more }))
    if (value) query.set(name, value);
  return query.size === 0 ? path : `${path}?${query}`;
}

function sortOf({ sort, descending }: Order): string {
  return `${descending ? '-' : ''}${sort}`;
}
