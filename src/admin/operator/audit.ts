import { oneOf, readDay } from '../../domain/field.ts';
import { actorName, memberWords, minuteIn, NOUNS, nameIn, verbOf } from '../../domain/text/change-text.ts';
import { findCompany } from '../../store/company/company.ts';
import { AUDIT_WINDOW, type AuditRow, asOwnersSee, pageOfAudit } from '../../store/lists/audit.ts';
import { companyOf, type PageContext, type Route, read } from '../page/context.ts';
import { field, formState, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, companyLink, emptyText, muted, page, table } from '../page/layout.ts';
import { filteredUrl, listQuery, toNext } from '../page/list.ts';

/** The log of changes by page, command line or SQL: of all for operators, of a company for its owners. */
export const auditRoutes: readonly Route[] = [
  { method: 'GET', path: '/audit', action: 'audit.read', handle: auditPage },
  { method: 'GET', path: '/companies/:company/audit', action: 'company-audit.read', handle: companyAuditPage },
];

const SORTS = { '-id': 'Newest first', id: 'Oldest first' };
const MAX_VALUE = 300; // characters

const TONES = { insert: 'good', update: 'plain', delete: 'bad', truncate: 'bad', erase: 'bad' } as const;
const FILTERS = ['q', 'subject', 'actor', 'from', 'to', 'sort'];

async function auditPage(c: PageContext): Promise<Response> {
  const body = html`<h1>Audit log</h1>
<p class="lead">Every change by page, command line or SQL. Its entries cannot be removed, or changed by anything but an erasure of persons, and they never contain keys or passwords.</p>
${await log(c, '/audit')}`;
  return page(c, 'Audit log', body);
}

async function companyAuditPage(c: PageContext): Promise<Response> {
  const company = await read(c, (sql) => findCompany(sql, companyOf(c) as string));
  const body = html`${companyHeading(c, company)}<h1>Audit log</h1>
<p class="lead">Every change to this company, its people, keys, assistants and own models. Its entries cannot be removed, or changed by anything but an erasure of persons, and they never contain keys or passwords. “operator” stands for whoever runs this service.</p>
${await log(c, `/companies/${company.id}/audit`)}`;
  return page(c, `Audit log of ${company.name}`, body);
}

/**
 * Filters, entries and the link to the next page. Under a company's path it shows the entries that the owner may see.
 * The address takes, each of them optional: `q` words, `subject` a table, `actor`, `from` and `to` days, `sort`, and
 * `after` the id behind which the page begins.
 */
async function log(c: PageContext, path: string): Promise<Html> {
  const { format } = c.var;
  const company = companyOf(c);
  const { search, descending } = listQuery(c, SORTS);
  const asked = c.req.query('after') ?? '';
  const from = /^\d{1,15}$/.test(asked) ? Number(asked) : null;
  const form = new Form(new URL(c.req.url).searchParams, path);
  const subject = form.optional('subject', oneOf(...Object.keys(NOUNS)));
  const actor = form.optional('actor', (text) => text);
  const [firstDay, lastDay] = [form.optional('from', readDay), form.optional('to', readDay)];
  const isRight = form.messages.size === 0;
  const query = { search, newestFirst: descending, from, company, subject, actor, firstDay, lastDay };
  const found = isRight ? await read(c, (sql) => pageOfAudit(sql, query)) : { rows: [], next: null };
  const rows = company === null ? found.rows : found.rows.map(asOwnersSee);
  const whose = {
    Company: (row: AuditRow) => companyLink(row),
  };
  const cells = {
    When: ({ at }: AuditRow) => format.instant(at),
    Who: (row: AuditRow) => who(row, filteredUrl(form, FILTERS, { actor: row.actor })),
    What: what,
    ...(company === null && whose),
    'Before and after': changes,
  };
  const isFiltered = [search, subject, actor, firstDay, lastDay].some((each) => (each ?? '') !== '');
  const searched = found.next === null ? 'Nothing' : `None of ${format.count(AUDIT_WINDOW)} changes`;
  const empty = isFiltered ? `${searched} matches.` : 'Nothing has changed yet.';
  return html`${filters(form, path, search, descending)}
${rows.length > 0 ? table('Changes', rows, { cells }, true) : isRight ? emptyText(empty) : ''}
${found.next === null ? '' : toNext(filteredUrl(form, [...FILTERS, 'after'], { after: String(found.next) }), `${descending ? 'Older' : 'Newer'} changes`)}`;
}

function filters(form: Form, path: string, search: string, descending: boolean): Html {
  const state = formState(form, path);
  const kinds = Object.entries(NOUNS).map(([table, noun]) => [table, noun] as const);
  const sort = descending ? '-id' : 'id';
  return html`<form method="get" action="${path}" class="filters" role="search" aria-label="Changes">
${field(state, { name: 'q', label: 'What happened', value: search, hint: 'such as budget, price, revoked' })}
${select(state, { name: 'subject', label: 'Kind', choices: [['', 'All'], ...kinds], value: '' })}
${field(state, { name: 'actor', label: 'Who' })}
${field(state, { name: 'from', label: 'From', type: 'date' })}
${field(state, { name: 'to', label: 'To', type: 'date' })}
${select(state, { name: 'sort', label: 'Order', choices: Object.entries(SORTS), value: sort })}
<div class="actions"><button>Show</button> <a class="button quiet" href="${path}">All changes</a></div></form>`;
}

/** @param own the address of the log with this person's changes alone */
function who({ actor, db_role }: AuditRow, own: string): Html {
  const name = html`<a href="${own}">${actorName(actor)}</a>`;
  return actor === db_role ? html`${name}<br>${muted('by SQL')}` : name;
}

function what(row: AuditRow): Html {
  const { action, subject, subject_id, company_id, company_name, before, after } = row;
  const name = html`<strong>${nameIn(after ?? before ?? {})}</strong>`;
  // of all audited things, only keys are almost never removed
  const isKept = subject === 'api_keys' && action !== 'delete' && subject_id !== null && company_name !== null;
  return html`${badge(TONES[action], verbOf(row))} ${NOUNS[subject] ?? subject}<br>${isKept ? html`<a href="/companies/${company_id}/access/${subject_id}">${name}</a>` : name}`;
}

/** The values that differ; all values of a row that was created or removed. */
function changes({ before, after }: AuditRow): Html {
  const { id: _, company_id: __, ...values } = { ...before, ...after };
  const differs = (name: string) => JSON.stringify(before?.[name] ?? null) !== JSON.stringify(after?.[name] ?? null);
  const differing = Object.keys(values).filter(differs);
  if (differing.length === 0) return html``;
  const list = html`<dl class="diff">${differing.map(
    (name) => html`<dt>${memberWords(name)}</dt><dd>${difference(name, before, after)}</dd>`,
  )}</dl>`;
  return before !== null && after !== null
    ? list
    : html`<details><summary>${differing.length === 1 ? '1 value' : `${differing.length} values`}</summary>${list}</details>`;
}

/** For two lists the removed and the added values; otherwise the old value and the new one. */
function difference(name: string, before: AuditRow['before'], after: AuditRow['after']): Html {
  const [old, present] = [before?.[name], after?.[name]];
  if (Array.isArray(old) && Array.isArray(present)) {
    const kept = old.filter((each) => present.includes(each));
    const left = old.filter((each) => !kept.includes(each));
    const came = present.filter((each) => !kept.includes(each));
    return html`${[
      kept.length > 0 && html`${shown(kept, name)} `,
      left.length > 0 && html`<del>${shown(left, name)}</del> `,
      came.length > 0 && html`<ins>${shown(came, name)}</ins>`,
    ]}`;
  }
  return html`${before === null ? '' : html`<del>${shown(old, name)}</del>`}${
    after === null ? '' : html` <ins>${shown(present, name)}</ins>`
  }`;
}

/** JSON in words. */
function inWords(value: unknown): string {
  if (value === null) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map(inWords).join(', ') || 'none';
  if (typeof value !== 'object') return minuteIn(String(value));
  return (
    Object.entries(value)
      .map(([name, each]) => `${name}: ${inWords(each)}`)
      .join(', ') || 'none'
  );
}

/** A key without a list may use everything. */
function shown(value: unknown, name: string): string {
  if (value === undefined || value === null) return name.startsWith('allowed_') ? 'all' : 'none';
  const text = inWords(value);
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}
