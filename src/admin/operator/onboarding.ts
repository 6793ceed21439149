import { lines, readBudget, readEmail, readName, readSlug } from '../../domain/field.ts';
import { readLanguage } from '../../domain/languages.ts';
import { type PriceUnit, readPriceIn } from '../../domain/price.ts';
import { SCOPES } from '../../domain/scope.ts';
import { type Onboarding, onboardOnce } from '../../operations/onboarding/onboarding.ts';
import { type OwnPrice, readOwnPrice } from '../../operations/onboarding/own-price.ts';
import { Problem } from '../../operations/problem.ts';
import { type ModelRow, sharedModels } from '../../store/company/model.ts';
import { budgetField, ceilingFields, languageField, nonEuBox, readCeilings } from '../company/ceiling.ts';
import { readScopes, scopeFields } from '../company/key.ts';
import { idempotencyInputs, readIdempotencyInputs } from '../company/key-reveal.ts';
import { limitFields, readLimits } from '../company/restriction.ts';
import { change, type PageContext, type Route, read } from '../page/context.ts';
import { checkbox, checkboxes, csrfInput, type FormState, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { idempotentId } from '../page/idempotent-form.ts';
import { page } from '../page/layout.ts';
import { priceLabels, priceText, sentUnit, shownUnit, unitInput } from '../page/price-unit.ts';
import { handoverRoute, redirectToHandover } from './handover.ts';

/** One page on which an operator creates a customer with all it needs for its first call. */

const PATH = '/companies/new';
const TITLE = 'New company';
const MAX_LISTED = 100; // of more models slugs and prices are typed: a page stays small

export const onboardingRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, action: 'company.create', handle: formPage },
  {
    method: 'POST',
    path: PATH,
    action: 'company.create',
    permits: 'mails',
    long: true,
    handle: onboard,
    page: formPage,
  },
  handoverRoute,
];

async function formPage(c: PageContext, form: Form): Promise<Response> {
  const state = formState(form, PATH);
  const models = await read(c, (sql) => sharedModels(sql));
  const unit = shownUnit(c, form);
  const { mail, adminUrl } = c.var.services;
  const owner = `Optional. The next page has a link by which the owner joins${mail === null || adminUrl === null ? '.' : '; it goes out by e-mail too.'}`;
  const key = 'Optional. The next page shows the key once. Without a name no key is made: its users make theirs.';
  const body = html`<h1>${TITLE}</h1>
<p class="lead">All of it is created at once, or nothing. Only the name is needed: the rest can be set later.</p>
<section class="card">${state.summary}
<form method="post" action="${PATH}" class="stack">${csrfInput(c)}${idempotencyInputs()}
<fieldset><legend>Company</legend>
${field(state, { name: 'name', label: 'Company name', required: true })}
${budgetField(state, {})}
${checkbox(state, nonEuBox(state))}
${languageField(state, '')}</fieldset>
<fieldset><legend>Owner</legend>
${field(state, { name: 'owner', label: 'E-mail address of its owner', type: 'email', hint: owner })}</fieldset>
<fieldset><legend>First key</legend>
${field(state, { name: 'key_name', label: 'Name of the key', hint: key })}
${scopeFields(state, SCOPES)}</fieldset>
<fieldset><legend>Limits</legend>
<p class="hint">For all keys of the company together. An empty field limits nothing.</p>
<div class="pair">${limitFields(state, null)}</div></fieldset>
<fieldset><legend>Ceilings</legend>
<p class="hint">What the company’s owners cannot pass.</p>
${ceilingFields(state, null)}</fieldset>
<fieldset><legend>Models and prices</legend>
${unitInput(unit)}${modelFields(c, state, models, unit)}</fieldset>
<div class="actions"><button class="primary">Create company</button> <a class="button quiet" href="/companies">Cancel</a></div></form></section>`;
  return page(c, TITLE, body);
}

/** Which shared models the company may not use, and what it pays for them. */
function modelFields(c: PageContext, state: FormState, models: readonly ModelRow[], unit: PriceUnit): Html {
  if (models.length === 0) {
    return html`<p class="hint">No models are offered yet. The company may use all that are <a href="/models">offered</a> later.</p>`;
  }
  const disabled = { name: 'disabled', label: 'Models that it may not use' };
  if (models.length > MAX_LISTED) {
    return html`${field(state, { ...disabled, type: 'textarea', rows: 4, hint: 'One slug a line. It may use all others, and those that are offered later.' })}
${field(state, { name: 'own_prices', label: 'Prices of its own', type: 'textarea', rows: 4, hint: 'One model a line, such as fast=0.002,0.008: its slug, EUR per 1000 prompt tokens and per 1000 completion tokens.' })}`;
  }
  const choices = models.map(({ slug, eu_hosted }) => [slug, eu_hosted ? slug : `${slug} (outside the EU)`] as const);
  const isOpen = models.some(({ slug }) => SIDES.some((side) => state.value(`${side}:${slug}`, '') !== ''));
  return html`${checkboxes(state, { ...disabled, hint: 'It may use all others, and those that are offered later.', choices, chosen: [] })}
<details class="fold"${isOpen ? raw(' open') : ''}><summary>Prices of its own</summary>
<p class="muted">An empty field stands for the price of all companies. A model with a price of its own is from then on a model of the company alone: later changes of the shared one do not reach it.</p>
${models.map((model) => priceFields(c, state, model, unit))}</details>`;
}

const SIDES = ['input', 'output'] as const;

function priceFields(c: PageContext, state: FormState, model: ModelRow, unit: PriceUnit): Html {
  const labels = priceLabels(state.words, unit);
  const priced = (side: (typeof SIDES)[number]) =>
    field(state, {
      name: `${side}:${model.slug}`,
      label: labels[side],
      inputmode: 'decimal',
      hint: `All companies: ${priceText(c, unit, model[`cost_eur_per_1k_${side}`])}`,
    });
  return html`<fieldset><legend><code>${model.slug}</code></legend>
<div class="pair">${priced('input')}${model.kind === 'embedding' ? '' : priced('output')}</div></fieldset>`;
}

/** A price that is left out is that of all companies. */
function readOwnPrices(form: Form, models: readonly ModelRow[]): OwnPrice[] {
  const readPrice = form.numeric(readPriceIn(sentUnit(form)));
  const listed = models.flatMap(({ slug, cost_eur_per_1k_input, cost_eur_per_1k_output }) => {
    const [input, output] = SIDES.map((side) => form.optional(`${side}:${slug}`, readPrice));
    if (input == null && output == null) return [];
    return {
      slug,
      cost_eur_per_1k_input: input ?? cost_eur_per_1k_input,
      cost_eur_per_1k_output: output ?? cost_eur_per_1k_output,
    };
  });
  const priced = [...form.values].filter(([name, price]) => price !== '' && /^(in|out)put:/.test(name));
  const slugs = priced.map(([name]) => name.slice(name.indexOf(':') + 1));
  const gone = slugs.find((slug) => !models.some((model) => model.slug === slug));
  if (gone !== undefined) {
    form.refuse('', `The model ${gone} is not offered any more. Its price is left out now: send the form again.`);
  }
  return [...listed, ...(form.optional('own_prices', lines(readOwnPrice)) ?? [])];
}

async function onboard(c: PageContext, form: Form): Promise<Response> {
  const { claim } = readIdempotencyInputs(c, form);
  const models = await read(c, (sql) => sharedModels(sql));
  const keyName = form.optional('key_name', readName);
  const owner = form.optional('owner', readEmail);
  const asked: Onboarding = {
    name: form.required('name', readName),
    monthly_budget_eur: form.optional('budget', form.numeric(readBudget)),
    allow_non_eu_models: form.checked('allow_non_eu'),
    language: form.optional('company_language', readLanguage),
    ...readLimits(form),
    ...readCeilings(form),
    disabled_model_slugs: form.all('disabled', lines(readSlug)).flat(),
    own_prices: readOwnPrices(form, models),
    ...(owner !== null && { owner: { email: owner } }),
    ...(keyName !== null && { key: { name: keyName, scopes: readScopes(form) } }),
  };
  form.check();
  const maker = { actor: c.var.session.user.email, keyPrefix: c.var.services.keyPrefix };
  const repeatable = { id: idempotentId(form), keyId: idempotentId(form, 'key'), claim };
  try {
    const done = await change(c, (sql) => onboardOnce(sql, maker, asked, repeatable));
    return await redirectToHandover(c, done, owner !== null);
  } catch (error) {
    if (!(error instanceof Problem) || error.mistakes.length === 0) throw error;
    for (const { pointer, detail } of error.mistakes) refuseField(form, pointer, detail, asked.own_prices ?? []);
    form.check();
    throw error;
  }
}

/** The fields by the members that the operation names. */
const FIELDS: Readonly<Record<string, string>> = {
  name: 'name',
  monthly_budget_eur: 'budget',
  disabled_model_slugs: 'disabled',
  owner: 'owner',
  key: 'key_name',
};

/** Puts a mistake beside its field; a box has no place for words, so that its mistake stands above the form. */
function refuseField(form: Form, pointer: string, detail: string, prices: readonly OwnPrice[]): void {
  const [member = '', at = ''] = pointer.split('/').slice(1);
  if (member === 'allow_non_eu_models') {
    form.refuse('allow_non_eu', detail);
    form.refuse('', `${form.words.settings.nonEu} ${detail}.`);
    return;
  }
  const price = `input:${prices[Number(at)]?.slug}`;
  const own = form.values.has(price) ? price : 'own_prices';
  form.refuse(member === 'own_prices' ? own : (FIELDS[member] ?? ''), `${detail}.`);
}
