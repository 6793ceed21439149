import { html } from 'hono/html';
import { readMonth } from '../domain/field.ts';
import { formatEur, parseEur } from '../domain/money.ts';
import { readUsageMonth, type UsageGroup, type UsageMonth, type UsageSums } from '../store/daily.ts';
import { copyLedger } from '../store/export.ts';
import { budgetBar, costPerDay, legendEntry } from './chart.ts';
import { type PageContext, param, type Route, read } from './context.ts';
import { download } from './download.ts';
import { options } from './field.ts';
import type { Format } from './format.ts';
import type { Html } from './html.ts';
import { badge, type Columns, companyHeading, emptyText, muted, page, table } from './layout.ts';

/** A company's month (spec section 5, rule 6), and its ledger as CSV. */
export const usageRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies/:company/usage', action: 'usage.read', handle: usagePage },
  { method: 'GET', path: '/companies/:company/usage.csv', action: 'usage.read', handle: ledger },
];

const EXPORT_MS = 30 * 60_000;

const ENDPOINTS: Readonly<Record<string, string>> = {
  'chat.completions': 'Chat completions',
  embeddings: 'Embeddings',
  'assistants.run': 'Assistant runs',
  responses: 'Responses',
  messages: 'Messages',
};
const OUTCOMES: Readonly<Record<string, string>> = {
  completed: 'Completed',
  client_aborted: 'Cancelled by the client',
  upstream_failed: 'Failed before its end',
};

const MAX_LINES = 50; // of each table; the rest is one line

const FIGURES = ['Requests', 'Prompt tokens', 'Completion tokens', 'Cost'];

async function usagePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const id = param(c, 'company');
  const usage = await read(c, (sql) => readUsageMonth(sql, id, monthOf(c)));
  const name = format.month(usage.month);
  const base = `/companies/${id}/usage`;
  const short = usage.month.slice(0, 7);
  const months = usage.months.map((month) => [month.slice(0, 7), format.month(month)] as const);
  const body = html`${companyHeading(c, { id, name: usage.company_name })}
<div class="title-row"><h1>Usage in ${name}</h1>
<form method="get" action="${base}" class="months"><label for="month">Month</label>
<select id="month" name="month">${options(months, short)}</select><button>Show</button></form>
<a class="button quiet" href="${base}.csv?month=${short}" download>Export CSV</a></div>
${usageFigures(usage, format)}
<section class="card"><h2>Cost per day</h2>${
    usage.by_day.length === 0
      ? emptyText(`No API calls in ${name}${usage.current ? ' yet' : ''}.`)
      : costPerDay(
          { days: usage.days_in_month, cells: usage.by_day, models: usage.by_model.map((group) => group.name) },
          format,
          name,
        )
  }</section>
${groups('Model', usage.by_model, (group) => html`<code>${group.name}</code>`, format)}
${groups(
  'Key',
  usage.by_key,
  (key) => (key.name === null ? muted('a deleted key') : html`${key.name} <code>${key.prefix}…</code>`),
  format,
)}
${groups('Endpoint', usage.by_endpoint, (group) => ENDPOINTS[group.name] ?? group.name, format)}
${endings(usage, format)}
<p class="muted foot">Figures are exact sums of the ledger. Days and months are those of ${c.var.services.calendar.timeZone}. Calls that failed before any usage was known cost nothing and are not in the ledger.</p>`;
  return page(c, `Usage of ${usage.company_name}`, body);
}

/** The sums of the month, and its budget. */
export function usageFigures(usage: UsageMonth, format: Format): Html {
  const { prompt_tokens, completion_tokens } = usage;
  const card = (title: string, value: Html | string, note: Html | string) =>
    html`<div class="card figure-card"><h2>${title}</h2><p class="big">${value}</p>
<p class="muted">${note}</p></div>`;
  return html`<div class="figures">
${card('Spent', format.eur(usage.total_cost_eur), html`API ${format.eur(usage.api_cost_eur)} · in-app chat ${format.eur(usage.chat_cost_eur)}`)}
${card('Requests', format.count(usage.requests), 'calls with usage in the ledger')}
${card('Tokens', format.count(prompt_tokens + completion_tokens), `${format.count(prompt_tokens)} in · ${format.count(completion_tokens)} out`)}
<div class="card figure-card wide"><h2>Budget</h2>${budget(usage, format)}
${usage.current ? forecast(usage, format) : ''}</div></div>`;
}

function budget(usage: UsageMonth, format: Format): Html {
  const { current, budget_eur, total_percent, chat_percent, forecast_percent } = usage;
  if (budget_eur === null || total_percent === null || chat_percent === null) {
    return html`<p class="big">unlimited</p><p class="muted">No monthly budget is set.</p>`;
  }
  const isReached = current && total_percent >= 100;
  return html`<p class="big">${format.percent(total_percent)} <span class="of">of ${format.eur(budget_eur)}</span>${
    isReached ? html` ${badge('bad', 'reached: calls get 402')}` : ''
  }</p>
${budgetBar(chat_percent, total_percent, forecast_percent)}
<p class="legend small">${legendEntry('chat', 'In-app chat')}${legendEntry('spent', 'API')}${
    forecast_percent === null ? '' : legendEntry('forecast', 'Forecast')
  }</p>`;
}

function forecast({ forecast_eur, forecast_percent }: UsageMonth, format: Format): Html {
  if (forecast_eur === null) return html`<p class="muted">A forecast appears after the month's first day.</p>`;
  const share =
    forecast_percent === null
      ? '.'
      : html`, ${format.percent(forecast_percent)} of the budget.${forecast_percent > 100 ? html` ${badge('warn', 'over budget')}` : ''}`;
  return html`<p>At this pace the month ends at about <strong>${format.eur(forecast_eur)}</strong>${share}</p>`;
}

/** One table of sums; nothing when there were no calls. */
function groups<T extends Omit<UsageGroup, 'name'>>(
  title: string,
  lines: readonly T[],
  name: (line: T) => Html | string,
  format: Format,
): Html {
  if (lines.length === 0) return html``;
  const rows: (UsageSums & { readonly first: Html })[] = lines.slice(0, MAX_LINES).map((line) => ({
    ...line,
    first: html`${name(line)}${line.estimated > 0 ? html` ${badge('plain', `${format.count(line.estimated)} estimated`)}` : ''}${
      line.unfinished > 0 ? html` ${badge('warn', `${format.count(line.unfinished)} unfinished`)}` : ''
    }`,
  }));
  const rest: readonly UsageSums[] = lines.slice(MAX_LINES);
  if (rest.length > 0) {
    rows.push({ ...rest.reduce(plus), first: muted(`${format.count(rest.length)} others`) });
  }
  return table(`By ${title.toLowerCase()}`, rows, {
    cells: { [title]: ({ first }) => first, ...sums(format) },
    figures: FIGURES,
  });
}

function plus(a: UsageSums, b: UsageSums): UsageSums {
  return {
    requests: a.requests + b.requests,
    prompt_tokens: a.prompt_tokens + b.prompt_tokens,
    completion_tokens: a.completion_tokens + b.completion_tokens,
    cost_eur: formatEur(parseEur(a.cost_eur) + parseEur(b.cost_eur)),
  };
}

function sums(format: Format): Columns<UsageSums>['cells'] {
  return {
    Requests: ({ requests }) => format.count(requests),
    'Prompt tokens': ({ prompt_tokens }) => format.count(prompt_tokens),
    'Completion tokens': ({ completion_tokens }) => format.count(completion_tokens),
    Cost: ({ cost_eur }) => format.eur(cost_eur),
  };
}

/** How many calls completed, were cancelled or failed, with reported or estimated tokens. */
function endings({ by_ending }: UsageMonth, format: Format): Html {
  if (by_ending.length === 0) return html``;
  type Ending = (typeof by_ending)[number];
  const cells = {
    Ending: ({ outcome }: Ending) => OUTCOMES[outcome] ?? outcome,
    'Token counts': ({ usage_source }: Ending) =>
      usage_source === 'estimated' ? badge('plain', 'estimated by Tollgate') : 'reported by the model',
    ...sums(format),
  };
  return table('How calls ended', by_ending, { cells, figures: FIGURES });
}

/** The ledger of a month. */
async function ledger(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const { month } = await read(c, (sql) => readUsageMonth(sql, id, monthOf(c)));
  const asked = { companyId: id, month, internal: c.var.session.user.role === 'operator' };
  const file = { name: `usage-${month.slice(0, 7)}.csv`, type: 'text/csv; charset=utf-8' };
  return download(c, file, (write) => read(c, (sql) => copyLedger(sql, asked, write), EXPORT_MS));
}

/** The month in the address; null for the current one. @throws FieldError */
function monthOf(c: PageContext): string | null {
  const text = c.req.query('month');
  return text === undefined ? null : readMonth(text);
}
