import { amountInCents, roundingOf } from '../../domain/documents/month-end.ts';
import {
  type Correction,
  type PricedTokens,
  rowsOfParts,
  type SealCheckpoint,
  type Statement,
  type StatementLine,
  type StatementTableRow,
  statementCsv,
  sumsBy,
} from '../../domain/documents/statement.ts';
import { readMonth } from '../../domain/field.ts';
import { priceIn } from '../../domain/price.ts';
import { type CostPart, partOf } from '../../domain/pricing/parts.ts';
import { wholeMonth } from '../../domain/reports/day-range.ts';
import { sumUsage } from '../../domain/usage.ts';
import { may } from '../../operations/frame/permission.ts';
import { markOpened } from '../../operations/statement.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import {
  type KeyName,
  type LaterCalls,
  openMonths,
  readMonthOf,
  SHARED_BOUND,
  type ShownMonth,
  type StatementRow,
  type StoredStatement,
  statementsOf,
} from '../../store/statement/statement.ts';
import {
  change,
  formAt,
  type PageContext,
  pageAt,
  param,
  type Route,
  readOfCompany,
} from '../page/context.ts';
import { CSV, nameFile } from '../page/download.ts';
import { formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import {
  badge,
  brandMark,
  type Cells,
  companyHeading,
  emptyText,
  exactSwitch,
  linkButton,
  muted,
  page,
  table,
  titledCard,
} from '../page/layout.ts';
import { csvLink, focusLink, spreadsheetOf } from '../page/spreadsheet.ts';
import { closeCard, closeOne } from './statement-close.ts';
import { figureCard } from './usage-cards.ts';
import { downloadFocus } from './usage-export.ts';
import { monthAsked, presentMonth } from './usage-query.ts';
import { othersText } from './usage-tables.ts';

const BASE = '/companies/:company/statements';
const action = 'statement.read';

/** Closed months of a company: the list, and each as a document that prints well. Addresses name the month. */
export const statementRoutes: readonly Route[] = [
  pageAt(BASE, action, listPage),
  pageAt(`${BASE}/month`, action, monthPage),
  formAt(
    `${BASE}/month`,
    'statement.close',
    (c, form) => closeOne(c, form, form.required('month', readMonth)),
    { whileClosed: true, permits: 'slow', page: monthPage },
  ),
  pageAt(`${BASE}/month.json`, action, downloadJson),
  pageAt(`${BASE}/month.csv`, action, downloadCsv),
  pageAt(`${BASE}/month/focus.csv`, action, (c) => downloadFocus(c, monthAsked(c))),
];

type ClosedMonth = ShownMonth & { readonly stored: StoredStatement };

/** Lines of each table, and request ids of a correction, that the page shows. */
const MOST_SHOWN = 200;
const MOST_IDS = 20;

async function listPage(c: PageContext): Promise<Response> {
  const [company, { statements, open_months: open }] = await readOfCompany(c, statementsOf);
  const { format } = c.var;
  const base = `/companies/${company.id}/statements`;
  const { statements: words } = format.words;
  const cells: Cells<StatementRow> = {
    [words.statement]: ({ number, month }) =>
      html`<a href="${base}/month?month=${month}">${format.count(number)} · ${format.month(`${month}-01`)}</a>`,
    [words.closed]: ({ closed_at }) => format.instant(new Date(closed_at)),
    [words.requests]: ({ requests }) => format.count(requests),
    [words.month]: ({ cost_eur }) => format.amount(cost_eur),
    [words.corrections]: ({ corrections }) =>
      corrections === 0 ? muted(words.none) : format.count(corrections),
    [words.total]: ({ total_eur }) => format.amount(total_eur),
    [words.cameLater]: ({ later }) =>
      later.length === 0 ? muted(words.nothing) : html`${later.map((each) => laterBadge(c, each))}`,
  };
  const figures = [words.requests, words.month, words.corrections, words.total];
  const isCloser = may(c.var.session.user, 'statement.close', company.id);
  const body = html`${companyHeading(c)}<div class="title-row"><h1>${words.title}</h1>${isCloser ? linkButton('/month-end', words.allCompanies) : ''}</div>
${statements.length === 0 ? emptyText(html`${words.noMonth((text) => html`<a href="usage">${text}</a>`)}`) : table(words.title, statements, { cells, figures }, true)}
${open.length === 0 ? '' : openCard(c, base, open, isCloser)}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  return page(c, words.of(company.name), body);
}

/** Months that wait for a statement. @param isCloser the user may close them */
function openCard(
  c: PageContext,
  base: string,
  months: readonly string[],
  isCloser: boolean,
): Html {
  const { format } = c.var;
  const { statements: words, frame } = format.words;
  const name = (month: string) => format.month(`${month}-01`);
  const cells = {
    [words.month]: (month: string) =>
      html`<a href="${base}/month?month=${month}">${name(month)}</a>`,
    ...(isCloser && {
      [frame.actions]: (month: string) =>
        html`<a class="button" href="${base}/month?month=${month}">${words.close}<span class="sr"> ${name(month)}</span></a>`,
    }),
  };
  return titledCard(
    words.open,
    html`<p>${words.openText}</p>
${table(words.open, months, { cells }, true)}`,
  );
}

function laterBadge(c: PageContext, { statement, requests, cost_eur }: LaterCalls): Html {
  const { format } = c.var;
  const { statements: words } = format.words;
  const where = statement === null ? words.onNext : words.onStatement(format.count(statement));
  return html`${badge('warn', `${calls(c, requests)}, ${format.eurFixed(cost_eur)}, ${where}`)} `;
}

function calls(c: PageContext, count: number): string {
  const { format } = c.var;
  return format.words.statements.calls(count, format.count(count));
}

/**
 * The statement of the month in the URL (the present one by default), or a preview of it. That an owner has read a
 * statement is noted once.
 * @param asked the month of a form
 * @throws FieldError
 */
async function readAsked(c: PageContext, asked = c.req.query('month')) {
  const month = monthAsked(c, asked);
  const found = await readOfCompany(c, async (sql, id) => ({
    ...(await readMonthOf(sql, id, month, SHARED_BOUND)),
    open: await openMonths(sql, id),
  }));
  const [{ id }, { stored }] = found;
  const { role, email } = c.var.session.user;
  if (role === 'owner' && stored?.opened_at === null)
    await change(c, (sql) => markOpened(sql, id, stored.number, email));
  return found;
}

async function monthPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const [company, { stored, statement, names, open }] = await readAsked(
    c,
    form.values.get('month') ?? undefined,
  );
  const { month, lines, corrections } = statement;
  const name = format.month(`${month}-01`);
  const { statements: words, tables } = format.words;
  const title =
    stored === null
      ? words.preview(name)
      : words.numbered({ number: format.count(stored.number), month: name });
  const url = `/companies/${company.id}/statements/month`;
  const mayClose =
    may(c.var.session.user, 'statement.close', company.id) && `${month}-01` < presentMonth(c);
  const actions =
    stored === null
      ? ''
      : html`<a class="button quiet" href="${url}.json?month=${month}" download>JSON</a>${csvLink(c, `${url}.csv?month=${month}`)}`;
  const body = html`${letterhead(c)}${companyHeading(c)}<div class="title-row"><h1>${title}</h1>
<span class="row-actions">${linkButton(`/companies/${company.id}/usage?month=${month}`, words.usage)}${actions}${focusLink(`${url}/focus.csv?month=${month}`)}</span></div>
${stored === null ? html`<p class="lead">${words.notClosed((text) => html`<strong>${text}</strong>`)}</p>` : ''}
${formState(form, c.req.path).summary}${figures(c, statement)}${parties(c, company, statement, stored)}
${
  stored === null && mayClose
    ? await closeCard(
        c,
        `${month}-01`,
        open.filter((each) => each < month),
      )
    : ''
}
${lines.length === 0 ? emptyText(words.noCalls(name)) : ''}
${statement.charges === undefined ? byModel(c, tables.by.model, lines) : charges(c, statement.charges)}
${corrections.map((correction) => correctionSection(c, correction))}
${totals(c, statement)}
${annex(c, company.id, lines, names)}
${stored === null ? '' : sealCard(c, statement, stored)}
<p class="muted foot">${words.documentFoot} ${exactSwitch(c)}</p>`;
  return page(c, words.titleOf({ title, company: company.name }), body);
}

/** The issuer of the document, for print, where the header of the page is left out. */
function letterhead(c: PageContext): Html {
  const { imprint } = c.var.services.brand;
  return html`<p class="letterhead">${brandMark(c)}${imprint === null ? '' : html` <small>${imprint}</small>`}</p>`;
}

/** Seller and buyer as the operator and the company name them today, and what the document is about. */
function parties(
  c: PageContext,
  company: CompanyRow,
  { month }: Statement,
  stored: StoredStatement | null,
): Html {
  const { format, services } = c.var;
  const { statements: words } = format.words;
  const { billing_name, billing_address, vat_id, customer_number } = company;
  const buyer = [
    billing_name ?? company.name,
    ...(billing_address?.split('\n') ?? []),
    vat_id && `${words.vatId} ${vat_id}`,
  ];
  const { from, to } = wholeMonth(`${month}-01`);
  const block = (title: string, lines: readonly (string | null)[]) =>
    html`<div><h2>${title}</h2><p>${lines.filter((line) => line !== null).map((line, at) => html`${at === 0 ? '' : html`<br>`}${line}`)}</p></div>`;
  const facts = {
    [words.period]: format.range(from, to),
    ...(stored && { [words.closed]: format.instant(new Date(stored.closed_at)) }),
    ...(customer_number && { [words.customerNumber]: customer_number }),
  };
  return html`<section class="card parties">${block(words.seller, services.brand.seller ?? [services.brand.name])}${block(words.buyer, buyer)}
<dl>${Object.entries(facts).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>`;
}

/** The lines of the document: exact, so that they add up to the total. */
function charges(c: PageContext, rows: readonly PricedTokens[]): Html | string {
  if (rows.length === 0) return '';
  const { format } = c.var;
  const { statements: words, models, tables, usage } = format.words;
  const exact = format.eurColumn(rows.map(({ cost_eur }) => cost_eur));
  const hasRates = rows.some(({ rate }) => rate !== undefined);
  const isOfTokens = rows.every(({ part }) => partOf(part).within !== null);
  const cells: Cells<PricedTokens> = {
    [tables.model]: ({ model }) => html`<code>${model}</code>`,
    [words.part]: ({ part }) => words.charged[part],
    ...(hasRates && {
      [words.rate]: ({ rate }) => rate ?? muted(models.rates.base),
    }),
    [isOfTokens ? usage.tokens : words.units]: ({ tokens }) => format.count(tokens),
    [words.unitPrice]: ({ price }) => format.price(priceIn('1M', price)),
    [words.amount]: ({ cost_eur }) => exact(cost_eur),
  };
  return table(words.byPrice, rows, { cells, figures: Object.keys(cells).slice(-3) });
}

/** From the exact sums to the amount in cents. */
function totals(c: PageContext, { month, cost_eur, total_eur, corrections }: Statement): Html {
  const { format } = c.var;
  const { statements: words } = format.words;
  const name = (each: string) => format.month(`${each}-01`);
  const rows = [
    [words.sumOf(name(month)), format.eurText(cost_eur)],
    ...corrections.map((each) => [
      words.correctionOf(name(each.month)),
      format.eurText(each.cost_eur),
    ]),
    [words.exactTotal, format.eurText(total_eur)],
    [words.rounding, format.eurText(roundingOf(total_eur))],
    [words.due, format.eurText(amountInCents(total_eur))],
  ];
  return html`<dl class="totals">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** The sums of a statement or a preview. */
function figures(c: PageContext, statement: Statement): Html {
  const { format } = c.var;
  const { cost_eur, total_eur, requests, prompt_tokens, completion_tokens, corrections } =
    statement;
  const late = corrections.reduce((sum, each) => sum + each.requests, 0);
  const { statements: words, usage } = format.words;
  const inAndOut = usage.inAndOut({
    input: format.count(prompt_tokens),
    output: format.count(completion_tokens),
  });
  return html`<div class="figures">
${figureCard(words.due, format.eurText(amountInCents(total_eur)), late === 0 ? html`${words.exactly(format.eurText(total_eur))}` : html`${words.forMonth(format.amount(cost_eur))}`)}
${figureCard(words.requests, format.count(requests), late === 0 ? words.inMonth : words.inMonthPlus(calls(c, late)))}
${figureCard(usage.tokens, format.count(prompt_tokens + completion_tokens), inAndOut)}</div>`;
}

/** Where no table by price has them, parts stand below each model. */
function byModel(
  c: PageContext,
  caption: string,
  lines: readonly StatementLine[],
  isTitled = false,
): Html | string {
  const rows = sumsBy(lines, 'model').flatMap((row) => rowsOfParts(row));
  const heading = c.var.format.words.tables.model;
  return sums(c, caption, heading, rows, (slug) => html`<code>${slug}</code>`, isTitled);
}

/** What each key and each cost centre cost, one line each. */
function annex(
  c: PageContext,
  company: string,
  lines: readonly StatementLine[],
  names: ReadonlyMap<string, KeyName>,
): Html | string {
  const { statements: words, usage, tables } = c.var.format.words;
  const each = (by: 'key' | 'cost_center', shown: (name: string) => Html | string) => {
    const rows = sumsBy(lines, by);
    const others = rows.slice(MOST_SHOWN);
    const rest = others.length === 0 ? [] : [{ name: null, ...sumUsage(others) }];
    const all = [...rows.slice(0, MOST_SHOWN), ...rest].flatMap((row) =>
      rowsOfParts<string | null>({ ...row, parts: null }),
    );
    const named = (name: string | null) =>
      name === null ? muted(othersText(c.var.format, others.length)) : shown(name);
    return sums(c, tables.by[by], usage.filterNames[by], all, named);
  };
  if (lines.length === 0) return '';
  return html`<section class="annex"><h2>${words.annex}</h2>
${each('key', (id) => keyName(c, company, id, names))}
${lines.some(({ cost_center }) => cost_center !== '') ? each('cost_center', (label) => label || muted(words.none)) : ''}</section>`;
}

/** A table with parts stays one on a phone: without its columns a part would not tell of which row it is. */
function sums<N>(
  c: PageContext,
  caption: string,
  heading: string,
  rows: readonly StatementTableRow<N>[],
  shown: (name: N) => Html | string,
  isTitled = false,
): Html | string {
  if (rows.length === 0) return '';
  const cells = cellsOf(c, heading, shown);
  const look = rows.some(({ part }) => part !== null) ? 'sums' : null;
  return table(caption, rows, { cells, figures: Object.keys(cells).slice(1) }, isTitled, look);
}

/** The columns of sums and, below them, of the parts of a cost, of which neither the calls nor the other tokens count. */
function cellsOf<N>(c: PageContext, heading: string, shown: (name: N) => Html | string) {
  const { format } = c.var;
  const { statements, tables: words } = format.words;
  type Row = StatementTableRow<N>;
  return {
    [heading]: ({ name, part, units }: Row) => {
      if (part === null) return shown(name);
      const counted = units === null ? '' : `${format.count(units)} `;
      return muted(statements.ofIt(counted + statements.charged[part]));
    },
    [words.requests]: ({ requests }: Row) => (requests === null ? '' : format.count(requests)),
    [words.promptTokens]: ({ part, prompt_tokens }: Row) =>
      isOf(part, 'prompt') ? format.count(prompt_tokens) : '',
    [words.completionTokens]: ({ part, completion_tokens }: Row) =>
      isOf(part, 'completion') ? format.count(completion_tokens) : '',
    [words.cost]: ({ cost_eur }: Row) => format.amount(cost_eur),
  };
}

/** Whether a row tells tokens of one side; the row above the parts tells both. */
function isOf(part: CostPart | null, side: 'prompt' | 'completion'): boolean {
  return part === null || partOf(part).within === side;
}

function keyName(
  c: PageContext,
  company: string,
  id: string,
  names: ReadonlyMap<string, KeyName>,
): Html {
  const key = names.get(id);
  return key === undefined
    ? muted(html`${c.var.format.words.tables.deletedKey} <code>${id}</code>`)
    : html`<a href="/companies/${company}/keys/${id}">${key.name}</a> <code>${key.prefix}…</code>`;
}

function correctionSection(c: PageContext, correction: Correction): Html {
  const { format } = c.var;
  const { month, statement, lines, request_ids: ids } = correction;
  const name = format.month(`${month}-01`);
  const { statements: words } = format.words;
  const booked = {
    calls: calls(c, ids.length),
    amount: format.amount(correction.cost_eur),
    statement: format.count(statement),
  };
  const link = (text: string) =>
    html`<a href="/companies/${param(c, 'company')}/statements/month?month=${month}">${text}</a>`;
  return html`<section><h2>${words.correctionOf(name)}</h2>
<p>${words.bookedAfter(booked, link)}</p>
${byModel(c, words.correctionByModel(name), lines, true)}
<p class="small">${words.requestIds(ids.slice(0, MOST_IDS).map((id, at) => html`${at === 0 ? '' : ', '}<code>${id}</code>`))}${ids.length > MOST_IDS ? words.moreIds(format.count(ids.length - MOST_IDS)) : ''}.</p></section>`;
}

function sealCard(c: PageContext, statement: Statement, stored: StoredStatement): Html {
  const { format } = c.var;
  const { statements: words } = format.words;
  const checkpoint = (seals: SealCheckpoint | null) =>
    seals === null
      ? muted(words.noneBefore)
      : html`${words.checkpoint({ number: format.count(seals.checkpoint), digest: html`<code>${seals.digest}</code>` })}`;
  const facts: Readonly<Record<string, Html | string>> = {
    [words.company]: html`<code>${statement.company_id}</code>`,
    [words.exactTotal]: format.eurText(statement.total_eur),
    [words.closed]: format.instant(new Date(stored.closed_at)),
    [words.digest]: html`<code>${stored.digest}</code>`,
    [words.digestBefore]:
      statement.previous === null ? muted(words.none) : html`<code>${statement.previous}</code>`,
    [words.openingSeals]: checkpoint(statement.opening_seals),
    [words.closingSeals]: checkpoint(statement.closing_seals),
    [words.cameLater]:
      stored.later.length === 0
        ? muted(words.nothing)
        : html`${stored.later.map((each) => laterBadge(c, each))}`,
  };
  return html`<details class="fold card"><summary>${words.seal}</summary>
<p>${words.sealText}</p>
<dl class="facts">${Object.entries(facts).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></details>
<p class="muted small print-only">${words.digest}: <code>${stored.digest}</code></p>`;
}

function downloadJson(c: PageContext): Promise<Response> {
  return downloadAs(c, 'json', 'application/json', ({ stored }) => stored.text);
}

function downloadCsv(c: PageContext): Promise<Response> {
  const form = spreadsheetOf(c);
  return downloadAs(c, 'csv', CSV, ({ statement, names }) => statementCsv(statement, names, form));
}

/** @param textOf the file's text */
async function downloadAs(
  c: PageContext,
  ending: string,
  type: string,
  textOf: (month: ClosedMonth) => string,
) {
  const [{ name: company }, { stored, ...shown }] = await readAsked(c);
  if (stored === null) return c.notFound();
  nameFile(c, { name: `statement-${stored.number}-${stored.month}.${ending}`, company, type });
  return c.body(textOf({ stored, ...shown }));
}
