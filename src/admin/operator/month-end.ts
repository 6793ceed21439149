import { amountInCents, type CompanyMonth, monthCsv } from '../../domain/documents/month-end.ts';
import { readMonth } from '../../domain/field.ts';
import { formatEur, parseEur } from '../../domain/pricing/money.ts';
import { addMonths } from '../../domain/reports/day-range.ts';
import { type ClosedEach, closeMonthOfAll, mailStatements } from '../../operations/statement.ts';
import { companyNames } from '../../store/company/company.ts';
import { type CompanyMonthSort, pageOfCompanyMonths } from '../../store/lists/page.ts';
import { type MonthEnd, readCompanyMonths, readMonthEnd } from '../../store/statement/month.ts';
import { SHARED_BOUND } from '../../store/statement/statement.ts';
import { EXPORT_MS } from '../../store/usage/export.ts';
import { archiveStatements } from '../../store/usage/statement-archive.ts';
import { formAt, type PageContext, pageAt, type Route, read } from '../page/context.ts';
import { CSV, downloadRead, nameFile } from '../page/download.ts';
import { csrfInput, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, type Cells, companyLink, exactSwitch, muted, page, table } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { csvLink, focusLink, spreadsheetOf } from '../page/spreadsheet.ts';
import { type Step, stepsList } from '../usage/first-steps.ts';
import { askIfOnItsWay, closeForm, closing, onItsWay } from '../usage/statement-close.ts';
import { figureCard } from '../usage/usage-cards.ts';
import { signed } from '../usage/usage-change.ts';
import { downloadFocus } from '../usage/usage-export.ts';
import { presentMonth } from '../usage/usage-query.ts';

const PATH = '/month-end';
const action = 'statement.close';

/** The month-end desk: what is still to do for a month, its figures, closing it, and the statements of all companies. */
export const monthEndRoutes: readonly Route[] = [
  pageAt(PATH, action, deskPage),
  formAt(PATH, action, closeAll, { permits: 'slow', page: deskPage }),
  formAt(`${PATH}/mail`, action, mailAll, { permits: 'slow' }),
  pageAt(`${PATH}.csv`, action, downloadCsv),
  pageAt(`${PATH}.tar.gz`, action, downloadArchive),
  ...['/companies/statements', '/companies/statements/month'].map(
    (path): Route => pageAt(path, action, toDesk),
  ),
  pageAt(`${PATH}/focus.csv`, action, (c) => downloadFocus(c, monthOf(c))),
];

/** No company is begun later than this after the form was sent: proxies wait for an answer a minute or so. */
const ROUND_MS = 20_000;
const SORTS = {
  name: 'Company',
  '-cost': 'Total',
  open: 'Statement',
  opened: 'Opened',
};
type Refused = ClosedEach['refused'][number];

/** From where it was before. */
function toDesk(c: PageContext): Response {
  return c.redirect(`${PATH}${new URL(c.req.url).search}`, 302);
}

/** The first day of the month that a page or a form is about; the last one that is over by default. @throws FieldError */
function monthOf(c: PageContext, form?: Form): string {
  const asked = form?.values.get('month') ?? c.req.query('month');
  return asked ? readMonth(asked) : addMonths(presentMonth(c), -1);
}

async function deskPage(c: PageContext, form: Form): Promise<Response> {
  const month = monthOf(c, form);
  const { format } = c.var;
  const name = format.month(month);
  const short = month.slice(0, 7);
  const query = listQuery<CompanyMonthSort>(c, SORTS);
  const why = await onItsWay(c, month);
  const { rows, end } = await read(c, async (sql) => ({
    rows: await pageOfCompanyMonths(sql, month, query),
    end: await readMonthEnd(sql, month),
  }));
  const { sums } = end;
  const left = sums.companies - sums.closed;
  const shown = {
    path: PATH,
    caption: `Statements of ${name}`,
    ...columns(c, short),
    sorts: SORTS,
    kept: { month: short },
    empty: `No company has API calls in ${name}, and none waits for a correction.`,
  };
  const files = `month=${short}`;
  const closed = c.req.query('closed') ?? '';
  const mailed = c.req.query('mailed') ?? '';
  const other = (to: string, rel: string) =>
    html`<a class="button quiet" rel="${rel}" href="${PATH}?month=${to.slice(0, 7)}">${format.month(to)}</a>`;
  const next = addMonths(month, 1);
  const body = html`<div class="title-row"><h1>Month-end of ${name}</h1>
<span class="row-actions">${other(addMonths(month, -1), 'prev')}${next < presentMonth(c) ? other(next, 'next') : ''}</span></div>${formState(form, c.req.path).summary}
${/^\d{1,9}$/.test(mailed) ? html`<p class="notice" role="status">${mailed === '1' ? 'One e-mail is' : `${format.count(Number(mailed))} e-mails are`} on the way.</p>` : ''}${/^\d{1,9}$/.test(closed) ? closedNotice(c, month, Number(closed), left) : ''}
${figures(c, month, end)}
${checks(c, month, why, end)}
${left === 0 || end.earlier.some(({ open }) => open >= left) ? '' : closeCard(c, month, end)}
<div class="title-row"><h2>Statements</h2>${sums.companies === 0 ? '' : html`<span class="row-actions">${csvLink(c, `${PATH}.csv?${files}`)}${focusLink(`${PATH}/focus.csv?${files}`)}${sums.closed === 0 ? '' : html`<a class="button quiet" href="${PATH}.tar.gz?${files}" download>All as one archive</a>`}</span>`}</div>
${list(c, shown, query, rows)}
<p class="muted foot">Companies with API calls in the month, or with calls that came after an earlier month was closed: the next statement corrects them. In-app chat is in none. The invoice is for the amount in cents: the exact total, rounded once. ${exactSwitch(c)}</p>`;
  return page(c, `Month-end of ${name}`, body);
}

function figures(c: PageContext, month: string, { sums, before_eur }: MonthEnd): Html {
  const { format } = c.var;
  const { companies, closed, opened, total_eur, requests, corrections } = sums;
  const before = format.month(addMonths(month, -1));
  const change = before_eur === null ? null : formatEur(parseEur(total_eur) - parseEur(before_eur));
  const share =
    Number(before_eur) > 0
      ? ` (${format.percent((Number(change) / Number(before_eur)) * 100)})`
      : '';
  const changeText =
    change === null
      ? `No calls in ${before}`
      : html`${signed(change, format)}${share} against ${before}`;
  const late =
    corrections === 0
      ? 'no late calls'
      : `and ${format.count(corrections)} of earlier months that came late`;
  return html`<div class="figures">
${figureCard('Total', format.amount(total_eur), changeText)}
${figureCard('Calls', format.count(requests), late)}
${figureCard('Closed', `${format.count(closed)} of ${format.count(companies)}`, closed === 0 ? 'no statement yet' : `${format.count(opened)} opened by their owners`)}</div>`;
}

/** What should be looked at before the month is closed. */
function checks(
  c: PageContext,
  month: string,
  why: string | null,
  { sums, earlier, free_models }: MonthEnd,
): Html {
  const { format } = c.var;
  const isOver = sums.companies > 0 && sums.closed === sums.companies;
  const months = earlier.map(
    ({ month, open }, at) =>
      html`${at === 0 ? '' : ', '}<a href="${PATH}?month=${month}">${format.month(`${month}-01`)}</a> (${open === 1 ? 'one company' : `${format.count(open)} companies`})`,
  );
  const models = free_models.map(
    (slug, at) =>
      html`${at === 0 ? '' : ', '}<a href="/models?q=${encodeURIComponent(slug)}"><code>${slug}</code></a>`,
  );
  const steps: readonly Step[] = [
    {
      title: 'Earlier months are closed',
      isDone: earlier.length === 0,
      text: html`Still open: ${months}. Months of a company are closed in their order: close these first, or those companies are refused here.`,
    },
    { title: 'All records are booked', isDone: why === null, text: why ?? '' },
    {
      title: 'Every model has a price',
      isDone: free_models.length === 0,
      text: html`Calls of ${models} had tokens and cost nothing. A price set now counts for later calls alone.`,
    },
    { title: 'The month is closed for all companies', isDone: isOver, text: '' },
    {
      title: 'Owners have opened their statements',
      isDone: isOver && sums.opened === sums.closed,
      text: sums.closed === 0 || c.var.services.mail === null ? '' : mailForm(c, month),
    },
  ];
  const open = steps.map((step) => (step.isDone ? { ...step, text: '' } : step));
  return html`<section class="card first-steps" aria-labelledby="to-do"><h2 id="to-do">To do</h2>${stepsList(c, open)}</section>`;
}

function mailForm(c: PageContext, month: string): Html {
  return html`<form method="post" action="${PATH}/mail" class="actions">${csrfInput(c)}<input type="hidden" name="month" value="${month.slice(0, 7)}"><button>Send them by e-mail</button> ${muted('To owners, and to others who want it, each once: a summary with a link.')}</form>`;
}

/** Sends the statements of the month to whom they were not sent. */
async function mailAll(c: PageContext, form: Form): Promise<Response> {
  const month = form.required('month', readMonth);
  form.check();
  const mailed = await closing(c)((sql) => mailStatements(sql, month, null));
  return c.redirect(`${PATH}?month=${month.slice(0, 7)}&mailed=${mailed}`, 303);
}

function closeCard(c: PageContext, month: string, { sums }: MonthEnd): Html {
  const { format } = c.var;
  const left = sums.companies - sums.closed;
  const count = left === 1 ? 'one company' : `${format.count(left)} companies`;
  const what = `${format.month(month)} for ${count}`;
  const text = html`Each of them gets a numbered and sealed statement with the figures below; the total of the month is ${format.eurText(sums.total_eur)}.`;
  return closeForm(c, month, PATH, what, text);
}

function columns(c: PageContext, month: string) {
  const { format } = c.var;
  const cells: Cells<CompanyMonth> = {
    Company: (row) =>
      html`${companyLink(row, `statements/month?month=${month}`)}${row.company_name === null ? html` <code>${row.company_id}</code>` : ''}`,
    Statement: ({ number }) => (number === null ? badge('warn', 'open') : format.count(number)),
    Calls: ({ requests }) => format.count(requests),
    Corrections: ({ corrections }) =>
      corrections === 0 ? muted('none') : format.count(corrections),
    Total: ({ total_eur }) => format.amount(total_eur),
    'To invoice': ({ total_eur }) => format.eurText(amountInCents(total_eur)),
    Opened: ({ number, opened_at, opened_by }) =>
      opened_at === null
        ? muted(number === null ? '–' : 'no')
        : html`${format.instant(opened_at)} ${muted(opened_by ?? '')}`,
  };
  return { cells, figures: ['Calls', 'Corrections', 'Total', 'To invoice'] };
}

async function closeAll(c: PageContext, form: Form): Promise<Response> {
  const { clock } = c.var.services;
  const month = form.required('month', readMonth);
  form.check();
  const back = `${PATH}?month=${month.slice(0, 7)}`;
  await askIfOnItsWay(c, form, month, back);
  const end = clock() + ROUND_MS;
  const asked = { month, anyway: true, mail: form.checked('mail'), bound: SHARED_BOUND };
  const done = await closeMonthOfAll(closing(c), asked, () => clock() < end);
  // those whose turn did not come wait on the page of the month
  return done.refused.length > 0
    ? refusedPage(c, month, done, back)
    : c.redirect(`${back}&closed=${done.closed.length}`, 303);
}

/** The refused companies with their reasons, which are stored nowhere. */
async function refusedPage(
  c: PageContext,
  month: string,
  { closed, refused }: ClosedEach,
  back: string,
) {
  const name = c.var.format.month(month);
  const ids = refused.map(({ company_id }) => company_id);
  const names = await read(c, (sql) => companyNames(sql, ids));
  const cells = {
    Company: ({ company_id }: Refused) =>
      companyLink(
        { company_id, company_name: names.get(company_id) ?? null },
        `statements/month?month=${month.slice(0, 7)}`,
      ),
    Reason: ({ reason }: Refused) => reason,
  };
  const body = html`<h1>Month-end of ${name}</h1>${closedNotice(c, month, closed.length)}
<section class="problem" role="alert"><h2>Not closed</h2>${table(`Not closed for ${name}`, refused, { cells }, true)}</section>
<p><a href="${back}">What is still open of ${name}</a></p>`;
  return page(c, `Month-end of ${name}`, body);
}

/** @param left companies whose turn did not come in the round */
function closedNotice(c: PageContext, month: string, closed: number, left = 0): Html {
  const { format } = c.var;
  const many = closed === 0 ? 'No company was' : `${format.count(closed)} companies are`;
  const count = closed === 1 ? 'One company is' : many;
  return html`<p class="notice" role="status">${count} closed for ${format.month(month)}.${left === 0 ? '' : ` There was no time for ${format.count(left)} more: close the month for them, too.`}</p>`;
}

/** All companies of the month in one file, with names. */
async function downloadCsv(c: PageContext): Promise<Response> {
  const month = monthOf(c);
  const form = spreadsheetOf(c);
  const rows = await read(c, (sql) => readCompanyMonths(sql, month), EXPORT_MS);
  const name = month.slice(0, 7);
  nameFile(c, { name: `statements-${name}.csv`, type: CSV });
  return c.body(monthCsv(name, rows, form));
}

/** All statements of the month in one file. */
async function downloadArchive(c: PageContext): Promise<Response> {
  const month = monthOf(c);
  const file = { name: `statements-${month.slice(0, 7)}.tar.gz`, type: 'application/gzip' };
  return downloadRead(c, file, (sql, write) => archiveStatements(sql, month, write));
}
