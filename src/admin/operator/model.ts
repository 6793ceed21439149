import type { PriceUnit } from '../../domain/price.ts';
import { isListed } from '../../domain/pricing/parts.ts';
import {
  FIRST,
  FURTHER,
  MODEL,
  MODEL_SETTINGS,
  modelPrices,
  PRICE_NAMES,
  PRICES,
  type PriceName,
  pricesAmong,
  pricesOf,
} from '../../domain/settings/model.ts';
import { changeModel, removeModel } from '../../operations/model.ts';
import { companyNames } from '../../store/company/company.ts';
import { hasDemo } from '../../store/company/demo.ts';
import { findModelById, type ModelRow } from '../../store/company/model.ts';
import { type ModelSort, pageOfModels } from '../../store/lists/page.ts';
import { euBadge } from '../company/company-model.ts';
import { callerOf } from '../page/caller.ts';
import { askedFirst } from '../page/confirmation.ts';
import { change, type PageContext, param, type Route, read, removal } from '../page/context.ts';
import { csrfInput, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyLink, muted, type Owned, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import {
  insteadText,
  priceFields,
  priceHeadings,
  priceText,
  priceValue,
  shownUnit,
  unitInput,
  unitNote,
} from '../page/price-unit.ts';
import {
  checkPriced,
  RATES_CHECK,
  rateTable,
  readPriced,
  refuseRates,
} from '../page/rate-table.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { unusualMarks } from '../usage/unusual.ts';
import {
  askCostRemoval,
  modelOfPath,
  priceCards,
  removeCost,
  schedule,
  setCost,
  withdraw,
} from './price.ts';

/** All models and prices, for operators. */
export const modelRoutes: readonly Route[] = [
  { method: 'GET', path: '/models', action: 'model.read', handle: listPage },
  { method: 'GET', path: '/models/:model', action: 'model.read', handle: editPage },
  {
    method: 'POST',
    path: '/models/:model',
    action: 'model.write',
    long: true,
    handle: edit,
    page: editPage,
  },
  {
    method: 'POST',
    path: '/models/:model/prices',
    action: 'model.write',
    long: true,
    handle: schedule,
    page: editPage,
  },
  {
    method: 'POST',
    path: '/models/:model/prices/:price/withdraw',
    action: 'model.write',
    handle: withdraw,
  },
  {
    method: 'POST',
    path: '/models/:model/costs',
    action: 'cost.write',
    long: true,
    handle: setCost,
    page: editPage,
  },
  ...askedFirst('/models/:model/costs/:cost/remove', 'cost.write', askCostRemoval, removeCost),
  {
    method: 'POST',
    path: RATES_CHECK,
    action: 'model.write',
    savesNothing: true,
    long: true,
    handle: checkPriced,
  },
  ...askedFirst('/models/:model/remove', 'model.write', askRemoval, remove),
];

const SORTS = { slug: 'Model name', upstream: 'Internal name', company: 'Company' };

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const query = listQuery<ModelSort>(c, SORTS);
  const [models, demo] = await read(
    c,
    async (sql) => [await pageOfModels(sql, query), await hasDemo(sql)] as const,
  );
  const marks = await unusualMarks(c, null);
  const unit = shownUnit(c, form);
  const labels = priceHeadings(c.var.format.words);
  const names = pricesAmong(models.rows.map(pricesOf<string | null>));
  const cells = {
    'Model name': (model: ModelRow) =>
      html`<a href="/models/${model.id}"><code>${model.slug}</code></a>${marks.model(model.slug)}${morePrices(model)}`,
    'Internal name': ({ upstream_model }: ModelRow) => html`<code>${upstream_model}</code>`,
    Kind: ({ kind }: ModelRow) => kind,
    Hosting: euBadge,
    ...Object.fromEntries(
      names
        .filter((name) => !isListed(name))
        .map((name) => [labels[name], priceCell(c, unit, name)]),
    ),
    Company: (row: Owned) => companyLink(row, 'models'),
  };
  const offer = html`<a class="button primary" href="/models/new">Add models</a>`;
  const body = html`<div class="title-row"><h1>Models and prices</h1>
${offer} ${demo ? html`<a class="button quiet" href="/demo/remove">Remove the demo…</a>` : ''}</div>
<p class="lead">Clients see the model name; the internal name goes upstream and is shown to operators only.</p>
${unitNote(c, unit)}
${list(c, { path: '/models', caption: 'All models', cells, figures: Object.values(labels), sorts: SORTS, empty: html`No model is offered yet. <a href="/models/new">Choose one</a> of what the router has.` }, query, models)}`;
  return page(c, 'Models and prices', body);
}

/** A price of a model. One of 0 is marked, for it may have been forgotten. */
function priceCell(c: PageContext, unit: PriceUnit, name: PriceName) {
  return (model: ModelRow): Html | string => {
    const eur = pricesOf<string | null>(model)[name];
    if (eur === null) return muted(insteadText(c.var.format.words, name));
    const isFree =
      eur === '0' && !PRICES[name].isNullable && (name === 'input' || model.kind === 'chat');
    const text = priceText(c, unit, eur);
    return isFree ? html`${badge('warn', 'free')} ${text}` : text;
  };
}

/** Which prices the page of a model has beside those in the list. */
function morePrices(model: ModelRow): Html | string {
  const { length } = model.rates ?? [];
  const rates = length === 0 ? [] : [length === 1 ? '1 rate' : `${length} rates`];
  const parts = pricesAmong([pricesOf<string | null>(model)]).filter(isListed);
  const more = [...rates, ...parts.map((name) => PRICES[name].tokens)];
  return more.length === 0 ? '' : html`<small class="muted coming">${more.join(', ')}</small>`;
}

async function editPage(c: PageContext, form: Form): Promise<Response> {
  const model = await modelOfPath(c);
  const path = `/models/${model.id}`;
  const state = formState(form, path);
  const unit = shownUnit(c, form);
  const prices = pricesOf<string | null>(model);
  const price = (name: PriceName) => {
    const hint = PRICES[name].field.hint?.(state.words);
    return { value: priceValue(unit, prices[name]), ...(hint !== undefined && { hint }) };
  };
  const { company_id } = model;
  const names =
    company_id === null ? null : await read(c, (sql) => companyNames(sql, [company_id]));
  const owner = { company_id, company_name: names?.get(company_id ?? '') ?? null };
  const body = html`<h1>Model <code>${model.slug}</code></h1>
<p class="lead">${names === null ? 'Shared by all companies.' : html`Only for ${companyLink(owner, 'models')}.`} A new price applies to calls from now on; the ledger keeps the price each call was made at.</p>
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, model, MODEL)}
${settingFields(state, FIRST, model)}
${unitInput(unit)}${priceFields(state, unit, plain, price, PRICE_NAMES, { settings: FURTHER, row: model })}
${rateTable(state, form, unit, plain, { ...prices, rates: model.rates })}
<div class="actions"><button class="primary">Save model</button> <a class="button quiet" href="/models">Cancel</a> <a class="button danger" href="${path}/remove">Remove…</a></div></form></section>
${await priceCards(c, model, form, unit)}`;
  return page(c, `Model ${model.slug}`, body);
}

/** The names of the fields of the present prices. */
const plain = (name: string) => name;

async function edit(c: PageContext, form: Form): Promise<Response> {
  const model = await modelOfPath(c);
  const { rates, ...prices } = readPriced(form, plain);
  const changes = { ...readSettings(form, MODEL_SETTINGS), ...modelPrices(prices), rates };
  form.check();
  await change(c, async (sql) => {
    const { id, company_id: company } = model;
    const find = () => findModelById(sql, id);
    const page = `/models/${id}`;
    await lockEdited(c, sql, form, {
      table: 'models',
      id,
      company,
      settings: MODEL,
      changes,
      find,
      page,
    });
    await changeModel(
      sql,
      callerOf(c, form, MODEL, (all) => refuseRates(form, plain, all)),
      model,
      changes,
    );
  });
  return c.redirect('/models?done=saved', 303);
}

async function askRemoval(c: PageContext) {
  const { id, slug } = await modelOfPath(c);
  const text = html`<p>Calls to it get 404 within a second, and so do assistants that use it. Its ledger rows and the history of its prices stay.</p><p>To put another model in its place, <a href="/models/${id}">change its internal name and prices</a>: clients go on calling <code>${slug}</code>.</p>`;
  return { title: `Remove ${slug}?`, button: 'Remove model', back: '/models', text };
}

async function remove(c: PageContext): Promise<Response> {
  await removal(c, async (sql) => {
    await removeModel(sql, await findModelById(sql, param(c, 'model')));
  });
  return c.redirect('/models?done=removed', 303);
}
