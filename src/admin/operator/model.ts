import { readKind, readName } from '../../domain/field.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { ENGLISH } from '../../domain/languages.ts';
import { type PriceUnit, priceIn, readPriceIn } from '../../domain/price.ts';
import { hasDemo } from '../../store/company/demo.ts';
import { findModelById, type ModelRow, removeModel, setModel } from '../../store/company/model.ts';
import { type ModelSort, pageOfModels } from '../../store/lists/page.ts';
import { euBadge } from '../company/company-model.ts';
import { change, type PageContext, param, type Route, read, removal } from '../page/context.ts';
import { checkbox, csrfInput, type Field, type FormState, field, formState, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyLink, confirmation, type Owned, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { type Labels, lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { priceLabels, priceText, sentUnit, shownUnit, unitInput, unitSwitch } from '../page/price-unit.ts';
import { modelOfPath, priceCards, removeCost, removeCostPage, schedule, setCost, withdraw } from './price.ts';

/** All models and prices, for operators. */
export const modelRoutes: readonly Route[] = [
  { method: 'GET', path: '/models', action: 'model.read', handle: listPage },
  { method: 'GET', path: '/models/:model', action: 'model.read', handle: editPage },
  { method: 'POST', path: '/models/:model', action: 'model.write', handle: edit, page: editPage },
  { method: 'POST', path: '/models/:model/prices', action: 'model.write', handle: schedule, page: editPage },
  { method: 'POST', path: '/models/:model/prices/:price/withdraw', action: 'model.write', handle: withdraw },
  { method: 'POST', path: '/models/:model/costs', action: 'cost.write', handle: setCost, page: editPage },
  { method: 'GET', path: '/models/:model/costs/:cost/remove', action: 'cost.write', handle: removeCostPage },
  { method: 'POST', path: '/models/:model/costs/:cost/remove', action: 'cost.write', handle: removeCost },
  { method: 'GET', path: '/models/:model/remove', action: 'model.write', handle: removePage },
  { method: 'POST', path: '/models/:model/remove', action: 'model.write', handle: remove },
];

export const KINDS = [
  ['chat', 'Chat'],
  ['embedding', 'Embedding'],
] as const;

const SORTS = { slug: 'Slug', upstream: 'Internal name', company: 'Company' };

const PRICES = priceLabels(wordsOf(ENGLISH), '1k');
const LABELS: Labels<ModelRow> = {
  upstream_model: 'Internal name',
  kind: 'Kind',
  eu_hosted: 'Hosted in the EU',
  token_input: 'Takes token ids',
  cost_eur_per_1k_input: PRICES.input,
  cost_eur_per_1k_output: PRICES.output,
};

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const query = listQuery<ModelSort>(c, SORTS);
  const [models, demo] = await read(c, async (sql) => [await pageOfModels(sql, query), await hasDemo(sql)] as const);
  const unit = shownUnit(c, form);
  const labels = priceLabels(c.var.format.words, unit);
  const cells = {
    Slug: ({ id, slug }: ModelRow) => html`<a href="/models/${id}"><code>${slug}</code></a>`,
    'Internal name': ({ upstream_model }: ModelRow) => html`<code>${upstream_model}</code>`,
    Kind: ({ kind }: ModelRow) => kind,
    Hosting: euBadge,
    [labels.input]: ({ cost_eur_per_1k_input: eur }: ModelRow) => price(priceText(c, unit, eur), eur === '0'),
    [labels.output]: ({ cost_eur_per_1k_output: eur, kind }: ModelRow) =>
      price(priceText(c, unit, eur), eur === '0' && kind === 'chat'),
    For: (row: Owned) => companyLink(row, 'models'),
  };
  const offer = html`<a class="button primary" href="/models/new">Offer models</a>`;
  const body = html`<div class="title-row"><h1>Models and prices</h1>
${offer} <a class="button quiet" href="/models/import">Import from CSV</a>${demo ? html`<a class="button quiet" href="/demo/remove">Remove the demo…</a>` : ''}</div>
<p class="lead">Clients see the slug; the internal name goes upstream and is shown to operators only.</p>
${unitSwitch(c, '/models', unit)}
${list(c, { path: '/models', caption: 'All models', cells, figures: Object.values(labels), sorts: SORTS, empty: html`No model is offered yet. <a href="/models/new">Choose one</a> of what the router has.` }, query, models)}`;
  return page(c, 'Models and prices', body);
}

/** Marks a model that costs nothing: its price may have been forgotten. */
function price(text: string, isFree: boolean): Html | string {
  return isFree ? html`${badge('warn', 'free')} ${text}` : text;
}

export function modelFields(state: FormState, model: ModelRow | null, unit: PriceUnit): Html {
  const labels = priceLabels(state.words, unit);
  const priced = (spec: Field) => field(state, { ...spec, required: true, inputmode: 'decimal' });
  return html`${field(state, {
    name: 'upstream',
    label: 'Internal name',
    required: true,
    hint: 'What the model is called upstream.',
    value: model?.upstream_model ?? '',
  })}
${select(state, {
  name: 'kind',
  label: 'Kind',
  choices: KINDS,
  value: model?.kind ?? 'chat',
})}
${checkbox(state, { name: 'eu_hosted', label: 'Hosted in the EU', checked: model?.eu_hosted ?? true })}
${checkbox(state, { name: 'token_input', label: 'Takes token ids', checked: model?.token_input === 'accept', hint: 'For embeddings: whether clients may send token ids in place of text. They have to use the vocabulary of this model.' })}
${unitInput(unit)}<div class="pair">${priced({ name: 'input', label: labels.input, value: model === null ? '' : priceIn(unit, model.cost_eur_per_1k_input) })}
${priced({ name: 'output', label: labels.output, value: model === null ? '' : priceIn(unit, model.cost_eur_per_1k_output), hint: '0 for embeddings.' })}</div>`;
}

export function readModelFields(form: Form) {
  const readPrice = form.numeric(readPriceIn(sentUnit(form)));
  return {
    upstream_model: form.required('upstream', readName),
    kind: form.required('kind', readKind),
    eu_hosted: form.checked('eu_hosted'),
    token_input: form.checked('token_input') ? ('accept' as const) : ('refuse' as const),
    cost_eur_per_1k_input: form.required('input', readPrice),
    cost_eur_per_1k_output: form.required('output', readPrice),
  };
}

async function editPage(c: PageContext, form: Form): Promise<Response> {
  const model = await modelOfPath(c);
  const path = `/models/${model.id}`;
  const state = formState(form, path);
  const unit = shownUnit(c, form);
  const body = html`<h1>Model <code>${model.slug}</code></h1>
<p class="lead">${model.company_id === null ? 'Shared by all companies.' : 'For one company alone.'} A new price holds for calls from now on; the ledger keeps the price each call was made at.</p>
${unitSwitch(c, path, unit)}
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, model, LABELS)}
${modelFields(state, model, unit)}
<div class="actions"><button class="primary">Save model</button> <a class="button quiet" href="/models">Cancel</a> <a class="button danger" href="${path}/remove">Remove…</a></div></form></section>
${await priceCards(c, model, form, unit)}`;
  return page(c, `Model ${model.slug}`, body);
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const model = await modelOfPath(c);
  const changes = readModelFields(form);
  form.check();
  await change(c, async (sql) => {
    const { id, slug, company_id: company } = model;
    const find = () => findModelById(sql, id);
    const rowChange = { table: 'models', id, company, labels: LABELS, changes, find, page: `/models/${id}` } as const;
    await lockEdited<ModelRow>(c, sql, form, rowChange);
    await setModel(sql, slug, company, changes);
  });
  return c.redirect('/models?done=saved', 303);
}

async function removePage(c: PageContext): Promise<Response> {
  const model = await modelOfPath(c);
  const body = html`<h1>Remove <code>${model.slug}</code>?</h1>
${confirmation(c, { action: `/models/${model.id}/remove`, button: 'Remove model', back: '/models', text: html`<p>Calls to it get 404 within a second, and so do assistants that use it. Its ledger rows and the history of its prices stay.</p><p>To put another model in its place, <a href="/models/${model.id}">change its internal name and prices</a>: clients go on calling <code>${model.slug}</code>.</p>` })}`;
  return page(c, `Remove ${model.slug}`, body);
}

async function remove(c: PageContext): Promise<Response> {
  await removal(c, async (sql) => {
    const { slug, company_id } = await findModelById(sql, param(c, 'model'));
    await removeModel(sql, slug, company_id);
  });
  return c.redirect('/models?done=removed', 303);
}
