import { ENDPOINTS } from '../../domain/text/endpoint.ts';
import { explainRequest } from '../../domain/text/request-explanation.ts';
import { findCompany } from '../../store/company/company.ts';
import { findRequest, type RequestDetail } from '../../store/usage/request.ts';
import { companyOf, type PageContext, param, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, companyLink, copyable, emptyText, muted, page } from '../page/layout.ts';
import { durationText, requestsPage, resultBadge, retentionText } from './requests.ts';

/** Pages of requests: of one company, and for operators of all. */
export const requestRoutes: readonly Route[] = [
  { method: 'GET', path: '/requests', action: 'request.all', handle: requestsPage },
  { method: 'GET', path: '/requests/:request', action: 'request.all', handle: requestPage },
  { method: 'GET', path: '/companies/:company/requests', action: 'request.read', handle: requestsPage },
  { method: 'GET', path: '/companies/:company/requests/:request', action: 'request.read', handle: requestPage },
];

const USAGE_SOURCES = { upstream: 'reported by the upstream', estimated: 'estimated' };

/** One request. What the upstream said is on the operators' page alone: the company's page is made under the tenant role. */
async function requestPage(c: PageContext): Promise<Response> {
  const company = companyOf(c);
  const id = param(c, 'request');
  const { heading, request } = await read(c, async (sql) => ({
    heading: company === null ? null : await findCompany(sql, company),
    request: await findRequest(sql, id, company),
  }));
  const list = company === null ? '/requests' : `/companies/${company}/requests`;
  if (request === null) c.status(404);
  const body = html`${heading === null ? '' : companyHeading(c, heading)}<h1>Request</h1>
${copyable('request-id', 'x-request-id', id)}
${request === null ? emptyText(`Nothing is known of a request with this id. ${retentionText(c)} Calls that were booked stay in the ledger. A request appears about a second after it ended.`) : shown(c, request, company)}
<p><a href="${list}">All requests</a></p>`;
  return page(c, `Request ${id}`, body);
}

function shown(c: PageContext, request: RequestDetail, company: string | null): Html {
  const { what, advice } = explainRequest(request);
  return html`<section class="card"><h2>What happened</h2>
<p>${resultBadge(request)}</p><p>${what}</p>
${advice === null ? '' : html`<p><strong>What to do:</strong> ${advice}${placeOf(request)}</p>`}
${request.in_trail ? '' : html`<p class="muted">Told from the ledger alone: the request is older than what is kept, or was not kept. Its status and its times are not known.</p>`}</section>
${upstreamCard(request)}
<section class="card"><h2>Details</h2><dl class="facts">${Object.entries(factsOf(c, request, company))
    .filter(([, value]) => value !== null)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl></section>`;
}

/** Where the setting is that the advice is about. Requests without a company are on the operators' page alone. */
function placeOf(request: RequestDetail): Html | string {
  const { about } = explainRequest(request);
  const { company_id: company, company_name, api_key_id: key, key_name } = request;
  if (request.status === 401 && key === null) return html` <a href="/keys">Find it by its text</a>`;
  if (about === null || company_name === null) return '';
  const base = `/companies/${company}`;
  if (about === 'key') return key_name === null ? '' : html` <a href="${base}/access/${key}">${key_name}</a>`;
  return html` <a href="${base}/${about}">${about === 'models' ? 'Models' : 'Settings'} of the company</a>`;
}

function upstreamCard({ upstream_status: status, upstream_reason: reason }: RequestDetail): Html | string {
  if (reason === null) return '';
  return html`<section class="card"><h2>What the upstream said</h2>
<p>${status === null ? 'It gave no answer, or one that broke off.' : `It answered with status ${status}.`}</p>
<pre tabindex="0" class="answer" aria-label="The words of the upstream">${reason}</pre>
<p class="hint">For operators only, without keys and prompts.</p></section>`;
}

function factsOf(c: PageContext, request: RequestDetail, company: string | null): Record<string, Html | string | null> {
  const { format } = c.var;
  const { company_id, company_name, api_key_id, key_name, key_prefix, model_slug, usage_source } = request;
  const { added_us: added, duration_ms: ms, first_event_ms: first, prompt_tokens, completion_tokens } = request;
  const base = `/companies/${company_id}`;
  return {
    Time: format.second(request.occurred_at),
    Status: request.status === null ? null : request.status === 0 ? 'none: the client left' : String(request.status),
    Code: request.code,
    Parameter: request.param,
    Company:
      company !== null
        ? null
        : company_id === null
          ? muted('unknown: there was no valid key')
          : companyLink(request, 'requests'),
    Key:
      api_key_id === null
        ? muted('unknown')
        : html`${key_name === null ? 'a deleted key' : html`<a href="${base}/access/${api_key_id}">${key_name}</a> <code>${key_prefix}…</code>`} · <a href="${company_name === null ? '' : base}/requests?key=${api_key_id}">its requests</a>`,
    Endpoint: ENDPOINTS[request.endpoint] ?? request.endpoint,
    Model:
      model_slug !== null
        ? html`<a href="${company === null ? '' : base}/models?q=${encodeURIComponent(model_slug)}"><code>${model_slug}</code></a>`
        : request.asked && html`<code>${request.asked}</code>`,
    Tokens:
      prompt_tokens === null
        ? null
        : `${format.count(prompt_tokens)} prompt + ${format.count(completion_tokens ?? 0)} completion${usage_source === null ? '' : `, ${USAGE_SOURCES[usage_source]}`}`,
    'Of the prompt tokens': partsText(format, {
      'from the cache': request.cached_tokens,
      'written to the cache': request.cache_write_tokens,
      audio: request.audio_prompt_tokens,
    }),
    'Of the completion tokens': partsText(format, {
      reasoning: request.reasoning_tokens,
      audio: request.audio_completion_tokens,
    }),
    Cost: request.cost_eur === null ? null : format.eur(request.cost_eur),
    "Upstream's cost":
      request.upstream_cost && format.other(request.upstream_cost, request.upstream_currency as string),
    Duration: ms === null ? null : durationText(ms, format),
    'Time to first event': first === null ? null : durationText(first, format),
    'Added by the gateway': added === null ? null : `${format.count(added)} µs`,
  };
}

/** The token details that the upstream told; null where it told none. */
function partsText(format: Format, parts: Readonly<Record<string, number | null>>): string | null {
  const told = Object.entries(parts).filter((part): part is [string, number] => part[1] !== null);
  return told.length === 0 ? null : told.map(([name, count]) => `${format.count(count)} ${name}`).join(', ');
}
