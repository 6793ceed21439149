import { formatEur, parseEur } from '../../domain/money.ts';
import { BOOKED_ENDPOINTS } from '../../domain/text/endpoint.ts';
import type { ReasonCount } from '../../domain/text/request-explanation.ts';
import type { UsageSums } from '../../domain/usage.ts';
import type { CompanyUsage, Groups, UsageFilters, UsageGroup } from '../../store/usage/company-usage.ts';
import type { DetailSums, TokenDetails } from '../../store/usage/details.ts';
import type { Quality, QualityGroup } from '../../store/usage/quality.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import { badge, type Columns, muted, table } from '../page/layout.ts';
import { reasonCells, shareOf } from '../page/reason.ts';
import { queryOf, requestsOf, requestsWith, type UsageQuery } from './usage-query.ts';

/** The tables of a usage page: calls by model, key, endpoint, cost centre and outcome, and the token details. */

const OUTCOMES: Readonly<Record<string, string>> = {
  completed: 'Completed',
  client_aborted: 'Cancelled by the client',
  upstream_failed: 'Failed before its end',
};

/** Lines of each table; the rest is one line. */
export const MAX_LINES = 50;

const FIGURES = ['Requests', 'Prompt tokens', 'Completion tokens', 'Cost', 'p50', 'p95', 'Refused', 'Failed'];

/** The query for the links of figures, and the measured values. */
interface Surroundings {
  readonly format: Format;
  readonly query: UsageQuery;
  readonly quality: Quality;
}

export function usageTables(usage: CompanyUsage, around: Surroundings): Html {
  const { by_model, by_key, by_endpoint, by_cost_center } = usage;
  const isLabelled = by_cost_center.lines.some(({ name }) => name !== '');
  return html`
${groups(around, usage, 'Model', by_model, ({ name }) => ({ filter: { model: name }, text: html`<code>${name}</code>`, plain: name, measured: around.quality.by_model.get(name) }))}
${groups(around, usage, 'Key', by_key, ({ id, name, prefix }) => ({
  filter: { key: id },
  text: name === null ? muted('a deleted key') : html`${name} <code>${prefix}…</code>`,
  plain: name ?? 'a deleted key',
  measured: around.quality.by_key.get(id),
}))}
${groups(around, usage, 'Endpoint', by_endpoint, ({ name }) => ({ filter: { endpoint: name }, text: BOOKED_ENDPOINTS[name] ?? name, plain: BOOKED_ENDPOINTS[name] ?? name, measured: around.quality.by_endpoint.get(name) }))}
${isLabelled ? groups(around, usage, 'Cost centre', by_cost_center, ({ name }) => ({ filter: { cost_center: name }, text: name === '' ? muted('none') : name, plain: name || 'none' })) : ''}
${endings(usage, around.format)}`;
}

/** The thing that a line is about. */
interface Subject {
  readonly filter: Partial<UsageFilters>;
  readonly text: Html | string;
  readonly plain: string;
  /** undefined where nothing was measured. */
  readonly measured?: QualityGroup | undefined;
}

interface Line extends UsageSums {
  readonly first: Html;
  readonly calls: Html | string;
  readonly measured: QualityGroup | undefined;
}

/** One table of sums; nothing when there were no calls. */
function groups<T extends Omit<UsageGroup, 'name'>>(
  { format, query, quality }: Surroundings,
  usage: CompanyUsage,
  title: string,
  { count, lines }: Groups<T>,
  subjectOf: (line: T) => Subject,
): Html {
  if (lines.length === 0) return html``;
  const rows = lines.map((line): Line => {
    const { filter, text, plain, measured } = subjectOf(line);
    const calls = format.count(line.requests);
    const badges = html`${line.estimated > 0 ? html` ${badge('plain', `${format.count(line.estimated)} estimated`)}` : ''}${
      line.unfinished > 0 ? html` ${badge('warn', `${format.count(line.unfinished)} unfinished`)}` : ''
    }`;
    return {
      ...line,
      first: html`<a href="${queryOf(query, filter)}">${text}</a>${badges}`,
      // the trail knows no cost centres
      calls:
        quality.hasTrail && query.filters.cost_center === null && title !== 'Cost centre'
          ? html`<a href="${requestsOf(query, filter)}">${calls}<span class="sr"> requests of ${plain}</span></a>`
          : calls,
      measured,
    };
  });
  if (count > lines.length) rows.push(restOf(usage, lines, muted(othersText(format, count - lines.length)), format));
  const isMeasured = rows.some(({ measured }) => measured !== undefined);
  const cells: Columns<Line>['cells'] = {
    [title]: ({ first }) => first,
    ...sumCells(format),
    Requests: ({ calls }) => calls,
    ...(isMeasured ? measurements(format) : {}),
  };
  return table(`By ${title.toLowerCase()}`, rows, { cells, figures: FIGURES });
}

/** The name of the lines that a table does not show. */
export function othersText(format: Format, count: number): string {
  return count === 1 ? '1 other' : `${format.count(count)} others`;
}

/** All but the lines that are shown. */
function restOf(usage: CompanyUsage, lines: readonly UsageSums[], first: Html, format: Format): Line {
  const shown = (of: 'requests' | 'prompt_tokens' | 'completion_tokens') =>
    lines.reduce((sum, line) => sum + line[of], 0);
  const cost = lines.reduce((sum, line) => sum - parseEur(line.cost_eur), parseEur(usage.api_cost_eur));
  const requests = usage.requests - shown('requests');
  return {
    first,
    requests,
    calls: format.count(requests),
    prompt_tokens: usage.prompt_tokens - shown('prompt_tokens'),
    completion_tokens: usage.completion_tokens - shown('completion_tokens'),
    cost_eur: formatEur(cost),
    measured: undefined,
  };
}

/** Columns of sums. */
export function sumCells(format: Format): Columns<UsageSums>['cells'] {
  return {
    Requests: ({ requests }) => format.count(requests),
    'Prompt tokens': ({ prompt_tokens }) => format.count(prompt_tokens),
    'Completion tokens': ({ completion_tokens }) => format.count(completion_tokens),
    Cost: ({ cost_eur }) => format.amount(cost_eur),
  };
}

function measurements(format: Format): Columns<Line>['cells'] {
  const time = (milliseconds: number | null | undefined) =>
    milliseconds == null ? '–' : format.duration(milliseconds);
  return {
    p50: ({ measured }) => time(measured?.p50),
    p95: ({ measured }) => time(measured?.p95),
    Refused: ({ measured }) => (measured === undefined ? '–' : shareOf(measured.refused, measured.requests, format)),
    Failed: ({ measured }) => (measured === undefined ? '–' : format.percent(measured.error_rate * 100)),
  };
}

/** How many calls completed, were cancelled or failed, with reported or estimated tokens. */
function endings({ by_ending }: CompanyUsage, format: Format): Html | string {
  if (by_ending.length === 0) return raw('');
  type Ending = (typeof by_ending)[number];
  const cells = {
    Ending: ({ outcome }: Ending) => OUTCOMES[outcome] ?? outcome,
    'Token counts': ({ usage_source }: Ending) =>
      usage_source === 'estimated' ? badge('plain', 'estimated by Tollgate') : 'reported by the model',
    ...sumCells(format),
  };
  return table('How calls ended', by_ending, { cells, figures: FIGURES });
}

/** Why requests were refused or failed; nothing where none is known. They cost nothing, and are not in the ledger. */
export function reasonsTable({ format, query, quality }: Surroundings): Html | string {
  const { requests, refused, failed } = quality.all;
  if (requests === 0) return '';
  const leads = quality.hasTrail && query.filters.cost_center === null;
  const cells = reasonCells<ReasonCount>(requests, format, (code) => (leads ? requestsWith(query, code) : null));
  const title = 'Refused and failed requests';
  const known = quality.reasons.length > 0;
  return html`<section id="reasons"><h2>${title}</h2>
<p>${format.count(refused)} of ${format.count(requests)} requests were refused, and ${format.count(failed)} failed.</p>
${known ? table(title, quality.reasons, { cells, figures: ['Requests', 'Share'] }, true) : ''}</section>`;
}

type DetailLine = DetailSums & { readonly model: string | null };

const DETAIL_FIGURES = ['Requests', 'From the cache', 'Written to the cache', 'Reasoning', 'Audio in', 'Audio out'];

/** The token details by model; nothing where no upstream told any. */
export function detailsTable(details: TokenDetails | null, format: Format): Html | string {
  if (details === null) return '';
  const { total, by_model } = details;
  const lines: DetailLine[] = by_model.length === 1 ? [...by_model] : [...by_model, { ...total, model: null }];
  const count = (of: number) => (of === 0 ? muted('0') : format.count(of));
  const cells: Columns<DetailLine>['cells'] = {
    Model: ({ model }) => (model === null ? 'All' : html`<code>${model}</code>`),
    Requests: ({ requests }) => format.count(requests),
    'From the cache': ({ cached_tokens, cached_percent: share }) =>
      html`${count(cached_tokens)}${share === null || cached_tokens === 0 ? '' : html` ${muted(format.percent(share))}`}`,
    'Written to the cache': ({ cache_write_tokens }) => count(cache_write_tokens),
    Reasoning: ({ reasoning_tokens }) => count(reasoning_tokens),
    'Audio in': ({ audio_prompt_tokens }) => count(audio_prompt_tokens),
    'Audio out': ({ audio_completion_tokens }) => count(audio_completion_tokens),
  };
  return html`${table('Token details', lines, { cells, figures: DETAIL_FIGURES })}
<p class="muted">Of all keys together, for the calls of which the upstream reports these figures. Cache and audio in are part of the prompt tokens above, reasoning and audio out part of the completion tokens; the price is the same for all. Percent is the share of the prompt tokens.</p>`;
}
