import { lines, readEmail, readName } from '../../domain/field.ts';
import { generates } from '../../domain/model.ts';
import { type PriceUnit, readPriceIn } from '../../domain/price.ts';
import { Refused } from '../../domain/refusal.ts';
import { NEW_COMPANY, PRICE_FACTOR } from '../../domain/settings/company.ts';
import { NEW_KEY, SCOPED } from '../../domain/settings/key.ts';
import {
  eachPrice,
  modelPrices,
  PRICE_NAMES,
  type PriceName,
  pricesOf,
} from '../../domain/settings/model.ts';
import type { Mistake } from '../../operations/frame/refused.ts';
import { type Onboarding, onboardOnce } from '../../operations/onboarding.ts';
import { type OwnPrice, readOwnPrice } from '../../operations/own-price.ts';
import { type ModelRow, sharedModels } from '../../store/company/model.ts';
import { idempotencyInputs, readIdempotencyInputs } from '../company/key-reveal.ts';
import { callerOf, refuseField } from '../page/caller.ts';
import { change, type PageContext, type Route, read } from '../page/context.ts';
import { csrfInput, type FormState, field, formState, idempotentId } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { page } from '../page/layout.ts';
import { priceFields, priceText, sentUnit, shownUnit, unitInput } from '../page/price-unit.ts';
import { readSettings, settingFields } from '../page/setting.ts';
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
  const key =
    'Optional. The next page shows the key once. Without a name no key is made: its users make theirs.';
  const body = html`<h1>${TITLE}</h1>
<p class="lead">All of it is created at once, or nothing. Only the name is needed: the rest can be set later, and its limits and models in its settings.</p>
<section class="card">${state.summary}
<form method="post" action="${PATH}" class="stack">${csrfInput(c)}${idempotencyInputs()}
<fieldset><legend>Company</legend>
${settingFields(state, NEW_COMPANY, null)}</fieldset>
<fieldset><legend>Owner</legend>
${field(state, { name: 'owner', label: 'E-mail address of its owner', type: 'email', hint: owner })}</fieldset>
<fieldset><legend>First key</legend>
${field(state, { name: 'key_name', label: 'Name of the key', hint: key })}
${settingFields(state, SCOPED, NEW_KEY)}</fieldset>
<fieldset><legend>Prices</legend>
${settingFields(state, PRICE_FACTOR, null)}
${unitInput(unit)}${modelFields(c, state, models, unit)}</fieldset>
<div class="actions"><button class="primary">Create company</button> <a class="button quiet" href="/companies">Cancel</a></div></form></section>`;
  return page(c, TITLE, body);
}

/** The prices of the company for the shared models. */
function modelFields(
  c: PageContext,
  state: FormState,
  models: readonly ModelRow[],
  unit: PriceUnit,
): Html {
  if (models.length === 0) {
    return html`<p class="hint">No models are offered yet. The company may use all that are <a href="/models">offered</a> later.</p>`;
  }
  if (models.length > MAX_LISTED) {
    return field(state, {
      name: 'own_prices',
      label: 'Prices of its own',
      type: 'textarea',
      rows: 4,
      hint: 'One model a line, such as fast=0.002,0.008: its slug, EUR per 1000 prompt tokens and per 1000 completion tokens.',
    });
  }
  const isOpen = models.some(({ slug }) =>
    PRICE_NAMES.some((name) => state.value(priceOf(slug)(name), '') !== ''),
  );
  return html`<details class="fold"${isOpen ? raw(' open') : ''}><summary>Prices of its own</summary>
<p class="muted">An empty field stands for the price of all companies. A model with a price of its own is from then on a model of the company alone: later changes of the shared one do not reach it.</p>
${models.map((model) => ownPriceFields(c, state, model, unit))}</details>`;
}

const SETTINGS = { ...NEW_COMPANY, ...PRICE_FACTOR };
/** The names of the fields for a model. */
const priceOf = (slug: string) => (name: PriceName) => `${name}:${slug}`;

function ownPriceFields(c: PageContext, state: FormState, model: ModelRow, unit: PriceUnit): Html {
  const shared = pricesOf<string | null>(model);
  const spec = (name: PriceName) => ({
    required: false,
    hint:
      shared[name] === null
        ? 'All companies: the input price'
        : `All companies: ${priceText(c, unit, shared[name])}`,
  });
  const names = generates(model.kind) ? undefined : (['input'] as const);
  return html`<fieldset><legend><code>${model.slug}</code></legend>
${priceFields(state, unit, priceOf(model.slug), spec, names)}</fieldset>`;
}

/** A price that is left out is that of all companies. */
function readOwnPrices(form: Form, models: readonly ModelRow[]): OwnPrice[] {
  const readPrice = form.numeric(readPriceIn(sentUnit(form)));
  const listed = models.flatMap((model) => {
    const { slug } = model;
    const own = eachPrice((name) => form.optional(priceOf(slug)(name), readPrice));
    if (Object.values(own).every((price) => price === null)) return [];
    const shared = pricesOf<string | null>(model);
    return { slug, ...modelPrices(eachPrice((name) => own[name] ?? shared[name])) } as OwnPrice;
  });
  const priced = [...form.values].filter(
    ([name, price]) => price !== '' && PRICE_NAMES.some((price) => name.startsWith(`${price}:`)),
  );
  const slugs = priced.map(([name]) => name.slice(name.indexOf(':') + 1));
  const gone = slugs.find((slug) => !models.some((model) => model.slug === slug));
  if (gone !== undefined) {
    form.refuse(
      '',
      `The model ${gone} is not offered any more. Its price is left out now: send the form again.`,
    );
  }
  return [...listed, ...(form.optional('own_prices', lines(readOwnPrice)) ?? [])];
}

async function onboard(c: PageContext, form: Form): Promise<Response> {
  const { claim } = readIdempotencyInputs(c, form);
  const models = await read(c, (sql) => sharedModels(sql));
  const keyName = form.optional('key_name', readName);
  const owner = form.optional('owner', readEmail);
  const asked: Onboarding = {
    ...readSettings(form, SETTINGS),
    own_prices: readOwnPrices(form, models),
    ...(owner !== null && { owner: { email: owner } }),
    ...(keyName !== null && { key: { name: keyName, ...readSettings(form, SCOPED) } }),
  };
  form.check();
  const repeatable = { id: idempotentId(form), keyId: idempotentId(form, 'key'), claim };
  try {
    const done = await change(c, (sql) =>
      onboardOnce(sql, callerOf(c, form, SETTINGS), asked, repeatable),
    );
    return await redirectToHandover(c, done, owner !== null);
  } catch (error) {
    if (!(error instanceof Refused) || error.mistakes.length === 0) throw error;
    for (const mistake of error.mistakes) refuseMember(form, mistake, asked.own_prices ?? []);
    form.check();
    throw error;
  }
}

/** Fields of members beside the settings. */
const FIELDS: Readonly<Record<string, string>> = { owner: 'owner', key: 'key_name' };

function refuseMember(form: Form, mistake: Mistake, prices: readonly OwnPrice[]): void {
  const [member = '', at = ''] = mistake.pointer.split('/').slice(1);
  if (Object.hasOwn(SETTINGS, member)) return refuseField(form, SETTINGS, mistake);
  const price = `input:${prices[Number(at)]?.slug}`;
  const own = form.values.has(price) ? price : 'own_prices';
  form.refuse(member === 'own_prices' ? own : (FIELDS[member] ?? ''), `${mistake.detail}.`);
}
