import { OTHERS, readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import { COST_CENTER } from '../../domain/settings/cost-center.ts';
import { costCenterPage } from '../../domain/wording/alert.ts';
import { createCostCenterBudget } from '../../operations/cost-center.ts';
import { may } from '../../operations/frame/permission.ts';
import {
  type CostCenterSort,
  type ListedCostCenter,
  pageOfCostCenters,
} from '../../store/lists/page.ts';
import { readUsedMonths } from '../../store/usage/cost-center.ts';
import { budgetPicture, budgetTiles } from '../page/chart.ts';
import {
  change,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  readOfCompany,
} from '../page/context.ts';
import { createCard, field } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, type Columns, companyHeading, exactSwitch, muted, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { monthForm } from './usage-bar.ts';
import { monthAsked, presentMonth } from './usage-query.ts';

const BASE = '/companies/:company/cost-centers';

/** The cost centres of a company: what each cost in a month, and what it may cost. */
export const costCentersRoutes: readonly Route[] = [
  pageAt(BASE, 'usage.read', listPage),
  formAt(BASE, 'cost-center.write', add, { page: listPage }),
];

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const words = format.words.costCenters;
  const month = monthAsked(c);
  const isPresent = month === presentMonth(c);
  const sorts = {
    '-spent': format.words.usage.spent,
    ...(isPresent && { '-share': words.budget }),
    name: words.one,
  };
  const query = listQuery<CostCenterSort>(c, sorts);
  const [company, { found, months }] = await readOfCompany(c, async (sql, id) => ({
    found: await pageOfCostCenters(sql, id, { month, isPresent }, query),
    months: await readUsedMonths(sql, id),
  }));
  const path = `/companies/${company.id}/cost-centers`;
  const shown = format.month(month);
  const body = html`${companyHeading(c)}
<div class="title-row"><h1>${words.title(shown)}</h1>${monthForm(c, path, month, months)}</div>
<p class="lead">${words.lead}</p>
${budgetTiles()}
${list(c, { path, caption: words.caption(shown), ...columnsOf(company.id, month, isPresent, format), sorts, empty: words.empty(shown), kept: { month: month.slice(0, 7) } }, query, found)}
${mayNow(c, 'cost-center.write') ? addForm(c, form, path) : ''}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  return page(c, words.of(company.name), body);
}

/** The name of a cost centre in a list. */
function costCenterText(name: string, format: Format): Html | string {
  return name === '' || name === OTHERS ? muted(name || format.words.costCenters.none) : name;
}

function columnsOf(
  company: string,
  month: string,
  isPresent: boolean,
  format: Format,
): Columns<ListedCostCenter> {
  const { costCenters: words, usage } = format.words;
  const hrefOf = (name: string) =>
    costCenterPage(company, name, isPresent ? null : month.slice(0, 7));
  return {
    cells: {
      [words.one]: ({ name }) =>
        html`<a href="${hrefOf(name)}">${costCenterText(name, format)}</a>`,
      [usage.spent]: ({ spent }) => format.amount(spent),
      ...(isPresent && { [words.budget]: (row: ListedCostCenter) => budgetCell(row, format) }),
      [usage.requests]: ({ requests }) => format.count(requests),
      [usage.tokens]: ({ tokens }) => format.count(tokens),
    },
    figures: [usage.spent, usage.requests, usage.tokens],
  };
}

function budgetCell({ budget_eur: eur, percent }: ListedCostCenter, format: Format): Html {
  const { costCenters: words, usage } = format.words;
  if (eur === null || percent === null) return muted(words.noBudget);
  const share = words.share({ percent: format.percent(percent), budget: format.amount(eur) });
  return html`<span class="budget-cell">${budgetPicture(usage, null, percent, null)}<span>${share}${percent >= 100 ? html` ${badge('bad', words.reached)}` : ''}</span></span>`;
}

function addForm(c: PageContext, form: Form, path: string): Html {
  const { format, session } = c.var;
  const words = format.words.costCenters;
  const company = param(c, 'company');
  return createCard(c, form, {
    path,
    title: words.add,
    button: words.addButton,
    isFirst: false,
    fields: (
      state,
    ) => html`${field(state, { name: 'name', label: words.name, required: true, hint: words.nameHint })}
${settingFields(state, COST_CENTER, null)}
${may(session.user, 'alert.read', company) ? html`<p class="hint">${words.who((link) => html`<a href="/companies/${company}/alerts">${link}</a>`)}</p>` : ''}`,
  });
}

async function add(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const name = form.required('name', readBudgetedCostCenter);
  const settings = readSettings(form, COST_CENTER);
  form.check();
  await change(c, (sql) => createCostCenterBudget(sql, company, { name, ...settings }));
  return c.redirect(`${costCenterPage(company, name)}&done=budget-saved`, 303);
}
