import { FieldError, orNone, readModelTokens } from '../../domain/field.ts';
import { type PriceUnit, priceIn, readPriceIn, UNIT_TOKENS } from '../../domain/price.ts';
import { MOST_RATES, type RateTexts } from '../../domain/pricing/rates.ts';
import {
  eachPrice,
  PRICED,
  PRICES,
  type PriceName,
  type PriceTexts,
  pricesAmong,
  type SomePrices,
} from '../../domain/settings/model.ts';
import { eachSetting } from '../../domain/settings/setting.ts';
import type { Mistake } from '../../operations/frame/refused.ts';
import { wrongRates } from '../../operations/rate.ts';
import { refuseField } from './caller.ts';
import type { PageContext } from './context.ts';
import { cellField, type FormState } from './field.ts';
import { type Form, FormRefused } from './form.ts';
import { type Html, html } from './html.ts';
import { readPrices, sentUnit } from './price-unit.ts';

/**
 * The rates of a price as a table of a form: one row each, with its conditions and a price for each part in use. A row
 * without anything in it is none, so that a rate is added and removed without script, too.
 */

type Naming = (name: string) => string;

const CONDITIONS = { over: 'Prompt over', tier: 'Tier', hours: 'Hours' };
type Condition = keyof typeof CONDITIONS;

const MARK = 'rates';
/** Where a form is checked while it is filled in. `?of=` is what the names of its fields begin with. */
export const RATES_CHECK = '/models/rates/check';
const cellName = (nameOf: Naming, row: number, member: string) => nameOf(`rate-${row}-${member}`);

/** The settings of prices and rates, whose fields have other names on a page with several forms. */
export function pricedAs(nameOf: Naming): typeof PRICED {
  return eachSetting(PRICED, ({ field, ...setting }) => ({
    ...setting,
    field: { ...field, name: nameOf(field.name) },
  })) as typeof PRICED;
}

/** The rows of a form that have anything in them. */
function rowsOf(form: Form, nameOf: Naming): number[] {
  const start = nameOf('rate-');
  const rows = [...form.values].flatMap(([name, value]) =>
    name.startsWith(start) && value.trim() !== ''
      ? Number.parseInt(name.slice(start.length), 10)
      : [],
  );
  return [...new Set(rows)].sort((one, other) => one - other);
}

/**
 * The table.
 * @param nameOf the name of a field: several forms of one page have prices
 * @param price what is stored
 */
export function rateTable(
  state: FormState,
  form: Form,
  unit: PriceUnit,
  nameOf: Naming,
  price: SomePrices,
): Html {
  const stored = state.isSent ? [] : (price.rates ?? []); // what was sent is all there is: a rate that was removed stays so
  const rows = state.isSent ? rowsOf(form, nameOf) : [...stored.keys()];
  const blank = Math.max(-1, ...rows) + 1;
  const sent = rows.map((n) =>
    eachPrice((name) => state.value(cellName(nameOf, n, name), '') || null),
  );
  const base = Object.fromEntries(
    Object.keys(PRICES).map((name) => [
      name,
      state.value(nameOf(name), price[name as PriceName] ?? '') || null,
    ]),
  );
  const parts = pricesAmong([base, ...stored, ...sent]);
  const conditions = Object.entries(CONDITIONS) as [Condition, string][];
  const row = (n: number, at: number) => {
    const rate = stored[n];
    const cell = (member: string, heading: string, value: string, inputmode?: 'decimal') =>
      html`<td role="cell" data-label="${heading}"><span>${cellField(state, { name: cellName(nameOf, n, member), label: `${heading}, rate ${at + 1}`, value, ...(inputmode && { inputmode }) })}</span></td>`;
    return html`<tr role="row">${conditions.map(([member, heading]) => cell(member, heading, String(rate?.[member] ?? '')))}${parts.map(
      (name) => {
        const text = rate?.[name];
        const value = text === undefined ? '' : text === null ? 'none' : priceIn(unit, text);
        return cell(name, headingOf(name), value, text === null ? undefined : 'decimal');
      },
    )}<td role="cell" data-label="Action"><span><button type="button" class="quiet" data-remove hidden>Remove<span class="sr"> this rate</span></button></span></td></tr>`;
  };
  const headings = [...conditions.map(([, heading]) => heading), ...parts.map(headingOf), 'Action'];
  const wrong = state.message(nameOf(MARK));
  const open = stored.length > 0 || rows.length > 0 || wrong !== null;
  return html`<details class="fold rates" data-rates="${RATES_CHECK}?of=${nameOf('')}"${open ? html` open` : ''}><summary>Rates: prices under conditions</summary>
<input type="hidden" name="${nameOf(MARK)}" value="table">
<p class="hint">Prices that hold in place of the ones above where all conditions of a row hold: a prompt of more tokens, a tier such as <code>priority</code>, or hours such as <code>Mon-Fri 01:00-04:00 UTC</code>. The row with the most conditions wins, then the longest prompt. EUR per ${UNIT_TOKENS[unit]} tokens, or “none” for a part. An empty row is no rate.</p>
${wrong === null ? '' : html`<p class="wrong">${wrong}</p>`}<div class="scroll"><table role="table" class="sums"><caption class="sr">Rates</caption><thead role="rowgroup"><tr role="row">${headings.map((heading) => html`<th role="columnheader" scope="col">${heading}</th>`)}</tr></thead><tbody role="rowgroup">${[...rows, blank].map(row)}</tbody></table></div>
<div class="actions"><button type="button" class="quiet" data-add hidden>Add a rate</button></div></details>`;
}

function headingOf(name: PriceName): string {
  const { tokens } = PRICES[name];
  return tokens.charAt(0).toUpperCase() + tokens.slice(1);
}

/** Reads prices with their rates, in the unit in which the form was filled in. Without the table rates are left out. */
export function readPriced(
  form: Form,
  nameOf: Naming,
): Omit<PriceTexts, 'rates'> & Pick<SomePrices, 'rates'> {
  const prices = readPrices(form, nameOf);
  return form.values.has(nameOf(MARK)) ? { ...prices, rates: readRates(form, nameOf) } : prices;
}

function readRates(form: Form, nameOf: Naming): RateTexts[] {
  const readPrice = form.numeric(readPriceIn(sentUnit(form)));
  const rows = rowsOf(form, nameOf);
  const many = rows[MOST_RATES];
  if (many !== undefined)
    form.refuse(
      cellName(nameOf, many, 'over'),
      `is of one rate too many: there may be ${MOST_RATES}.`,
    );
  return rows.map((n) => {
    const name = (member: string) => cellName(nameOf, n, member);
    const given = (member: string) => (form.values.get(name(member)) ?? '').trim() !== '';
    const over = given('over') ? form.optional(name('over'), form.numeric(readModelTokens)) : null;
    const text = (member: Condition) =>
      given(member) ? { [member]: form.optional(name(member), (typed) => typed.trim()) } : {};
    const prices = Object.entries(PRICES).map(([part, { isNullable }]) => {
      if (!isNullable) return [part, form.required(name(part), readPrice)];
      return [part, given(part) ? form.optional(name(part), orNone(readPrice)) : undefined];
    });
    return {
      ...(over !== null && { over }),
      ...text('tier'),
      ...text('hours'),
      ...(Object.fromEntries(prices) as RateTexts),
    };
  });
}

/** Puts mistakes of rates beside their cells. @returns those of anything else */
export function refuseRates(form: Form, nameOf: Naming, mistakes: readonly Mistake[]): Mistake[] {
  const rows = rowsOf(form, nameOf);
  return mistakes.filter(({ pointer, detail }) => {
    const [, at, member] = /^#\/rates\/(\d+)\/(\w+)$/.exec(pointer) ?? [];
    if (member === undefined) return true;
    form.refuse(cellName(nameOf, rows[Number(at)] ?? 0, member), `${detail}.`);
    return false;
  });
}

/** What is wrong with prices and rates while they are typed, by the names of the fields, as JSON for the script of pages. */
export function checkPriced(c: PageContext, form: Form): Response {
  const nameOf = (name: string) => `${c.req.query('of') ?? ''}${name}`;
  try {
    const priced = readPriced(form, nameOf);
    form.check();
    const wrong = wrongRates(null, { rates: null, ...priced }, c.var.services.clock());
    for (const each of refuseRates(form, nameOf, wrong)) refuseField(form, pricedAs(nameOf), each);
  } catch (error) {
    if (!(error instanceof FormRefused) && !(error instanceof FieldError)) throw error;
  }
  const start = nameOf('rate-');
  const told = [...form.messages].filter(([name]) => name.startsWith(start));
  return c.json(Object.fromEntries(told));
}
