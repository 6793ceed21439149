import {
  firstHour,
  type GatewayRow,
  type LastDay,
  type Overview,
  type OverviewProblem,
  problemsOf,
  wellText,
} from '../../domain/reports/overview.ts';
import { duration } from '../../domain/wording/start-notice.ts';
import { may } from '../../operations/frame/permission.ts';
import { readFirstSteps } from '../../store/usage/first-steps.ts';
import { readOverview } from '../../store/usage/overview.ts';
import { type PageContext, pageAt, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, type Cells, emptyText, muted, page, table } from '../page/layout.ts';
import { refusedEndUsers } from '../usage/refused-end-users.ts';
import { unusualToday } from '../usage/unusual.ts';
import { operatorSteps } from './first-steps.ts';
import { budgetCalls, pictures, refusedNow } from './overview-pictures.ts';

const MOST_UNTOLD = 3;

/** The first page of everybody. Operators see the whole installation, others their own companies. */
export const overviewRoutes: readonly Route[] = [pageAt('/', 'account.use', start)];

function start(c: PageContext): Response | Promise<Response> {
  const { user } = c.var.session;
  if (may(user, 'overview.read', null)) return overviewPage(c);
  if (may(user, 'usage.read', user.company_id))
    return c.redirect(`/companies/${user.company_id}/usage`, 303);
  return c.redirect(`/companies/${user.company_id}/own/keys`, 303);
}

async function overviewPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const [overview, begun, unusual, refused] = await Promise.all([
    readOverview((query) => read(c, query), 0),
    read(c, readFirstSteps),
    unusualToday(c, null),
    refusedEndUsers(c, null),
  ]);
  const { today, month, last_day, untold_usage, unread_usage } = overview;
  const now = c.var.services.clock();
  const problems = problemsOf(overview);
  const body = html`<h1>Overview</h1>
${state(problems, last_day, format, firstHour(now))}
${unusual}
${await operatorSteps(c, begun)}
${begun.call ? pictures(overview, format) : ''}
${modelsLine(
  'tells no usage',
  untold_usage,
  ({ requests, estimated }) => `${format.count(estimated)} of ${format.count(requests)}`,
  ': whole answers since yesterday that are estimated',
)}
${modelsLine(
  'usage not read',
  unread_usage,
  ({ members }) => members.join(', '),
  ': the upstream counts tokens by these names, which may be missing in what is booked; a service_tier has no rate, and is booked at the base price',
)}
${refusedNow(overview.refused_now, firstHour(now, 2), format)}
${refused}
${budgetCalls(overview.budgets, today.begins, month.begins, format)}
${gatewaySection(overview, problems, format)}
<p class="muted foot"><a href="/companies?sort=-spent">Top spenders</a> · <code>tollgate status</code> prints more: spenders, models and reasons of the last 24 hours.</p>`;
  return page(c, 'Overview', body);
}

/** The present problems, or the text that everything checked is well. @param since where the last 24 hours begin */
function state(
  problems: readonly OverviewProblem[],
  day: LastDay,
  format: Format,
  since: string,
): Html {
  if (problems.length === 0) {
    const href = `/requests?${new URLSearchParams({ status: 'refused', from: since })}`;
    const why = day.refused === 0 ? '' : html` <a href="${href}">Which</a>`;
    return html`<p class="notice" role="status">${wellText(day, format.count)}${why}</p>`;
  }
  return html`<section class="problem" aria-labelledby="wrong"><h2 id="wrong">${problems.length === 1 ? 'One thing is wrong' : `${problems.length} things are wrong`}</h2>
<ul>${problems.map(({ text, remedy, path }) => html`<li><a href="${path}">${text}</a> ${remedy}</li>`)}</ul></section>`;
}

/** Models in a fold, the first of them by name. @param rest of the sentence */
function modelsLine<T extends { readonly slug: string }>(
  mark: string,
  models: readonly T[],
  what: (model: T) => string,
  rest: string,
): Html | string {
  if (models.length === 0) return '';
  const named = models
    .slice(0, MOST_UNTOLD)
    .map((model, at) => html`${at === 0 ? '' : ', '}<code>${model.slug}</code>: ${what(model)}`);
  return html`<details class="fold"><summary>${badge('warn', mark)}</summary><p>${named}${models.length > MOST_UNTOLD ? ' and others' : ''}${rest}</p></details>`;
}

/** All gateways in a line while they are well; a table where one is not. */
function gatewaySection(
  { gateways, set_aside }: Overview,
  problems: readonly OverviewProblem[],
  format: Format,
): Html | string {
  if (gateways.length === 0)
    return html`<section id="gateways"><h2>Gateways</h2>${emptyText(html`No gateway has written that it runs. Each does so some seconds after its start, by <code>tollgate serve</code>.`)}</section>`;
  const sum = (figure: 'requests_in_flight' | 'backlog') =>
    format.count(gateways.reduce((all, gateway) => all + gateway[figure], 0));
  if (!problems.some(({ path }) => path === '/#gateways')) {
    const names =
      gateways.length === 1
        ? `Gateway ${gateways[0]?.name} runs`
        : `${format.count(gateways.length)} gateways run`;
    return html`<p id="gateways">${badge('good', 'running')} ${names}, version ${gateways[0]?.version}. Requests in flight: ${sum('requests_in_flight')}, records waiting: ${sum('backlog')}.</p>`;
  }
  const cells: Cells<GatewayRow> = {
    Gateway: ({ name }) => name,
    State: ({ gone, spool_failing, limits_alone }) =>
      gone
        ? badge('bad', 'gone')
        : spool_failing
          ? badge('bad', 'disk fails')
          : limits_alone
            ? badge('warn', 'limits alone')
            : badge('good', 'running'),
    Version: ({ version }) => version,
    Started: ({ started_at }) => format.ago(new Date(started_at)),
    Seen: ({ last_seen_at }) => format.ago(new Date(last_seen_at)),
    'In flight': ({ requests_in_flight }) => format.count(requests_in_flight),
    'Records waiting': ({ backlog, oldest_seconds }) =>
      html`${format.count(backlog)}${backlog === 0 ? '' : html`<br>${muted(`oldest for ${duration(oldest_seconds)}`)}`}`,
  };
  return html`<section id="gateways"><h2>Gateways</h2>${table('Gateways', gateways, { cells, figures: ['In flight', 'Records waiting'] }, true)}
<p class="muted">Records that the database refused: ${format.count(set_aside)}. A gateway that was not seen for a minute is gone; after a day it is forgotten, unless records waited in its spool.</p></section>`;
}
