import { isMonth } from '../../domain/reports/day-range.ts';
import { costCenterPage } from '../../domain/wording/alert.ts';
import { costCenterBudgetOf } from '../../store/company/cost-center.ts';
import { readUsageChange } from '../../store/usage/change.ts';
import { type CompanyUsage, readCompanyUsage } from '../../store/usage/company-usage.ts';
import { readCostCenterState } from '../../store/usage/cost-center.ts';
import { readTokenDetails } from '../../store/usage/details.ts';
import { readQuality } from '../../store/usage/quality.ts';
import {
  COMPANY_GROUPS,
  type Group,
  isTime,
  readUsageTable,
} from '../../store/usage/usage-table.ts';
import { chartTiles } from '../page/chart.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import type { Choices } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, exactSwitch, page } from '../page/layout.ts';
import { costCenterCards, costCenterTitle, saveCostCenter } from './cost-center.ts';
import { MAX_LINES } from './first-lines.ts';
import { ownerSteps } from './first-steps.ts';
import { keysInReach, keysPath, seesOwnAlone } from './reach.ts';
import { refusedEndUsers } from './refused-end-users.ts';
import { unusualToday } from './unusual.ts';
import { type Known, usageBar } from './usage-bar.ts';
import { ownCards, usageCards } from './usage-cards.ts';
import { changedBy, explanation } from './usage-change.ts';
import {
  type Around,
  type Drawn,
  drawnByGroups,
  drawnByModel,
  intervalShown,
  usageChart,
} from './usage-chart.ts';
import { downloadLedger, downloadSums, exportFold } from './usage-export.ts';
import { tableQuery, wholeGrid } from './usage-grid.ts';
import {
  FILTERS,
  type FilterName,
  filterName,
  inQuery,
  queryOf,
  rangeText,
  readUsageQuery,
  timesOf,
  type UsageQuery,
} from './usage-query.ts';
import { detailsTable, endingsText, reasonsTable, usageTables } from './usage-tables.ts';
import { changeViews } from './usage-views.ts';

const BUDGET = '/companies/:company/cost-center';
/** Where the usage is that a reader sees, with the permissions to read it and to keep a question of it: of all keys, or of the own. */
const REACHES = [
  ['/companies/:company', 'usage.read', 'usage.keep'],
  ['/companies/:company/own', 'own-usage.read', 'own-usage.keep'],
] as const;

/**
 * A company's usage: any days and calls, by one or two groups, compared with other days; drawn, as tables, and as CSV (spec
 * section 5, rule 6).
 */
export const usageRoutes: readonly Route[] = [
  ...REACHES.flatMap(([base, action, keep]): Route[] => [
    { method: 'GET', path: `${base}/usage`, action, handle: usagePage },
    { method: 'POST', path: `${base}/usage`, action: keep, handle: keepView, page: usagePage },
    { method: 'GET', path: `${base}/usage.csv`, action, handle: downloadSums },
    { method: 'GET', path: `${base}/ledger.csv`, action, handle: downloadLedger },
  ]),
  {
    method: 'GET',
    path: '/companies/:company/usage/change',
    action: 'usage.read',
    handle: toUsage,
  },
  { method: 'GET', path: '/companies/:company/usage/table', action: 'usage.read', handle: toUsage },
  { method: 'GET', path: BUDGET, action: 'usage.read', handle: fromBudget },
  {
    method: 'POST',
    path: BUDGET,
    action: 'cost-center.write',
    handle: saveCostCenter,
    page: usagePage,
  },
];

function keepView(c: PageContext, form: Form): Promise<Response> {
  return changeViews(c, form, COMPANY_GROUPS);
}

/** From where two times were compared before, or two groups: to the same question. */
export function toUsage(c: PageContext): Response {
  const [, path = '', page] = /^(.*)\/(\w+)$/.exec(c.req.path) ?? [];
  const { rows, columns, metric, ...rest } = c.req.query();
  const [first, second] = path === '/usage' ? ['company', 'model'] : ['model', 'key'];
  const by = rows ?? (columns === first ? second : first);
  const asked =
    page === 'table'
      ? {
          by,
          and: columns ?? (by === second ? first : second),
          ...(metric && { figure: metric }),
          as: 'table',
        }
      : { ...(!rest.before_from && !rest.before_to && { against: 'before' }) };
  const days = page === 'change' && !rest.month && !rest.from && !rest.to ? { range: '7d' } : {};
  return c.redirect(
    `${path}?${new URLSearchParams({ ...days, ...rest, ...asked } as Record<string, string>)}`,
    302,
  );
}

/** From links of the page that is shown again after its form for a budget, which have the question alone, and of old mails, which have a name. */
function fromBudget(c: PageContext): Response {
  const { name, ...rest } = c.req.query();
  const asked = new URLSearchParams({ ...rest, ...(name && { cost_center: inQuery(name) }) });
  return c.redirect(
    `/companies/${param(c, 'company')}/usage${asked.size === 0 ? '' : `?${asked}`}`,
    302,
  );
}

async function usagePage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const id = param(c, 'company');
  const isBudget = form.path?.endsWith('/cost-center') === true; // refused, and shown again
  const query = readUsageQuery(c, COMPANY_GROUPS, isBudget ? form.values.get('name') : null);
  if (isTyped(c, query)) return c.redirect(queryOf(query), 302);
  const { range, by, as } = query;
  const isOwn = seesOwnAlone(c, id);
  const keys = isOwn ? await read(c, (sql) => keysInReach(c, sql, id)) : null;
  const filters = { ...query.filters, keys };
  const center = isOwn ? null : filters.cost_center;
  if (isBudget && center !== null) c.set('pageAddress', costCenterPage(id, center));
  const [times, groups] = [timesOf(c, query), groupsDrawn(query)];
  const [{ usage, quality, details, budget }, change, table] = await Promise.all([
    read(c, async (sql) => {
      const usage = await readCompanyUsage(sql, id, range, filters, MAX_LINES);
      const shown = usage.by_key.lines.map((line) => line.id);
      return {
        usage,
        quality: await readQuality(sql, id, range, filters, shown),
        details:
          times === null && (by === null || by === 'model')
            ? await readTokenDetails(sql, id, range, filters)
            : null,
        budget:
          center === null
            ? null
            : {
                state: await readCostCenterState(sql, id, center),
                budget: await costCenterBudgetOf(sql, id, center),
              },
      };
    }),
    times && read(c, (sql) => readUsageChange(sql, id, times, filters)),
    groups && read(c, (sql) => readUsageTable(sql, id, filters, tableQuery(c, query, groups))),
  ]);
  const { usage: words, ownUsage, costCenters, endUsers } = format.words;
  const name = isOwn ? ownUsage.name : words.of(usage.company_name);
  const month = isMonth(range) ? `?month=${range.from.slice(0, 7)}` : '';
  const when = rangeText(range, format);
  const heading = html`${companyHeading(c)}
<div class="title-row"><h1>${center === null ? (isOwn ? ownUsage : words).title(when) : costCenterTitle(center, when, format)}</h1>${
    keys?.length === 0
      ? ''
      : html`<div class="actions">${isOwn ? '' : html`<a class="button quiet" href="cost-centers${month}">${costCenters.link}</a><a class="button quiet" href="end-users${month}">${endUsers.link}</a>`}${exportFold(c, id, query)}</div>`
  }</div>`;
  if (keys?.length === 0) {
    const link = (text: string) => html`<a href="${keysPath(c, id)}">${text}</a>`;
    return page(c, name, html`${heading}${emptyText(html`${ownUsage.noKey(link)}`)}`);
  }
  // the present month is always one of them
  const isUnused =
    usage.months.length <= 1 &&
    usage.requests === 0 &&
    usage.total_cost_eur === '0' &&
    quality.all === null;
  if (isUnused && !isOwn && new URL(c.req.url).search === '') {
    return page(
      c,
      name,
      html`${companyHeading(c)}<h1>${words.title(when)}</h1>${(await ownerSteps(c, id)) || noCalls(c, query)}`,
    );
  }
  const tablesOf = { c, format, query, quality };
  // no budget is of these calls
  const isPart = isOwn || (filters.model ?? filters.key ?? filters.endpoint) !== null;
  const around = {
    leads: quality.hasTrail,
    times,
    costs: change?.by_time,
    budget: isPart ? null : (budget?.state ?? usage.budget),
  };
  const models = usage.by_model.lines.map(({ name }) => name);
  const drawn =
    table && groups
      ? drawnByGroups(table, ...groups, format)
      : { ...drawnByModel(usage.by_time, models, query.figure), hours: usage.hours };
  const tables = html`${usageTables(usage, tablesOf)}
${by === null ? reasonsTable(tablesOf) : ''}
${detailsTable(c, details)}`;
  const body = html`${heading}
${await usageBar(c, query, COMPANY_GROUPS, choicesOf(usage, format), usage.months, form)}
${chartTiles()}
${isOwn ? ownCards(usage, quality, format) : budget && center !== null ? costCenterCards(c, form, center, usage, budget) : usageCards(usage, format, quality)}
${isOwn ? '' : html`${await unusualToday(c, id)}${await ownerSteps(c, id)}`}
${change && times && explanation(c, change.total, times)}
${endingsText(usage, query, format)}
${as === 'table' ? '' : usageCard(c, query, drawn, groups ?? ['model'], around)}
${as === 'chart' ? '' : query.and && table ? wholeGrid(c, query, table, FILTERS) : change ? changedBy(c, change, query) : tables}
${quality.isTooMuch ? html`<p class="muted">${words.isTooMuch}</p>` : ''}
${isOwn ? '' : await refusedEndUsers(c, id)}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, name, body);
}

/** Whether a form of the page sent this, whose address has more than the question. */
export function isTyped(c: PageContext, { form, name }: UsageQuery): boolean {
  const asked = c.req.query();
  const isRange = 'range' in asked;
  const isMore =
    (isRange && 'from' in asked && name !== 'days') || Object.values(asked).includes('');
  return (isRange || 'figure' in asked) && isMore && form.messages.size === 0;
}

/**
 * The rows and columns of what is drawn or shown; null: usage has them by model, of a single day by the hour.
 * @param needed also by model
 */
export function groupsDrawn(query: UsageQuery, needed = false): readonly [Group, Group] | null {
  const { by, and, as } = query;
  if (by !== null && and !== null) return [by, and];
  const interval = intervalShown(query);
  const isByModel = (by === null || by === 'model') && !needed;
  return isByModel || interval === 'hour' || as === 'table' ? null : [by ?? 'model', interval];
}

/** What the filters can be: the dearest. Others are in the address. */
function choicesOf(
  { by_model, by_key, by_endpoint, by_cost_center }: CompanyUsage,
  { words }: Format,
): Known {
  const names = (name: FilterName, { lines }: CompanyUsage['by_model']): Choices =>
    lines.map((line) => [inQuery(line.name), filterName(words, name, line.name)]);
  const keys = by_key.lines.map(
    ({ id, name, prefix }) =>
      [id, name === null ? words.usage.keyOf(id) : `${name} (${prefix}…)`] as const,
  );
  return {
    model: names('model', by_model),
    key: keys,
    endpoint: names('endpoint', by_endpoint),
    cost_center: names('cost_center', by_cost_center),
  };
}

/** A figure over time. @param groups what it is stacked by */
export function usageCard(
  c: PageContext,
  query: UsageQuery,
  drawn: Drawn,
  groups: readonly Group[],
  around: Around,
): Html {
  const { usage: words, grid } = c.var.format.words;
  const by = groups.filter((group) => !isTime(group)).map((group) => grid.groups[group]);
  if (drawn.parts.length === 0) return noCalls(c, query);
  if (by.length === 0 || (groups.length > 1 && intervalShown(query) === 'hour')) return html``;
  return html`<section class="card"><h2>${words.per[intervalShown(query)](grid.metrics[query.figure])}</h2>${usageChart(c, query, drawn, by.join(' · '), around)}</section>`;
}

/** That there were none, and where to look for them. */
function noCalls(c: PageContext, query: UsageQuery): Html {
  const { usage: words } = c.var.format.words;
  const when = rangeText(query.range, c.var.format);
  const isFiltered = FILTERS.some((name) => query.filters[name] !== null);
  const link = (href: string) => (text: string) => html`<a href="${href}">${text}</a>`;
  const all = queryOf(query, { model: null, key: null, endpoint: null, cost_center: null });
  const next = isFiltered ? words.allFilters(link(all)) : words.noCallsNext(link('keys'));
  return emptyText(html`${words.noCalls({ when, isFiltered })} ${next}`);
}
