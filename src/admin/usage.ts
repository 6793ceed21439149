import { html, raw } from 'hono/html';
import { HTTPException } from 'hono/http-exception';
import { stream } from 'hono/streaming';
import { FieldError, readMonth } from '../domain/field.ts';
import { readUsageMonth, type Sums, type UsageGroup, type UsageMonth } from '../store/daily.ts';
import { copyLedger } from '../store/export.ts';
import { budgetBar, costPerDay } from './chart.ts';
import { type PageContext, param, type Route, read } from './context.ts';
import type { Format } from './format.ts';
import type { Html } from './html.ts';
import { badge, companyHeading, page, table } from './layout.ts';

/** A company's month (spec section 5, rule 6), and its ledger as CSV. */
export const usageRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies/:company/usage', action: 'usage.read', handle: usagePage },
  { method: 'GET', path: '/companies/:company/usage.csv', action: 'usage.read', handle: download },
];

const EXPORT_MS = 30 * 60_000;

const ENDPOINTS: Readonly<Record<string, string>> = {
  'chat.completions': 'Chat completions',
  embeddings: 'Embeddings',
  'assistants.run': 'Assistant runs',
};
const OUTCOMES: Readonly<Record<string, string>> = {
  completed: 'Completed',
  client_aborted: 'Broken off by the client',
  upstream_failed: 'Failed midway',
};

async function usagePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const id = param(c, 'company');
  const usage = await read(c, (sql) => readUsageMonth(sql, id, monthOf(c)));
  const name = format.month(usage.month);
  const base = `/companies/${id}/usage`;
  const short = usage.month.slice(0, 7);
  const body = html`${companyHeading(c, { id, name: usage.company_name })}
<div class="title-row"><h1>Usage in ${name}</h1>
<form method="get" action="${base}" class="months"><label for="month">Month</label>
<select id="month" name="month">${usage.months.map(
    (month) =>
      html`<option value="${month.slice(0, 7)}"${month === usage.month ? raw(' selected') : ''}>${format.month(month)}</option>`,
  )}</select><button>Show</button></form>
<a class="button quiet" href="${base}.csv?month=${short}" download>Export CSV</a></div>
${figures(usage, format)}
<section class="card"><h2>Cost per day</h2>${
    usage.by_day.length === 0
      ? html`<p class="empty">No API calls in ${name}${usage.current ? ' yet' : ''}.</p>`
      : costPerDay(
          { days: usage.days_in_month, cells: usage.by_day, models: usage.by_model.map((group) => group.name) },
          format,
          name,
        )
  }</section>
${groups('By model', 'Model', usage.by_model, (group) => html`<code>${group.name}</code>`, format)}
${groups(
  'By key',
  'Key',
  usage.by_key,
  (key) =>
    key.name === null ? html`<span class="muted">a deleted key</span>` : html`${key.name} <code>${key.prefix}…</code>`,
  format,
)}
${groups('By endpoint', 'Endpoint', usage.by_endpoint, (group) => ENDPOINTS[group.name] ?? group.name, format)}
${endings(usage, format)}
<p class="muted foot">Figures are exact sums of the ledger. Days and months are those of ${c.var.services.calendar.timeZone}. Calls that failed before any usage was known cost nothing and are not in the ledger.</p>`;
  return page(c, `Usage of ${usage.company_name}`, body);
}

/** The month in a few figures. */
function figures(usage: UsageMonth, format: Format): Html {
  const { budget_eur, total_percent, chat_percent, forecast_eur } = usage;
  const tokens = usage.prompt_tokens + usage.completion_tokens;
  return html`<div class="figures">
<div class="card figure-card"><h2>Spent</h2><p class="big">${format.eur(usage.total_cost_eur)}</p>
<p class="muted">API ${format.eur(usage.api_cost_eur)} · in-app chat ${format.eur(usage.chat_cost_eur)}</p></div>
<div class="card figure-card"><h2>Requests</h2><p class="big">${format.count(usage.requests)}</p>
<p class="muted">calls with usage in the ledger</p></div>
<div class="card figure-card"><h2>Tokens</h2><p class="big">${format.count(tokens)}</p>
<p class="muted">${format.count(usage.prompt_tokens)} in · ${format.count(usage.completion_tokens)} out</p></div>
<div class="card figure-card wide"><h2>Budget</h2>${
    budget_eur === null || total_percent === null || chat_percent === null
      ? html`<p class="big">unlimited</p><p class="muted">No monthly budget is set.</p>`
      : html`<p class="big">${format.percent(total_percent)} <span class="of">of ${format.eur(budget_eur)}</span>${
          usage.current && total_percent >= 100 ? html` ${badge('bad', 'reached: calls get 402')}` : ''
        }</p>
${budgetBar(chat_percent, total_percent, usage.forecast_percent)}
<p class="legend small"><span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="chat" width="10" height="10" rx="2"/></svg>In-app chat</span><span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="spent" width="10" height="10" rx="2"/></svg>API</span>${
          usage.forecast_percent === null
            ? ''
            : html`<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="forecast" width="10" height="10" rx="2"/></svg>Forecast</span>`
        }</p>`
  }
${
  usage.current
    ? forecast_eur === null
      ? html`<p class="muted">A forecast appears after the month's first day.</p>`
      : html`<p>At this pace the month ends at about <strong>${format.eur(forecast_eur)}</strong>${
          usage.forecast_percent === null
            ? '.'
            : html`, ${format.percent(usage.forecast_percent)} of the budget.${usage.forecast_percent > 100 ? html` ${badge('warn', 'over budget')}` : ''}`
        }</p>`
    : ''
}</div></div>`;
}

function groups<T extends Omit<UsageGroup, 'name'>>(
  caption: string,
  title: string,
  lines: readonly T[],
  name: (line: T) => Html | string,
  format: Format,
): Html {
  if (lines.length === 0) return html``;
  const columns = [{ title }, ...SUM_COLUMNS];
  const rows = lines.map((line) => [
    html`${name(line)}${line.estimated > 0 ? html` ${badge('plain', `${format.count(line.estimated)} estimated`)}` : ''}${
      line.unfinished > 0 ? html` ${badge('warn', `${format.count(line.unfinished)} unfinished`)}` : ''
    }`,
    ...sumsOf(line, format),
  ]);
  return table(caption, columns, rows, '');
}

const SUM_COLUMNS = [
  { title: 'Requests', figure: true },
  { title: 'Prompt tokens', figure: true },
  { title: 'Completion tokens', figure: true },
  { title: 'Cost', figure: true },
];

function sumsOf({ requests, prompt_tokens, completion_tokens, cost_eur }: Sums, format: Format): (Html | string)[] {
  return [format.count(requests), format.count(prompt_tokens), format.count(completion_tokens), format.eur(cost_eur)];
}

/** Estimated and failed calls, told apart. */
function endings({ by_ending }: UsageMonth, format: Format): Html {
  if (by_ending.length === 0) return html``;
  const rows = by_ending.map((line) => [
    OUTCOMES[line.outcome] ?? line.outcome,
    line.usage_source === 'estimated' ? badge('plain', 'estimated by us') : 'reported by the model',
    ...sumsOf(line, format),
  ]);
  return table('How calls ended', [{ title: 'Ending' }, { title: 'Token counts' }, ...SUM_COLUMNS], rows, '');
}

/** Streams the ledger of a month. A failure breaks the connection: a part must not look like the whole. */
async function download(c: PageContext): Promise<Response> {
  const { services, session } = c.var;
  const id = param(c, 'company');
  const { month } = await read(c, (sql) => readUsageMonth(sql, id, monthOf(c)));
  c.header('content-type', 'text/csv; charset=utf-8');
  c.header('content-disposition', `attachment; filename="usage-${month.slice(0, 7)}.csv"`);
  if (c.req.method === 'HEAD') return c.body(null); // nobody would read the stream
  const asked = { companyId: id, month, internal: session.user.role === 'operator' };
  const release = await services.slow.acquire();
  return stream(
    c,
    async (output) => {
      const write = async (bytes: Buffer): Promise<boolean> => {
        await output.write(bytes);
        return !output.aborted;
      };
      await read(c, (sql) => copyLedger(sql, asked, write), EXPORT_MS).finally(release);
    },
    async (error, output) => {
      if (!output.aborted) services.log.warn({ reason: error.stack }, 'admin: an export failed');
      c.env.outgoing.destroy();
    },
  );
}

/** The month asked for; null for the present one. */
function monthOf(c: PageContext): string | null {
  const text = c.req.query('month');
  if (text === undefined) return null;
  try {
    return readMonth(text);
  } catch (error) {
    if (error instanceof FieldError) throw new HTTPException(404);
    throw error;
  }
}
