import { readMonth } from '../../domain/field.ts';
import { RefusedChange } from '../../domain/refusal.ts';
import { type ClosedEach, closeMonth, closeMonthOfAll } from '../../operations/statement.ts';
import { companyNames } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type OpenCompany, type OpenSort, pageOfOpenCompanies } from '../../store/lists/page.ts';
import { companiesToClose, requireClosable, requireInOrder } from '../../store/statement/close.ts';
import { type MonthRow, monthsOfAll, openMonths, readMonthOf, SHARED_BOUND } from '../../store/statement/statement.ts';
import { ConfirmationNeeded } from '../page/confirmation.ts';
import { changeAsOperator, type PageContext, param, type Route, read, readOfCompany } from '../page/context.ts';
import { formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, companyLink, confirmation, emptyText, muted, page, table } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { figures } from './statement.ts';

const ALL = '/companies/statements';
const ONE = '/companies/:company/statements/close';
const action = 'statement.close';

/** Closes a month of one company, or of all, for operators. The last months of a closed company can be closed too. */
export const statementCloseRoutes: readonly Route[] = [
  { method: 'GET', path: ALL, action, handle: monthsPage },
  { method: 'GET', path: `${ALL}/month`, action, handle: monthPage },
  { method: 'POST', path: `${ALL}/month`, action, permits: 'slow', handle: closeAll, page: monthPage },
  { method: 'GET', path: ONE, action, whileClosed: true, handle: closePage },
  { method: 'POST', path: ONE, action, whileClosed: true, permits: 'slow', handle: close, page: closePage },
];

const READ_MS = 5000;
const CLOSE_MS = 600_000; // of one company: all rows of its month are read
/** No company is begun later than this after the form was sent: proxies wait for an answer a minute or so. */
const ROUND_MS = 20_000;
type Refused = ClosedEach['refused'][number];
const SORTS = { name: 'Name', '-cost': 'Highest cost' };
const ONCE = 'This cannot be undone: what is booked for the month later becomes a correction on the next statement.';

/** The first day of the month that a page or a form is about. @throws FieldError */
function monthOf(c: PageContext, form: Form): string {
  return readMonth(form.values.get('month') ?? c.req.query('month') ?? '');
}

function monthInput(month: string): Html {
  return html`<input type="hidden" name="month" value="${month.slice(0, 7)}">`;
}

/** Why one had better wait, in words; null: nothing is on its way to the month. @throws RefusedChange where it is not over */
function onItsWay(c: PageContext, month: string): Promise<string | null> {
  // not under the tenant role, which may not read what gateways have told
  return c.var.services.db.run(READ_MS, async (sql) => {
    await requireClosable(sql, month, true);
    try {
      await requireClosable(sql, month);
      return null;
    } catch (error) {
      if (!(error instanceof RefusedChange)) throw error;
      return error.message;
    }
  });
}

/** Asks before a month is closed to which records may be on their way. @throws ConfirmationNeeded, RefusedChange */
async function askIfOnItsWay(c: PageContext, form: Form, month: string, back: string): Promise<void> {
  const why = await onItsWay(c, month);
  const answer = `anyway ${month}`;
  if (why === null || form.confirms(answer)) return;
  throw new ConfirmationNeeded({
    answer,
    title: `Records of ${c.var.format.month(month)} may be missing`,
    text: html`<p>${why}</p><p>Records that come after the month was closed become corrections on the next statement.</p>`,
    button: 'Close it anyway',
    link: { href: back, text: 'Keep it open' },
  });
}

async function closePage(c: PageContext, form: Form): Promise<Response> {
  const month = monthOf(c, form);
  const { format } = c.var;
  const [company, { shown, earlier }] = await readOfCompany(c, async (sql, id) => ({
    shown: await readMonthOf(sql, id, month, SHARED_BOUND),
    earlier: (await openMonths(sql, id)).filter((each) => `${each}-01` < month),
  }));
  const base = `/companies/${company.id}/statements`;
  const back = `${base}/month?month=${month.slice(0, 7)}`;
  if (shown.stored !== null) return c.redirect(back, 303);
  const why = await onItsWay(c, month);
  const name = format.month(month);
  const body = html`${companyHeading(c, company)}<h1>Close ${name}?</h1>${formState(form, c.req.path).summary}
${why === null ? '' : html`<p class="notice warn-notice">${why}</p>`}
${figures(c, shown.statement)}
${
  earlier.length > 0
    ? earlierFirst(c, base, earlier)
    : confirmation(c, {
        action: `${base}/close`,
        button: `Close ${name}`,
        back,
        keep: 'Keep it open',
        text: html`<p>The month gets a numbered and sealed statement with these figures. ${ONCE}</p>`,
        inputs: monthInput(month),
      })
}`;
  return page(c, `Close ${name} of ${company.name}`, body);
}

/** The text in place of the button where earlier months are open. */
function earlierFirst(c: PageContext, base: string, earlier: readonly string[]): Html {
  const name = (month: string) => c.var.format.month(`${month}-01`);
  return html`<p class="notice warn-notice">Still open before it: ${earlier.map((each, at) => html`${at === 0 ? '' : ', '}<a href="${base}/close?month=${each}">${name(each)}</a>`)}. Statements are numbered in the order in which months are closed, so these are closed first.</p>
<div class="actions"><a class="button primary" href="${base}/close?month=${earlier[0] as string}">Close ${name(earlier[0] as string)}…</a></div>`;
}

const transactOf =
  (c: PageContext) =>
  <T>(work: (sql: Sql) => Promise<T>): Promise<T> =>
    changeAsOperator(c, work, CLOSE_MS);

async function close(c: PageContext, form: Form): Promise<Response> {
  const month = form.required('month', readMonth);
  form.check();
  const company = param(c, 'company');
  const shown = `/companies/${company}/statements/month?month=${month.slice(0, 7)}`;
  await read(c, (sql) => requireInOrder(sql, company, month));
  await askIfOnItsWay(c, form, month, shown);
  await closeMonth(transactOf(c), company, { month, anyway: true, bound: SHARED_BOUND });
  return c.redirect(`${shown}&done=month-closed`, 303);
}

async function monthsPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const months = await read(c, monthsOfAll);
  const cells = {
    Month: ({ month }: MonthRow) => html`<a href="${ALL}/month?month=${month}">${format.month(`${month}-01`)}</a>`,
    Closed: ({ closed }: MonthRow) => format.count(closed),
    Open: ({ open }: MonthRow) => (open === 0 ? muted('none') : format.count(open)),
  };
  const body = html`<h1>Statements of all companies</h1>
<p class="lead">A statement closes a month of one company for good. A month is open for the companies that have API calls in it and no statement of it.</p>
${months.length === 0 ? emptyText('No month with API calls is over yet. Each can be closed here once it is.') : table('Companies by month', months, { cells, figures: ['Closed', 'Open'] })}`;
  return page(c, 'Statements of all companies', body);
}

async function monthPage(c: PageContext, form: Form): Promise<Response> {
  const month = monthOf(c, form);
  const { format } = c.var;
  const name = format.month(month);
  const query = listQuery<OpenSort>(c, SORTS);
  const why = await onItsWay(c, month);
  const { open, left, months } = await read(c, async (sql) => ({
    open: await pageOfOpenCompanies(sql, month, query),
    left: (await companiesToClose(sql, month)).length,
    months: await monthsOfAll(sql),
  }));
  const earlier = months.filter((each) => each.open > 0 && `${each.month}-01` < month).reverse();
  const preview = (row: OpenCompany) => companyLink(row, `statements/month?month=${month.slice(0, 7)}`);
  const cells = {
    Company: (row: OpenCompany) =>
      html`${preview(row)}${row.company_name === null ? html` <code>${row.company_id}</code>` : ''}`,
    Requests: ({ requests }: OpenCompany) => format.count(requests),
    Cost: ({ cost_eur }: OpenCompany) => format.amount(cost_eur),
    'Late calls': ({ late }: OpenCompany) => (late === 0 ? muted('none') : format.count(late)),
  };
  const shown = {
    path: `${ALL}/month`,
    caption: `Companies to close ${name} for`,
    cells,
    sorts: SORTS,
    figures: ['Requests', 'Cost', 'Late calls'],
    kept: { month: month.slice(0, 7) },
    empty: `No company waits for a statement of ${name}.`,
  };
  const closed = c.req.query('closed') ?? '';
  const body = html`<h1>${name} of all companies</h1>${formState(form, c.req.path).summary}
${/^\d{1,9}$/.test(closed) ? closedNotice(c, month, Number(closed), left) : ''}
${why === null ? '' : html`<p class="notice warn-notice">${why}</p>`}
${earlier.length === 0 || left === 0 ? '' : earlierOfAll(c, earlier)}
${left === 0 ? '' : closeForm(c, month, left)}
${list(c, shown, query, open)}
<p class="muted foot">Companies with API calls in the month and no statement of it, and those with late calls: calls that came after their month was closed, which the statement corrects. <a href="${ALL}">All months</a></p>`;
  return page(c, `${name} of all companies`, body);
}

/** Earlier months that are open for some companies, which are refused until then. */
function earlierOfAll(c: PageContext, earlier: readonly MonthRow[]): Html {
  const { format } = c.var;
  return html`<p class="notice warn-notice">Still open before it: ${earlier.map(({ month, open }, at) => html`${at === 0 ? '' : ', '}<a href="${ALL}/month?month=${month}">${format.month(`${month}-01`)}</a> (${open === 1 ? 'one company' : `${format.count(open)} companies`})`)}. A company's months are closed in their order: close these first, or those companies are refused here.</p>`;
}

function closeForm(c: PageContext, month: string, companies: number): Html {
  const { format } = c.var;
  const name = format.month(month);
  const count = companies === 1 ? 'one company' : `${format.count(companies)} companies`;
  return confirmation(c, {
    action: `${ALL}/month`,
    button: `Close ${name} for ${count}`,
    back: ALL,
    keep: 'Keep it open',
    text: html`<p>Each company gets a numbered and sealed statement of ${name}. ${ONCE}</p>`,
    inputs: monthInput(month),
  });
}

async function closeAll(c: PageContext, form: Form): Promise<Response> {
  const { clock } = c.var.services;
  const month = form.required('month', readMonth);
  form.check();
  const back = `${ALL}/month?month=${month.slice(0, 7)}`;
  await askIfOnItsWay(c, form, month, back);
  const end = clock() + ROUND_MS;
  const closing = { month, anyway: true, bound: SHARED_BOUND };
  const done = await closeMonthOfAll(transactOf(c), closing, () => clock() < end);
  // those whose turn did not come wait on the page of the month
  return done.refused.length > 0
    ? refusedPage(c, month, done, back)
    : c.redirect(`${back}&closed=${done.closed.length}`, 303);
}

/** The refused companies with their reasons, which are stored nowhere. */
async function refusedPage(c: PageContext, month: string, { closed, refused }: ClosedEach, back: string) {
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
  const body = html`<h1>${name} of all companies</h1>${closedNotice(c, month, closed.length)}
<section class="problem" role="alert"><h2>Not closed</h2>${table(`Not closed for ${name}`, refused, { cells }, true)}</section>
<p><a href="${back}">What is still open of ${name}</a></p>`;
  return page(c, `${name} of all companies`, body);
}

/** @param left companies whose turn did not come in the round */
function closedNotice(c: PageContext, month: string, closed: number, left = 0): Html {
  const { format } = c.var;
  const many = closed === 0 ? 'No company was' : `${format.count(closed)} companies are`;
  const count = closed === 1 ? 'One company is' : many;
  return html`<p class="notice" role="status">${count} closed for ${format.month(month)}.${left === 0 ? '' : ` There was no time for ${format.count(left)} more: close the month for them, too.`}</p>`;
}
