import { percentSpent } from '../../domain/budget.ts';
import { END_USER_BUDGET } from '../../domain/settings/end-user.ts';
import type { UsageSums } from '../../domain/usage.ts';
import { changeEndUser, eraseEndUser } from '../../operations/end-user.ts';
import { type EndUserRow, findEndUser } from '../../store/company/end-user.ts';
import {
  type EndUserSort,
  type ListedEndUser,
  pageOfEndUserCosts,
} from '../../store/lists/page.ts';
import { readUsedMonths } from '../../store/usage/cost-center.ts';
import { type KeyOfUser, readEndUserMonth } from '../../store/usage/end-user.ts';
import { budgetPicture, budgetTiles } from '../page/chart.ts';
import { askedFirst } from '../page/confirmation.ts';
import {
  backTo,
  change,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  readOfCompany,
} from '../page/context.ts';
import { formState, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import {
  badge,
  type Cells,
  type Columns,
  clipped,
  companyHeading,
  emptyText,
  exactSwitch,
  linkButton,
  muted,
  page,
  table,
  titledCard,
} from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { monthForm } from './usage-bar.ts';
import { sumCards } from './usage-cards.ts';
import { monthAsked, presentMonth } from './usage-query.ts';

const BASE = '/companies/:company/end-users';
/** The list sums up the month of each: two million rows take some seconds. */
const LIST_MS = 20_000;
const REACHED = 'reached';

/** The people behind the keys of a company: what each cost in a month, by day, model and key, and the erasure of a name. */
export const endUserRoutes: readonly Route[] = [
  pageAt(BASE, 'end-user.read', listPage),
  pageAt(`${BASE}/:person`, 'end-user.read', personPage),
  formAt(`${BASE}/:person`, 'end-user.write', saveBudget, { page: personPage }),
  ...askedFirst(`${BASE}/:person/erase`, 'end-user.erase', askErasure, erase),
];

async function listPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const { endUsers: words } = format.words;
  const { usage } = format.words;
  const month = monthAsked(c);
  const isPresent = month === presentMonth(c);
  const sorts = {
    '-spent': usage.spent,
    ...(isPresent && { '-share': usage.budget }),
    name: words.one,
    '-called': words.called,
  };
  const query = listQuery<EndUserSort>(c, sorts);
  const isReached = isPresent && c.req.query('show') === REACHED;
  const [company, { people, months }] = await readOfCompany(
    c,
    async (sql, id) => ({
      people: await pageOfEndUserCosts(sql, id, { month, isPresent, isReached }, query),
      months: await readUsedMonths(sql, id),
    }),
    LIST_MS,
  );
  const path = `/companies/${company.id}/end-users`;
  const kept = { month: month.slice(0, 7) };
  const shown = format.month(month);
  const cells: Cells<ListedEndUser> = {
    [words.one]: (row) =>
      clipped(
        nameText(row, format),
        html`<a href="${path}/${row.id}?month=${kept.month}">${nameOf(row, format)}</a>`,
      ),
    [usage.spent]: ({ spent }) => format.amount(spent),
    ...(isPresent && { [usage.budget]: (row) => shareCell(row, format) }),
    [words.called]: ({ last_seen }) => format.ago(last_seen),
  };
  const choices = [
    ['', words.all],
    [REACHED, words.reached],
  ] as const;
  const spec = {
    ...{ path, caption: words.title(shown), cells, sorts, kept, empty: words.empty(shown) },
    figures: [usage.spent],
    look: 'rows' as const,
    finds: words.one,
    ...(isPresent && {
      filter: { name: 'show', label: words.which, choices, value: isReached ? REACHED : '' },
    }),
  };
  const body = html`${companyHeading(c)}
<div class="title-row"><h1>${words.title(shown)}</h1>${monthForm(c, path, month, months)}</div>
${budgetTiles()}
${list(c, spec, query, people)}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  return page(c, words.of(company.name), body);
}

async function personPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const { endUsers: words, usage } = format.words;
  const month = monthAsked(c);
  const person = param(c, 'person');
  const [company, { row, used, months }] = await readOfCompany(c, async (sql, id) => ({
    row: await findEndUser(sql, person, id),
    used: await readEndUserMonth(sql, id, person, month),
    months: await readUsedMonths(sql, id),
  }));
  const path = `/companies/${company.id}/end-users`;
  const part = <T extends UsageSums>(
    title: string,
    rows: readonly T[],
    cell: (row: T) => Html | string,
    more?: Record<string, (row: T) => Html>,
  ) => html`<h2>${title}</h2>${table(title, rows, columnsOf(title, cell, format, more), true)}`;
  // of another month the present budget says nothing
  const isHeld =
    month === presentMonth(c) && used.by_key.some((key) => key.end_user_budget_eur !== null);
  const budget = { [usage.budget]: (key: KeyOfUser & UsageSums) => budgetCell(key, format) };
  const seen = words.seen({
    first: format.instant(row.first_seen),
    last: format.instant(row.last_seen),
  });
  const body = html`${companyHeading(c)}
<div class="title-row"><h1>${nameOf(row, format)}</h1>
<p class="actions">${
    row.name !== null && mayNow(c, 'end-user.erase')
      ? html`${linkButton(`${path}/${person}/erase`, words.erase)} `
      : ''
  }${linkButton(path, words.all)}</p></div>
<p class="muted">${seen} ${row.erased_at === null ? '' : words.erasedAt(format.instant(row.erased_at))}</p>
<div class="usage-bar">${monthForm(c, `${path}/${person}`, month, months)}</div>
${budgetTiles()}
${
  used.requests === 0
    ? emptyText(words.emptyOne(format.month(month)))
    : html`<div class="figures">${sumCards(used, used.cost_eur, usage.inMonth(format.month(month)), format)}</div>
${part(words.model, used.by_model, ({ model_slug }) => html`<code>${model_slug}</code>`)}
${part(words.key, used.by_key, ({ id, name }) => html`<a href="/companies/${company.id}/keys/${id}">${name ?? id}</a>`, isHeld ? budget : {})}
${part(words.day, used.by_day, ({ day }) => format.day(day))}`
}
${row.name !== null && mayNow(c, 'end-user.write') ? budgetForm(c, form, `${path}/${person}`, row) : ''}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  return page(c, `${nameText(row, format)}: ${company.name}`, body);
}

function budgetForm(c: PageContext, form: Form, path: string, row: EndUserRow): Html {
  const { endUsers: words } = c.var.format.words;
  const state = formState(form, path);
  return titledCard(
    words.budget,
    html`${state.summary}
${saveForm(
  c,
  path,
  html`${lockInput(state, row, END_USER_BUDGET)}
${settingFields(state, END_USER_BUDGET, row)}`,
  words.save,
)}`,
  );
}

async function saveBudget(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const id = param(c, 'person');
  const changes = readSettings(form, END_USER_BUDGET);
  form.check();
  const path = `/companies/${company}/end-users/${id}`;
  await change(c, async (sql) => {
    await lockEdited(c, sql, form, {
      ...{ table: 'end_users' as const, id, company, settings: END_USER_BUDGET, changes },
      find: () => findEndUser(sql, id, company),
      page: path,
    });
    await changeEndUser(sql, id, company, changes);
  });
  const isNone = Object.values(changes).includes(null);
  return backTo(c, path, isNone ? 'budget-removed' : 'budget-saved');
}

/** What is spent of what a key lets each of its end users cost. */
function budgetCell(
  { cost_eur, end_user_budget_eur: budget_eur }: KeyOfUser & UsageSums,
  format: Format,
): Html {
  const percent = budget_eur === null ? null : percentSpent(cost_eur, budget_eur);
  const isReached = percent !== null && percent >= 100;
  return html`${shareCell({ percent, budget_eur }, format)}${isReached ? badge('bad', format.words.usage.reached) : ''}`;
}

function shareCell(
  { percent, budget_eur: eur }: Pick<ListedEndUser, 'percent' | 'budget_eur'>,
  format: Format,
): Html {
  if (eur === null || percent === null) return html`–`;
  const { usage } = format.words;
  return html`<span class="budget-cell">${budgetPicture(usage, null, percent, null)}<span>${format.percent(percent)} <span class="of">${usage.ofBudget(format.amount(eur))}</span></span></span>`;
}

function columnsOf<T extends UsageSums>(
  title: string,
  cell: (row: T) => Html | string,
  format: Format,
  more: Record<string, (row: T) => Html> = {},
): Columns<T> {
  const { usage } = format.words;
  return {
    cells: {
      [title]: cell,
      [usage.spent]: ({ cost_eur }) => format.amount(cost_eur),
      [usage.requests]: ({ requests }) => format.count(requests),
      [usage.tokens]: ({ prompt_tokens, completion_tokens }) =>
        format.count(prompt_tokens + completion_tokens),
      ...more,
    },
    figures: [usage.spent, usage.requests, usage.tokens],
  };
}

async function askErasure(c: PageContext) {
  const { endUsers: words } = c.var.format.words;
  const [company, row] = await readOfCompany(c, (sql, id) =>
    findEndUser(sql, param(c, 'person'), id),
  );
  const back = `/companies/${company.id}/end-users/${row.id}`;
  const text = html`<p><strong>${nameOf(row, c.var.format)}</strong></p><p>${words.eraseText}</p>`;
  return { title: words.eraseTitle, button: words.erase, back, text };
}

async function erase(c: PageContext): Promise<Response> {
  const { company_id, id } = await change(c, (sql) =>
    eraseEndUser(sql, param(c, 'person'), param(c, 'company')),
  );
  return backTo(c, `/companies/${company_id}/end-users/${id}`, 'name-erased');
}

function nameText({ name, id }: Pick<EndUserRow, 'name' | 'id'>, format: Format): string {
  return name ?? format.words.endUsers.erased(id.slice(0, 8));
}

function nameOf(row: Pick<EndUserRow, 'name' | 'id'>, format: Format): Html | string {
  return row.name ?? muted(nameText(row, format));
}
