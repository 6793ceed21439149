import {
  type DetailedMargin,
  type MarginExtent,
  readDetailedMargin,
  type ToldSums,
} from '../../store/usage/margin.ts';
import { marginCsv } from '../../store/usage/margin-csv.ts';
import { type PageContext, pageAt, type Route, read, sharerOf } from '../page/context.ts';
import { CSV, download } from '../page/download.ts';
import { type Html, html } from '../page/html.ts';
import { about, companyLink, emptyText, muted, page, table, titledCard } from '../page/layout.ts';
import { csvLink, spreadsheetOf } from '../page/spreadsheet.ts';
import { monthForm } from '../usage/usage-bar.ts';
import { monthAsked } from '../usage/usage-query.ts';

/** Revenue, cost and margin of a month, for operators alone. */
export const marginRoutes: readonly Route[] = [
  pageAt('/margin', 'cost.read', marginPage),
  pageAt('/margin.csv', 'cost.read', downloadCsv),
];

const READ_MS = 30_000;
const MOST_SHOWN = 50;

type Sums = DetailedMargin['total'];

async function marginPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const margin = await readAsked(c, { companies: MOST_SHOWN, lines: false });
  const name = format.month(margin.month);
  const { total, without_cost } = margin;
  const figures = sums(c, margin);
  const columns = <T extends Sums>(title: string, cell: (row: T) => Html | string) => ({
    cells: { [title]: cell, ...figures },
    figures: Object.keys(figures),
  });
  const by = <T extends Sums>(
    title: string,
    rows: readonly T[],
    count: number,
    cell: (row: T) => Html | string,
  ) => {
    return titledCard(
      html`By ${title.toLowerCase()}`,
      html`${table(`By ${title.toLowerCase()}`, rows.slice(0, MOST_SHOWN), columns(title, cell), true)}
${count > MOST_SHOWN ? html`<p class="muted">The first ${MOST_SHOWN} of ${format.count(count)}; the CSV has all.</p>` : ''}`,
    );
  };
  const body = html`<div class="title-row"><h1>Margin in ${name}</h1>
${csvLink(c, `/margin.csv?month=${margin.month.slice(0, 7)}`)}
${monthForm(c, '/margin', margin.month, margin.months)}</div>
${
  total.requests === 0
    ? emptyText(
        html`No API calls in ${name}. Choose another month above. The cost prices that a margin needs are set on the pages of the <a href="/models">models</a>.`,
      )
    : html`${without_cost.length === 0 ? '' : html`<p class="muted">Without a cost price, and in the revenue alone: ${without_cost.slice(0, 50).map((slug, i) => html`${i === 0 ? '' : ', '}${modelLink(slug)}`)}.</p>`}
${titledCard(
  'All companies',
  table(
    'All companies',
    [total],
    columns('Total', () => name),
    true,
  ),
)}
${by('Model', margin.by_model, margin.by_model.length, ({ model }) => modelLink(model))}
${by('Company', margin.by_company, margin.companies, (row) => companyLink(row, `usage?month=${margin.month.slice(0, 7)}`))}`
}
${about(c.var, `Revenue is the sum of the ledger, without in-app chat. Amounts are rounded to two decimals on this page, with the exact amount as a tooltip; the CSV has them exact, by company and model. Cost is tokens × the cost price of the day of the call. A company's own model has its own cost price or none; a day counts for it if it existed at the end of that day. Percent is the margin by the revenue of the calls with a cost price.${toldText(margin)}`)}`;
  return page(c, `Margin in ${name}`, body);
}

/** The margin of the month in the URL, by default the present one. @param extent all if absent @throws FieldError */
function readAsked(c: PageContext, extent?: MarginExtent): Promise<DetailedMargin> {
  const { upstreamCurrency: currency, upstreamRate: rate } = c.var.services;
  return read(
    c,
    (sql) => readDetailedMargin(sql, monthAsked(c), { currency, rate }, extent),
    READ_MS,
  );
}

/** One line for each company and model: all of them, however few the page shows. */
function downloadCsv(c: PageContext): Promise<Response> {
  const file = { name: `margin-${monthAsked(c).slice(0, 7)}.csv`, type: CSV };
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

/** Without any cost price there is no column of what it tells. */
function sums(c: PageContext, { total, told, by_model }: DetailedMargin) {
  const { format } = c.var;
  const eur = (amount: string | null) =>
    amount === null ? muted('unknown') : format.amount(amount);
  const costed = {
    Cost: ({ cost_eur }: Sums) => eur(cost_eur),
    Margin: ({ margin_eur }: Sums) => eur(margin_eur),
    Percent: ({ margin_percent: percent }: Sums) =>
      percent === null ? muted('unknown') : format.percent(percent),
    'Without cost price': ({ uncosted_eur }: Sums) =>
      uncosted_eur === '0' ? muted('none') : eur(uncosted_eur),
  };
  return {
    Requests: ({ requests }: Sums) => format.count(requests),
    Revenue: ({ revenue_eur }: Sums) => eur(revenue_eur),
    ...(total.cost_eur !== null && costed),
    ...(told.cost && {
      "Upstream's cost": ({ upstream, requests }: Sums) => costText(c, upstream, requests),
    }),
    ...(hasUpstreamMargin(by_model) && {
      "Margin by upstream's cost": ({ upstream }: ToldSums) => eur(upstream?.margin_eur ?? null),
    }),
    ...(told.cached && {
      Cached: ({ cached_percent: share }: ToldSums) =>
        share === null ? muted('unknown') : format.percent(share),
    }),
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

function toldText({
  told,
  by_model,
  upstream_currency: { currency, rate },
}: DetailedMargin): string {
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
