import type { Company } from '../../domain/company.ts';
import { readSlug } from '../../domain/field.ts';
import { listModels as listedModels, type ModelState, modelState } from '../../domain/gate.ts';
import type { Words } from '../../domain/language/en.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { ENGLISH } from '../../domain/languages.ts';
import { comingPrices, generates, type Model, modelEntry } from '../../domain/model.ts';
import type { PriceUnit } from '../../domain/price.ts';
import { isListed } from '../../domain/pricing/parts.ts';
import { textsOf } from '../../domain/pricing/rates.ts';
import { throwNotFound } from '../../domain/refusal.ts';
import {
  type PriceName,
  pricesAmong,
  pricesOf,
  type SomePrices,
} from '../../domain/settings/model.ts';
import { changeCompany } from '../../operations/company.ts';
import { may } from '../../operations/frame/permission.ts';
import { isSamePrice } from '../../operations/rate.ts';
import { listModels, type ModelRow } from '../../store/company/model.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { countKeys, type ListPage, type ListQuery, PAGE_ROWS } from '../../store/lists/page.ts';
import {
  backTo,
  change,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
} from '../page/context.ts';
import { csrfInput } from '../page/field.ts';
import { type Html, html } from '../page/html.ts';
import {
  badge,
  type Cells,
  companyHeading,
  linkButton,
  muted,
  page,
  table,
  titledCard,
} from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import {
  insteadText,
  priceCells,
  priceHeadings,
  priceLines,
  priceText,
  priceUnitOf,
  unitNote,
} from '../page/price-unit.ts';
import { unusualMarks } from '../usage/unusual.ts';

/** The models that one company may use. */
export const companyModelRoutes: readonly Route[] = [
  pageAt('/companies/:company/models', 'company.read', companyPage),
  formAt('/companies/:company/models/disable', 'company.choose', toggle('disable')),
  formAt('/companies/:company/models/enable', 'company.choose', toggle('enable')),
];

async function companyPage(c: PageContext): Promise<Response> {
  const { format, services } = c.var;
  const unit = priceUnitOf(c);
  const labels = priceHeadings(format.words);
  const { models: words, frame } = format.words;
  const sorts = { slug: words.model };
  const id = param(c, 'company');
  const query = listQuery(c, sorts);
  const { company, models, keys } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    models: await listModels(sql, id),
    keys: await countKeys(sql, id),
  }));
  const listed = listedModels(company);
  const base = `/companies/${id}/models`;
  const playground = `/companies/${id}/playground`;
  const marks = await unusualMarks(c, id);
  const found = pageOf(models, query);
  const price = (name: PriceName) => (model: ModelRow) => {
    if (name === 'output' && !generates(model.kind)) return muted(frame.none);
    const all = paid(company, model);
    const list = pricesOf<string | null>(model)[name];
    const isListed =
      list !== null && list !== all[0][name] && may(c.var.session.user, 'company.limit', id);
    const before = isListed
      ? html`<small class="muted coming">list price ${priceText(c, unit, list)}</small>`
      : '';
    const text = (each: Paid) =>
      each[name] == null ? null : html`${priceText(c, unit, each[name])}`;
    const instead = insteadText(format.words, name);
    return html`${text(all[0]) ?? muted(instead)}${before}${coming(c, all, (each, { [name]: last }) => (each[name] == null && last == null ? null : (text(each) ?? instead)))}`;
  };
  const everyPrice = models.flatMap((model) => paid(company, model));
  const shown = pricesAmong(everyPrice).filter((name) => !isListed(name));
  const cells: Cells<ModelRow> = {
    [words.model]: ({ slug, company_id }) =>
      html`<code>${slug}</code>${marks.model(slug)}${company_id === null ? '' : html` ${badge('plain', words.own)}`}`,
    [words.kind]: ({ kind }) => words.kinds[kind],
    [words.hosting]: (model) => euBadge(model, words.outsideEu),
    ...Object.fromEntries(shown.map((name) => [labels[name], price(name)])),
    [words.state]: (model) => stateOf(words, company, model),
    [words.action]: ({ slug, kind, company_id }) => {
      if (company_id === null && company.ownModels.has(slug)) return muted(frame.none); // the company's own replaces it
      const verb = company.disabledSlugs.has(slug) ? 'enable' : 'disable';
      const toggle = html`<form class="inline" method="post" action="${base}/${verb}">${csrfInput(c)}<input type="hidden" name="slug" value="${slug}"><button class="quiet" aria-label="${words[verb]} ${slug}">${words[verb]}</button></form>`;
      const link = linkButton(`${playground}?model=${encodeURIComponent(slug)}`, words.try, slug);
      const canTry =
        mayNow(c, 'playground.use') && kind === 'chat' && listed.some((each) => each.slug === slug);
      const canChoose = mayNow(c, 'company.choose');
      if (!canTry && !canChoose) return muted(frame.none);
      return html`<span class="row-actions">${canTry ? link : ''}${canChoose ? toggle : ''}</span>`;
    },
  };
  const entries = {
    object: 'list',
    data: listed.slice(0, PAGE_ROWS).map((model) => modelEntry(model, services.ownedBy)),
  };
  const empty = may(c.var.session.user, 'model.write', null)
    ? html`No models are offered yet. <a href="/models">Add one</a>`
    : words.none;
  const body = html`${companyHeading(c, company)}<div class="title-row"><h1>${words.title}</h1>${mayNow(c, 'playground.use') ? linkButton(playground, words.playground) : ''}</div>
<p class="lead">${words.gate((state) => html`<strong>${state}</strong>`, company.allowNonEu)} ${
    mayNow(c, 'company.set')
      ? words.change((text) => html`<a href="/companies/${id}/settings">${text}</a>`)
      : ''
  }</p>
${unitNote(c, unit)}
${list(c, { path: base, caption: words.caption, cells, figures: Object.values(labels), sorts, empty }, query, found)}
${ratesTable(c, company, found.rows, unit)}
${titledCard(
  html`${words.returns(html`<code>GET /models</code>`)}`,
  html`<p>${words.count({ listed: format.count(listed.length), all: format.count(new Set(models.map(({ slug }) => slug)).size) })} ${
    keys.active === 0
      ? words.noKey((text) => html`<a href="/companies/${id}/keys">${text}</a>`)
      : words.whoGets(keys.active, format.count(keys.active))
  }</p>
${listed.length > PAGE_ROWS ? html`<p class="muted">${words.first(PAGE_ROWS)}</p>` : ''}
<pre tabindex="0" aria-label="${words.answer}">${JSON.stringify(entries, null, 2)}</pre>`,
)}`;
  return page(c, words.of(company.name), body);
}

/** All prices, by conditions and dates, of models with rates or with prices of parts that the list has no column for. */
function ratesTable(
  c: PageContext,
  company: Company,
  models: readonly ModelRow[],
  unit: PriceUnit,
): Html | string {
  const { format } = c.var;
  const { models: words, statements } = format.words;
  const hasMore = ({ rates, ...prices }: Paid) =>
    rates != null || pricesAmong([prices]).some(isListed);
  const rows = models.flatMap((model) => {
    const all = paid(company, model);
    if (!all.some(hasMore)) return [];
    const changed = all.filter((each, n) => n === 0 || !isSamePrice(all[n - 1] as Paid, each));
    return changed.map((each) => ({ ...each, slug: model.slug }));
  });
  if (rows.length === 0) return '';
  const lines = priceLines(rows);
  type Line = (typeof lines)[number];
  const cells = {
    [words.model]: ({ row }: Line) => html`<code>${row.slug}</code>`,
    ...(rows.some(({ from }) => from !== null) && {
      [words.rates.from]: ({ row: { from } }: Line) =>
        from === null ? muted(words.rates.now) : format.instant(new Date(from)),
    }),
    ...priceCells(c, unit, statements.charged, lines),
  };
  const caption = words.rates.caption(format.count(unit === '1M' ? 1_000_000 : 1000));
  const figures = Object.values(statements.charged);
  return titledCard(caption, table(caption, lines, { cells, figures }, true, 'sums'));
}

/** Models of one company are few enough to be searched and sorted here: their states need all of them. */
function pageOf(
  models: readonly ModelRow[],
  { search, descending, page: asked }: ListQuery,
): ListPage<ModelRow> {
  const matching = models.filter(({ slug }) => slug.toLowerCase().includes(search.toLowerCase()));
  if (descending) matching.reverse();
  const page = (asked - 1) * PAGE_ROWS < matching.length ? asked : 1;
  return {
    rows: matching.slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS),
    total: matching.length,
    page,
  };
}

/** Prices and rates as a company pays them, with its factor. */
type Paid = SomePrices & {
  /** Milliseconds since the epoch; null: they hold now. */
  readonly from: number | null;
};

/** What the company pays for a model now, then what it pays from each date on. */
function paid(company: Company, row: ModelRow): readonly [Paid, ...Paid[]] {
  const model = modelOf(company, row);
  const now =
    company.factors === null || model === undefined
      ? { ...pricesOf<string | null>(row), rates: row.rates }
      : textsOf(model.prices);
  const next = [...comingPrices(model)].map(({ from, model: { prices } }) => ({
    ...textsOf(prices),
    from,
  }));
  return [{ ...now, from: null }, ...next];
}

/** The prices of a part that begin at a date. @param show null: it is as before */
function coming(
  c: PageContext,
  [now, ...next]: readonly [Paid, ...Paid[]],
  show: (each: Paid, before: Paid) => Html | string | null,
): Html[] {
  const { format } = c.var;
  return next.flatMap((each, n) => {
    const price = show(each, next[n - 1] ?? now);
    const at = format.instant(new Date(each.from as number));
    return price === null
      ? []
      : html`<small class="muted coming">${format.words.models.from({ at, price })}</small>`;
  });
}

function modelOf(
  { sharedModels, ownModels }: Company,
  { slug, company_id }: ModelRow,
): Model | undefined {
  return (company_id === null ? sharedModels : ownModels).get(slug);
}

/** The colours of states. */
const TONES = {
  available: 'good',
  disabled: 'bad',
  replaced: 'plain',
  blocked: 'warn',
} as const satisfies Readonly<Record<ModelState, unknown>>;

function stateOf(
  { states }: Words['models'],
  company: Company,
  { slug, company_id }: ModelRow,
): Html {
  const state = modelState(company, slug, company_id === null);
  const [word, why] = states[state];
  return html`${badge(TONES[state], word)}${why === '' ? '' : html`<br>${muted(why)}`}`;
}

function toggle(direction: 'disable' | 'enable'): Route['handle'] {
  return async (c, form) => {
    const id = param(c, 'company');
    const slug = form.required('slug', readSlug);
    form.check();
    const judge = ({ length }: readonly unknown[]) => {
      if (length > 0) throwNotFound('model', `The company has no model ${slug}.`);
    };
    await change(c, (sql) => changeCompany(sql, { judge }, id, { [direction]: [slug] }));
    return backTo(c, `/companies/${id}/models`, 'saved');
  };
}

export function euBadge(
  { eu_hosted }: ModelRow,
  outside = wordsOf(ENGLISH).models.outsideEu,
): Html {
  return eu_hosted ? badge('eu', 'EU') : badge('warn', outside);
}
