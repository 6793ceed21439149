import { html } from 'hono/html';
import { type AlertRow, listAlerts, retryAlerts } from '../store/alert.ts';
import { change, type PageContext, param, type Route, read } from './context.ts';
import { csrfInput } from './field.ts';
import { badge, emptyText, page, table } from './layout.ts';

/** Budget alerts that did not arrive, for operators. */
export const alertRoutes: readonly Route[] = [
  { method: 'GET', path: '/alerts', action: 'alert.read', handle: alertsPage },
  { method: 'POST', path: '/alerts/:alert/retry', action: 'alert.retry', handle: retry },
];

const MOST_SHOWN = 200;
const CHANNELS = { webhook: 'Webhook', email: 'E-mail' };

async function alertsPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const asked = { undelivered: true, company: null, limit: MOST_SHOWN };
  const rows = await read(c, (sql) => listAlerts(sql, asked));
  const cells = {
    Alert: ({ alert }: AlertRow) =>
      html`<a href="/companies/${alert.company.id}/usage">${alert.company.name}</a>${
        alert.key === null ? '' : html`, ${alert.key.name} <code>${alert.key.prefix}…</code>`
      }<br>${alert.threshold === 'forecast' ? 'Forecast' : format.percent(Number(alert.threshold))} · ${format.month(`${alert.month}-01`)}`,
    Reached: ({ alert }: AlertRow) => format.instant(new Date(alert.occurred_at)),
    To: receiver,
    State: ({ state, last_error }: AlertRow) =>
      html`${state === 'dead' ? badge('bad', 'given up') : badge('warn', 'failing')} <code>${last_error}</code>`,
    Attempts: ({ attempts }: AlertRow) => format.count(attempts ?? 0),
    'Next attempt': ({ state, next_attempt_at: at }: AlertRow) =>
      state === 'dead' || at === null ? 'none' : format.instant(at),
    Actions: (row: AlertRow) =>
      html`<form method="post" action="/alerts/${row.alert.id}/retry" class="inline">${csrfInput(c)}<button class="quiet">Send again<span class="sr"> to ${receiver(row)}</span></button></form>`,
  };
  const body = html`<h1>Alerts</h1>
<p class="lead">Budget alerts that failed so far or were given up after a day, newest first. <code>tollgate alert list</code> shows all alerts, <code>tollgate alert retry all</code> sends all of these again.</p>
${rows.length === 0 ? emptyText('Every alert has arrived.') : table('Undelivered alerts', rows, { cells, figures: ['Attempts'] }, true)}`;
  return page(c, 'Alerts', body);
}

function receiver({ channel, recipient }: AlertRow): string {
  return recipient || (channel === null ? 'nobody' : CHANNELS[channel]);
}

async function retry(c: PageContext): Promise<Response> {
  await change(c, (sql) => retryAlerts(sql, param(c, 'alert')));
  return c.redirect('/alerts?done=retried', 303);
}
