import { readName, readSlug } from '../../domain/field.ts';
import { generates, likelyKind, proposedSlug } from '../../domain/model.ts';
import { HOSTED, KIND, MODEL, modelPrices, NEW_MODEL, type PriceName, SIZES } from '../../domain/settings/model.ts';
import { eachSetting, type Setting, type Settings } from '../../domain/settings/setting.ts';
import { createModel } from '../../operations/model.ts';
import { type NewModel, sharedModels, slugsOf } from '../../store/company/model.ts';
import type { RouterAnswer } from '../../upstream/router-models.ts';
import { callerOf } from '../page/caller.ts';
import { change, type PageContext, type Route, read } from '../page/context.ts';
import { checkboxes, csrfInput, field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { page, table } from '../page/layout.ts';
import { companyPicker, readPickedCompany } from '../page/picker.ts';
import { priceFields, readPrices, shownUnit, unitInput, unitSwitch } from '../page/price-unit.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { modelFields, readModelFields } from './model.ts';

/**
 * Offering models: they are chosen from what the router has, several at once, and then get a public name and prices.
 * One is typed where the router names none. `?name=`, once for each, are those that were chosen.
 */
export const modelOfferRoutes: readonly Route[] = [
  { method: 'GET', path: '/models/new', action: 'model.write', handle: choicePage },
  { method: 'POST', path: '/models/new', action: 'model.write', long: true, handle: createChosen, page: chosenPage },
  { method: 'POST', path: '/models', action: 'model.write', handle: createTyped, page: choicePage },
];

const PATH = '/models/new';
/** Models that one form has: each has eight fields. */
const MOST_CHOSEN = 50;
const FOR = "Name or id of one company; empty for all. A company's own model wins over a shared one of the same slug.";

/** What the router offers, to choose from; or the form of one model, where a name was typed or there is no list. */
async function choicePage(c: PageContext, form: Form): Promise<Response> {
  const names = c.req.method === 'GET' ? namesAsked(c) : [];
  if (names.length > 0) return chosenPage(c, form);
  const answer = await c.var.services.router.ask();
  const offered = answer.names.length === 0 ? new Map() : await read(c, (sql) => slugsOf(sql, answer.names));
  const body = html`<h1>Add models</h1>
${answer.names.length === 0 ? html`<p class="notice warn-notice">${answer.reason ?? ''} Until then, type the name that the router knows the model by.</p>` : choiceCard(answer, offered)}
${await typedCard(c, form, answer.names.length === 0)}
<p><a href="/models">All models and prices</a></p>`;
  return page(c, 'Add models', body);
}

function choiceCard({ names, leftOut }: RouterAnswer, offered: ReadonlyMap<string, readonly string[]>): Html {
  const left = names.filter((name) => !offered.has(name));
  const state = formState(new Form(), PATH);
  const cells = {
    'Internal name': (name: string) => html`<code>${name}</code>`,
    'Offered as': (name: string) =>
      html`${(offered.get(name) ?? []).map((slug, at) => html`${at === 0 ? '' : ', '}<a href="/models?${new URLSearchParams({ q: slug })}"><code>${slug}</code></a>`)}`,
  };
  const there = names.filter((name) => offered.has(name));
  const hint = left.length > MOST_CHOSEN ? { hint: `Up to ${MOST_CHOSEN} at once.` } : {};
  const choices = {
    ...hint,
    name: 'name',
    label: 'Models',
    choices: left.map((name) => [name, name] as const),
    chosen: [],
  };
  return html`<section class="card"><h2>What the router has</h2>
${
  left.length === 0
    ? html`<p>All its models are offered.</p>`
    : html`<form method="get" action="${PATH}" class="stack">${checkboxes(state, choices)}
<div class="actions"><button class="primary">Set names and prices</button></div></form>`
}
${leftOut === 0 ? '' : html`<p class="muted">${leftOut === 1 ? 'One more entry' : `${leftOut} more entries`} of its list cannot be shown here.</p>`}
${there.length === 0 ? '' : html`<details class="fold"><summary>Offered already: ${there.length}</summary>${table('Offered already', there, { cells }, true)}</details>`}</section>`;
}

/** The form of one model, whose internal name is typed. @param isOpen there is nothing to choose from */
async function typedCard(c: PageContext, form: Form, isOpen: boolean): Promise<Html> {
  const unit = shownUnit(c, form);
  const state = formState(form, '/models');
  return html`<details class="fold"${isOpen || state.isSent ? raw(' open') : ''}><summary>A name that the router does not list</summary>
<section class="card">${state.summary}${unitSwitch(c, PATH, unit)}
<form method="post" action="/models" class="stack">${csrfInput(c)}
${field(state, { name: 'slug', label: 'Model name', required: true, hint: 'The name clients use. It never changes.' })}
${modelFields(state, null, unit)}
${await companyPicker(c, state, 'For', FOR)}
<div class="actions"><button class="primary">Offer model</button></div></form></section></details>`;
}

async function createTyped(c: PageContext, form: Form): Promise<Response> {
  const slug = form.required('slug', readSlug);
  const company_id = await readPickedCompany(c, form);
  const fields = readModelFields(form);
  form.check();
  await change(c, (sql) => createModel(sql, callerOf(c, form, MODEL), { slug, company_id, ...fields }));
  return c.redirect('/models?done=created', 303);
}

/** The names in the address that a model can have, each once. */
function namesAsked(c: PageContext): string[] {
  const asked = new Form(new URL(c.req.url).searchParams, PATH);
  const names = asked.all('name', readName).filter((name) => name !== undefined);
  return [...new Set(names)];
}

/** The names of fields of one of those that were chosen. */
const nameAt = (at: number) => (name: string) => `${name}-${at}`;

/** The settings of one of them. */
function settingsAt<S extends Settings>(at: number, settings: S): S {
  const named = ({ field, ...setting }: Setting) => ({ ...setting, field: { ...field, name: nameAt(at)(field.name) } });
  return eachSetting(settings, named) as S;
}

/** Public names and prices of those that were chosen. */
async function chosenPage(c: PageContext, form: Form): Promise<Response> {
  const isSent = form.path === PATH;
  const asked = isSent ? form.values.getAll('upstream') : namesAsked(c);
  const names = asked.slice(0, MOST_CHOSEN);
  const taken = new Set((await read(c, (sql) => sharedModels(sql))).map(({ slug }) => slug));
  const unit = shownUnit(c, form);
  const state = formState(form, PATH);
  const { sizes } = await c.var.services.router.ask();
  const cards = names.map((name, at) => {
    const slug = proposedSlug(name, taken);
    taken.add(slug);
    const kind = likelyKind(name);
    const value = (price: PriceName) => (price === 'output' && !generates(kind) ? '0' : '');
    return html`<fieldset><legend><code>${name}</code></legend><input type="hidden" name="upstream" value="${name}">
<div class="pair">${field(state, { name: `slug-${at}`, label: 'Model name', value: slug, required: true, hint: 'The name clients use. It never changes.' })}
${settingFields(state, settingsAt(at, KIND), { kind })}</div>
${priceFields(state, unit, nameAt(at), (price) => ({ value: value(price) }))}
<div class="pair">${settingFields(state, settingsAt(at, SIZES), sizes[name] ?? null)}</div>
${settingFields(state, settingsAt(at, HOSTED), NEW_MODEL)}</fieldset>`;
  });
  const more = asked.length - names.length;
  const title = names.length === 1 ? 'Offer a model' : `Offer ${names.length} models`;
  const body = html`<h1>${title}</h1>
<p class="lead">Clients see the slug; the internal name goes upstream and is shown to operators only. Companies that forbid models outside the EU do not get one that is hosted elsewhere.</p>
${more === 0 ? '' : html`<p class="notice warn-notice">The first ${MOST_CHOSEN} are here; choose the other ${more} next.</p>`}
${
  isSent
    ? ''
    : unitSwitch(
        c,
        PATH,
        unit,
        names.map((name) => ['name', name]),
      )
}
<section class="card">${state.summary}<form method="post" action="${PATH}" class="stack">${csrfInput(c)}${unitInput(unit)}${cards}
${await companyPicker(c, state, 'For', FOR)}
<div class="actions"><button class="primary">${title}</button> <a class="button quiet" href="${PATH}">Choose again</a></div></form></section>`;
  return page(c, title, body);
}

/** Creates all of them or none. */
async function createChosen(c: PageContext, form: Form): Promise<Response> {
  const company_id = await readPickedCompany(c, form);
  const names = form.all('upstream', readName).slice(0, MOST_CHOSEN);
  const slugs = new Set<string>();
  const models = names.map((upstream_model, at): NewModel => {
    const slug = form.required(`slug-${at}`, readSlug);
    if (slugs.has(slug)) form.refuse(`slug-${at}`, 'is the slug of another one here.');
    slugs.add(slug);
    return {
      slug,
      company_id,
      upstream_model,
      ...readSettings(form, settingsAt(at, { ...KIND, ...HOSTED, ...SIZES })),
      ...modelPrices(readPrices(form, nameAt(at))),
    };
  });
  if (models.length === 0) return c.redirect(PATH, 303);
  form.check();
  await change(c, async (sql) => {
    for (const model of models) await createModel(sql, callerOf(c, form, MODEL), model);
  });
  return c.redirect('/models?done=created', 303);
}
