import { type BudgetNotice, readNotices } from '../../store/events/alert.ts';
import { mayNow, type PageContext, read } from './context.ts';
import { type Html, html } from './html.ts';

const MOST_SHOWN = 20;

/** The budget alerts of a company's present month that are still true, above each of its pages: the first, and a line for the others. */
export async function budgetNotices(c: PageContext, company: string): Promise<Html> {
  const notices = await read(c, (sql) => readNotices(sql, company, MOST_SHOWN));
  const [first, ...others] = notices.map((notice) => budgetNotice(c, company, notice));
  if (first === undefined || others.length === 0) return html`${first ?? ''}`;
  const more = others.length === 1 ? 'one more budget' : `${others.length} more budgets`;
  return html`${first}<details class="more-notices"><summary>Notices about ${more}</summary>${others}</details>`;
}

function budgetNotice(c: PageContext, company: string, { key, month, used, reached_on }: BudgetNotice): Html {
  const { format } = c.var;
  const whose =
    key === null
      ? ''
      : html`Key <a href="/companies/${company}/access/${key.id}">${key.name}</a> <code>${key.prefix}…</code>: `;
  const budget = `budget for ${format.month(month)}`;
  if (used === 100) {
    const raised =
      key === null && mayNow(c, 'company.set')
        ? html`<a href="/companies/${company}/settings">the budget is raised</a>`
        : 'the budget is raised';
    return html`<p class="problem">${whose}<strong>The ${budget} is used up.</strong> ${key === null ? 'Calls' : 'Its calls'} are refused with 402 until the month ends or ${raised}.</p>`;
  }
  const share = used === null ? '' : html`<strong>${format.percent(used)} of the ${budget} is used.</strong>`;
  const pace =
    reached_on === null
      ? ''
      : html` At this pace ${used === null ? `the ${budget}` : 'it'} is reached on <strong>${format.day(reached_on)}</strong>.`;
  return html`<p class="notice warn-notice">${whose}${share}${pace}</p>`;
}
