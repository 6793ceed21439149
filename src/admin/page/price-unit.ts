import { getCookie, setCookie } from 'hono/cookie';
import type { Words } from '../../domain/language/en.ts';
import { type PriceUnit, priceIn, readPriceIn, readPriceUnit } from '../../domain/price.ts';
import { isListed, PARTS } from '../../domain/pricing/parts.ts';
import {
  eachPrice,
  PRICE_NAMES,
  PRICES,
  type PriceName,
  type PriceTexts,
  pricesAmong,
  type SomePrices,
} from '../../domain/settings/model.ts';
import type { PageContext } from './context.ts';
import { type Field, type FormState, field } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html, raw } from './html.ts';
import { cookieOptions } from './session.ts';

/** Whether a reader sees prices per 1,000,000 tokens, the default, or per 1,000: the browser remembers it. */

const COOKIE = 'price_unit';
const YEAR_SECONDS = 365 * 24 * 3600;
const UNITS = ['1k', '1M'] as const;

/** The reader's unit: `?unit=` of the URL, which is remembered, or the last one chosen. */
export function priceUnitOf(c: PageContext): PriceUnit {
  const options = cookieOptions(c.var.services.isSecure);
  const asked = unitOf(c.req.query('unit'));
  if (asked === null) return unitOf(getCookie(c, COOKIE, options.prefix) || undefined) ?? '1M';
  setCookie(c, COOKIE, asked, { ...options, maxAge: YEAR_SECONDS });
  return asked;
}

/** The unit in which a form shows its prices. After a refusal it is the unit in which they were typed. */
export function shownUnit(c: PageContext, form: Form): PriceUnit {
  return form.path === null ? priceUnitOf(c) : sentUnit(form);
}

/** The unit in which a form was filled in: the reader may have switched in another window since. */
export function sentUnit(form: Form): PriceUnit {
  return form.optional('unit', readPriceUnit) ?? '1k';
}

export function unitInput(unit: PriceUnit): Html {
  return html`<input type="hidden" name="unit" value="${unit}">`;
}

/** Links to the same page with prices in each unit. @param kept further parameters of the address */
export function unitSwitch(
  c: PageContext,
  path: string,
  unit: PriceUnit,
  kept: readonly string[][] = [],
): Html {
  const { models } = c.var.format.words;
  return html`<nav class="tabs units" aria-label="${models.unit}">${UNITS.map(
    (each) =>
      html`<a href="${path}?${new URLSearchParams([...kept, ['unit', each]])}"${each === unit ? raw(' aria-current="true"') : ''}>${models.units[each]}</a>`,
  )}</nav>`;
}

/** Labels of the prices of a model. */
export function priceLabels(
  { models }: Words,
  unit: PriceUnit,
): { readonly [K in PriceName]: string } {
  return eachPrice((name) => models.price[unit](models.priced[name]));
}

/**
 * The fields of prices, in a unit.
 * @param nameOf the name of a field: several forms of one page have prices
 * @param spec what is particular to the field of a price; default: its label, and whether it is needed
 */
export function priceFields(
  state: FormState,
  unit: PriceUnit,
  nameOf: (name: PriceName) => string,
  spec: (name: PriceName) => Partial<Field> = () => ({}),
  names: readonly PriceName[] = PRICE_NAMES,
): Html {
  const labels = priceLabels(state.words, unit);
  const control = (name: PriceName) => {
    const { isNullable, field: its } = PRICES[name];
    const hint = isNullable ? its.hint?.(state.words) : undefined;
    const common = {
      name: nameOf(name),
      label: labels[name],
      required: !isNullable,
      inputmode: 'decimal',
    } as const;
    return field(state, { ...common, ...(hint !== undefined && { hint }), ...spec(name) });
  };
  const isRare = (name: PriceName) =>
    isListed(name) &&
    state.message(nameOf(name)) === null &&
    state.value(nameOf(name), spec(name).value ?? '') === '';
  const pairs = Map.groupBy(names, (name) =>
    isRare(name) ? 'rare' : PRICES[name].isNullable ? 'optional' : 'needed',
  );
  const shown = (pair: readonly PriceName[] = []) =>
    pair.length === 0
      ? ''
      : html`<div class="pair">${pair.map((name, at) => html`${at === 0 ? '' : '\n'}${control(name)}`)}</div>`;
  const rare = pairs.get('rare');
  return html`${shown(pairs.get('needed'))}${shown(pairs.get('optional'))}${
    rare === undefined
      ? ''
      : html`<details class="fold"><summary>Prices of further parts</summary>${shown(rare)}</details>`
  }`;
}

/** Reads such fields, in the unit in which the form was filled in. */
export function readPrices(
  form: Form,
  nameOf: (name: PriceName) => string,
): Omit<PriceTexts, 'rates'> {
  const readPrice = form.numeric(readPriceIn(sentUnit(form)));
  return eachPrice((name, { isNullable }) =>
    isNullable ? form.optional(nameOf(name), readPrice) : form.required(nameOf(name), readPrice),
  ) as PriceTexts;
}

/** The value of a field. @param price null: none */
export function priceValue(unit: PriceUnit, price: string | null): string {
  return price === null ? '' : priceIn(unit, price);
}

/** A price as the reader sees it. @param price EUR per 1000 tokens as decimal text */
export function priceText(c: PageContext, unit: PriceUnit, price: string): string {
  return c.var.format.price(priceIn(unit, price));
}

/** What is said of a part without a price of its own: what its units cost. */
export function insteadText({ models, frame }: Words, name: PriceName): string {
  const { instead } = PARTS[name];
  return instead === null ? frame.none : models.instead[instead];
}

/** Rates as the reader sees them, a line each. */
export function ratesText(c: PageContext, unit: PriceUnit, rates: SomePrices['rates']): Html {
  const { format } = c.var;
  const { rates: words, priced } = format.words.models;
  if (rates == null) return html`<span class="muted">${format.words.frame.none}</span>`;
  const lines = rates.map((rate) => {
    const conditions = [
      ...(rate.tier === undefined ? [] : [words.tier(rate.tier)]),
      ...(rate.hours === undefined ? [] : [rate.hours]),
      ...(rate.over === undefined ? [] : [words.over(format.count(rate.over))]),
    ];
    const prices = pricesAmong([rate]).map(
      (name) => `${priced[name]} ${priceText(c, unit, rate[name] as string)}`,
    );
    return html`<li>${conditions.join(', ')}: ${prices.join(', ')}</li>`;
  });
  return html`<ul class="plain">${lines}</ul>`;
}

function unitOf(text: string | undefined): PriceUnit | null {
  return UNITS.find((unit) => unit === text) ?? null;
}
