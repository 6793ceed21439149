import type { UsageSums } from '../../domain/usage.ts';
import type { BudgetSpent, BudgetState, UsageTotals } from '../../store/usage/company-usage.ts';
import type { Quality } from '../../store/usage/quality.ts';
import { budgetBar } from '../page/chart.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge } from '../page/layout.ts';

/** The sums of the shown calls, what became of all requests, and the budget of the present month (spec section 5, rule 6). */
export function usageCards(usage: UsageTotals, format: Format, quality?: Quality): Html {
  const { chat_cost_eur: chat } = usage;
  const words = format.words.usage;
  const parts =
    chat === null
      ? words.apiOnly
      : html`${words.apiAndChat({ api: format.amount(usage.api_cost_eur), chat: format.amount(chat) })}`;
  return html`<div class="figures">${sumCards(usage, usage.total_cost_eur, parts, format)}
${quality === undefined ? '' : answerCards(quality, format)}
${budgetCard(usage.budget, { none: words.unlimited, noneText: words.noBudget, reached: words.reached }, format)}</div>`;
}

/** The sums of a member's own calls. What the company spends, and its budget, are for others. */
export function ownCards(usage: UsageTotals, quality: Quality, format: Format): Html {
  const { ownUsage } = format.words;
  return html`<div class="figures">${sumCards(usage, usage.api_cost_eur, ownUsage.ofOwnKeys, format)}
${answerCards(quality, format)}</div>`;
}

/** Cost, requests and tokens. @param note what the cost is of */
export function sumCards(
  { requests, prompt_tokens, completion_tokens }: Omit<UsageSums, 'cost_eur'>,
  cost: string,
  note: Html | string,
  format: Format,
): Html {
  const words = format.words.usage;
  const inAndOut = words.inAndOut({
    input: format.count(prompt_tokens),
    output: format.count(completion_tokens),
  });
  return html`${figureCard(words.spent, format.amount(cost), note)}
${figureCard(words.requests, format.count(requests), words.requestsNote)}
${figureCard(words.tokens, format.count(prompt_tokens + completion_tokens), inAndOut)}`;
}

/** What the figures of the ledger do not tell: requests without an answer, and how long answers took. Nothing where no request is known. */
export function answerCards({ all }: Quality, format: Format): Html | string {
  if (all === null) return '';
  const { usage: words } = format.words;
  const { refused, failed, p50, p95 } = all;
  const share = (count: number) => format.percent((count / all.requests) * 100);
  const shares = {
    refused: share(refused),
    failed: share(failed),
    all: format.count(all.requests),
  };
  const why = refused + failed === 0 ? '' : html` · <a href="#reasons">${words.why}</a>`;
  const latency =
    p50 === null || p95 === null
      ? ''
      : figureCard(
          words.latency,
          html`${format.duration(p50)} <span class="of">p50</span>`,
          `p95: ${format.duration(p95)}`,
        );
  return html`${figureCard(words.refusedAndFailed, `${format.count(refused)} · ${format.count(failed)}`, html`${words.sharesOf(shares)}${why}`)}
${latency}`;
}

/** One figure in large digits. */
export function figureCard(title: string, value: Html | string, note: Html | string): Html {
  return html`<div class="card figure-card"><h2>${title}</h2><p class="big">${value}</p>
<p class="muted">${note}</p></div>`;
}

/** The budget of the present day, where there is one. */
function today({ day = null }: Pick<BudgetState, 'day'>, format: Format): Html | '' {
  return day === null ? '' : budgetLine({ period: 'daily', ...day }, format);
}

/** What was spent of a budget, in a sentence. */
export function budgetLine(
  { period, spent_eur, budget_eur, percent }: BudgetSpent,
  format: Format,
): Html {
  const { usage: words } = format.words;
  const told = {
    share: format.percent(percent),
    spent: format.amount(spent_eur),
    budget: format.amount(budget_eur),
  };
  return html`<p>${words[period](told)}${percent >= 100 ? html` ${badge('bad', words.reached)}` : ''}</p>`;
}

/** The budget of the present month of a company or a cost centre. @param none in place of a budget; `noneText` of what is spent */
export function budgetCard(
  budget: Omit<BudgetState, 'chat_percent'> & { readonly chat_percent?: number | null },
  {
    none,
    noneText,
    reached,
  }: { none: string; noneText: (spent: Html) => unknown; reached: string },
  format: Format,
): Html {
  const {
    month,
    spent_eur,
    budget_eur,
    total_percent,
    chat_percent = null,
    forecast_percent,
  } = budget;
  const words = format.words.usage;
  const used =
    budget_eur === null || total_percent === null
      ? html`<p class="big">${none}</p><p class="muted">${noneText(format.amount(spent_eur))}</p>`
      : html`<p class="big">${format.percent(total_percent)} <span class="of">${words.ofBudget(format.amount(budget_eur))}</span>${
          total_percent >= 100 ? html` ${badge('bad', reached)}` : ''
        }</p>
${budgetBar(words, chat_percent, total_percent, forecast_percent)}`;
  return html`<div class="card figure-card wide"><h2>${words.budgetIn(format.month(month))}</h2>${used}
${forecastText(budget, format)}${today(budget, format)}</div>`;
}

/** Where the present month ends at its pace. */
function forecastText(
  { forecast_eur, forecast_percent }: Pick<BudgetState, 'forecast_eur' | 'forecast_percent'>,
  format: Format,
): Html {
  const words = format.words.usage;
  if (forecast_eur === null) return html`<p class="muted">${words.noForecast}</p>`;
  const amount = html`<strong>${format.amount(forecast_eur)}</strong>`;
  const share = forecast_percent === null ? null : format.percent(forecast_percent);
  const isOver = forecast_percent !== null && forecast_percent > 100;
  return html`<p>${words.forecast({ amount, share })}${isOver ? html` ${badge('warn', words.overBudget)}` : ''}</p>`;
}
