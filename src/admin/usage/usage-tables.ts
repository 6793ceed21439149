import type { ReasonCount } from '../../domain/reports/request-explanation.ts';
import { RARE_DETAILS, restOf, sumUsage, type UsageSums } from '../../domain/usage.ts';
import { endpointText } from '../../domain/wording/endpoint.ts';
import type { CompanyUsage, Groups, UsageGroup } from '../../store/usage/company-usage.ts';
import type { UsageFilters } from '../../store/usage/cube.ts';
import type { DetailSums, TokenDetails } from '../../store/usage/details.ts';
import type { Quality, QualityGroup } from '../../store/usage/quality.ts';
import type { Group } from '../../store/usage/usage-table.ts';
import type { PageContext } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import { badge, type Columns, muted, table } from '../page/layout.ts';
import { reasonCells, shareOf } from '../page/reason.ts';
import { firstLines, withAllLines } from './first-lines.ts';
import {
  type FilterName,
  queryOf,
  requestsOf,
  requestsWith,
  type UsageQuery,
} from './usage-query.ts';

/** The tables of a usage page: calls by model, key, endpoint, cost centre or outcome, and the token details. */

/** The query for the links of figures, and the measured values. */
interface Surroundings {
  readonly c: PageContext;
  readonly format: Format;
  readonly query: UsageQuery;
  readonly quality: Quality;
}

/** The table of a group, or of each where none is asked for. */
export function usageTables(usage: CompanyUsage, around: Surroundings): Html {
  const { by_model, by_key, by_endpoint, by_cost_center } = usage;
  const { tables: words, endpoints } = around.format.words;
  const { by } = around.query;
  const isShown = (group: Group) => by === null || by === group;
  const isLabelled = by_cost_center.lines.some(({ name }) => name !== '');
  return html`
${isShown('model') ? groups(around, usage, 'model', by_model, ({ name }) => ({ filter: { model: name }, text: html`<code>${name}</code>`, plain: name, measured: around.quality.by_model.get(name) })) : ''}
${
  isShown('key')
    ? groups(around, usage, 'key', by_key, ({ id, name, prefix }) => ({
        filter: { key: id },
        text: name === null ? muted(words.deletedKey) : html`${name} <code>${prefix}…</code>`,
        plain: name ?? words.deletedKey,
        measured: around.quality.by_key.get(id),
      }))
    : ''
}
${isShown('endpoint') ? groups(around, usage, 'endpoint', by_endpoint, ({ name }) => ({ filter: { endpoint: name }, text: endpointText(endpoints, name), plain: endpointText(endpoints, name), measured: around.quality.by_endpoint.get(name) })) : ''}
${isShown('cost_center') && (isLabelled || by !== null) ? groups(around, usage, 'cost_center', by_cost_center, ({ name }) => ({ filter: { cost_center: name }, text: name === '' ? muted(words.none) : name, plain: name || words.none })) : ''}
${by === 'outcome' ? endings(usage, around.format) : ''}`;
}

/** How many calls have estimated tokens and how many did not complete, in place of a remark in each line. */
export function endingsText(
  { requests, by_ending }: CompanyUsage,
  query: UsageQuery,
  format: Format,
): Html | string {
  const sum = (lines: CompanyUsage['by_ending']) =>
    lines.reduce((all, line) => all + line.requests, 0);
  const estimated = sum(by_ending.filter(({ usage_source }) => usage_source === 'estimated'));
  const unfinished = sum(by_ending.filter(({ outcome }) => outcome !== 'completed'));
  if (estimated + unfinished === 0 || query.by === 'outcome') return '';
  const share = (count: number) => format.percent((count / requests) * 100);
  const { tables: words } = format.words;
  const texts = [
    ...(estimated > 0 ? [words.estimatedShare(share(estimated))] : []),
    ...(unfinished > 0 ? [words.unfinishedShare(share(unfinished))] : []),
  ];
  return html`<p>${texts.join(' · ')} (<a href="${queryOf(query, { by: 'outcome' })}">${words.endings}</a>)</p>`;
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
  { c, format, query, quality }: Surroundings,
  usage: CompanyUsage,
  by: FilterName,
  { count, lines: all }: Groups<T>,
  subjectOf: (line: T) => Subject,
): Html {
  if (all.length === 0) return html``;
  const lines = firstLines(c, by, all);
  const { tables: words, usage: names } = format.words;
  const rows = lines.map((line): Line => {
    const { filter, text, plain, measured } = subjectOf(line);
    const calls = format.count(line.requests);
    return {
      ...line,
      first: html`<a href="${queryOf({ ...query, by: null }, filter)}">${text}</a>`,
      // the trail knows no cost centres
      calls:
        quality.hasTrail && query.filters.cost_center === null && by !== 'cost_center'
          ? html`<a href="${requestsOf(query, filter)}">${calls}<span class="sr">${words.requestsOf(plain)}</span></a>`
          : calls,
      measured,
    };
  });
  if (count > lines.length) rows.push(othersOf(usage, lines, count - lines.length, format));
  const isMeasured = rows.some(({ measured }) => measured !== undefined);
  const cells: Columns<Line>['cells'] = {
    [names.filterNames[by]]: ({ first }) => first,
    [words.cost]: ({ cost_eur }) => format.amount(cost_eur), // what they are ordered by
    ...sumCells(format),
    [words.requests]: ({ calls }) => calls,
    ...(isMeasured ? measurements(format) : {}),
  };
  const shown = table(words.by[by], rows, { cells }, false, 'sums');
  return withAllLines(c, by, { count, most: all.length }, shown);
}

/** The name of the lines that a table does not show. */
export function othersText(format: Format, count: number): string {
  return format.words.tables.others(count, format.count(count));
}

/** The lines that a table does not show, as one. */
function othersOf(
  usage: CompanyUsage,
  lines: readonly UsageSums[],
  count: number,
  format: Format,
): Line {
  const shown = sumUsage(lines);
  const requests = usage.requests - shown.requests;
  return {
    first: muted(othersText(format, count)),
    requests,
    calls: format.count(requests),
    prompt_tokens: usage.prompt_tokens - shown.prompt_tokens,
    completion_tokens: usage.completion_tokens - shown.completion_tokens,
    cost_eur: restOf(usage.api_cost_eur, [shown.cost_eur]),
    measured: undefined,
  };
}

/** Columns of sums. */
export function sumCells(format: Format): Columns<UsageSums>['cells'] {
  const { tables: words } = format.words;
  return {
    [words.requests]: ({ requests }) => format.count(requests),
    [words.promptTokens]: ({ prompt_tokens }) => format.count(prompt_tokens),
    [words.completionTokens]: ({ completion_tokens }) => format.count(completion_tokens),
    [words.cost]: ({ cost_eur }) => format.amount(cost_eur),
  };
}

function measurements(format: Format): Columns<Line>['cells'] {
  const { tables: words } = format.words;
  const time = (milliseconds: number | null | undefined) =>
    milliseconds == null ? '–' : format.duration(milliseconds);
  return {
    p50: ({ measured }) => time(measured?.p50),
    p95: ({ measured }) => time(measured?.p95),
    [words.refused]: ({ measured }) =>
      measured === undefined ? '–' : shareOf(measured.refused, measured.requests, format),
    [words.failed]: ({ measured }) =>
      measured === undefined ? '–' : format.percent(measured.error_rate * 100),
  };
}

/** How many calls completed, were cancelled or failed, with reported or estimated tokens. */
function endings({ by_ending }: CompanyUsage, format: Format): Html | string {
  if (by_ending.length === 0) return raw('');
  type Ending = (typeof by_ending)[number];
  const { tables: words } = format.words;
  const outcomes: Readonly<Record<string, string>> = words.outcomes;
  const cells = {
    [words.ending]: ({ outcome }: Ending) => outcomes[outcome] ?? outcome,
    [words.tokenCounts]: ({ usage_source }: Ending) =>
      usage_source === 'estimated'
        ? badge('plain', words.estimatedBy(format.brand))
        : words.reported,
    ...sumCells(format),
  };
  return table(
    words.endings,
    by_ending,
    { cells, figures: Object.keys(sumCells(format)) },
    false,
    'sums',
  );
}

/** Why requests were refused or failed; nothing where none is known. They cost nothing, and are not in the ledger. */
export function reasonsTable({ c, format, query, quality }: Surroundings): Html | string {
  if (quality.all === null) return '';
  const { requests, refused, failed } = quality.all;
  const leads = quality.hasTrail && query.filters.cost_center === null;
  const cells = reasonCells<ReasonCount>(requests, format, (code) =>
    leads ? requestsWith(query, code) : null,
  );
  const { tables: words } = format.words;
  const counts = {
    refused: format.count(refused),
    requests: format.count(requests),
    failed: format.count(failed),
  };
  const { length: count } = quality.reasons;
  const columns = { cells, figures: [words.requests, words.share] };
  const lines = firstLines(c, 'reasons', quality.reasons);
  return html`<section id="reasons"><h2>${words.reasons}</h2>
<p>${words.reasonsText(counts)}</p>
${count === 0 ? '' : withAllLines(c, 'reasons', { count, most: count }, table(words.reasons, lines, columns, true, 'sums'))}</section>`;
}

type DetailLine = DetailSums & { readonly model: string | null };

/** The token details by model; nothing where no upstream told any. */
export function detailsTable(c: PageContext, details: TokenDetails | null): Html | string {
  if (details === null) return '';
  const { format } = c.var;
  const { total, by_model: all } = details;
  const by_model = firstLines(c, 'details', all);
  const lines: DetailLine[] =
    all.length === 1 ? [...by_model] : [...by_model, { ...total, model: null }];
  const { tables: words } = format.words;
  const count = (of: number) => (of === 0 ? muted('0') : format.count(of));
  const cells: Columns<DetailLine>['cells'] = {
    [words.model]: ({ model }) => (model === null ? words.all : html`<code>${model}</code>`),
    [words.requests]: ({ requests }) => format.count(requests),
    [words.fromCache]: ({ cached_tokens, cached_percent: share }) =>
      html`${count(cached_tokens)}${share === null || cached_tokens === 0 ? '' : html` ${muted(format.percent(share))}`}`,
    [words.toCache]: ({ cache_write_tokens }) => count(cache_write_tokens),
    [words.reasoning]: ({ reasoning_tokens }) => count(reasoning_tokens),
    [words.audioIn]: ({ audio_prompt_tokens }) => count(audio_prompt_tokens),
    [words.audioOut]: ({ audio_completion_tokens }) => count(audio_completion_tokens),
    ...Object.fromEntries(
      RARE_DETAILS.filter((column) => total[column] > 0).map((column) => [
        words.rare[column],
        (line: DetailLine) => count(line[column]),
      ]),
    ),
  };
  const counts = { count: all.length, most: all.length };
  return html`${withAllLines(c, 'details', counts, table(words.details, lines, { cells }, false, 'sums'))}
<p class="muted">${words.detailsText}</p>`;
}
