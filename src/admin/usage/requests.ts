import type { ErrorStatus } from '../../domain/errors.ts';
import { FieldError, oneOf, readSlug, readUuid } from '../../domain/field.ts';
import { ENDPOINTS } from '../../domain/text/endpoint.ts';
import { explainRequest, RESULTS, type Result, reasonOfCode } from '../../domain/text/request-explanation.ts';
import { requestIdTime } from '../../runtime/request-id.ts';
import { findCompany } from '../../store/company/company.ts';
import { type KeyRow, keysWithCompany } from '../../store/company/key.ts';
import {
  pageOfRequests,
  type RequestCursor,
  type RequestRow,
  type RequestsPage,
  type RequestsQuery,
} from '../../store/usage/request.ts';
import { companyOf, type PageContext, read } from '../page/context.ts';
import { type FormState, field, formState, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import { badge, companyHeading, companyLink, emptyText, muted, page, table } from '../page/layout.ts';
import { filteredUrl, toNext } from '../page/list.ts';
import { localText, readLocal } from '../page/local-time.ts';

const RESULT_TEXTS: Readonly<Record<Result, string>> = {
  success: 'Answered',
  refused: 'Refused (4xx)',
  failed: 'Failed (5xx, broken streams)',
  left: 'Client left',
};
/** Statuses of the API, and their meaning. */
const STATUSES: Readonly<Record<ErrorStatus, string>> = {
  400: 'invalid request',
  401: 'key',
  402: 'budget',
  403: 'scope or EU gate',
  404: 'model or address',
  405: 'method',
  408: 'too slow to arrive',
  413: 'too large',
  415: 'not JSON',
  426: 'WebSocket',
  429: 'rate limit',
  431: 'headers',
  500: 'internal error',
  502: 'upstream failed',
  503: 'not available',
  504: 'upstream too slow',
};
const TONES = { success: 'good', refused: 'warn', failed: 'bad', left: 'plain' } as const;
const FILTERS = ['key', 'model', 'endpoint', 'status', 'code', 'from', 'to'];
const MS_OF_SECONDS = 10_000; // longer times are shown in seconds

/**
 * The list of requests. Its URL takes, each of them optional:
 *
 *   key       id of a key
 *   model     slug of the model that was found
 *   endpoint  as the ledger names it; also models, usage, shed, unknown
 *   status    success, refused, failed, left, or a status such as 429
 *   code      of an error, or its name where it has no code, such as insufficient_quota
 *   from, to  ISO times, or times without an offset on the clock of the billing time zone
 *   before    id of a request: those that came before it
 *   id        an x-request-id, whose page is opened
 */
export async function requestsPage(c: PageContext): Promise<Response> {
  const company = companyOf(c);
  const path = company === null ? '/requests' : `/companies/${company}/requests`;
  const asked = new URL(c.req.url).searchParams;
  const search = new Form(asked, path);
  const id = search.optional('id', (text) => readUuid(text.trim()));
  if (id !== null) return c.redirect(`${path}/${id}`, 303);
  const form = new Form(asked, path);
  const query = readQuery(form, company, c.var.services.calendar.timeZone);
  const isRight = form.messages.size === 0;
  const { heading, keys, found } = await read(c, async (sql) => ({
    heading: company === null ? null : await findCompany(sql, company),
    keys: query.key === null ? [] : await keysWithCompany(sql, [query.key], company),
    found: isRight ? await pageOfRequests(sql, query) : NOTHING,
  }));
  const isNewest = isRight && query.before === null && query.to === null;
  const body = html`${heading === null ? '' : companyHeading(c, heading)}
<div class="title-row"><h1>Requests</h1>${idForm(formState(search, path), path)}</div>
<p class="lead">${retentionText(c)} A request appears about a second after it ended. Prompts and answers are never kept.</p>
${filters(c, form, query, path)}
${['key', 'code', 'before'].map((name) => form.messages.has(name) && html`<p class="wrong">In the address, “${name}” ${form.messages.get(name)}</p>`)}
${query.key === null ? '' : html`<p>Of the key ${keyLink(keys[0], query.key)} alone. <a href="${filteredUrl(form, FILTERS, { key: null })}">All keys</a></p>`}
${query.code == null ? '' : html`<p>With the error “${reasonOfCode(query.code).text}” <code>${query.code}</code> alone. <a href="${filteredUrl(form, FILTERS, { code: null })}">All errors</a></p>`}
<p class="actions"><a class="button quiet" href="${filteredUrl(form, FILTERS, {})}">${query.before === null ? 'Refresh' : 'Newest'}</a>${
    isNewest ? html` <button type="button" class="quiet" data-pause hidden>Pause</button>` : ''
  }</p>
<div id="live-rows"${isNewest ? raw(' data-live') : ''}>${isRight ? rowsOf(c, found, path, form, query) : ''}</div>`;
  return page(c, heading === null ? 'Requests' : `Requests of ${heading.name}`, body);
}

/** @param id of a key that may be deleted */
function keyLink(key: KeyRow | undefined, id: string): Html {
  if (key === undefined) return html`<code>${id}</code>`;
  return html`<a href="/companies/${key.company_id}/access/${id}">${key.name}</a> <code>${key.prefix}…</code>`;
}

/** How long requests are kept, as a sentence. */
export function retentionText(c: PageContext): string {
  const days = c.var.services.requestTrailDays;
  if (days === 0) return 'New requests are not kept: the operator switched it off (REQUEST_TRAIL_DAYS=0).';
  return `What became of each request is kept for ${days === 1 ? 'one day' : `${days} days`}.`;
}

const NOTHING: RequestsPage = { rows: [], next: null };

/** Mistakes are noted in the form. */
function readQuery(form: Form, company: string | null, timeZone: string): RequestsQuery {
  const time = (text: string): Date => readLocal(text, timeZone);
  return {
    company,
    key: form.optional('key', readUuid),
    model: form.optional('model', readSlug),
    endpoint: form.optional('endpoint', oneOf(...Object.keys(ENDPOINTS))),
    status: form.optional('status', readStatus),
    code: form.optional('code', readCode),
    from: form.optional('from', time),
    to: form.optional('to', time),
    before: form.optional('before', readCursor),
  };
}

function readStatus(text: string): Result | number {
  if (/^[1-5]\d\d$/.test(text)) return Number(text);
  return oneOf(...RESULTS)(text);
}

/** Those of other versions too. */
function readCode(text: string): string {
  if (!/^[a-z_]{1,60}$/.test(text)) throw new FieldError('must be the code of an error');
  return text;
}

function readCursor(text: string): RequestCursor {
  const id = readUuid(text);
  const at = requestIdTime(id);
  if (at === null) throw new FieldError('must be the id of a request');
  return { at: new Date(at), id };
}

/** Where an x-request-id is typed in. */
function idForm(state: FormState, path: string): Html {
  const message = state.message('id');
  return html`<form method="get" action="${path}" class="search" role="search">
<label class="sr" for="request-id">x-request-id</label><input id="request-id" name="id" maxlength="60" placeholder="x-request-id" value="${state.value('id', '')}"${
    message === null ? '' : raw(' aria-invalid="true" aria-describedby="request-id-wrong"')
  }><button>Find</button>${message === null ? '' : html`<p class="wrong" id="request-id-wrong">The x-request-id ${message}</p>`}</form>`;
}

function filters(c: PageContext, form: Form, query: RequestsQuery, path: string): Html {
  const { timeZone } = c.var.services.calendar;
  const state = formState(form, path);
  const times = formState(form.messages.size > 0 ? form : new Form(), path); // with an offset the input would not show it
  const endpoints = [['', 'All'], ...Object.entries(ENDPOINTS)] as const;
  const codes = Object.entries(STATUSES).map(([code, text]) => [code, `${code}: ${text}`] as const);
  const results = RESULTS.map((result) => [result, RESULT_TEXTS[result]] as const);
  const time = (at: Date | null): string => (at === null ? '' : localText(at, timeZone));
  const set = setFilters(c.var.format, query);
  const isOpen = set.length > 0 || form.messages.size > 0;
  // folded where a phone shows little else; a wide window shows them anyway (style.css)
  return html`<details class="fold wide-open"${isOpen ? raw(' open') : ''}><summary>Filters${set.map((words, at) => html`${at === 0 ? ': ' : ', '}${words}`)}</summary>
<form method="get" action="${path}" class="filters">
${query.key === null ? '' : html`<input type="hidden" name="key" value="${query.key}">`}
${query.code == null ? '' : html`<input type="hidden" name="code" value="${query.code}">`}
${select(state, { name: 'status', label: 'Result', choices: [['', 'All'], ...results, ...codes], value: '' })}
${field(state, { name: 'model', label: 'Model' })}
${select(state, { name: 'endpoint', label: 'Endpoint', choices: endpoints, value: '' })}
${field(times, { name: 'from', label: 'From', type: 'datetime-local', value: time(query.from) })}
${field(times, { name: 'to', label: 'Until', type: 'datetime-local', value: time(query.to) })}
<div class="actions"><button>Show</button> <a class="button quiet" href="${path}">All requests</a></div></form></details>`;
}

/** The filters that are set, in words. That of a key has a sentence of its own. */
function setFilters(format: Format, { status, model, endpoint, from, to }: RequestsQuery): (string | Html)[] {
  const words = [
    typeof status === 'number' ? `status ${status}` : status && RESULT_TEXTS[status],
    model,
    endpoint && ENDPOINTS[endpoint],
    from && html`from ${format.instant(from)}`,
    to && html`until ${format.instant(to)}`,
  ];
  return words.filter((word) => word !== null && word !== undefined);
}

/** The part of the page that is read again while it is watched. */
function rowsOf(c: PageContext, { rows, next }: RequestsPage, path: string, form: Form, query: RequestsQuery): Html {
  const { format } = c.var;
  const cells = {
    When: (row: RequestRow) => html`<a href="${path}/${row.request_id}">${format.second(row.occurred_at)}</a>`,
    Result: resultBadge,
    ...(query.company === null && {
      Company: (row: RequestRow) => companyLink(row, 'requests', 'unknown'),
    }),
    Key: ({ api_key_id: id, key_name: name }: RequestRow) =>
      id === null
        ? muted('unknown')
        : html`<a href="${filteredUrl(form, FILTERS, { key: id })}">${name ?? 'a deleted key'}</a>`,
    Model: ({ model_slug: slug, asked }: RequestRow) =>
      slug === null ? muted(asked ?? '–') : html`<code>${slug}</code>`,
    Endpoint: ({ endpoint }: RequestRow) => ENDPOINTS[endpoint] ?? endpoint,
    Tokens: ({ prompt_tokens: prompt, completion_tokens: completion }: RequestRow) =>
      prompt === null ? muted('–') : `${format.count(prompt)} + ${format.count(completion ?? 0)}`,
    Cost: ({ cost_eur: cost }: RequestRow) => (cost === null ? muted('–') : format.eur(cost)),
    Duration: ({ duration_ms: ms }: RequestRow) => (ms === null ? muted('–') : durationText(ms, format)),
  };
  const isAll = Object.entries(query).every(([name, value]) => name === 'company' || value == null);
  const none = isAll ? 'No requests are kept.' : 'There are no such requests.';
  const empty = next === null ? none : 'None of the requests looked at matches. Older ones may.';
  const more = next === null ? '' : filteredUrl(form, FILTERS, { before: next.id });
  return html`${rows.length === 0 ? emptyText(empty) : table('Requests', rows, { cells, figures: ['Tokens', 'Cost', 'Duration'] }, true)}
${more === '' ? '' : toNext(more, 'Older requests')}`;
}

/** The status in colour, with the code that says why. */
export function resultBadge(row: RequestRow): Html {
  const { result } = explainRequest(row);
  const status = row.status === null ? 'booked' : row.status === 0 ? 'left' : String(row.status);
  const isCancelled = row.status === 200 && row.outcome === 'client_aborted';
  return html`${badge(TONES[result], status)}${row.code === null ? '' : html` <code>${row.code}</code>`}${isCancelled ? html` ${muted('client left')}` : ''}`;
}

export function durationText(ms: number, format: Format): string {
  return ms < MS_OF_SECONDS ? `${format.count(ms)} ms` : `${format.count(Math.round(ms / 100) / 10)} s`;
}
