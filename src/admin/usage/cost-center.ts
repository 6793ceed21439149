import { wholeMonth } from '../../domain/reports/day-range.ts';
import { costCenterName, mayHaveBudget, OTHERS, readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import { COST_CENTER, COST_CENTER_OR_NONE, type CostCenterColumns } from '../../domain/settings/cost-center.ts';
import { labelsOf } from '../../domain/settings/setting.ts';
import { costCenterPage } from '../../domain/wording/alert.ts';
import { removeCostCenterBudget, setCostCenterBudget } from '../../operations/cost-center.ts';
import { may } from '../../operations/permission.ts';
import { type CostCenterBudgetRow, costCenterBudgetOf } from '../../store/company/cost-center.ts';
import { NIL_ID } from '../../store/connection/expressions.ts';
import { type CompanyUsage, readCompanyUsage } from '../../store/usage/company-usage.ts';
import { type CostCenterState, readCostCenterState } from '../../store/usage/cost-center.ts';
import { NO_FILTERS } from '../../store/usage/cube.ts';
import { readQuality } from '../../store/usage/quality.ts';
import { budgetBar, chartTiles } from '../page/chart.ts';
import { change, mayNow, type PageContext, param, type Route, read } from '../page/context.ts';
import { csrfInput, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, emptyText, exactSwitch, page } from '../page/layout.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { askedMonth, monthForm } from './cost-centers.ts';
import { usageCard } from './usage.ts';
import { forecastText, sumCards } from './usage-cards.ts';
import { drawnByModel } from './usage-chart.ts';
import { inQuery, queryOf, rangeText, readLabel, UNGROUPED, type UsageQuery } from './usage-query.ts';
import { MAX_LINES, modelAndKeyTables } from './usage-tables.ts';

const PATH = '/companies/:company/cost-center';

/** One cost centre: what it cost in a month, by day, model and key, and what it may cost. Its name is in the query. */
export const costCenterRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, action: 'usage.read', handle: costCenter },
  { method: 'POST', path: PATH, action: 'cost-center.write', handle: save, page: costCenter },
];

async function costCenter(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const asked = form.path === null ? c.req.query('name') : form.values.get('name');
  if (!asked) return c.redirect(`/companies/${id}/cost-centers`, 303);
  const label = readLabel(asked);
  const name = costCenterName(label) ?? label; // another program may have booked what no call can name
  const { month, isPresent } = askedMonth(c);
  c.set('pageAddress', costCenterPage(id, name, isPresent ? null : month.slice(0, 7)));
  const { format } = c.var;
  const query: UsageQuery = {
    range: wholeMonth(month),
    filters: { ...NO_FILTERS, cost_center: name },
    form: new Form(undefined, null, form.language),
    ...UNGROUPED,
    page: 'usage',
  };
  const { usage, quality, state, budget } = await read(c, async (sql) => ({
    usage: await readCompanyUsage(sql, id, query.range, query.filters, MAX_LINES),
    quality: await readQuality(sql, id, query.range, query.filters),
    state: await readCostCenterState(sql, id, name),
    budget: await costCenterBudgetOf(sql, id, name),
  }));
  const title = titleOf(name, format);
  const { costCenters: words, usage: usageWords } = format.words;
  const kept = html`<input type="hidden" name="name" value="${inQuery(name)}">`;
  const body = html`${companyHeading(c, { id, name: usage.company_name })}
<div class="title-row"><h1>${title}</h1>
<p class="actions"><a class="button quiet" href="usage${queryOf(query)}">${words.usage}</a> <a class="button quiet" href="usage${queryOf(query, { against: 'before' })}">${words.change}</a> <a class="button quiet" href="cost-centers">${words.all}</a></p></div>
${name === OTHERS ? html`<p class="lead">${words.othersText}</p>` : ''}
<div class="usage-bar">${monthForm(c, `/companies/${id}/cost-center`, month, usage.months, kept)}</div>
${cards(usage, state, format)}
${mayHaveBudget(name) ? budgetCard(c, form, name, budget) : ''}
${chartTiles()}${usage.by_time.length === 0 ? emptyText(usageWords.noCalls({ when: rangeText(query.range, format), isFiltered: false })) : usageCard(c, query, drawnByModel(usage, 'cost_eur'), ['model'])}
${modelAndKeyTables(usage, { c, format, query, quality })}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  return page(c, `${title}: ${usage.company_name}`, body);
}

function titleOf(name: string, { words: { costCenters: words } }: Format): string {
  if (name === '') return words.noneTitle;
  return name === OTHERS ? words.othersTitle : `${words.one} ${name}`;
}

/** The sums of the month, and the budget of the present one. */
function cards(usage: CompanyUsage, state: CostCenterState, format: Format): Html {
  const { usage: words, costCenters } = format.words;
  return html`<div class="figures">${sumCards(usage, usage.api_cost_eur, costCenters.apiOnly, format)}
<div class="card figure-card wide"><h2>${words.budgetIn(format.month(state.month))}</h2>${budgetOf(state, format)}
${forecastText(state, format)}</div></div>`;
}

function budgetOf({ spent_eur, budget_eur, total_percent, forecast_percent }: CostCenterState, format: Format): Html {
  const { usage: words, costCenters } = format.words;
  if (budget_eur === null || total_percent === null) {
    return html`<p class="big">${costCenters.noBudget}</p><p class="muted">${costCenters.noBudgetText(format.amount(spent_eur))}</p>`;
  }
  return html`<p class="big">${format.percent(total_percent)} <span class="of">${words.ofBudget(format.amount(budget_eur))}</span>${
    total_percent >= 100 ? html` ${badge('bad', costCenters.reached)}` : ''
  }</p>
${budgetBar(words, null, total_percent, forecast_percent)}`;
}

function budgetCard(c: PageContext, form: Form, name: string, budget: CostCenterBudgetRow | null): Html {
  const { costCenters: words, settings } = c.var.format.words;
  const company = param(c, 'company');
  const path = `/companies/${company}/cost-center`;
  if (!mayNow(c, 'cost-center.write')) return html`<p class="muted">${words.eur}: ${settings.byOwners}</p>`;
  const state = formState(form, path);
  return html`<section class="card"><h2>${words.budget}</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput<object>(state, budget ?? {}, labelsOf(COST_CENTER, form.words))}<input type="hidden" name="name" value="${name}">
${settingFields(state, COST_CENTER_OR_NONE, budget)}
${may(c.var.session.user, 'alert.read', company) ? html`<p class="hint">${words.who((link) => html`<a href="/companies/${company}/alerts">${link}</a>`)}</p>` : ''}
<div class="actions"><button class="primary">${words.save}</button></div></form></section>`;
}

async function save(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const name = form.required('name', readBudgetedCostCenter);
  const settings = readSettings(form, COST_CENTER_OR_NONE);
  form.check();
  const back = costCenterPage(company, name);
  const isNone = Object.values(settings).includes(null);
  await change(c, async (sql) => {
    const present = await costCenterBudgetOf(sql, company, name);
    await lockEdited<object>(c, sql, form, {
      table: 'cost_center_budgets',
      id: present?.id ?? NIL_ID,
      company,
      labels: labelsOf(COST_CENTER, form.words),
      changes: settings,
      find: async () => (await costCenterBudgetOf(sql, company, name)) ?? { name },
      page: back,
    });
    if (isNone) await removeCostCenterBudget(sql, company, name);
    else await setCostCenterBudget(sql, company, { name, ...(settings as CostCenterColumns) });
  });
  return c.redirect(`${back}&done=${isNone ? 'budget-removed' : 'budget-saved'}`, 303);
}
