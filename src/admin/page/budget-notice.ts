import { may } from '../../operations/frame/permission.ts';
import { type BudgetNotice, readNotices } from '../../store/events/alert.ts';
import { mayNow, type PageContext, read } from './context.ts';
import { type Html, html } from './html.ts';

const MOST_SHOWN = 20;

/**
 * The budget alerts of a company's present month that are still true: the first, and a line for the others. Beside its
 * name there is a dot for those that refuse nothing yet, which only its page of usage tells.
 */
export async function budgetNotices(
  c: PageContext,
  company: string,
): Promise<{ readonly dot: Html; readonly notices: Html }> {
  if (!may(c.var.session.user, 'usage.read', company)) return { dot: html``, notices: html`` }; // a member sees no budget of the company
  const { title, more } = c.var.format.words.budgetNotice;
  const usage = `/companies/${company}/usage`;
  const all = await read(c, (sql) => readNotices(sql, company, MOST_SHOWN));
  const told = c.req.path === usage ? all : all.filter(({ used }) => used === 100);
  const dot =
    told.length === all.length
      ? html``
      : html` <a class="dot" href="${usage}" aria-label="${title}" title="${title}"></a>`;
  const [first = html``, ...others] = told.map((notice) => budgetNotice(c, company, notice));
  if (others.length === 0) return { dot, notices: first };
  const notices = html`${first}<details class="more-notices"><summary>${more(others.length)}</summary>${others}</details>`;
  return { dot, notices };
}

function budgetNotice(
  c: PageContext,
  company: string,
  { key, month, used, percent, reached_on }: BudgetNotice,
): Html {
  const { format } = c.var;
  const words = format.words.budgetNotice;
  const whose =
    key === null
      ? ''
      : html`${words.key} <a href="/companies/${company}/keys/${key.id}">${key.name}</a> <code>${key.prefix}…</code>: `;
  const name = format.month(month);
  if (used === 100) {
    const raised =
      key === null && mayNow(c, 'company.set')
        ? html`<a href="/companies/${company}/settings">${words.raised}</a>`
        : words.raised;
    return html`<p class="problem">${whose}<strong>${words.usedUp(name)}</strong> ${words.refused({ isKey: key !== null, raised })}</p>`;
  }
  const share =
    used === null
      ? ''
      : html`<strong>${words.used({ percent: format.percent(percent), month: name })}</strong>`;
  const pace =
    reached_on === null
      ? ''
      : words.pace({
          month: name,
          isUsed: used !== null,
          day: html`<strong>${format.day(reached_on)}</strong>`,
        });
  return html`<p class="notice warn-notice">${whose}${share}${pace}</p>`;
}
