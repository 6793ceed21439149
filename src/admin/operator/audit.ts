import { oneOf, readDay } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { COMPANY } from '../../domain/settings/company.ts';
import { KEY } from '../../domain/settings/key.ts';
import { MODEL_SETTINGS } from '../../domain/settings/model.ts';
import type { Settings } from '../../domain/settings/setting.ts';
import { columnWords, endOf, nameIn, nounOf } from '../../domain/wording/change-text.ts';
import { AUDIT_WINDOW, type AuditRow, asOwnersSee, pageOfAudit } from '../../store/lists/audit.ts';
import {
  companyOf,
  type PageContext,
  pageAt,
  presentCompany,
  type Route,
  read,
} from '../page/context.ts';
import { field, formState, hiddenInputs, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import {
  about,
  badge,
  type Cells,
  clipped,
  companyHeading,
  companyLink,
  emptyText,
  muted,
  page,
  table,
} from '../page/layout.ts';
import { filterBar, filteredUrl, listQuery, toNext } from '../page/list.ts';

/** The log of changes by page, command line or SQL: of all for operators, of a company for its owners. */
export const auditRoutes: readonly Route[] = [
  pageAt('/audit', 'audit.read', auditPage),
  pageAt('/companies/:company/audit', 'company-audit.read', companyAuditPage),
];

const MAX_VALUE = 300; // characters

const TONES = {
  insert: 'good',
  update: 'plain',
  delete: 'bad',
  truncate: 'bad',
  erase: 'bad',
} as const;
const FILTERS = ['q', 'subject', 'actor', 'from', 'to', 'sort'];

async function auditPage(c: PageContext): Promise<Response> {
  const body = html`<h1>Audit log</h1>
${await log(c, '/audit')}
${about(c.var, 'Every change by page, command line or SQL. Its entries cannot be removed, or changed by anything but an erasure of persons, and they never contain keys or passwords.')}`;
  return page(c, 'Audit log', body);
}

async function companyAuditPage(c: PageContext): Promise<Response> {
  const company = presentCompany(c);
  const { audit: words } = c.var.format.words;
  const body = html`${companyHeading(c)}<h1>${words.title}</h1>
${await log(c, `/companies/${company.id}/audit`)}
${about(c.var, words.lead)}`;
  return page(c, words.of(company.name), body);
}

/**
 * Filters, entries and the link to the next page. Under a company's path it shows the entries that the owner may see.
 * The address takes, each of them optional: `q` words, `subject` a table, `actor`, `from` and `to` days, `sort`, and
 * `after` the id behind which the page begins.
 */
async function log(c: PageContext, path: string): Promise<Html> {
  const { format } = c.var;
  const company = companyOf(c);
  const { audit: words } = format.words;
  const { search, descending } = listQuery(c, { '-id': words.when, id: words.when });
  const after = c.req.query('after') ?? '';
  const form = new Form(new URL(c.req.url).searchParams, path, format.language);
  const narrowed = {
    subject: form.optional('subject', oneOf(...Object.keys(words.nouns))),
    actor: form.optional('actor', (text) => text),
    firstDay: form.optional('from', readDay),
    lastDay: form.optional('to', readDay),
  };
  const isRight = form.messages.size === 0;
  const from = /^\d{1,15}$/.test(after) ? Number(after) : null;
  const query = {
    search,
    words: format.words,
    newestFirst: descending,
    from,
    company,
    ...narrowed,
  };
  const found = isRight
    ? await read(c, (sql) => pageOfAudit(sql, query))
    : { rows: [], next: null };
  const rows = company === null ? found.rows : found.rows.map(asOwnersSee);
  const whose = {
    [words.company]: (row: AuditRow) => companyLink(row),
  };
  const cells: Cells<AuditRow> = {
    [words.when]: ({ at }) => format.instant(at),
    [words.who]: (row) => who(row, format, filteredUrl(form, FILTERS, { actor: row.actor })),
    [words.what]: (row) => what(row, format.words),
    ...(company === null && whose),
    [words.changes]: (row) => changes(row, format),
  };
  const noMatch = found.next === null ? words.noMatch : words.noMatchIn(format.count(AUDIT_WINDOW));
  const isAll = search === '' && Object.values(narrowed).every((each) => each === null);
  const empty = isAll ? words.nothing : noMatch;
  const next = () => filteredUrl(form, [...FILTERS, 'after'], { after: String(found.next) });
  const sorted = {
    [words.when]: {
      href: filteredUrl(form, FILTERS, { sort: descending ? 'id' : null }),
      order: descending ? ('descending' as const) : ('ascending' as const),
    },
  };
  return html`${filters(c, form, path, search, isAll)}
${rows.length > 0 ? table(words.caption, rows, { cells, sorted }, true) : isRight ? emptyText(empty) : ''}
${found.next === null ? '' : toNext(c, next(), descending ? words.older : words.newer)}`;
}

function filters(c: PageContext, form: Form, path: string, search: string, isAll: boolean): Html {
  const state = formState(form, path);
  const { audit: words } = state.words;
  const labels = words.filters;
  return filterBar(
    c,
    path,
    !isAll,
    html`${hiddenInputs([...form.values].filter(([name]) => name === 'sort'))}
${field(state, { name: 'q', label: labels.what, value: search })}
${select(state, { name: 'subject', label: labels.kind, choices: [['', labels.all], ...Object.entries(words.nouns)], value: '' })}
${field(state, { name: 'actor', label: words.who })}
${field(state, { name: 'from', label: labels.from, type: 'date' })}
${field(state, { name: 'to', label: labels.to, type: 'date' })}`,
  );
}

/** @param own the address of the log with this person's changes alone */
function who({ actor, db_role }: AuditRow, format: Format, own: string): Html {
  const person = actor === db_role ? actor : format.person(actor);
  const how = actor === db_role ? ` ${format.words.audit.bySql}` : '';
  return clipped(`${person}${how}`, html`<a href="${own}">${person}</a>${muted(how)}`);
}

/** What was done to what, in one line. */
function what(row: AuditRow, words: Words): Html {
  const { action, subject, subject_id, company_id, company_name, before, after } = row;
  const end = action === 'update' ? endOf(before ?? {}, after ?? {}) : null;
  const noun = nounOf(words, subject);
  const isEndUser = subject === 'end_users';
  const name = isEndUser ? (subject_id ?? '').slice(0, 8) : nameIn(after ?? before ?? {});
  // of all audited things, only these are almost never removed
  const isKept =
    (isEndUser || subject === 'api_keys') &&
    action !== 'delete' &&
    subject_id !== null &&
    company_name !== null;
  const link = isKept
    ? html`<a href="/companies/${company_id}/${isEndUser ? 'end-users' : 'keys'}/${subject_id}">${name}</a>`
    : name;
  return html`<span class="one-line">${badge(TONES[action], words.audit.actions[end ?? action])} ${clipped(`${noun} ${name}`, html`${noun} ${link}`)}</span>`;
}

/** The value that differs; several, and all values of a row that was created or removed, by a click. */
function changes({ before, after }: AuditRow, format: Format): Html {
  const { words } = format;
  const { id: _, company_id: __, ...values } = { ...before, ...after };
  const differs = (name: string) =>
    JSON.stringify(before?.[name] ?? null) !== JSON.stringify(after?.[name] ?? null);
  const differing = Object.keys(values).filter(differs);
  if (differing.length === 0) return html``;
  const list = html`<dl class="diff">${differing.map(
    (name) =>
      html`<dt>${columnWords(words, name)}</dt><dd>${difference(format, name, before, after)}</dd>`,
  )}</dl>`;
  if (before !== null && after !== null && differing.length === 1) return list;
  const names = differing.map((name) => columnWords(words, name)).join(', ');
  return html`<details><summary>${before !== null && after !== null ? clipped(names) : words.audit.values(differing.length)}</summary>${list}</details>`;
}

/** For two lists the removed and the added values; otherwise the old value and the new one. */
function difference(
  format: Format,
  name: string,
  before: AuditRow['before'],
  after: AuditRow['after'],
): Html {
  const [old, present] = [before?.[name], after?.[name]];
  if (Array.isArray(old) && Array.isArray(present)) {
    const kept = old.filter((each) => present.includes(each));
    const left = old.filter((each) => !kept.includes(each));
    const came = present.filter((each) => !kept.includes(each));
    return html`${[
      kept.length > 0 && html`${shown(format, kept, name)} `,
      left.length > 0 && html`<del>${shown(format, left, name)}</del> `,
      came.length > 0 && html`<ins>${shown(format, came, name)}</ins>`,
    ]}`;
  }
  return html`${before === null ? '' : html`<del>${shown(format, old, name)}</del>`}${
    after === null ? '' : html` <ins>${shown(format, present, name)}</ins>`
  }`;
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+\+00:00$/;
/** Columns of EUR; the words of other columns are no numbers. */
const MONEY = /_eur|put$/;

const SETTINGS: Settings = { ...ASSISTANT, ...COMPANY, ...KEY, ...MODEL_SETTINGS };

/** The words for values of columns that have a few. */
function choicesOf(words: Words, name: string): Readonly<Record<string, string>> {
  const { roles, tokens, playground, audit } = words;
  const secret = { changed: audit.actions.update };
  const others: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    ...{ role: roles, access: tokens.access, purpose: { playground: playground.title } },
    ...{ ...audit.choices, digest: secret, password_hash: secret },
  };
  return others[name] ?? Object.fromEntries(SETTINGS[name]?.field.choices?.(words) ?? []);
}

/** JSON in words, as pages write amounts and numbers. */
function inWords(format: Format, value: unknown, name: string): string {
  const { words } = format;
  const { none } = words.audit;
  if (value === null) return none;
  if (typeof value === 'boolean') return value ? words.form.yes : words.form.no;
  if (MONEY.test(name) && /^-?\d/.test(String(value))) return format.eurText(String(value));
  if (typeof value === 'number') return format.decimal(value);
  if (Array.isArray(value))
    return value.map((each) => inWords(format, each, name)).join(', ') || none;
  if (typeof value === 'string') return choicesOf(words, name)[value] ?? value;
  const members = Object.entries(value as object).map(
    ([key, each]) => `${key}: ${inWords(format, each, key)}`,
  );
  return members.join(', ') || none;
}

/** A key without a list may use everything. */
function shown(format: Format, value: unknown, name: string): Html | string {
  const { frame, audit } = format.words;
  if (value === undefined || value === null)
    return name.startsWith('allowed_') ? frame.all : audit.none;
  if (typeof value === 'string' && INSTANT.test(value)) return format.instant(new Date(value));
  const text = inWords(format, value, name);
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}
