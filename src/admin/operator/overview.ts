import {
  firstHour,
  type GatewayRow,
  type LastDay,
  type ModelHealth,
  type Overview,
  type OverviewProblem,
  type Period,
  problemsOf,
  type Reason,
  type Spender,
  type UntoldUsage,
  wellText,
} from '../../domain/reports/overview.ts';
import { duration } from '../../domain/wording/start-notice.ts';
import { may } from '../../operations/permission.ts';
import { readFirstSteps } from '../../store/usage/first-steps.ts';
import { readOverview } from '../../store/usage/overview.ts';
import { type PageContext, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyLink, emptyText, muted, page, table } from '../page/layout.ts';
import { reasonCells, shareOf } from '../page/reason.ts';
import { operatorSteps } from './first-steps.ts';
import { budgetCalls, pictures, refusedNow } from './overview-pictures.ts';

const UNKNOWN = 'No requests are known: there were none, or the request trail is off (REQUEST_TRAIL_DAYS=0).';

/** The first page of everybody. Operators see the whole installation, others their own companies. */
export const overviewRoutes: readonly Route[] = [{ method: 'GET', path: '/', action: 'account.use', handle: start }];

function start(c: PageContext): Response | Promise<Response> {
  const { user } = c.var.session;
  if (may(user, 'overview.read', null)) return overviewPage(c);
  if (may(user, 'usage.read', user.company_id)) return c.redirect(`/companies/${user.company_id}/usage`, 303);
  return c.redirect(`/companies/${user.company_id}/own/keys`, 303);
}

async function overviewPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const [overview, begun] = await Promise.all([readOverview((query) => read(c, query)), read(c, readFirstSteps)]);
  const { today, month, models, untold_usage, last_day } = overview;
  const now = c.var.services.clock();
  const since = firstHour(now);
  const body = html`<h1>Overview</h1>
${state(problemsOf(overview), last_day, format)}
${await operatorSteps(c, begun)}
${pictures(overview, today.begins, format)}
${refusedNow(overview.refused_now, firstHour(now, 2), format)}
${budgetCalls(overview.budgets, overview, format)}
${period(`Today, ${format.day(today.begins)}`, 'Top spenders today', 'Yesterday at this time', today, `?from=${today.begins}&to=${today.begins}`, 'API calls, without in-app chat.', format)}
${period(format.month(month.begins), 'Top spenders of the month', 'A month ago', month, `?month=${month.begins.slice(0, 7)}`, chatNote(month.chat_eur, format), format)}
<section><h2>Models in the last 24 hours</h2>${modelTable(models, format, since)}
${untold_usage.map((untold) => untoldUsage(untold, format))}</section>
${reasonSection(last_day, format, since)}
<section id="gateways"><h2>Gateways</h2>${gatewayTable(overview, format)}</section>
<section><h2>Latest changes</h2>${changes(overview, format)}</section>
<p class="muted foot"><code>tollgate status</code> prints the same.</p>`;
  return page(c, 'Overview', body);
}

function chatNote(chat: string, format: Format): Html | string {
  if (chat === '0') return 'API calls. There was no in-app chat.';
  return html`API calls. In-app chat cost ${format.amount(chat)} more; the top spenders and budgets contain it.`;
}

/** The present problems, or the text that everything checked is well. */
function state(problems: readonly OverviewProblem[], day: LastDay, format: Format): Html {
  if (problems.length === 0) {
    const why = day.refused === 0 ? '' : html` <a href="#reasons">Why</a>`;
    return html`<p class="notice" role="status">${wellText(day, format.count)}${why}</p>`;
  }
  return html`<section class="problem" aria-labelledby="wrong"><h2 id="wrong">${problems.length === 1 ? 'One thing is wrong' : `${problems.length} things are wrong`}</h2>
<ul>${problems.map(({ text, remedy, path }) => html`<li><a href="${path}">${text}</a> ${remedy}</li>`)}</ul></section>`;
}

/**
 * A day or month so far: its sums beside those of the period before, and the companies with the most spend.
 * @param other the one before
 * @param query by which the usage page of a company shows the same days
 */
function period(
  title: string,
  caption: string,
  other: string,
  sums: Period,
  query: string,
  note: Html | string,
  format: Format,
): Html {
  const { before, spenders } = sums;
  const card = (name: string, value: Html | string, was: Html | string, change: string) =>
    html`<div class="card figure-card"><h3>${name}</h3><p class="big">${value}</p>
<p class="muted">${other}: ${was}${change}</p></div>`;
  return html`<section><h2>${title}</h2><div class="figures">
${card('Spent', format.amount(sums.cost_eur), format.amount(before.cost_eur), changed(Number(sums.cost_eur), Number(before.cost_eur), format))}
${card('Requests', format.count(sums.requests), format.count(before.requests), changed(sums.requests, before.requests, format))}
${card('Tokens', format.count(sums.tokens), format.count(before.tokens), changed(sums.tokens, before.tokens, format))}
</div>
${spenders.length === 0 ? emptyText(html`Nobody has spent anything yet. <a href="/requests">Requests</a> shows each call as it ends.`) : topSpenders(caption, spenders, query, format)}
<p class="muted">${note}</p></section>`;
}

/** ", 12 % more". A comparison, so a float is exact enough. */
function changed(now: number, before: number, format: Format): string {
  if (before === 0) return '';
  const percent = Math.round((now / before - 1) * 100);
  if (percent === 0) return ', the same';
  return percent > 0 ? `, ${format.percent(percent)} more` : `, ${format.percent(-percent)} less`;
}

function topSpenders(caption: string, spenders: readonly Spender[], query: string, format: Format): Html {
  const cells = {
    Company: ({ id, name }: Spender) => companyLink({ company_id: id, company_name: name }, `usage${query}`),
    Spent: ({ cost_eur }: Spender) => format.amount(cost_eur),
    Share: ({ share }: Spender) => (share === null ? '' : format.percent(share)),
  };
  return table(caption, spenders, { cells, figures: ['Spent', 'Share'] });
}

/** @param since where the requests begin that the figures lead to */
function modelTable(models: readonly ModelHealth[], format: Format, since: string): Html {
  if (models.length === 0) return emptyText(UNKNOWN);
  const requestsOf = (slug: string, more: Record<string, string> = {}) =>
    `/requests?${new URLSearchParams({ model: slug, from: since, ...more })}`;
  const share = (count: number, requests: number) => shareOf(count, requests, format);
  const cells = {
    Model: ({ slug }: ModelHealth) => (slug === '' ? muted('without a model') : html`<code>${slug}</code>`),
    Requests: ({ slug, requests }: ModelHealth) =>
      slug === ''
        ? format.count(requests)
        : html`<a href="${requestsOf(slug)}">${format.count(requests)}<span class="sr"> requests for ${slug}</span></a>`,
    Refused: ({ slug, refused, requests }: ModelHealth) =>
      slug === '' || refused === 0
        ? share(refused, requests)
        : html`<a href="${requestsOf(slug, { status: 'refused' })}">${share(refused, requests)}<span class="sr"> of the requests for ${slug} were refused</span></a>`,
    Failed: ({ slug, failed, requests }: ModelHealth) =>
      slug === '' || failed === 0
        ? share(failed, requests)
        : html`<a href="${requestsOf(slug, { status: 'failed' })}">${share(failed, requests)}<span class="sr"> of the requests for ${slug} failed</span></a>`,
    'Upstream failed': ({ upstream_failed, requests }: ModelHealth) => share(upstream_failed, requests),
    'Mean time': ({ mean_ms }: ModelHealth) => (mean_ms === null ? '' : `${format.count(Math.round(mean_ms))} ms`),
  };
  const figures = ['Requests', 'Refused', 'Failed', 'Upstream failed', 'Mean time'];
  return table('Models in the last 24 hours', models, { cells, figures }, true);
}

function untoldUsage({ slug, requests, estimated }: UntoldUsage, format: Format): Html {
  return html`<p>${badge('warn', 'tells no usage')} <code>${slug}</code>: ${format.count(estimated)} of ${format.count(requests)} whole answers since yesterday are estimated</p>`;
}

/** Why requests of the last 24 hours were refused or failed. @param since where the requests begin that the figures lead to */
function reasonSection(day: LastDay, format: Format, since: string): Html | string {
  if (day.requests === 0) return '';
  const sum = `${format.count(day.refused)} of ${format.count(day.requests)} requests were refused, and ${format.count(day.failed)} failed.`;
  const cells = {
    ...reasonCells<Reason>(day.requests, format, (code) => `/requests?${new URLSearchParams({ code, from: since })}`),
    Companies: ({ companies }: Reason) => format.count(companies),
    'Most often': ({ code, most }: Reason) =>
      most === null
        ? muted('without a valid key')
        : html`${companyLink({ company_id: most.id, company_name: most.name }, `requests?${new URLSearchParams({ code, from: since })}`)} ${muted(format.count(most.requests))}`,
  };
  const title = 'Refused and failed in the last 24 hours';
  return html`<section id="reasons"><h2>${title}</h2><p>${sum}</p>
${day.reasons.length === 0 ? '' : table(title, day.reasons, { cells, figures: ['Requests', 'Share', 'Companies'] }, true)}</section>`;
}

function gatewayTable({ gateways, set_aside }: Overview, format: Format): Html {
  if (gateways.length === 0)
    return emptyText(
      html`No gateway has written that it runs. Each does so some seconds after its start, by <code>tollgate serve</code>.`,
    );
  const cells = {
    Gateway: ({ name }: GatewayRow) => name,
    State: ({ gone, spool_failing, limits_alone }: GatewayRow) =>
      gone
        ? badge('bad', 'gone')
        : spool_failing
          ? badge('bad', 'disk fails')
          : limits_alone
            ? badge('warn', 'limits alone')
            : badge('good', 'running'),
    Version: ({ version }: GatewayRow) => version,
    Started: ({ started_at }: GatewayRow) => format.ago(new Date(started_at)),
    Seen: ({ last_seen_at }: GatewayRow) => format.ago(new Date(last_seen_at)),
    'In flight': ({ requests_in_flight }: GatewayRow) => format.count(requests_in_flight),
    'Records waiting': ({ backlog, oldest_seconds }: GatewayRow) =>
      html`${format.count(backlog)}${backlog === 0 ? '' : html`<br>${muted(`oldest for ${duration(oldest_seconds)}`)}`}`,
  };
  return html`${table('Gateways', gateways, { cells, figures: ['In flight', 'Records waiting'] }, true)}
<p class="muted">Records that the database refused: ${format.count(set_aside)}. A gateway that was not seen for a minute is gone; after a day it is forgotten, unless records waited in its spool.</p>`;
}

function changes({ changes: rows }: Overview, format: Format): Html {
  if (rows.length === 0)
    return emptyText('Nothing has changed yet. Each change of a company, model, key or user appears here.');
  const cells = {
    When: ({ at }: Overview['changes'][number]) => format.ago(new Date(at)),
    Who: ({ who }: Overview['changes'][number]) => html`<span class="by">${who}</span>`,
    What: ({ what }: Overview['changes'][number]) => what,
  };
  return html`${table('Latest changes', rows, { cells }, true)}
<p><a href="/audit">All changes</a></p>`;
}
