import { parseEur } from '../../domain/pricing/money.ts';
import { daysIn } from '../../domain/reports/day-range.ts';
import { type ExplainedChange, type PARTS, partsAmong } from '../../domain/reports/usage-change.ts';
import type { UsageSums } from '../../domain/usage.ts';
import { roundedCents } from '../../domain/wording/eur-text.ts';
import type { ModelChange, Mover, Movers, UsageChange } from '../../store/usage/change.ts';
import type { Times } from '../../store/usage/cube.ts';
import { amounts, type Step, stepsTable } from '../page/chart.ts';
import type { PageContext } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { type Columns, muted, table } from '../page/layout.ts';
import { firstTable } from './first-lines.ts';
import { queryOf, today, type UsageQuery } from './usage-query.ts';

/** Two times beside each other, and why one cost more than the other. */

/** The parts of each model of a company, and the keys and cost centres that changed most; or of the group that is asked for. */
export function changedBy(c: PageContext, change: UsageChange, query: UsageQuery): Html {
  const { format } = c.var;
  const { change: words, tables, usage } = format.words;
  const { by_key, by_cost_center: centers } = change;
  const isShown = (group: string) => query.by === null || query.by === group;
  const to = (more: Parameters<typeof queryOf>[1]) =>
    queryOf({ ...query, by: null, and: null }, more);
  const isLabelled =
    query.by !== null || centers.lines.some(({ cost_center }) => cost_center !== '');
  return html`${isShown('model') ? modelTable(change.by_model, (model) => to({ model }), c) : ''}
${isShown('key') ? moversTable(words.keys, words.key, by_key, ({ id: key, name, prefix }) => html`<a href="${to({ key })}">${name ?? muted(tables.deletedKey)}</a>${prefix === null ? '' : html` <code>${prefix}…</code>`}`, format) : ''}
${isShown('cost_center') && isLabelled ? moversTable(words.costCenters, words.costCenter, centers, ({ cost_center }) => html`<a href="${to({ cost_center })}">${cost_center || muted(usage.noCostCenter)}</a>`, format) : ''}`;
}

/** The difference in a sentence, its parts as a picture, and the sums of both; nothing where there were no calls. */
export function explanation(
  c: PageContext,
  total: ExplainedChange,
  { before, after }: Times,
): Html | string {
  const { format } = c.var;
  if (total.before.requests === 0 && total.after.requests === 0) return '';
  const { change: words } = format.words;
  const names = [before, after].map(({ from, to }) => format.range(from, to)) as [string, string];
  const whole = (name: string, value: string): Step => ({
    name,
    note: '',
    value: null,
    text: format.amount(value),
  });
  const steps = [
    whole(names[0], total.before.cost_eur),
    ...partsAmong([total]).map((part): Step => {
      const value = parseEur(total[part]);
      const { up, down, none, note } = words.parts[part];
      return {
        name: value > 0n ? up : value < 0n ? down : none,
        note: `${note}${countsOf(part, total, format)}`,
        value,
        text: signed(total[part], format),
      };
    }),
    whole(names[1], total.after.cost_eur),
  ];
  const running =
    before.to < after.to && after.to === today(c)
      ? html`<p class="muted">${words.running(format.range(after.to, after.to))}</p>`
      : '';
  return html`<section class="card"><h2>${differenceText(total, format)}</h2>${lengthText({ before, after }, format)}${running}
${stepsTable(`${words.title}: ${names.join(', ')}`, steps, amounts(format))}${method(format)}</section>`;
}

/** The figures behind a part: calls, and tokens of a call. */
function countsOf(
  part: (typeof PARTS)[number],
  { before, after }: ExplainedChange,
  format: Format,
): string {
  const tokens = ({ requests, prompt_tokens, completion_tokens }: UsageSums) =>
    requests === 0 ? 0 : Math.round((prompt_tokens + completion_tokens) / requests);
  const of = { more_calls_eur: ({ requests }: UsageSums) => requests, longer_calls_eur: tokens };
  const count = of[part as keyof typeof of];
  const { change: words } = format.words;
  return count === undefined
    ? ''
    : ` (${words.before} ${format.count(count(before))} · ${words.after} ${format.count(count(after))})`;
}

function differenceText({ before, difference_eur }: ExplainedChange, format: Format): unknown {
  const { change: words } = format.words;
  const difference = parseEur(difference_eur);
  if (difference === 0n) return words.same;
  const [was, percent] = [
    Number(before.cost_eur),
    (Number(difference_eur) / Number(before.cost_eur)) * 100,
  ];
  const share = was > 0 ? ` (${format.percent(Math.abs(percent))})` : '';
  const amount = html`<strong>${format.amount(difference_eur.replace('-', ''))}</strong>`;
  return difference > 0n ? words.more({ amount, share }) : words.less({ amount, share });
}

/** Times of different lengths are compared as they are. */
function lengthText({ before, after }: Times, { words }: Format): Html | string {
  const days = { before: daysIn(before), after: daysIn(after) };
  return days.before === days.after ? '' : html`<p class="muted">${words.change.lengths(days)}</p>`;
}

/** An amount with its sign, where it is more than nothing. */
export function signed(amount: string, format: Format): Html {
  const isMore = parseEur(amount) > 0n && roundedCents(amount).sign === ''; // "< €0.01" has a sign already
  return html`${isMore ? '+' : ''}${format.amount(amount)}`;
}

/** The parts of each model; nothing where there are none. @param hrefOf the page of one */
export function modelTable(
  lines: readonly ModelChange[],
  hrefOf: (model: string) => string,
  c: PageContext,
): Html {
  const { format } = c.var;
  const { change: words } = format.words;
  if (lines.length === 0) return html``;
  const cells: Columns<ModelChange>['cells'] = {
    [words.model]: ({ model }) => html`<a href="${hrefOf(model)}"><code>${model}</code></a>`,
    [words.before]: ({ before }) => format.amount(before.cost_eur),
    [words.after]: ({ after }) => format.amount(after.cost_eur),
    [words.difference]: ({ difference_eur }) => signed(difference_eur, format),
    ...Object.fromEntries(
      partsAmong(lines).map((part) => [
        words.columns[part],
        (line: ModelChange) => signed(line[part], format),
      ]),
    ),
  };
  return firstTable(c, 'model', words.byModel, lines, cells);
}

/** Those whose cost changed most; nothing where there are none. */
export function moversTable<T>(
  title: string,
  heading: string,
  { count, lines }: Movers<T>,
  nameOf: (line: T) => Html,
  format: Format,
): Html | string {
  if (lines.length === 0) return '';
  const { change: words } = format.words;
  const cells: Columns<Mover & T>['cells'] = {
    [heading]: nameOf,
    [words.before]: ({ before_eur }) => format.amount(before_eur),
    [words.after]: ({ after_eur }) => format.amount(after_eur),
    [words.difference]: ({ difference_eur }) => signed(difference_eur, format),
  };
  const shown = { shown: format.count(lines.length), all: format.count(count) };
  const rest = count > lines.length ? html`<p class="muted">${words.first(shown)}</p>` : '';
  return html`${table(title, lines, { cells }, false, 'sums')}${rest}`;
}

/** The definition of the parts. */
function method({ words: { change } }: Format): Html {
  return html`<details class="fold"><summary>${change.method}</summary><ul>${change.rules.map((rule) => html`<li>${rule}</li>`)}</ul></details>`;
}
