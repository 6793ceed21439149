import { readDay } from '../../domain/field.ts';
import { type PriceUnit, UNIT_TOKENS } from '../../domain/price.ts';
import { throwConflict, throwNotFound } from '../../domain/refusal.ts';
import { eachPrice, PRICES, type PriceName, priceTexts } from '../../domain/settings/model.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import {
  costsOf,
  removeCostPrice,
  schedulePrice,
  setCostPrice,
  withdrawPrice,
} from '../../operations/price.ts';
import type { CostPriceRow } from '../../store/company/cost-price.ts';
import { findModelById, type ModelRow } from '../../store/company/model.ts';
import { type PriceRow, priceHistory } from '../../store/company/price.ts';
import { callerOf } from '../page/caller.ts';
import { change, type PageContext, param, read, removal } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyLink, muted, table } from '../page/layout.ts';
import { momentReader } from '../page/local-time.ts';
import {
  type PriceLine,
  priceCells,
  priceFields,
  priceLines,
  priceText,
  unitInput,
} from '../page/price-unit.ts';
import { pricedAs, rateTable, readPriced, refuseRates } from '../page/rate-table.ts';

/** Prices of a model on its page: past, present and future prices, and cost prices. */

const MOST_SHOWN = 100;

/** @throws Refused missing */
export function modelOfPath(c: PageContext): Promise<ModelRow> {
  return read(c, (sql) => findModelById(sql, param(c, 'model')));
}

export async function priceCards(
  c: PageContext,
  model: ModelRow,
  form: Form,
  unit: PriceUnit,
): Promise<Html> {
  const [history, costs] = await read(
    c,
    async (sql) => [await priceHistory(sql, model.slug), await costsOf(sql, model)] as const,
  );
  return html`${historyCard(c, model, history, unit)}
${scheduleCard(c, form, model, unit)}
${costCard(c, form, model, costs, unit)}`;
}

function historyCard(
  c: PageContext,
  model: ModelRow,
  rows: readonly PriceRow[],
  unit: PriceUnit,
): Html {
  const { format } = c.var;
  const lines = priceLines(rows.slice(0, MOST_SHOWN));
  const cells = {
    From: ({ row: { valid_from, begun }, rate }: PriceLine<PriceRow>) =>
      html`${format.instant(valid_from)}${begun || rate !== null ? '' : html` ${badge('warn', 'to come')}`}`,
    ...priceCells(c, unit, HEADINGS, lines, 'removed'),
    For: ofPrice((row: PriceRow) => companyLink(row, 'models')),
    'Changed by': ofPrice(({ changed_by }: PriceRow) => actorName(changed_by)),
    Action: ofPrice(({ id, begun, company_id, valid_from, ...prices }: PriceRow) =>
      begun || company_id !== model.company_id
        ? muted('none')
        : html`<form class="inline" method="post" action="/models/${model.id}/prices/${id}/withdraw">${csrfInput(c)}<input type="hidden" name="seen" value="${priceTexts(prices)}"><button class="quiet">Withdraw<span class="sr"> the price of ${format.instant(valid_from)}</span></button></form>`,
    ),
  };
  return html`<section class="card"><h2>History of prices</h2>
<p class="muted">EUR per ${UNIT_TOKENS[unit]} tokens, shared and companies' own, the latest first. What has begun never changes.</p>
${table('History of prices', lines, { cells, figures: Object.values(HEADINGS) }, true, 'sums')}
${rows.length > MOST_SHOWN ? html`<p class="muted">The latest ${MOST_SHOWN} of ${format.count(rows.length)}; <code>tollgate model price ${model.slug}</code> shows all.</p>` : ''}</section>`;
}

const HEADINGS = eachPrice((_, { tokens }) => `${tokens[0]?.toUpperCase()}${tokens.slice(1)}`);

/** A cell of a price, which its rates have not. */
function ofPrice<T>(cell: (row: T) => Html | string) {
  return ({ row, rate }: PriceLine<T>) => (rate === null ? cell(row) : '');
}

function scheduleCard(c: PageContext, form: Form, { id, rates }: ModelRow, unit: PriceUnit): Html {
  const path = `/models/${id}/prices`;
  const state = formState(form, path);
  return html`<section class="card"><h2>A price from a date</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${unitInput(unit)}
${field(state, { name: 'from', label: 'Begins', type: 'datetime-local', required: true, hint: `On the clock of ${c.var.services.calendar.timeZone}. Every gateway switches at that moment by its own clock.` })}
${priceFields(state, unit, next, labelled('New price', unit))}
${rateTable(state, form, unit, next, { rates })}
<div class="actions"><button>Schedule price</button></div></form></section>`;
}

/** The caller of a form with prices and rates. */
function priceCaller(c: PageContext, form: Form, nameOf: (name: string) => string) {
  return callerOf(c, form, pricedAs(nameOf), (all) => refuseRates(form, nameOf, all));
}

/** The names of the fields: the page has several forms with prices. */
const next = (name: string) => `next_${name}`;
const cost = (name: string) => `cost_${name}`;

function labelled(what: string, unit: PriceUnit) {
  return (name: PriceName) => ({
    label: `${what} of ${UNIT_TOKENS[unit]} ${PRICES[name].tokens} tokens, EUR`,
  });
}

export async function schedule(c: PageContext, form: Form): Promise<Response> {
  const { id, slug, company_id } = await modelOfPath(c);
  const from = form.required('from', momentReader(c));
  const prices = readPriced(form, next);
  form.check();
  const price = { slug, company_id, from, ...prices };
  await change(c, (sql) => schedulePrice(sql, priceCaller(c, form, next), price));
  return c.redirect(`/models/${id}?done=scheduled`, 303);
}

export async function withdraw(c: PageContext, form: Form): Promise<Response> {
  await removal(c, async (sql) => {
    const present = priceTexts(await withdrawPrice(sql, param(c, 'price')));
    if ((form.values.get('seen') ?? present) !== present) {
      throwConflict(
        'price',
        `It is not withdrawn: somebody changed it, and it is now ${present} per 1000 tokens.`,
      );
    }
  });
  return c.redirect(`/models/${param(c, 'model')}?done=price-withdrawn`, 303);
}

/** The cost prices of the operator. They are never on a page of a company. */
function costCard(
  c: PageContext,
  form: Form,
  model: ModelRow,
  rows: readonly CostPriceRow[],
  unit: PriceUnit,
): Html {
  const path = `/models/${model.id}/costs`;
  const state = formState(form, path);
  const lines = priceLines(rows);
  const cells = {
    From: ({ row: { valid_from } }: PriceLine<CostPriceRow>) => valid_from,
    ...priceCells(c, unit, HEADINGS, lines),
    'Changed by': ofPrice(({ changed_by }: CostPriceRow) => actorName(changed_by)),
    Action: ofPrice(
      ({ id, valid_from }: CostPriceRow) =>
        html`<a class="button quiet" href="${path}/${id}/remove">Remove<span class="sr"> the cost price of ${valid_from}</span></a>`,
    ),
  };
  return html`<section class="card"><h2>What it costs you</h2>
<p class="muted">What you pay the provider, in EUR per ${UNIT_TOKENS[unit]} tokens, from a day on. Companies never see it. <a href="/margin">Margin</a></p>
${rows.length === 0 ? '' : table('Cost prices', lines, { cells, figures: Object.values(HEADINGS) }, true, 'sums')}${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${unitInput(unit)}
${field(state, { name: 'since', label: 'First day', type: 'date', hint: 'Past or to come; empty for today.' })}
${priceFields(state, unit, cost, labelled('Your cost', unit))}
${rateTable(state, form, unit, cost, { rates: rows[0]?.rates })}
<div class="actions"><button>Save cost price</button></div></form></section>`;
}

export async function setCost(c: PageContext, form: Form): Promise<Response> {
  const { id, slug, company_id } = await modelOfPath(c);
  const since = form.optional('since', readDay);
  const price = { slug, company_id, ...readPriced(form, cost) };
  form.check();
  await change(c, (sql) => setCostPrice(sql, priceCaller(c, form, cost), price, since));
  return c.redirect(`/models/${id}?done=saved`, 303);
}

export async function askCostRemoval(c: PageContext) {
  const model = await modelOfPath(c);
  const found = (await read(c, (sql) => costsOf(sql, model))).find(
    ({ id }) => id === param(c, 'cost'),
  );
  if (found === undefined) throwNotFound('price', 'There is no such cost price.');
  const text = html`<p>What <code>${model.slug}</code> costs you from ${found.valid_from} on: ${priceTexts(found, (price) => priceText(c, '1k', price))} per ${UNIT_TOKENS['1k']} tokens.</p>
<p>The margin of these days is then computed with the cost price before it. What companies pay stays as it is.</p>`;
  return {
    title: 'Remove this cost price?',
    button: 'Remove cost price',
    back: `/models/${model.id}`,
    text,
  };
}

export async function removeCost(c: PageContext): Promise<Response> {
  const model = await modelOfPath(c);
  await removal(c, (sql) => removeCostPrice(sql, model, param(c, 'cost')));
  return c.redirect(`/models/${model.id}?done=removed`, 303);
}
