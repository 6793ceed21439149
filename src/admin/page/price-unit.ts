import { getCookie, setCookie } from 'hono/cookie';
import type { Words } from '../../domain/language/en.ts';
import { type PriceUnit, priceIn, readPriceIn, readPriceUnit } from '../../domain/price.ts';
import { PARTS } from '../../domain/pricing/parts.ts';
import type { RateTexts } from '../../domain/pricing/rates.ts';
import {
  eachPrice,
  PRICE_NAMES,
  PRICES,
  type PriceName,
  type PriceTexts,
  pricesAmong,
  type SomePrices,
} from '../../domain/settings/model.ts';
import type { Settings } from '../../domain/settings/setting.ts';
import type { PageContext } from './context.ts';
import { type Field, type FormState, field } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html, raw } from './html.ts';
import { type Columns, muted } from './layout.ts';
import { cookieOptions } from './session.ts';
import { settingFields } from './setting.ts';

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

/** What the prices of a list are per, which leads to the choice. */
export function unitNote(c: PageContext, unit: PriceUnit): Html {
  return html`<p class="muted"><a href="${CHOICE}#unit">${c.var.format.words.models.units[unit]}</a></p>`;
}

/** The choice of the unit, on the page of the reader. */
export function unitCard(c: PageContext): Html {
  const { models } = c.var.format.words;
  const present = priceUnitOf(c);
  return html`<section class="card" id="unit"><h2>${models.unit}</h2><nav class="tabs units" aria-label="${models.unit}">${UNITS.map(
    (unit) =>
      html`<a href="${CHOICE}?unit=${unit}"${unit === present ? raw(' aria-current="true"') : ''}>${models.units[unit]}</a>`,
  )}</nav></section>`;
}

const CHOICE = '/account';

/** Labels of the prices of a model. */
function priceLabels({ models }: Words, unit: PriceUnit): { readonly [K in PriceName]: string } {
  return eachPrice((name) => models.price[unit](models.priced[name]));
}

/** The prices of a model as headings of a table, above which its unit stands. */
export function priceHeadings({ statements }: Words): { readonly [K in PriceName]: string } {
  return eachPrice((name) => {
    const part = statements.charged[name];
    return part.charAt(0).toUpperCase() + part.slice(1);
  });
}

/**
 * The fields of prices, in a unit.
 * @param nameOf the name of a field: several forms of one page have prices
 * @param spec what is particular to the field of a price; default: its label, and whether it is needed
 * @param more settings that are folded with the prices that few need
 */
export function priceFields(
  state: FormState,
  unit: PriceUnit,
  nameOf: (name: PriceName) => string,
  spec: (name: PriceName) => Partial<Field> = () => ({}),
  names: readonly PriceName[] = PRICE_NAMES,
  more: { readonly settings: Settings; readonly row: object | null } = { settings: {}, row: null },
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
    PRICES[name].isNullable &&
    state.message(nameOf(name)) === null &&
    state.value(nameOf(name), spec(name).value ?? '') === '';
  const { rare = [], shown = [] } = Object.groupBy(names, (name) =>
    isRare(name) ? 'rare' : 'shown',
  );
  const pair = (some: readonly PriceName[]) =>
    some.length === 0
      ? ''
      : html`<div class="pair">${some.map((name, at) => html`${at === 0 ? '' : '\n'}${control(name)}`)}</div>`;
  const isRefused = Object.values(more.settings).some(
    (each) => state.message(each.field.name) !== null,
  );
  const folded = html`${pair(rare)}${settingFields(state, more.settings, more.row)}`;
  return html`${pair(shown)}${
    rare.length === 0 && more.row === null
      ? ''
      : html`<details class="fold"${raw(isRefused ? ' open' : '')}><summary>More</summary>${folded}</details>`
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

/** A price, or one of its rates, as a line of a table. */
export interface PriceLine<T> {
  readonly row: T;
  /** null: the price itself. */
  readonly rate: RateTexts | null;
}

/** Prices, and below each its rates. */
export function priceLines<T extends SomePrices>(rows: readonly T[]): PriceLine<T>[] {
  return rows.flatMap((row) => [null, ...(row.rates ?? [])].map((rate) => ({ row, rate })));
}

/**
 * The cells of such lines: the conditions, where one has any, and each part that one has a price of.
 * @param none what is said of a price that is none
 */
export function priceCells<T extends SomePrices>(
  c: PageContext,
  unit: PriceUnit,
  headings: Readonly<Record<PriceName, string>>,
  lines: readonly PriceLine<T>[],
  none = '',
): Columns<PriceLine<T>>['cells'] {
  const { format } = c.var;
  const { rates: words } = format.words.models;
  const conditions = ({ tier, hours, over }: RateTexts) =>
    [
      ...(tier === undefined ? [] : [words.tier(tier)]),
      ...(hours === undefined ? [] : [hours.replaceAll(',', ', ')]), // so that a line can end between windows
      ...(over === undefined ? [] : [words.over(format.count(over))]),
    ].join(', ');
  const cell =
    (name: PriceName) =>
    ({ row, rate }: PriceLine<T>) => {
      const { [name]: price }: SomePrices = rate ?? row;
      if (price != null) return priceText(c, unit, price);
      return muted(row.input === null ? none : insteadText(format.words, name));
    };
  const names = pricesAmong(lines.map(({ row, rate }) => rate ?? row));
  return {
    ...(lines.some(({ rate }) => rate !== null) && {
      [words.title]: ({ rate }: PriceLine<T>) =>
        rate === null
          ? muted(words.base)
          : html`<span class="conditions">${conditions(rate)}</span>`,
    }),
    ...Object.fromEntries(names.map((name) => [headings[name], cell(name)])),
  };
}

function unitOf(text: string | undefined): PriceUnit | null {
  return UNITS.find((unit) => unit === text) ?? null;
}
