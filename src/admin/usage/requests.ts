import { FieldError, oneOf, readSlug, readUuid } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { refusal } from '../../domain/refusal.ts';
import {
  explainRequest,
  OPERATOR_RESULTS,
  RESULTS,
  type ResultFilter,
  reasonOfCode,
} from '../../domain/reports/request-explanation.ts';
import { ENDPOINTS, endpointText } from '../../domain/wording/endpoint.ts';
import { requestIdTime } from '../../runtime/request-id.ts';
import { type KeyRow, keyNames, keysWithCompany } from '../../store/company/key.ts';
import {
  pageOfRequests,
  type RequestCursor,
  type RequestRow,
  type RequestsPage,
  type RequestsQuery,
} from '../../store/usage/request.ts';
import { companyOf, type PageContext, presentCompany, read } from '../page/context.ts';
import { field, formState, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import {
  about,
  badge,
  type Cells,
  clipped,
  companyHeading,
  companyLink,
  emptyText,
  linkButton,
  muted,
  page,
  table,
} from '../page/layout.ts';
import { filterBar, filteredUrl, toNext } from '../page/list.ts';
import { localText, readLocal } from '../page/local-time.ts';
import { keysInReach, keysPath, requestsPath, seesOwnAlone } from './reach.ts';

const TONES = { success: 'good', refused: 'warn', failed: 'bad', left: 'plain' } as const;
const FILTERS = ['key', 'model', 'endpoint', 'status', 'code', 'from', 'to'];
const MS_OF_SECONDS = 10_000; // longer times are shown in seconds

/**
 * The list of requests. Its URL takes, each of them optional:
 *
 *   key       id of a key
 *   model     slug of the model that was found
 *   endpoint  as the ledger names it; also models, usage, shed, unknown
 *   status    success, refused, failed, left, a status such as 429, or in the list of all companies upstream_failed
 *   code      of an error, or its name where it has no code, such as insufficient_quota
 *   from, to  ISO times, or times without an offset on the clock of the billing time zone
 *   before    id of a request: those that came before it
 *   id        an x-request-id, whose page is opened
 */
export async function requestsPage(c: PageContext): Promise<Response> {
  const company = companyOf(c);
  const path = company === null ? '/requests' : requestsPath(c, company);
  const asked = new URL(c.req.url).searchParams;
  const { format } = c.var;
  const words = format.words.requests;
  const form = new Form(asked, path, format.language);
  const id = form.optional('id', (text) => readUuid(text.trim()));
  if (id !== null) return c.redirect(`${path}/${id}`, 303);
  const query = readQuery(form, company, c.var.services.calendar.timeZone);
  const isRight = form.messages.size === 0;
  const { keys, names, found } = await read(c, async (sql) => {
    const within = await keysInReach(c, sql, company);
    const isKnown = query.key !== null && (within === null || within.includes(query.key));
    return {
      keys: isKnown ? await keysWithCompany(sql, [query.key as string], company) : [],
      names: company === null ? [] : await keyNames(sql, company, within),
      found: isRight ? await pageOfRequests(sql, { ...query, keys: within }) : NOTHING,
    };
  });
  const isOwn = seesOwnAlone(c, company);
  const title = isOwn ? format.words.memberTabs['own/requests'] : words.title;
  const isNewest = isRight && query.before === null && query.to === null;
  const body = html`${companyHeading(c)}
<div class="title-row"><h1>${title}</h1>${presets(c, form)}${linkButton(filteredUrl(form, FILTERS, {}), query.before === null ? words.refresh : words.newest)}${
    isNewest
      ? html` <button type="button" class="quiet" data-pause="${words.pause}" data-follow="${words.follow}" hidden>${words.pause}</button>`
      : ''
  }</div>
${filters(c, form, query, path, names)}
${['key', 'code', 'before', ...(isOwn ? [] : ['id'])].map((name) => form.messages.has(name) && html`<p class="wrong">${words.inAddress({ name, message: form.messages.get(name) as string })}</p>`)}
${query.key === null ? '' : html`<p>${words.ofKey(keyLink(c, keys[0], query.key))} <a href="${filteredUrl(form, FILTERS, { key: null })}">${words.allKeys}</a></p>`}
${query.code == null ? '' : html`<p>${words.withError({ text: reasonOfCode(query.code, format.words.reasons).text, code: html`<code>${query.code}</code>` })} <a href="${filteredUrl(form, FILTERS, { code: null })}">${words.allErrors}</a></p>`}
<div id="live-rows"${isNewest ? raw(' data-live') : ''}>${isRight ? rowsOf(c, found, path, form, query) : ''}</div>
${about(c.var, words.lead(retentionText(c)))}`;
  return page(c, company === null || isOwn ? title : words.of(presentCompany(c).name), body);
}

/** @param id of a key that may be deleted */
function keyLink(c: PageContext, key: KeyRow | undefined, id: string): Html {
  if (key === undefined) return html`<code>${id}</code>`;
  if (seesOwnAlone(c, key.company_id) && key.purpose !== null) return html`${key.name}`;
  return html`<a href="${keysPath(c, key.company_id)}/${id}">${key.name}</a> <code>${key.prefix}…</code>`;
}

/** How long requests are kept, as a sentence. */
export function retentionText(c: PageContext): string {
  const days = c.var.services.requestTrailDays;
  const words = c.var.format.words.requests;
  return days === 0 ? words.notKept : words.kept(days);
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
    status: form.optional('status', (text) => readStatus(text, company)),
    code: form.optional('code', readCode),
    from: form.optional('from', time),
    to: form.optional('to', time),
    before: form.optional('before', readCursor),
  };
}

function readStatus(text: string, company: string | null): ResultFilter | number {
  if (/^[1-5]\d\d$/.test(text)) return Number(text);
  return oneOf(...resultsOf(company))(text);
}

/** What the list of a company filters by, or that of all. */
function resultsOf(company: string | null): readonly ResultFilter[] {
  return company === null ? OPERATOR_RESULTS : RESULTS;
}

/** Those of other versions too. */
function readCode(text: string): string {
  if (!/^[a-z_]{1,60}$/.test(text)) throw new FieldError(refusal('errorCode'));
  return text;
}

function readCursor(text: string): RequestCursor {
  const id = readUuid(text);
  const at = requestIdTime(id);
  if (at === null) throw new FieldError(refusal('requestId'));
  return { at: new Date(at), id };
}

function filters(
  c: PageContext,
  form: Form,
  query: RequestsQuery,
  path: string,
  names: KeyNames,
): Html {
  const { timeZone } = c.var.services.calendar;
  const { requests: words, endpoints: titles } = c.var.format.words;
  const state = formState(form, path);
  const times = formState(
    form.messages.size > 0 ? form : new Form(undefined, null, form.language),
    path,
  ); // with an offset the input would not show it
  const endpoints = [['', words.all], ...Object.entries(titles)] as const;
  const codes = Object.entries(words.statuses).map(
    ([code, text]) => [code, `${code}: ${text}`] as const,
  );
  const keys = [
    ['', words.all],
    ...names.map(({ id, name, prefix }) => [id, `${name} (${prefix}…)`] as const),
  ] as const;
  const results = resultsOf(query.company).map(
    (result) => [result, words.results[result]] as const,
  );
  const time = (at: Date | null): string => (at === null ? '' : localText(at, timeZone));
  const set = setFilters(c.var.format, query);
  const isOpen = set.length > 0 || form.messages.size > 0;
  // folded where a phone shows little else; a wide window shows them anyway (style.css)
  return html`<details class="fold wide-open"${isOpen ? raw(' open') : ''}><summary>${words.filters}${set.map((text, at) => html`${at === 0 ? ': ' : ', '}${text}`)}</summary>
${filterBar(
  c,
  path,
  isOpen || query.key !== null || query.code != null,
  html`${
    names.some(({ id }) => id === query.key) || (query.key === null && names.length > 0)
      ? select(state, { name: 'key', label: words.key, choices: keys, value: '' })
      : query.key !== null && html`<input type="hidden" name="key" value="${query.key}">`
  }
${query.code == null ? '' : html`<input type="hidden" name="code" value="${query.code}">`}
${select(state, { name: 'status', label: words.result, choices: [['', words.all], ...results, ...codes], value: '' })}
${field(state, { name: 'model', label: words.model })}
${seesOwnAlone(c, query.company) ? field(state, { name: 'id', label: 'x-request-id' }) : ''}
${select(state, { name: 'endpoint', label: words.endpoint, choices: endpoints, value: '' })}
${field(times, { name: 'from', label: words.from, type: 'datetime-local', value: time(query.from) })}
${field(times, { name: 'to', label: words.until, type: 'datetime-local', value: time(query.to) })}`,
)}</details>`;
}

/** Links to the last hour, day and week. */
function presets(c: PageContext, form: Form): Html {
  const { presets, from } = c.var.format.words.requests;
  const now = c.var.services.clock();
  const hours = { [presets.hour]: 1, [presets.day]: 24, [presets.week]: 168 };
  return html`<nav class="tabs" aria-label="${from}">${Object.entries(hours).map(([text, each]) => {
    const since = new Date(now - each * 3_600_000).toISOString();
    return html`<a href="${filteredUrl(form, FILTERS, { from: since, to: null })}">${text}</a>`;
  })}</nav>`;
}

type KeyNames = Awaited<ReturnType<typeof keyNames>>;

/** The filters that are set, in words. That of a key has a sentence of its own. */
function setFilters(
  format: Format,
  { status, model, endpoint, from, to }: RequestsQuery,
): (string | Html)[] {
  const { requests: words, endpoints } = format.words;
  const texts = [
    typeof status === 'number' ? words.status(status) : status && words.results[status],
    model,
    endpoint && endpointText(endpoints, endpoint),
    from && html`${words.fromTime(format.instant(from))}`,
    to && html`${words.untilTime(format.instant(to))}`,
  ];
  return texts.filter((text) => text !== null && text !== undefined);
}

/** The part of the page that is read again while it is watched. */
function rowsOf(
  c: PageContext,
  { rows, next }: RequestsPage,
  path: string,
  form: Form,
  query: RequestsQuery,
): Html {
  const { format } = c.var;
  const { requests: words, endpoints } = format.words;
  const cells: Cells<RequestRow> = {
    [words.when]: (row) =>
      html`<a href="${path}/${row.request_id}">${format.second(row.occurred_at)}</a>`,
    [words.result]: (row) => resultBadge(words, row),
    ...(query.company === null && {
      [words.company]: (row) => companyLink(row, 'requests', words.unknown),
    }),
    [words.key]: ({ api_key_id: id, key_name: name }) =>
      id === null
        ? muted(words.unknown)
        : clipped(
            name ?? words.deletedKey,
            html`<a href="${filteredUrl(form, FILTERS, { key: id })}">${name ?? words.deletedKey}</a>`,
          ),
    [words.model]: ({ model_slug: slug, asked }) =>
      clipped(
        slug ?? asked ?? '–',
        slug === null ? muted(asked ?? '–') : html`<code>${slug}</code>`,
      ),
    [words.endpoint]: ({ endpoint }) => endpointText(endpoints, endpoint),
    [words.tokens]: ({ prompt_tokens: prompt, completion_tokens: completion }) =>
      prompt === null ? muted('–') : `${format.count(prompt)} + ${format.count(completion ?? 0)}`,
    [words.cost]: ({ cost_eur: cost }) => (cost === null ? muted('–') : format.eur(cost)),
    [words.duration]: ({ duration_ms: ms }) =>
      ms === null ? muted('–') : durationText(ms, format),
  };
  const isAll = Object.entries(query).every(([name, value]) => name === 'company' || value == null);
  const link = (href: string) => (text: string) => html`<a href="${href}">${text}</a>`;
  const keys = query.company === null ? '/companies' : `/companies/${query.company}/keys`;
  const isKept = c.var.services.requestTrailDays > 0;
  const noneAtAll = isKept ? words.noneCame(link(keys), query.company === null) : words.noneKept;
  const none = isAll ? noneAtAll : words.noneSuch(link(path));
  const empty = next === null ? none : words.noneYet;
  const more = next === null ? '' : filteredUrl(form, FILTERS, { before: next.id });
  return html`${rows.length === 0 ? emptyText(html`${empty}`) : table(words.title, rows, { cells, figures: [words.tokens, words.cost, words.duration] }, true)}
${more === '' ? '' : toNext(c, more, words.older)}`;
}

/** The status in colour, with the code that says why. */
export function resultBadge(words: Words['requests'], row: RequestRow): Html {
  const { result } = explainRequest(row);
  const status =
    row.status === null ? words.booked : row.status === 0 ? words.left : String(row.status);
  const isCancelled = row.status === 200 && row.outcome === 'client_aborted';
  return html`${badge(TONES[result], status)}${row.code === null ? '' : html` <code>${row.code}</code>`}${isCancelled ? html` ${muted(words.clientLeft)}` : ''}`;
}

export function durationText(ms: number, format: Format): string {
  return ms < MS_OF_SECONDS
    ? `${format.count(ms)} ms`
    : `${format.count(Math.round(ms / 100) / 10)} s`;
}
