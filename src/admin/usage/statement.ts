import { readMonth } from '../../domain/field.ts';
import {
  type Correction,
  type SealCheckpoint,
  type Statement,
  statementCsv,
  sumOf,
  sumsBy,
} from '../../domain/text/statement.ts';
import { may } from '../../operations/permission.ts';
import {
  type KeyName,
  type LaterCalls,
  readMonthOf,
  SHARED_BOUND,
  type ShownMonth,
  type StatementRow,
  type StoredStatement,
  statementsOf,
} from '../../store/statement/statement.ts';
import { type PageContext, param, type Route, readOfCompany } from '../page/context.ts';
import { CSV, nameFile } from '../page/download.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, emptyText, muted, page, table } from '../page/layout.ts';
import { csvLinks, spreadsheetOf } from '../page/spreadsheet.ts';
import { figureCard } from './usage-cards.ts';
import { othersText, sumCells } from './usage-tables.ts';

const BASE = '/companies/:company/statements';
const action = 'statement.read';

/** Closed months of a company: the list, and each as a document that prints well. Addresses name the month. */
export const statementRoutes: readonly Route[] = [
  { method: 'GET', path: BASE, action, handle: listPage },
  { method: 'GET', path: `${BASE}/month`, action, handle: monthPage },
  { method: 'GET', path: `${BASE}/month.json`, action, handle: downloadJson },
  { method: 'GET', path: `${BASE}/month.csv`, action, handle: downloadCsv },
];

type ClosedMonth = ShownMonth & { readonly stored: StoredStatement };

/** Lines of each table, and request ids of a correction, that the page shows. */
const MOST_SHOWN = 200;
const MOST_IDS = 20;
const FIGURES = ['Requests', 'Prompt tokens', 'Completion tokens', 'Cost', 'Month', 'Corrections', 'Total'];

async function listPage(c: PageContext): Promise<Response> {
  const [company, { statements, open_months: open }] = await readOfCompany(c, statementsOf);
  const { format } = c.var;
  const base = `/companies/${company.id}/statements`;
  const cells = {
    Statement: ({ number, month }: StatementRow) =>
      html`<a href="${base}/month?month=${month}">${format.count(number)} · ${format.month(`${month}-01`)}</a>`,
    Closed: ({ closed_at }: StatementRow) => format.instant(new Date(closed_at)),
    Requests: ({ requests }: StatementRow) => format.count(requests),
    Month: ({ cost_eur }: StatementRow) => format.amount(cost_eur),
    Corrections: ({ corrections }: StatementRow) => (corrections === 0 ? muted('none') : format.count(corrections)),
    Total: ({ total_eur }: StatementRow) => format.amount(total_eur),
    'Came later': ({ later }: StatementRow) =>
      later.length === 0 ? muted('nothing') : html`${later.map((each) => laterBadge(c, each))}`,
  };
  const isCloser = may(c.var.session.user, 'statement.close', company.id);
  const body = html`${companyHeading(c, company)}<div class="title-row"><h1>Statements</h1>${isCloser ? html`<a class="button quiet" href="/companies/statements">All companies</a>` : ''}</div>
${statements.length === 0 ? emptyText('No month of this company is closed yet.') : table('Statements', statements, { cells, figures: FIGURES }, true)}
${open.length === 0 ? '' : openCard(c, base, open, isCloser)}
<p class="muted foot">A statement covers API calls; in-app chat is not in it. What is booked for a month after it was closed becomes a correction on the next statement.</p>`;
  return page(c, `Statements of ${company.name}`, body);
}

/** Months that wait for a statement. @param isCloser the user may close them */
function openCard(c: PageContext, base: string, months: readonly string[], isCloser: boolean): Html {
  const { format } = c.var;
  const name = (month: string) => format.month(`${month}-01`);
  const cells = {
    Month: (month: string) => html`<a href="${base}/month?month=${month}">${name(month)}</a>`,
    ...(isCloser && {
      Actions: (month: string) =>
        html`<a class="button" href="${base}/close?month=${month}">Close…<span class="sr"> ${name(month)}</span></a>`,
    }),
  };
  return html`<section class="card"><h2>Open months</h2><p>These months are over, have calls and are not closed.</p>
${table('Open months', months, { cells }, true)}</section>`;
}

function laterBadge(c: PageContext, { statement, requests, cost_eur }: LaterCalls): Html {
  const { format } = c.var;
  const where = statement === null ? 'on the next one' : `on statement ${format.count(statement)}`;
  return html`${badge('warn', `${calls(c, requests)}, ${format.eurFixed(cost_eur)}, ${where}`)} `;
}

function calls(c: PageContext, count: number): string {
  return `${c.var.format.count(count)} ${count === 1 ? 'call' : 'calls'}`;
}

/** The statement of the month in the URL (the present one by default), or a preview of it. @throws FieldError */
function readAsked(c: PageContext) {
  const { calendar, clock } = c.var.services;
  const asked = c.req.query('month');
  const month = asked === undefined ? calendar.month(clock()) : readMonth(asked);
  return readOfCompany(c, (sql, id) => readMonthOf(sql, id, month, SHARED_BOUND));
}

async function monthPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const [company, { stored, statement, names }] = await readAsked(c);
  const { month, lines, corrections } = statement;
  const name = format.month(`${month}-01`);
  const title = stored === null ? `Preview of ${name}` : `Statement ${format.count(stored.number)} · ${name}`;
  const url = `/companies/${company.id}/statements/month`;
  const { calendar, clock } = c.var.services;
  const mayClose = may(c.var.session.user, 'statement.close', company.id) && `${month}-01` < calendar.month(clock());
  const actions =
    stored === null
      ? mayClose && html`<a class="button" href="/companies/${company.id}/statements/close?month=${month}">Close…</a>`
      : html`<a class="button quiet" href="${url}.json?month=${month}" download>JSON</a>${csvLinks(c, `${url}.csv?month=${month}`)}`;
  const body = html`${companyHeading(c, company)}<div class="title-row"><h1>${title}</h1>
<span class="row-actions"><a class="button quiet" href="/companies/${company.id}/usage?month=${month}">Usage</a>${actions || ''}</span></div>
${stored === null ? html`<p class="problem"><strong>This month is not closed.</strong> These are its figures so far, and not a statement.</p>` : ''}
${figures(c, statement)}
${lines.length === 0 ? emptyText(`No API calls in ${name}.`) : ''}
${sums(c, 'Model', sumsBy(lines, 'model'), (slug) => html`<code>${slug}</code>`)}
${sums(c, 'Key', sumsBy(lines, 'key'), (id) => keyName(company.id, id, names))}
${lines.some(({ cost_center }) => cost_center !== '') ? sums(c, 'Cost centre', sumsBy(lines, 'cost_center'), (label) => label || muted('none')) : ''}
${corrections.map((correction) => correctionCard(c, correction))}
${stored === null ? '' : sealCard(c, statement, stored)}
<p class="muted foot">API calls only, without in-app chat. Keys have their present names here; the sealed document has their ids. The JSON and the CSV have every line by model, key and cost centre.</p>`;
  return page(c, `${title} of ${company.name}`, body);
}

/** The sums of a statement or a preview. */
export function figures(c: PageContext, statement: Statement): Html {
  const { format } = c.var;
  const { cost_eur, total_eur, requests, prompt_tokens, completion_tokens, corrections } = statement;
  const late = corrections.reduce((sum, each) => sum + each.requests, 0);
  return html`<div class="figures">
${figureCard('Total', format.amount(total_eur), late === 0 ? 'no corrections of earlier months' : html`${format.amount(cost_eur)} for this month, the rest for corrections`)}
${figureCard('Requests', format.count(requests), late === 0 ? 'in this month' : `in this month, plus ${calls(c, late)} in corrections`)}
${figureCard('Tokens', format.count(prompt_tokens + completion_tokens), `${format.count(prompt_tokens)} in · ${format.count(completion_tokens)} out`)}</div>`;
}

function sums(
  c: PageContext,
  title: string,
  rows: ReturnType<typeof sumsBy>,
  shown: (name: string) => Html | string,
): Html | string {
  if (rows.length === 0) return '';
  const others = rows.slice(MOST_SHOWN);
  const rest = others.length === 0 ? [] : [{ name: null, ...sumOf(others) }];
  const shownRows = [...rows.slice(0, MOST_SHOWN), ...rest];
  const named = (name: string | null) => (name === null ? muted(othersText(c.var.format, others.length)) : shown(name));
  const cells = {
    [title]: ({ name }: { name: string | null }) => named(name),
    ...sumCells(c.var.format),
  };
  return table(`By ${title.toLowerCase()}`, shownRows, { cells, figures: FIGURES });
}

function keyName(company: string, id: string, names: ReadonlyMap<string, KeyName>): Html {
  const key = names.get(id);
  return key === undefined
    ? muted(html`a deleted key <code>${id}</code>`)
    : html`<a href="/companies/${company}/access/${id}">${key.name}</a> <code>${key.prefix}…</code>`;
}

function correctionCard(c: PageContext, correction: Correction): Html {
  const { format } = c.var;
  const { month, statement, lines, request_ids: ids } = correction;
  const name = format.month(`${month}-01`);
  const cells = {
    Model: ({ name }: { name: string }) => html`<code>${name}</code>`,
    ...sumCells(format),
  };
  return html`<section class="card"><h2>Correction of ${name}</h2>
<p>${calls(c, ids.length)}, ${format.amount(correction.cost_eur)}, booked after <a href="/companies/${param(c, 'company')}/statements/month?month=${month}">statement ${format.count(statement)}</a> was closed.</p>
${table(`Correction of ${name} by model`, sumsBy(lines, 'model'), { cells, figures: FIGURES }, true)}
<p class="small">Requests: ${ids.slice(0, MOST_IDS).map((id, at) => html`${at === 0 ? '' : ', '}<code>${id}</code>`)}${ids.length > MOST_IDS ? ` and ${format.count(ids.length - MOST_IDS)} more, which are in the JSON` : ''}.</p></section>`;
}

function sealCard(c: PageContext, statement: Statement, stored: StoredStatement): Html {
  const { format } = c.var;
  const checkpoint = (seals: SealCheckpoint | null) =>
    seals === null
      ? muted('none before')
      : html`checkpoint ${format.count(seals.checkpoint)}, <code>${seals.digest}</code>`;
  const facts: Readonly<Record<string, Html | string>> = {
    Company: html`<code>${statement.company_id}</code>`,
    'Exact total': format.eurText(statement.total_eur),
    Closed: format.instant(new Date(stored.closed_at)),
    Digest: html`<code>${stored.digest}</code>`,
    'Digest of the statement before':
      statement.previous === null ? muted('none') : html`<code>${statement.previous}</code>`,
    'Opening seals of the ledger': checkpoint(statement.opening_seals),
    'Closing seals of the ledger': checkpoint(statement.closing_seals),
    'Came later':
      stored.later.length === 0 ? muted('nothing') : html`${stored.later.map((each) => laterBadge(c, each))}`,
  };
  return html`<section class="card"><h2>Seal</h2>
<p>The digest is the SHA-256 of the JSON file. The next statement names it.</p>
<dl class="facts">${Object.entries(facts).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>`;
}

function downloadJson(c: PageContext): Promise<Response> {
  return downloadAs(c, 'json', 'application/json', ({ stored }) => stored.text);
}

function downloadCsv(c: PageContext): Promise<Response> {
  const form = spreadsheetOf(c);
  return downloadAs(c, 'csv', CSV, ({ statement, names }) => statementCsv(statement, names, form));
}

/** @param textOf the file's text */
async function downloadAs(c: PageContext, ending: string, type: string, textOf: (month: ClosedMonth) => string) {
  const [{ name: company }, { stored, ...shown }] = await readAsked(c);
  if (stored === null) return c.notFound();
  nameFile(c, { name: `statement-${stored.number}-${stored.month}.${ending}`, company, type });
  return c.body(textOf({ stored, ...shown }));
}
