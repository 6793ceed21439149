import { readName, readSlug } from '../../domain/field.ts';
import { generates, likelyKind } from '../../domain/model.ts';
import {
  HOSTED,
  KIND,
  MODEL,
  modelPrices,
  PRICE_NAMES,
  type PriceName,
  SIZES,
} from '../../domain/settings/model.ts';
import { eachSetting, type Setting, type Settings } from '../../domain/settings/setting.ts';
import type { Mistake } from '../../operations/frame/refused.ts';
import { createModel } from '../../operations/model.ts';
import { type NewModel, slugsOf } from '../../store/company/model.ts';
import type { RouterAnswer } from '../../upstream/router-models.ts';
import { callerOf } from '../page/caller.ts';
import { change, type PageContext, type Route, read } from '../page/context.ts';
import { checkboxes, csrfInput, field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { page, table } from '../page/layout.ts';
import { companyPicker, readPickedCompany } from '../page/picker.ts';
import { priceFields, shownUnit, unitInput } from '../page/price-unit.ts';
import { rateTable, readPriced, refuseRates } from '../page/rate-table.ts';
import { readSettings, settingFields } from '../page/setting.ts';

/**
 * Offering models: they are chosen from what the router has, several at once, or one that it does not list is typed, and
 * then get a public name and prices. `?name=`, once for each, are those that were chosen, `&typed=` the other one.
 */
export const modelOfferRoutes: readonly Route[] = [
  { method: 'GET', path: '/models/new', action: 'model.write', handle: choicePage },
  {
    method: 'POST',
    path: '/models/new',
    action: 'model.write',
    long: true,
    handle: create,
    page: sentPage,
  },
];

const PATH = '/models/new';
/** Models that one form has: each has 24 fields, and its rates (MAX_FIELDS of form.ts). */
const MOST_CHOSEN = 50;
const FOR =
  "Name or id of one company; empty for all. A company's own model wins over a shared one of the same name.";

/** What the router offers, to choose from, and the name of another one; or, once they are chosen, their names and prices. */
async function choicePage(c: PageContext): Promise<Response> {
  const asked = new Form(new URL(c.req.url).searchParams, PATH, c.var.format.language);
  const typed = asked.optional('typed', readName);
  const names = new Set([...asked.all('name', readName), typed].filter((name) => name != null));
  if (names.size > 0 && asked.messages.size === 0) return chosenPage(c, new Form(), [...names]);
  const answer = await c.var.services.router.ask();
  const offered =
    answer.names.length === 0 ? new Map() : await read(c, (sql) => slugsOf(sql, answer.names));
  const body = html`<h1>Add models</h1>
${answer.names.length === 0 ? html`<p class="notice warn-notice">${answer.reason ?? ''} Until then, type the name that the router knows the model by.</p>` : ''}
${choiceCard(answer, offered, asked)}
<p><a href="/models">All models and prices</a></p>`;
  return page(c, 'Add models', body);
}

function choiceCard(
  { names, leftOut }: RouterAnswer,
  offered: ReadonlyMap<string, readonly string[]>,
  asked: Form,
): Html {
  const left = names.filter((name) => !offered.has(name));
  const state = formState(asked, PATH);
  const cells = {
    'Internal name': (name: string) => html`<code>${name}</code>`,
    'Offered as': (name: string) =>
      html`${(offered.get(name) ?? []).map((slug, at) => html`${at === 0 ? '' : ', '}<a href="/models?${new URLSearchParams({ q: slug })}"><code>${slug}</code></a>`)}`,
  };
  const there = names.filter((name) => offered.has(name));
  const choices = {
    ...(left.length > MOST_CHOSEN && { hint: `Up to ${MOST_CHOSEN} at once.` }),
    name: 'name',
    label: 'Models',
    choices: left.map((name) => [name, name] as const),
    chosen: [],
  };
  return html`<section class="card"><h2>What the router has</h2>${state.summary}
${left.length === 0 && names.length > 0 ? html`<p>All its models are offered.</p>` : ''}
<form method="get" action="${PATH}" class="stack">${left.length === 0 ? '' : checkboxes(state, choices)}
${field(state, { name: 'typed', label: 'Another internal name', hint: 'Of a model that the router does not list.' })}
<div class="actions"><button class="primary">Set names and prices</button></div></form>
${leftOut === 0 ? '' : html`<p class="muted">${leftOut === 1 ? 'One more entry' : `${leftOut} more entries`} of its list cannot be shown here.</p>`}
${there.length === 0 ? '' : html`<details class="fold"><summary>Offered already: ${there.length}</summary>${table('Offered already', there, { cells }, true)}</details>`}</section>`;
}

/** The names of fields of one of those that were chosen. */
const nameAt = (at: number) => (name: string) => `${at}-${name}`;

/** The settings of one of them. */
function settingsAt<S extends Settings>(at: number, settings: S): S {
  const named = ({ field, ...setting }: Setting) => ({
    ...setting,
    field: { ...field, name: nameAt(at)(field.name) },
  });
  return eachSetting(settings, named) as S;
}

function sentPage(c: PageContext, form: Form): Promise<Response> {
  return chosenPage(c, form, form.values.getAll('upstream'));
}

/** Public names and prices of those that were chosen. @param form empty: they were chosen now */
async function chosenPage(c: PageContext, form: Form, asked: readonly string[]): Promise<Response> {
  const names = asked.slice(0, MOST_CHOSEN);
  const unit = shownUnit(c, form);
  const state = formState(form, PATH);
  const { sizes } = await c.var.services.router.ask();
  const cards = names.map((name, at) => {
    const kind = likelyKind(name);
    const value = (price: PriceName) => (price === 'output' && !generates(kind) ? '0' : '');
    return html`<fieldset><legend><code>${name}</code></legend><input type="hidden" name="upstream" value="${name}">
<div class="pair">${field(state, { name: nameAt(at)('slug'), label: 'Model name', required: true, hint: 'The name clients use, such as large or fast. It never changes.' })}
${settingFields(state, settingsAt(at, KIND), { kind })}</div>
${priceFields(state, unit, nameAt(at), (price) => ({ value: value(price) }), PRICE_NAMES, { settings: settingsAt(at, SIZES), row: sizes[name] ?? {} })}
${rateTable(state, form, unit, nameAt(at), {})}
${settingFields(state, settingsAt(at, HOSTED), null)}</fieldset>`;
  });
  const more = asked.length - names.length;
  const title = names.length === 1 ? 'Add a model' : `Add ${names.length} models`;
  const body = html`<h1>${title}</h1>
<p class="lead">Clients see the model name; the internal name goes upstream and is shown to operators only.</p>
${more === 0 ? '' : html`<p class="notice warn-notice">The first ${MOST_CHOSEN} are here; choose the other ${more} next.</p>`}
<section class="card">${state.summary}<form method="post" action="${PATH}" class="stack">${csrfInput(c)}${unitInput(unit)}${cards}
${await companyPicker(c, state, 'For', FOR)}
<div class="actions"><button class="primary">${title}</button> <a class="button quiet" href="${PATH}">Choose again</a></div></form></section>`;
  return page(c, title, body);
}

/** Creates all of them or none. */
async function create(c: PageContext, form: Form): Promise<Response> {
  const company_id = await readPickedCompany(c, form);
  const names = form.all('upstream', readName).slice(0, MOST_CHOSEN);
  const slugs = new Set<string>();
  const models = names.map((upstream_model, at): NewModel => {
    const slug = form.required(nameAt(at)('slug'), readSlug);
    if (slugs.has(slug)) form.refuse(nameAt(at)('slug'), 'is the name of another one here.');
    slugs.add(slug);
    const { rates = null, ...prices } = readPriced(form, nameAt(at));
    return {
      slug,
      company_id,
      upstream_model,
      ...readSettings(form, settingsAt(at, { ...KIND, ...HOSTED, ...SIZES })),
      ...modelPrices(prices),
      rates,
    };
  });
  if (models.length === 0) return c.redirect(PATH, 303);
  form.check();
  await change(c, async (sql) => {
    for (const [at, model] of models.entries()) {
      const place = (all: readonly Mistake[]) => refuseRates(form, nameAt(at), all);
      await createModel(sql, callerOf(c, form, settingsAt(at, MODEL), place), model);
    }
  });
  return c.redirect('/models?done=created', 303);
}
