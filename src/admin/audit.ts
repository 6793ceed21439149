import { html } from 'hono/html';
import { HTTPException } from 'hono/http-exception';
import { readUuid } from '../domain/field.ts';
import { type AuditRow, listAudit } from '../store/audit.ts';
import { listCompanies } from '../store/company.ts';
import { type PageContext, type Route, read } from './context.ts';
import { formState, select } from './field.ts';
import type { Form } from './form.ts';
import type { Html } from './html.ts';
import { badge, page, table } from './layout.ts';

/** The log of all changes by page, command line or SQL, for operators. */
export const auditRoutes: readonly Route[] = [
  { method: 'GET', path: '/audit', action: 'audit.read', handle: auditPage },
];

const PER_PAGE = 50;

const SUBJECTS: Readonly<Record<string, string>> = {
  companies: 'company',
  models: 'model',
  api_keys: 'key',
  assistants: 'assistant',
  users: 'user',
};
const ACTIONS = {
  insert: ['good', 'created'],
  update: ['plain', 'changed'],
  delete: ['bad', 'removed'],
  truncate: ['bad', 'emptied'],
} as const;

async function auditPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const company = idOf(c.req.query('company'));
  const asked = c.req.query('before') ?? '';
  const before = /^\d{1,15}$/.test(asked) ? Number(asked) : null;
  const { entries, companies } = await read(c, async (sql) => ({
    entries: await listAudit(sql, { company, before, limit: PER_PAGE + 1 }),
    companies: await listCompanies(sql),
  }));
  const shown = entries.slice(0, PER_PAGE);
  const rows = shown.map((entry) => [
    format.instant(entry.at),
    who(entry),
    what(entry),
    entry.company_name ?? html`<span class="muted">${entry.company_id === null ? 'all' : 'a removed company'}</span>`,
    changes(entry),
  ]);
  const columns = ['When', 'Who', 'What', 'Company', 'Before and after'];
  const last = shown.at(-1);
  const filter = company === null ? '' : `&company=${company}`;
  const body = html`<div class="title-row"><h1>Audit log</h1>
<form method="get" action="/audit" class="months">${select(formState(form, '/audit'), {
    name: 'company',
    label: 'Company',
    choices: [{ value: '', text: 'All' }, ...companies.map(({ id, name }) => ({ value: id, text: name }))],
    value: company ?? '',
  })}<button>Show</button></form></div>
<p class="lead">Every change by page, command line or SQL, newest first. Its entries cannot be changed or removed, and they never contain keys or passwords.</p>
${table('Changes', columns, rows, 'Nothing has changed yet.', true)}
${entries.length > PER_PAGE && last !== undefined ? html`<p><a class="button" href="/audit?before=${last.id}${filter}">Older changes</a></p>` : ''}`;
  return page(c, 'Audit log', body);
}

function who({ actor, db_role }: AuditRow): Html {
  if (actor === db_role) return html`${actor}<br><span class="muted">by SQL</span>`;
  return actor === 'cli' ? html`command line` : html`${actor}`;
}

function what({ action, subject, before, after }: AuditRow): Html {
  const [tone, verb] = ACTIONS[action];
  const row = after ?? before ?? {};
  return html`${badge(tone, verb)} ${SUBJECTS[subject] ?? subject}<br><strong>${String(row.name ?? row.slug ?? row.email ?? '')}</strong>`;
}

/** The values that differ; all values of a row that was created or removed. */
function changes({ before, after }: AuditRow): Html {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const differing = names.filter(
    (name) =>
      name !== 'id' && name !== 'company_id' && JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]),
  );
  if (differing.length === 0) return html``;
  const list = html`<dl class="diff">${differing.map(
    (name) =>
      html`<dt>${name}</dt><dd>${before === null ? '' : html`<del>${shown(before[name])}</del>`}${
        after === null ? '' : html` <ins>${shown(after[name])}</ins>`
      }</dd>`,
  )}</dl>`;
  return before !== null && after !== null
    ? list
    : html`<details><summary>${differing.length} values</summary>${list}</details>`;
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return 'none';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}

function idOf(text = ''): string | null {
  if (text === '') return null;
  try {
    return readUuid(text);
  } catch {
    throw new HTTPException(404);
  }
}
