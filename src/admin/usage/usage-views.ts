import { readName } from '../../domain/field.ts';
import { MOST_VIEWS, removeView, saveView } from '../../operations/user.ts';
import type { Group } from '../../store/usage/usage-table.ts';
import { listViews } from '../../store/users/user.ts';
import { changeAsOperator, isCompanyClosed, type PageContext } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { usageAddress } from './reach.ts';
import { queryOf, readUsageQuery, type UsageQuery } from './usage-query.ts';

/** Questions of usage that a person keeps under a name. Whoever may see the page can be sent its address. */

const DEADLINE_MS = 2000;

/** The views that the reader saved of this page, and the form that saves what is shown, in a fold. */
export async function savedViews(
  c: PageContext,
  query: UsageQuery,
  form: Form,
): Promise<{ readonly isKept: boolean; readonly isSent: boolean; readonly fold: Html | string }> {
  const { services, session, format } = c.var;
  const path = usageAddress(c);
  const { views: words } = format.words;
  const all = await services.db.run(DEADLINE_MS, (sql) => listViews(sql, session.user.user_id));
  const views = all.filter(({ address }) => address.startsWith(`${path}?`));
  const address = path + queryOf(query);
  const state = formState(form, path);
  const isClosed = isCompanyClosed(c);
  const view = ({ name, address: its }: (typeof views)[number]) =>
    html`<li><a class="chip" href="${its}"${its === address ? raw(' aria-current="page"') : ''}>${name}</a>${isClosed ? '' : html` <form method="post" action="${address}">${csrfInput(c)}<input type="hidden" name="removed" value="${name}"><button class="quiet" aria-label="${words.remove(name)}">×</button></form>`}</li>`;
  const isKept = views.length > 0;
  const fold =
    isClosed && !isKept
      ? ''
      : html`<details class="fold"${raw(state.isSent ? ' open' : '')}><summary${raw(isKept ? ' class="button"' : '')}>${words.title}${isKept ? ` (${format.count(views.length)})` : ''}</summary>
${isKept ? html`<ul class="chips">${views.map(view)}</ul>` : ''}
${isClosed ? '' : html`<form method="post" action="${address}" class="filters">${csrfInput(c)}${field(state, { name: 'view', label: words.name, hint: words.hint })}<button>${words.save}</button></form>`}</details>`;
  return { isKept, isSent: state.isSent, fold };
}

/** Saves the question of the address, or removes a view. */
export async function changeViews(
  c: PageContext,
  form: Form,
  groups: readonly Group[],
): Promise<Response> {
  const { user_id: user } = c.var.session.user;
  const address = usageAddress(c) + queryOf(readUsageQuery(c, groups));
  const removed = form.values.get('removed');
  if (removed !== null) await changeAsOperator(c, (sql) => removeView(sql, user, removed));
  else {
    const name = form.required('view', readName);
    form.check();
    const isSaved = await changeAsOperator(c, (sql) => saveView(sql, user, name, address));
    if (!isSaved) form.refuse('view', form.words.views.full(MOST_VIEWS));
    form.check();
  }
  return c.redirect(`${address}&done=${removed === null ? 'view-saved' : 'view-removed'}`, 303);
}
