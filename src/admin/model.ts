import { html } from 'hono/html';
import { readKind, readName, readPrice, readSlug } from '../domain/field.ts';
import { type Catalogue, findModel, listModels as listedModels } from '../domain/gate.ts';
import { modelEntry } from '../domain/model.ts';
import { setCompany } from '../store/company.ts';
import { readCompany } from '../store/directory.ts';
import { createModel, listModels, type ModelRow, removeModel, setModel } from '../store/model.ts';
import {
  countActiveKeys,
  findModelById,
  type ListPage,
  type ListQuery,
  type ModelSort,
  PAGE_ROWS,
  pageOfModels,
} from '../store/page.ts';
import { companyField, readCompanyChoice } from './choice.ts';
import { change, mayNow, type PageContext, param, type Route, read } from './context.ts';
import { checkbox, csrfInput, type Field, type FormState, field, formState, select } from './field.ts';
import type { Form } from './form.ts';
import type { Html } from './html.ts';
import { badge, companyHeading, confirmation, muted, page } from './layout.ts';
import { list, listQuery } from './list.ts';
import { type Labels, lockEdited, seenInput } from './stale.ts';

/** All models and prices, for operators, and the models that one company may use. */
export const modelRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies/:company/models', action: 'company.read', handle: companyPage },
  { method: 'POST', path: '/companies/:company/models/disable', action: 'company.choose', handle: toggle('disable') },
  { method: 'POST', path: '/companies/:company/models/enable', action: 'company.choose', handle: toggle('enable') },
  { method: 'GET', path: '/models', action: 'model.read', handle: listPage },
  { method: 'POST', path: '/models', action: 'model.write', handle: create, page: listPage },
  { method: 'GET', path: '/models/:model', action: 'model.read', handle: editPage },
  { method: 'POST', path: '/models/:model', action: 'model.write', handle: edit, page: editPage },
  { method: 'GET', path: '/models/:model/remove', action: 'model.write', handle: removePage },
  { method: 'POST', path: '/models/:model/remove', action: 'model.write', handle: remove },
];

const SORTS = { slug: 'Slug', upstream: 'Internal name', company: 'Company' };
const PROMPT_PRICE = 'EUR per 1000 prompt tokens';
const COMPLETION_PRICE = 'EUR per 1000 completion tokens';
/** What the form of a model edits. */
const LABELS: Labels<ModelRow> = {
  upstream_model: 'Internal name',
  kind: 'Kind',
  eu_hosted: 'Hosted in the EU',
  token_input: 'Takes token ids',
  cost_eur_per_1k_input: PROMPT_PRICE,
  cost_eur_per_1k_output: COMPLETION_PRICE,
};
const PRICES = [PROMPT_PRICE, COMPLETION_PRICE];
const COMPANY_SORTS = { slug: 'Slug', '-slug': 'Slug, Z to A' };

async function companyPage(c: PageContext): Promise<Response> {
  const { format, services } = c.var;
  const id = param(c, 'company');
  const query = listQuery(c, COMPANY_SORTS);
  const { company, models, active } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    models: await listModels(sql, id),
    active: await countActiveKeys(sql, id),
  }));
  const listed = listedModels(company);
  const base = `/companies/${id}/models`;
  const found = pageOf(models, query);
  const cells = {
    Model: ({ slug, company_id }: ModelRow) =>
      html`<code>${slug}</code>${company_id === null ? '' : html` ${badge('plain', 'own')}`}`,
    Kind: ({ kind }: ModelRow) => kind,
    Hosting: euBadge,
    [PROMPT_PRICE]: (model: ModelRow) => format.price(model.cost_eur_per_1k_input),
    [COMPLETION_PRICE]: (model: ModelRow) =>
      model.kind === 'embedding' ? muted('none') : format.price(model.cost_eur_per_1k_output),
    State: (model: ModelRow) => stateOf(company, model),
    Action: (model: ModelRow) => {
      if (isShadowed(company, model) || !mayNow(c, 'company.set')) return muted('none');
      const verb = company.disabledSlugs.has(model.slug) ? 'Enable' : 'Disable';
      return html`<form class="inline" method="post" action="${base}/${verb.toLowerCase()}">${csrfInput(c)}<input type="hidden" name="slug" value="${model.slug}"><button class="quiet" aria-label="${verb} ${model.slug}">${verb}</button></form>`;
    },
  };
  const entries = {
    object: 'list',
    data: listed.slice(0, PAGE_ROWS).map((model) => modelEntry(model, services.ownedBy)),
  };
  const body = html`${companyHeading(c, company)}<h1>Models</h1>
<p class="lead">${
    company.allowNonEu
      ? html`The EU gate is <strong>open</strong>: models hosted outside the EU may be used.`
      : html`The EU gate is <strong>closed</strong>: models hosted outside the EU are neither listed nor served.`
  } ${mayNow(c, 'company.set') ? html`<a href="/companies/${id}/settings">Change it in the settings</a>.` : ''}</p>
${list(c, { path: base, caption: 'Models of this company', cells, figures: PRICES, sorts: COMPANY_SORTS, empty: 'No models are offered yet.' }, query, found)}
<section class="card"><h2>What <code>GET /models</code> returns now</h2>
<p>${listed.length} of ${new Set(models.map(({ slug }) => slug)).size} models. ${
    active === 0
      ? html`The company has no active key yet: <a href="/companies/${id}/access">create one</a>.`
      : `${active === 1 ? 'The active key gets' : `Each of the ${active} active keys gets`} this answer, whatever its scopes; revoked and expired keys get 401.`
  }</p>
${listed.length > PAGE_ROWS ? html`<p class="muted">The first ${PAGE_ROWS} of them:</p>` : ''}
<pre tabindex="0" aria-label="Answer of GET /models">${JSON.stringify(entries, null, 2)}</pre></section>`;
  return page(c, `Models of ${company.name}`, body);
}

/** Models of one company are few enough to be searched and sorted here: their states need all of them. */
function pageOf(models: readonly ModelRow[], { search, descending, page: asked }: ListQuery): ListPage<ModelRow> {
  const matching = models.filter(({ slug }) => slug.toLowerCase().includes(search.toLowerCase()));
  if (descending) matching.reverse();
  const page = (asked - 1) * PAGE_ROWS < matching.length ? asked : 1;
  return { rows: matching.slice((page - 1) * PAGE_ROWS, page * PAGE_ROWS), total: matching.length, page };
}

function euBadge({ eu_hosted }: ModelRow): Html {
  return eu_hosted ? badge('eu', 'EU') : badge('warn', 'outside the EU');
}

/** The company has its own model of the same slug. */
function isShadowed(company: Catalogue, { company_id, slug }: ModelRow): boolean {
  return company_id === null && company.ownModels.has(slug);
}

/** What the API does with a model, and why. */
function stateOf(company: Catalogue, model: ModelRow): Html {
  const why = (text: string) => html`<br>${muted(text)}`;
  if (company.disabledSlugs.has(model.slug)) {
    return html`${badge('bad', 'hidden')}${why('Disabled here: not listed, calls get 404.')}`;
  }
  if (isShadowed(company, model))
    return html`${badge('plain', 'replaced')}${why('The company has its own model of this name.')}`;
  if (findModel(company, model.slug)?.euHosted === false && !company.allowNonEu) {
    return html`${badge('warn', 'blocked')}${why('The EU gate is closed: not listed, calls get 403.')}`;
  }
  return badge('good', 'available');
}

function toggle(direction: 'disable' | 'enable'): Route['handle'] {
  return async (c, form) => {
    const id = param(c, 'company');
    const slug = form.required('slug', readSlug);
    form.check();
    await change(c, (sql) => setCompany(sql, id, { [direction]: [slug] }));
    return c.redirect(`/companies/${id}/models?done=saved`, 303);
  };
}

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const query = listQuery<ModelSort>(c, SORTS);
  const models = await read(c, (sql) => pageOfModels(sql, query));
  const state = formState(form, '/models');
  const cells = {
    Slug: ({ id, slug }: ModelRow) => html`<a href="/models/${id}"><code>${slug}</code></a>`,
    'Internal name': ({ upstream_model }: ModelRow) => html`<code>${upstream_model}</code>`,
    Kind: ({ kind }: ModelRow) => kind,
    Hosting: euBadge,
    [PROMPT_PRICE]: ({ cost_eur_per_1k_input: eur }: ModelRow) => price(format.price(eur), eur === '0'),
    [COMPLETION_PRICE]: ({ cost_eur_per_1k_output: eur, kind }: ModelRow) =>
      price(format.price(eur), eur === '0' && kind === 'chat'),
    For: ({ company_name }: { company_name: string | null }) => company_name ?? 'all',
  };
  const body = html`<h1>Models and prices</h1>
<p class="lead">Clients see the slug; the internal name goes upstream and is shown to operators only.</p>
${list(c, { path: '/models', caption: 'All models', cells, figures: PRICES, sorts: SORTS, empty: 'There are no models yet. Offer the first one below.' }, query, models)}
<section class="card"><h2>Offer a model</h2>${state.summary}
<form method="post" action="/models" class="stack">${csrfInput(c)}
${field(state, { name: 'slug', label: 'Slug', required: true, hint: 'The name clients use. It never changes.' })}
${modelFields(state, null)}
${await companyField(c, state, 'For', "Name or id of one company; empty for all. A company's own model wins over a shared one of the same slug.")}
<div class="actions"><button class="primary">Offer model</button></div></form></section>`;
  return page(c, 'Models and prices', body);
}

/** Marks a model that costs nothing: its price may have been forgotten. */
function price(text: string, isFree: boolean): Html | string {
  return isFree ? html`${badge('warn', 'free')} ${text}` : text;
}

function modelFields(state: FormState, model: ModelRow | null): Html {
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
  choices: Object.entries({ chat: 'Chat', embedding: 'Embedding' }),
  value: model?.kind ?? 'chat',
})}
${checkbox(state, { name: 'eu_hosted', label: 'Hosted in the EU', checked: model?.eu_hosted ?? true })}
${checkbox(state, { name: 'token_input', label: 'Takes token ids', checked: model?.token_input === 'accept', hint: 'For embeddings: whether clients may send token ids in place of text. They have to use the vocabulary of this model.' })}
<div class="pair">${priced({ name: 'input', label: PROMPT_PRICE, value: model?.cost_eur_per_1k_input ?? '' })}
${priced({ name: 'output', label: COMPLETION_PRICE, value: model?.cost_eur_per_1k_output ?? '', hint: '0 for embeddings.' })}</div>`;
}

function readModelFields(form: Form) {
  return {
    upstream_model: form.required('upstream', readName),
    kind: form.required('kind', readKind),
    eu_hosted: form.checked('eu_hosted'),
    token_input: form.checked('token_input') ? ('accept' as const) : ('refuse' as const),
    cost_eur_per_1k_input: form.required('input', form.numeric(readPrice)),
    cost_eur_per_1k_output: form.required('output', form.numeric(readPrice)),
  };
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const slug = form.required('slug', readSlug);
  const company_id = await readCompanyChoice(c, form);
  const fields = readModelFields(form);
  form.check();
  await change(c, (sql) => createModel(sql, { slug, company_id, ...fields }));
  return c.redirect('/models?done=created', 303);
}

async function editPage(c: PageContext, form: Form): Promise<Response> {
  const model = await find(c);
  const path = `/models/${model.id}`;
  const state = formState(form, path);
  const body = html`<h1>Model <code>${model.slug}</code></h1>
<p class="lead">${model.company_id === null ? 'Shared by all companies.' : 'For one company alone.'} A new price holds for calls from now on; the ledger keeps the price each call was made at.</p>
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${seenInput(state, model, LABELS)}
${modelFields(state, model)}
<div class="actions"><button class="primary">Save model</button> <a class="button quiet" href="/models">Cancel</a> <a class="button danger" href="${path}/remove">Remove…</a></div></form></section>`;
  return page(c, `Model ${model.slug}`, body);
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const model = await find(c);
  const changes = readModelFields(form);
  form.check();
  await change(c, async (sql) => {
    const { id, slug, company_id: company } = model;
    const find = () => findModelById(sql, id);
    await lockEdited<ModelRow>(c, sql, form, {
      ...{ table: 'models', id, company, labels: LABELS, changes, find, page: `/models/${id}` },
    });
    await setModel(sql, slug, company, changes);
  });
  return c.redirect('/models?done=saved', 303);
}

async function removePage(c: PageContext): Promise<Response> {
  const model = await find(c);
  const body = html`<h1>Remove <code>${model.slug}</code>?</h1>
${confirmation(c, { action: `/models/${model.id}/remove`, button: 'Remove model', back: '/models', text: html`<p>Calls to it get 404 within a second. Its ledger rows stay.</p>` })}`;
  return page(c, `Remove ${model.slug}`, body);
}

async function remove(c: PageContext): Promise<Response> {
  const model = await find(c);
  await change(c, (sql) => removeModel(sql, model.slug, model.company_id));
  return c.redirect('/models?done=removed', 303);
}

function find(c: PageContext): Promise<ModelRow> {
  return read(c, (sql) => findModelById(sql, param(c, 'model')));
}
