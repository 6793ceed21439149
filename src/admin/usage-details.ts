import { html } from 'hono/html';
import type { DetailSums, UsageDetails } from '../store/usage-details.ts';
import type { Format } from './format.ts';
import type { Html } from './html.ts';
import { type Columns, muted, table } from './layout.ts';

type Line = DetailSums & { readonly model: string | null };

const FIGURES = ['Requests', 'From the cache', 'Written to the cache', 'Reasoning', 'Audio in', 'Audio out'];

/** What the tokens consist of, by model; nothing where no upstream told. */
export function detailsTable(details: UsageDetails | null, format: Format): Html | string {
  if (details === null) return '';
  const { total, by_model } = details;
  const lines: Line[] = by_model.length === 1 ? [...by_model] : [...by_model, { ...total, model: null }];
  const count = (of: number) => (of === 0 ? muted('0') : format.count(of));
  const cells: Columns<Line>['cells'] = {
    Model: ({ model }) => (model === null ? 'All' : html`<code>${model}</code>`),
    Requests: ({ requests }) => format.count(requests),
    'From the cache': ({ cached_tokens, cached_percent: share }) =>
      html`${count(cached_tokens)}${share === null || cached_tokens === 0 ? '' : html` ${muted(format.percent(share))}`}`,
    'Written to the cache': ({ cache_write_tokens }) => count(cache_write_tokens),
    Reasoning: ({ reasoning_tokens }) => count(reasoning_tokens),
    'Audio in': ({ audio_prompt_tokens }) => count(audio_prompt_tokens),
    'Audio out': ({ audio_completion_tokens }) => count(audio_completion_tokens),
  };
  return html`${table('Token details', lines, { cells, figures: FIGURES })}
<p class="muted">Of all keys together, for the calls of which the upstream reports these figures. Cache and audio in are part of the prompt tokens above, reasoning and audio out part of the completion tokens; the price is the same for all. Percent is the share of the prompt tokens.</p>`;
}
