import { type CompaniesBeside, readCompaniesBeside } from '../../store/usage/all-usage.ts';
import { NO_FILTERS } from '../../store/usage/company-usage.ts';
import { type Quality, readQuality } from '../../store/usage/quality.ts';
import { type PageContext, type Route, read } from '../page/context.ts';
import { field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyLink, emptyText, muted, page, table } from '../page/layout.ts';
import { companyNames, readPickedCompany } from '../page/picker.ts';
import { shareOf } from '../page/reason.ts';
import { explanation, isNothing, method, modelTable, timesChart } from '../usage/usage-change.ts';
import { queryOf, rangeText, readUsageQuery } from '../usage/usage-query.ts';
import { daysBar } from './all-usage.ts';

/** Any two companies side by side, in the same days: `/usage/beside?company=…&with=…`, each by its name or id. */
export const companiesBesideRoutes: readonly Route[] = [
  { method: 'GET', path: '/usage/beside', action: 'overview.read', handle: besidePage },
];

const FIELDS = { company: 'First company', with: 'Second company' } as const;

async function besidePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const query = readUsageQuery(c);
  const { range, form } = query;
  const first = await readPickedCompany(c, form, 'company');
  const second = await readPickedCompany(c, form, 'with');
  const asked = new Form(form.values);
  const state = formState(form.messages.size > 0 ? form : asked, c.req.path);
  const names = html`${Object.entries(FIELDS).map(([name, label]) => field(state, { name, label, list: 'company-names', value: form.values.get(name) ?? '' }))}${await companyNames(c)}`;
  const result =
    first === null || second === null
      ? emptyText('Choose two companies, each by its name or id.')
      : await beside(c, [first, second], query);
  const body = html`<div class="title-row"><h1>Two companies ${rangeText(range, format)}</h1><a class="button quiet" href="/usage${queryOf(query)}">Usage of all companies</a></div>
${daysBar(c, query, names)}
${result}`;
  if (form.messages.size > 0) c.status(422);
  return page(c, 'Two companies', body);
}

async function beside(
  c: PageContext,
  ids: readonly [string, string],
  query: ReturnType<typeof readUsageQuery>,
): Promise<Html> {
  const { format } = c.var;
  const { range } = query;
  const quality = (id: string) => read(c, (sql) => readQuality(sql, id, range, NO_FILTERS));
  const [both, first, second] = await Promise.all([
    read(c, (sql) => readCompaniesBeside(sql, ids, range)),
    quality(ids[0]),
    quality(ids[1]),
  ]);
  const names = both.names.map((name) => name ?? 'a removed company') as [string, string];
  const times = { before: range, after: range };
  return html`${qualityTable(both, ids, [first, second], queryOf(query), format)}
${explanation(both.total, times, format, names)}
${
  isNothing(both.total)
    ? ''
    : html`${timesChart(both.by_time, times, format, names)}
${modelTable(both.by_model, () => null, c)}
<p class="muted">Before is ${names[0]}, after is ${names[1]}. Prices are compared with those of ${names[0]} at the end of these days.</p>`
}
${method(format)}`;
}

/** What became of the requests of both, and ways to each of them. */
function qualityTable(
  { names }: CompaniesBeside,
  ids: readonly [string, string],
  qualities: readonly [Quality, Quality],
  query: string,
  format: Format,
): Html {
  const lines = ids.map((id, at) => ({ id, name: names[at] as string | null, all: (qualities[at] as Quality).all }));
  type Line = (typeof lines)[number];
  const share = (count: number, { all }: Line) =>
    all.requests === 0 ? muted('unknown') : shareOf(count, all.requests, format);
  const cells = {
    Company: ({ id, name }: Line) => companyLink({ company_id: id, company_name: name }, `usage${query}`),
    Requests: (line: Line) => (line.all.requests === 0 ? muted('unknown') : format.count(line.all.requests)),
    Refused: (line: Line) => share(line.all.refused, line),
    Failed: (line: Line) => share(line.all.failed, line),
  };
  return table('All requests', lines, { cells, figures: ['Requests', 'Refused', 'Failed'] });
}
