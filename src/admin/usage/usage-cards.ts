import type { BudgetState, UsageTotals } from '../../store/usage/company-usage.ts';
import { budgetBar } from '../page/chart.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge } from '../page/layout.ts';

/** The sums of the shown calls, and the budget of the present month (spec section 5, rule 6). */
export function usageCards(usage: UsageTotals, format: Format): Html {
  const { requests, prompt_tokens, completion_tokens, chat_cost_eur: chat } = usage;
  const parts =
    chat === null
      ? 'API calls; in-app chat is counted for whole months'
      : html`API ${format.amount(usage.api_cost_eur)} · in-app chat ${format.amount(chat)}`;
  return html`<div class="figures">
${figureCard('Spent', format.amount(usage.total_cost_eur), parts)}
${figureCard('Requests', format.count(requests), 'calls with usage in the ledger')}
${figureCard('Tokens', format.count(prompt_tokens + completion_tokens), `${format.count(prompt_tokens)} in · ${format.count(completion_tokens)} out`)}
<div class="card figure-card wide"><h2>Budget in ${format.month(usage.budget.month)}</h2>${budget(usage.budget, format)}
${forecast(usage.budget, format)}</div></div>`;
}

/** One figure in large digits. */
export function figureCard(title: string, value: Html | string, note: Html | string): Html {
  return html`<div class="card figure-card"><h2>${title}</h2><p class="big">${value}</p>
<p class="muted">${note}</p></div>`;
}

function budget(
  { spent_eur, budget_eur, total_percent, chat_percent, forecast_percent }: BudgetState,
  format: Format,
): Html {
  if (budget_eur === null || total_percent === null || chat_percent === null) {
    return html`<p class="big">unlimited</p><p class="muted">No monthly budget is set. Spent so far: ${format.amount(spent_eur)}.</p>`;
  }
  return html`<p class="big">${format.percent(total_percent)} <span class="of">of ${format.amount(budget_eur)}</span>${
    total_percent >= 100 ? html` ${badge('bad', 'reached: calls get 402')}` : ''
  }</p>
${budgetBar(chat_percent, total_percent, forecast_percent)}`;
}

function forecast({ forecast_eur, forecast_percent }: BudgetState, format: Format): Html {
  if (forecast_eur === null) return html`<p class="muted">A forecast appears from the month's third day on.</p>`;
  const share =
    forecast_percent === null
      ? '.'
      : html`, ${format.percent(forecast_percent)} of the budget.${forecast_percent > 100 ? html` ${badge('warn', 'over budget')}` : ''}`;
  return html`<p>At this pace the month ends at about <strong>${format.amount(forecast_eur)}</strong>${share}</p>`;
}
