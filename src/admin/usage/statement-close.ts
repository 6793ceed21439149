import { closeMonth } from '../../operations/statement.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { isClosed, requireInOrder, whyWait } from '../../store/statement/close.ts';
import { SHARED_BOUND } from '../../store/statement/statement.ts';
import { ConfirmationNeeded } from '../page/confirmation.ts';
import { changeAsOperator, type PageContext, param, read } from '../page/context.ts';
import { checkbox, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { confirmation } from '../page/layout.ts';

/** What operators are told and asked before a month is closed, of one company on its preview, or of all on the month-end desk. */

const READ_MS = 5000;
const CLOSE_MS = 600_000; // of one company: all rows of its month are read

/** Why one had better wait, in words; null: nothing is on its way to the month. @throws Refused where it is not over */
export function onItsWay(c: PageContext, month: string): Promise<string | null> {
  // not under the tenant role, which may not read what gateways have told
  return c.var.services.db.run(READ_MS, (sql) => whyWait(sql, month));
}

/** Asks before a month is closed to which records may be on their way. @throws ConfirmationNeeded, Refused */
export async function askIfOnItsWay(
  c: PageContext,
  form: Form,
  month: string,
  back: string,
): Promise<void> {
  const why = await onItsWay(c, month);
  const answer = `anyway ${month}`;
  if (why === null || form.confirms(answer)) return;
  throw new ConfirmationNeeded({
    answer,
    title: `Records of ${c.var.format.month(month)} may be missing`,
    text: html`<p>${why}</p><p>Records that come after the month was closed become corrections on the next statement.</p>`,
    button: 'Close it anyway',
    link: { href: back, text: 'Cancel' },
  });
}

/** How the operations close months: each company in a transaction of its own. */
export const closing =
  (c: PageContext) =>
  <T>(work: (sql: Sql) => Promise<T>): Promise<T> =>
    changeAsOperator(c, work, CLOSE_MS);

/** The form that closes a month. @param what "October 2026", or with more @param figures what the statements will say */
export function closeForm(
  c: PageContext,
  month: string,
  action: string,
  what: string,
  figures: Html | string,
): Html {
  return confirmation(c, {
    action,
    button: `Close ${what}`,
    text: html`<p>${figures} This cannot be undone: what is booked for the month later becomes a correction on the next statement.</p>`,
    inputs: html`<input type="hidden" name="month" value="${month.slice(0, 7)}">${c.var.services.mail === null ? '' : checkbox(formState(new Form(), action), { name: 'mail', label: 'Send a summary by e-mail to owners, and to others who want it', checked: false })}`,
  });
}

/** What stands below the preview of a month for those who may close it. @param earlier months that are open before it, "2026-09" */
export async function closeCard(
  c: PageContext,
  month: string,
  earlier: readonly string[],
): Promise<Html> {
  const { format } = c.var;
  const path = `/companies/${param(c, 'company')}/statements/month`;
  const why = await onItsWay(c, month);
  const name = (each: string) => format.month(`${each.slice(0, 7)}-01`);
  const first = earlier[0];
  return html`${why === null ? '' : html`<p class="notice warn-notice">${why}</p>`}${
    first === undefined
      ? closeForm(
          c,
          month,
          path,
          name(month),
          'The month gets a numbered and sealed statement with these figures.',
        )
      : html`<p class="notice warn-notice">Still open before it: ${earlier.map((each, at) => html`${at === 0 ? '' : ', '}<a href="${path}?month=${each}">${name(each)}</a>`)}. Statements are numbered in the order in which months are closed, so these are closed first.</p>`
  }`;
}

/** Closes the month of one company. */
export async function closeOne(c: PageContext, form: Form, month: string): Promise<Response> {
  form.check();
  const company = param(c, 'company');
  const shown = `${c.req.path}?month=${month.slice(0, 7)}`;
  if (!(await read(c, (sql) => isClosed(sql, company, month)))) {
    await read(c, (sql) => requireInOrder(sql, company, month));
    await askIfOnItsWay(c, form, month, shown);
  }
  await closeMonth(closing(c), company, {
    month,
    anyway: true,
    mail: form.checked('mail'),
    bound: SHARED_BOUND,
  });
  return c.redirect(`${shown}&done=month-closed`, 303);
}
