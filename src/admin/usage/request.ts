import type { Words } from '../../domain/language/en.ts';
import { priceIn } from '../../domain/price.ts';
import { COUNTED_PARTS, PARTS } from '../../domain/pricing/parts.ts';
import { conditionsOf } from '../../domain/pricing/rates.ts';
import { explainRequest } from '../../domain/reports/request-explanation.ts';
import { endpointText } from '../../domain/wording/endpoint.ts';
import { findRequest, type RequestDetail } from '../../store/usage/request.ts';
import { companyOf, type PageContext, pageAt, param, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import {
  companyHeading,
  companyLink,
  copyable,
  emptyText,
  muted,
  page,
  titledCard,
} from '../page/layout.ts';
import { keysInReach, requestsPath, seesOwnAlone } from './reach.ts';
import { durationText, requestsPage, resultBadge, retentionText } from './requests.ts';

/** Where requests are listed, with the permission to see them: of all companies, of one, or of the reader's own keys. */
const LISTS = [
  ['/requests', 'request.all'],
  ['/companies/:company/requests', 'request.read'],
  ['/companies/:company/own/requests', 'own-usage.read'],
] as const;

export const requestRoutes: readonly Route[] = LISTS.flatMap(([path, action]): Route[] => [
  pageAt(path, action, requestsPage),
  pageAt(`${path}/:request`, action, requestPage),
]);

/** One request. What the upstream said is on the operators' page alone: the company's page is made under the tenant role. */
async function requestPage(c: PageContext): Promise<Response> {
  const company = companyOf(c);
  const id = param(c, 'request');
  const request = await read(c, async (sql) =>
    within(await findRequest(sql, id, company), await keysInReach(c, sql, company)),
  );
  const list = company === null ? '/requests' : requestsPath(c, company);
  if (request === null) c.status(404);
  const { requests: words } = c.var.format.words;
  const body = html`${companyHeading(c)}<h1>${words.request}</h1>
${copyable(c, 'request-id', 'x-request-id', id)}
${request === null ? emptyText(words.nothingKnown(retentionText(c))) : shown(c, request, company)}
<p><a href="${list}">${words.allRequests}</a></p>`;
  return page(c, words.page(id), body);
}

/** The request, if it is of one of some keys; null: of any. */
function within(
  request: RequestDetail | null,
  keys: readonly string[] | null,
): RequestDetail | null {
  return request !== null && (keys?.includes(request.api_key_id ?? '') ?? true) ? request : null;
}

function shown(c: PageContext, request: RequestDetail, company: string | null): Html {
  const { requests: words, explanations } = c.var.format.words;
  const isOperator = c.var.session.user.company_id === null;
  const { what, advice } = explainRequest(request, explanations, isOperator);
  return html`${titledCard(
    words.happened,
    html`<p>${resultBadge(words, request)}</p><p>${what}</p>
${advice === null ? '' : html`<p><strong>${words.toDo}</strong> ${advice}${seesOwnAlone(c, company) ? '' : placeOf(c.var.format.words, request)}</p>`}
${request.in_trail ? '' : html`<p class="muted">${words.ledgerAlone}</p>`}`,
  )}
${upstreamCard(request)}
${titledCard(
  words.details,
  html`<dl class="facts">${Object.entries(factsOf(c, request, company))
    .filter(([, value]) => value !== null)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`,
)}`;
}

/** Where the setting is that the advice is about. Requests without a company are on the operators' page alone. */
function placeOf({ requests: words, findByText }: Words, request: RequestDetail): Html | string {
  const { about } = explainRequest(request);
  const { company_id: company, company_name, api_key_id: key, key_name } = request;
  if (request.status === 401 && key === null) return html` <a href="/keys">${findByText}</a>`;
  if (about === null || company_name === null) return '';
  const base = `/companies/${company}`;
  if (about === 'key')
    return key_name === null ? '' : html` <a href="${base}/keys/${key}">${key_name}</a>`;
  return html` <a href="${base}/${about}">${about === 'models' ? words.modelsOf : words.settingsOf}</a>`;
}

function upstreamCard({
  upstream_status: status,
  upstream_reason: reason,
}: RequestDetail): Html | string {
  if (reason === null) return '';
  return titledCard(
    'What the upstream said',
    html`<p>${status === null ? 'It gave no answer, or one that broke off.' : `It answered with status ${status}.`}</p>
<pre tabindex="0" class="answer" aria-label="The words of the upstream">${reason}</pre>
<p class="hint">For operators only, without keys and prompts.</p>`,
  );
}

function factsOf(
  c: PageContext,
  request: RequestDetail,
  company: string | null,
): Record<string, Html | string | null> {
  const { format } = c.var;
  const { company_id, company_name, api_key_id, key_name, key_prefix, model_slug, usage_source } =
    request;
  const {
    added_us: added,
    duration_ms: ms,
    first_event_ms: first,
    prompt_tokens,
    completion_tokens,
  } = request;
  const base = `/companies/${company_id}`;
  const isOwn = seesOwnAlone(c, company); // the pages of keys and models are not theirs
  const { requests: words, endpoints } = format.words;
  return {
    [words.time]: format.second(request.occurred_at),
    [words.statusLabel]:
      request.status === null
        ? null
        : request.status === 0
          ? words.noStatus
          : String(request.status),
    [words.code]: request.code,
    [words.parameter]: request.param,
    [words.company]:
      company !== null
        ? null
        : company_id === null
          ? muted('unknown: there was no valid key')
          : companyLink(request, 'requests'),
    [words.key]:
      api_key_id === null
        ? muted(words.unknown)
        : html`${key_name === null ? words.deletedKey : html`${isOwn ? key_name : html`<a href="${base}/keys/${api_key_id}">${key_name}</a>`} <code>${key_prefix}…</code>`} · <a href="${company_name === null ? '' : base}${isOwn ? '/own' : ''}/requests?key=${api_key_id}">${words.itsRequests}</a>`,
    [words.endpoint]: endpointText(endpoints, request.endpoint),
    [words.model]:
      model_slug !== null
        ? isOwn
          ? html`<code>${model_slug}</code>`
          : html`<a href="${company === null ? '' : base}/models?q=${encodeURIComponent(model_slug)}"><code>${model_slug}</code></a>`
        : request.asked && html`<code>${request.asked}</code>`,
    [words.tokens]:
      prompt_tokens === null
        ? null
        : words.promptAndCompletion({
            prompt: format.count(prompt_tokens),
            completion: format.count(completion_tokens ?? 0),
          }) + (usage_source === null ? '' : `, ${words.sources[usage_source]}`),
    [words.ofPrompt]: partsText(format, request, 'prompt'),
    [words.ofCompletion]: partsText(format, request, 'completion'),
    [words.units.search_units]:
      request.search_units === null ? null : format.count(request.search_units),
    [words.rate]: rateText(format, request),
    [words.charged]: chargedText(format, request),
    [words.cost]: request.cost_eur === null ? null : format.eur(request.cost_eur),
    "Upstream's cost":
      request.upstream_cost &&
      format.other(request.upstream_cost, request.upstream_currency as string),
    [words.duration]: ms === null ? null : durationText(ms, format),
    [words.firstEvent]: first === null ? null : durationText(first, format),
    [words.added]: added === null ? null : `${format.count(added)} µs`,
  };
}

/** Which rate held, and why; null: the base price. */
function rateText(format: Format, { rate, prompt_tokens }: RequestDetail): Html | null {
  if (rate === null) return null;
  const { requests: words } = format.words;
  const { tier, hours, over } = conditionsOf(rate);
  const why = [
    ...(tier === undefined ? [] : [words.rateTier(tier)]),
    ...(hours === undefined ? [] : [words.rateHours(hours)]),
    ...(over === undefined
      ? []
      : [words.rateOver({ tokens: format.count(prompt_tokens ?? 0), over: format.count(over) })]),
  ];
  return html`<code>${rate}</code> ${muted(why.join(', '))}`;
}

/** The parts of the cost with their units and prices; null: not told. */
function chargedText(format: Format, { charged }: RequestDetail): Html | null {
  if (charged === null) return null;
  const { requests: words, statements } = format.words;
  const parts = charged.map(({ part, units, price }) =>
    words.chargedPart({
      units:
        part === 'request'
          ? statements.calls(units, format.count(units))
          : `${format.count(units)} ${statements.charged[part]}`,
      price: format.price(priceIn('1M', price)),
    }),
  );
  return html`${parts.map((text, at) => html`${at === 0 ? '' : html`<br>`}${text}`)}`;
}

/** The token details that the upstream told; null where it told none. */
function partsText(
  format: Format,
  request: RequestDetail,
  whole: 'prompt' | 'completion',
): string | null {
  const told = COUNTED_PARTS.flatMap(({ part, column }) => {
    const count = PARTS[part].within === whole ? request[column] : null;
    return count === null ? [] : `${format.count(count)} ${format.words.requests.units[column]}`;
  });
  return told.length === 0 ? null : told.join(', ');
}
