import { readMonth } from '../../domain/field.ts';
import { type DetailedMargin, type MarginExtent, readDetailedMargin, type ToldSums } from '../../store/usage/margin.ts';
import { marginCsv } from '../../store/usage/margin-csv.ts';
import { type PageContext, type Route, read, sharerOf } from '../page/context.ts';
import { CSV, download } from '../page/download.ts';
import { options } from '../page/field.ts';
import { type Html, html } from '../page/html.ts';
import { companyLink, emptyText, muted, page, table } from '../page/layout.ts';
import { csvLink, spreadsheetOf } from '../page/spreadsheet.ts';

/** Revenue, cost and margin of a month, for operators alone. */
export const marginRoutes: readonly Route[] = [
  { method: 'GET', path: '/margin', action: 'cost.read', handle: marginPage },
  { method: 'GET', path: '/margin.csv', action: 'cost.read', handle: downloadCsv },
];

const READ_MS = 30_000;
const MOST_SHOWN = 50;
// biome-ignore format: a table
const FIGURES = [
  'Requests', 'Revenue', 'Cost', 'Margin', 'Percent', 'Without cost price',
  "Upstream's cost", "Margin by upstream's cost", 'Cached',
];

type Sums = DetailedMargin['total'];

async function marginPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const margin = await readAsked(c, { companies: MOST_SHOWN, lines: false });
  const name = format.month(margin.month);
  const { total, without_cost } = margin;
  const months = margin.months.map((month) => [month.slice(0, 7), format.month(month)] as const);
  const by = <T extends Sums>(title: string, rows: readonly T[], count: number, cell: (row: T) => Html | string) => {
    const cells = { [title]: cell, ...sums(c, margin) };
    return html`<section class="card"><h2>By ${title.toLowerCase()}</h2>${table(`By ${title.toLowerCase()}`, rows.slice(0, MOST_SHOWN), { cells, figures: FIGURES }, true)}
${count > MOST_SHOWN ? html`<p class="muted">The first ${MOST_SHOWN} of ${format.count(count)}; the CSV has all.</p>` : ''}</section>`;
  };
  const body = html`<div class="title-row"><h1>Margin in ${name}</h1>
${csvLink(c, `/margin.csv?month=${margin.month.slice(0, 7)}`)}
<form method="get" action="/margin" class="months"><label for="month">Month</label>
<select id="month" name="month">${options(months, margin.month.slice(0, 7))}</select><button>Show</button></form></div>
${
  total.requests === 0
    ? emptyText(
        html`No API calls in ${name}. Choose another month above. The cost prices that a margin needs are set on the pages of the <a href="/models">models</a>.`,
      )
    : html`${without_cost.length === 0 ? '' : html`<div class="problem">Without a cost price: ${without_cost.slice(0, 50).map((slug, i) => html`${i === 0 ? '' : ', '}${modelLink(slug)}`)}. Their calls are in the revenue alone, and not in cost and margin. Set what you pay on the pages of these models.</div>`}
<section class="card"><h2>All companies</h2>${table('All companies', [total], { cells: { Total: () => name, ...sums(c, margin) }, figures: FIGURES }, true)}</section>
${by('Model', margin.by_model, margin.by_model.length, ({ model }) => modelLink(model))}
${by('Company', margin.by_company, margin.companies, (row) => companyLink(row, `usage?month=${margin.month.slice(0, 7)}`))}`
}
<p class="muted foot">Revenue is the sum of the ledger, without in-app chat. Amounts are rounded to two decimals on this page, with the exact amount as a tooltip; the CSV has them exact, by company and model. Cost is tokens × the cost price of the day of the call. A company's own model has its own cost price or none; a day counts for it if it existed at the end of that day. Percent is the margin by the revenue of the calls with a cost price.${toldText(margin)}</p>`;
  return page(c, `Margin in ${name}`, body);
}

/** The margin of the month in the URL, by default the present one. @param extent all if absent @throws FieldError */
function readAsked(c: PageContext, extent?: MarginExtent): Promise<DetailedMargin> {
  const { upstreamCurrency: currency, upstreamRate: rate } = c.var.services;
  return read(c, (sql) => readDetailedMargin(sql, monthOf(c), { currency, rate }, extent), READ_MS);
}

function monthOf(c: PageContext): string {
  const { calendar, clock } = c.var.services;
  const asked = c.req.query('month');
  return asked === undefined ? calendar.month(clock()) : readMonth(asked);
}

/** One line for each company and model: all of them, however few the page shows. */
function downloadCsv(c: PageContext): Promise<Response> {
  const file = { name: `margin-${monthOf(c).slice(0, 7)}.csv`, type: CSV };
  const form = spreadsheetOf(c);
  return download(c, c.var.services, sharerOf(c), file, async (write) => {
    await write(Buffer.from(marginCsv(await readAsked(c), form)));
  });
}

/** To the models of that name: the shared one, and those that companies have of their own. */
function modelLink(slug: string): Html {
  return html`<a href="/models?q=${encodeURIComponent(slug)}"><code>${slug}</code></a>`;
}

/** Whether the upstream's cost is known in EUR for any model. */
function hasUpstreamMargin(models: DetailedMargin['by_model']): boolean {
  return models.some(({ upstream }) => upstream !== null && upstream.margin_eur !== null);
}

function sums(c: PageContext, { told, by_model }: DetailedMargin) {
  const { format } = c.var;
  const eur = (amount: string | null) => (amount === null ? muted('unknown') : format.amount(amount));
  return {
    Requests: ({ requests }: Sums) => format.count(requests),
    Revenue: ({ revenue_eur }: Sums) => eur(revenue_eur),
    Cost: ({ cost_eur }: Sums) => eur(cost_eur),
    ...(told.cost ? { "Upstream's cost": ({ upstream, requests }: Sums) => costText(c, upstream, requests) } : {}),
    Margin: ({ margin_eur }: Sums) => eur(margin_eur),
    Percent: ({ margin_percent: percent }: Sums) => (percent === null ? muted('unknown') : format.percent(percent)),
    ...(hasUpstreamMargin(by_model)
      ? { "Margin by upstream's cost": ({ upstream }: ToldSums) => eur(upstream?.margin_eur ?? null) }
      : {}),
    'Without cost price': ({ uncosted_eur }: Sums) => (uncosted_eur === '0' ? muted('none') : eur(uncosted_eur)),
    ...(told.cached
      ? { Cached: ({ cached_percent: share }: ToldSums) => (share === null ? muted('unknown') : format.percent(share)) }
      : {}),
  };
}

/**
 * The upstream's own cost: in EUR where the rate is known, otherwise in its currency. The number of calls follows where
 * some calls have no such cost.
 */
function costText(c: PageContext, upstream: ToldSums['upstream'], requests: number): Html | string {
  const { format } = c.var;
  if (upstream === null) return muted('unknown');
  const text =
    upstream.cost_eur === null
      ? html`${upstream.costs.map(({ currency, cost }, at) => html`${at === 0 ? '' : ' + '}${format.otherSum(cost, currency)}`)}`
      : format.amount(upstream.cost_eur);
  return upstream.requests === requests
    ? text
    : html`${text} ${muted(`of ${format.count(upstream.requests)} ${upstream.requests === 1 ? 'call' : 'calls'}`)}`;
}

function toldText({ told, by_model, upstream_currency: { currency, rate } }: DetailedMargin): string {
  const worth =
    rate !== null
      ? ` 1 ${currency} is counted as ${rate} EUR in every month.`
      : currency === 'EUR'
        ? ''
        : ` To see that cost in EUR, set UPSTREAM_RATE to what 1 ${currency} is worth.`;
  const margin = hasUpstreamMargin(by_model)
    ? " “Margin by upstream's cost” is the revenue of the calls that have such a cost, less that cost."
    : '';
  const cost = ` “Upstream's cost” is what the upstream itself reported.${margin}${worth}`;
  const cached =
    " “Cached” is the share of the prompt tokens that came from the upstream's cache, of the calls for which it reports this.";
  return `${told.cost ? cost : ''}${told.cached ? cached : ''}`;
}
