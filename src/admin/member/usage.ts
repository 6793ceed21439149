import { readCompanyUsage, type UsageTotals } from '../../store/usage/company-usage.ts';
import { readQuality } from '../../store/usage/quality.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, exactSwitch, page } from '../page/layout.ts';
import { keysInReach, keysPath, usagePath } from '../usage/reach.ts';
import { requestPage } from '../usage/request.ts';
import { requestsPage } from '../usage/requests.ts';
import { costsCard, refusedText } from '../usage/usage.ts';
import { usageBar } from '../usage/usage-bar.ts';
import { figureCard } from '../usage/usage-cards.ts';
import { downloadLedger, downloadSums, exportCard } from '../usage/usage-export.ts';
import { rangeText, readUsageQuery } from '../usage/usage-query.ts';
import { MAX_LINES, reasonsTable, usageTables } from '../usage/usage-tables.ts';

const OWN = '/companies/:company/own';
const action = 'own-usage.read';

/** What a member's own keys used, that of the playground too, and what became of their requests. */
export const ownUsageRoutes: readonly Route[] = [
  { method: 'GET', path: `${OWN}/usage`, action, handle: usagePage },
  { method: 'GET', path: `${OWN}/usage.csv`, action, handle: downloadSums },
  { method: 'GET', path: `${OWN}/ledger.csv`, action, handle: downloadLedger },
  { method: 'GET', path: `${OWN}/requests`, action, handle: requestsPage },
  { method: 'GET', path: `${OWN}/requests/:request`, action, handle: requestPage },
];

async function usagePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const id = param(c, 'company');
  const query = readUsageQuery(c);
  const { range, filters, form } = query;
  const { keys, usage, quality } = await read(c, async (sql) => {
    const keys = await keysInReach(c, sql, id);
    const own = { ...filters, keys };
    return {
      keys,
      usage: await readCompanyUsage(sql, id, range, own, MAX_LINES),
      quality: await readQuality(sql, id, range, own),
    };
  });
  const { usage: words, ownUsage } = format.words;
  const heading = html`${companyHeading(c, { id, name: usage.company_name })}
<div class="title-row"><h1>${ownUsage.title(rangeText(range, format))}</h1>${keys?.length === 0 ? '' : html`<p class="actions"><a class="button quiet" href="#export">${words.export}</a></p>`}</div>`;
  if (keys?.length === 0) {
    const link = (text: string) => html`<a href="${keysPath(c, id)}">${text}</a>`;
    return page(c, ownUsage.name, html`${heading}${emptyText(html`${ownUsage.noKey(link)}`)}`);
  }
  const body = html`${heading}
${usageBar(c, usagePath(c, id), query, usage)}
${cards(usage, format)}
${refusedText(quality, format)}
${costsCard(c, usage, query, quality)}
${usageTables(usage, { c, format, query, quality }, null)}
${reasonsTable({ c, format, query, quality })}
${exportCard(c, id, query)}
${quality.isTooMuch ? html`<p class="muted">${words.isTooMuch}</p>` : ''}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  if (form.messages.size > 0) c.status(422);
  return page(c, ownUsage.name, body);
}

/** The sums of the shown calls. What the company spends, and its budget, are for others. */
function cards(
  { requests, prompt_tokens: input, completion_tokens: output, api_cost_eur }: UsageTotals,
  format: Format,
): Html {
  const { usage: words, ownUsage } = format.words;
  const inAndOut = words.inAndOut({ input: format.count(input), output: format.count(output) });
  return html`<div class="figures">
${figureCard(words.spent, format.amount(api_cost_eur), ownUsage.ofOwnKeys)}
${figureCard(words.requests, format.count(requests), words.requestsNote)}
${figureCard(words.tokens, format.count(input + output), inAndOut)}</div>`;
}
