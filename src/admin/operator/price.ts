import { readDay } from '../../domain/field.ts';
import { type PriceUnit, readMoment, readPriceIn, UNIT_TOKENS } from '../../domain/price.ts';
import { actorName } from '../../domain/text/change-text.ts';
import { throwConflict, throwNotFound } from '../../domain/text/refused-change.ts';
import { takesPlace } from '../../operations/price.ts';
import { type CostPriceRow, costPrices, removeCostPrice, setCostPrice } from '../../store/company/cost-price.ts';
import { lockRow } from '../../store/company/last-change.ts';
import { findModelById, type ModelRow } from '../../store/company/model.ts';
import {
  type DatedPrice,
  datedPrice,
  type PriceAnswer,
  type PriceRow,
  priceHistory,
  pricesOn,
  schedulePrice,
  withdrawPrice,
} from '../../store/company/price.ts';
import { ConfirmationNeeded } from '../page/confirmation.ts';
import { change, type PageContext, param, read, removal } from '../page/context.ts';
import { csrfInput, type FormState, field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyLink, confirmation, muted, page, table } from '../page/layout.ts';
import { companyPicker, readPickedCompany } from '../page/picker.ts';
import { priceText, sentUnit, unitInput } from '../page/price-unit.ts';

/** Prices of a model on its page: past, present and future prices, the prices of a day, and cost prices. */

const MOST_SHOWN = 100;

/** @throws RefusedChange not_found */
export function modelOfPath(c: PageContext): Promise<ModelRow> {
  return read(c, (sql) => findModelById(sql, param(c, 'model')));
}

export async function priceCards(c: PageContext, model: ModelRow, form: Form, unit: PriceUnit): Promise<Html> {
  const path = `/models/${model.id}`;
  const [history, costs] = await read(
    c,
    async (sql) => [await priceHistory(sql, model.slug), await costPrices(sql, model.slug)] as const,
  );
  return html`${historyCard(c, model, history, unit)}
${scheduleCard(c, form, `${path}/prices`, unit)}
${await pricesOnCard(c, model, unit)}
${costCard(c, form, model, costs, unit)}`;
}

function historyCard(c: PageContext, model: ModelRow, rows: readonly PriceRow[], unit: PriceUnit): Html {
  const { format } = c.var;
  const cells = {
    From: ({ valid_from, begun }: PriceRow) =>
      html`${format.instant(valid_from)}${begun ? '' : html` ${badge('warn', 'to come')}`}`,
    Prompt: ({ input }: PriceRow) => (input === null ? muted('removed') : priceText(c, unit, input)),
    Completion: ({ output }: PriceRow) => (output === null ? muted('removed') : priceText(c, unit, output)),
    For: (row: PriceRow) => companyLink(row, 'models'),
    'Changed by': ({ changed_by }: PriceRow) => actorName(changed_by),
    Action: ({ id, begun, company_id, valid_from, input, output }: PriceRow) =>
      begun || company_id !== model.company_id
        ? muted('none')
        : html`<form class="inline" method="post" action="/models/${model.id}/prices/${id}/withdraw">${csrfInput(c)}<input type="hidden" name="seen" value="${input} and ${output}"><button class="quiet">Withdraw<span class="sr"> the price of ${format.instant(valid_from)}</span></button></form>`,
  };
  return html`<section class="card"><h2>History of prices</h2>
<p class="muted">EUR per ${UNIT_TOKENS[unit]} tokens, shared and companies' own, the latest first. What has begun never changes.</p>
${table('History of prices', rows.slice(0, MOST_SHOWN), { cells, figures: ['Prompt', 'Completion'] }, true)}
${rows.length > MOST_SHOWN ? html`<p class="muted">The latest ${MOST_SHOWN} of ${format.count(rows.length)}; <code>tollgate model price ${model.slug}</code> shows all.</p>` : ''}</section>`;
}

function scheduleCard(c: PageContext, form: Form, path: string, unit: PriceUnit): Html {
  const state = formState(form, path);
  return html`<section class="card"><h2>A price from a date</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${unitInput(unit)}
${field(state, { name: 'from', label: 'Begins', required: true, hint: `A date such as 2027-01-31, which begins at midnight in ${c.var.services.calendar.timeZone}, or a time such as 2027-01-31T18:00:00Z. Every gateway switches at that moment by its own clock.` })}
${priceFields(state, 'next_', 'New price', unit)}
<div class="actions"><button>Let it begin then</button></div></form></section>`;
}

/** Two prices. @param what they are; the page has several such pairs */
function priceFields(state: FormState, prefix: string, what: string, unit: PriceUnit): Html {
  const tokens = UNIT_TOKENS[unit];
  const priced = (name: string, of: string) =>
    field(state, {
      name: `${prefix}${name}`,
      label: `${what} of ${tokens} ${of} tokens, EUR`,
      required: true,
      inputmode: 'decimal',
    });
  return html`<div class="pair">${priced('input', 'prompt')}${priced('output', 'completion')}</div>`;
}

export async function schedule(c: PageContext, form: Form): Promise<Response> {
  const { id, slug, company_id } = await modelOfPath(c);
  const from = form.required('from', readMoment);
  const prices = readPrices(form, 'next_');
  form.check();
  await change(c, async (sql) => {
    await lockRow(sql, 'models', id);
    const { price, passed } = await datedPrice(sql, { slug, company_id }, from);
    if (price !== null && !passed) askToReplace(c, form, price, prices);
    await schedulePrice(sql, { slug, company_id, from, ...prices });
  });
  return c.redirect(`/models/${id}?done=scheduled`, 303);
}

type Prices = Readonly<Record<'input' | 'output', string>>;

/** Asks before a price takes the place of another one for the same time. @throws ConfirmationNeeded */
function askToReplace(c: PageContext, form: Form, present: NonNullable<DatedPrice['price']>, mine: Prices): void {
  const { input, output, changed_by } = present;
  const answer = `replace ${input} ${output}`;
  if (!takesPlace(present, mine) || form.confirms(answer)) return;
  const unit = sentUnit(form);
  const shown = (prices: Prices) =>
    html`<strong>${priceText(c, unit, prices.input)}</strong> and <strong>${priceText(c, unit, prices.output)}</strong>`;
  throw new ConfirmationNeeded({
    answer,
    title: 'There is a price for this time already',
    text: html`<p>From then on it is ${shown(present)} per ${UNIT_TOKENS[unit]} prompt and completion tokens, set by <strong>${actorName(changed_by)}</strong>. Yours, ${shown(mine)}, is not saved yet.</p>`,
    button: 'Save mine instead',
    link: { href: c.req.path.replace(/\/[^/]*$/, ''), text: 'Keep what is stored' },
  });
}

function readPrices(form: Form, prefix: string): Prices {
  const readPrice = form.numeric(readPriceIn(sentUnit(form)));
  return { input: form.required(`${prefix}input`, readPrice), output: form.required(`${prefix}output`, readPrice) };
}

export async function withdraw(c: PageContext, form: Form): Promise<Response> {
  await removal(c, async (sql) => {
    const { input, output } = await withdrawPrice(sql, param(c, 'price'));
    const present = `${input} and ${output}`;
    if ((form.values.get('seen') ?? present) !== present) {
      throwConflict('price', `It is not withdrawn: somebody changed it, and it is now ${present} per 1000 tokens.`);
    }
  });
  return c.redirect(`/models/${param(c, 'model')}?done=price-withdrawn`, 303);
}

/** The prices of the model for a company on a day. The URL names both. */
async function pricesOnCard(c: PageContext, { id, slug }: ModelRow, unit: PriceUnit): Promise<Html> {
  const path = `/models/${id}`;
  const asked = new Form(new URLSearchParams(c.req.query()), `${path}#question`);
  const day = asked.optional('day', readDay);
  const company = asked.values.get('day') ? await readPickedCompany(c, asked) : null;
  const answers =
    day === null || asked.messages.size > 0 ? [] : await read(c, (sql) => pricesOn(sql, slug, company, { day }));
  const state = formState(asked, `${path}#question`);
  const { format } = c.var;
  const cells = {
    Since: ({ from, valid_from }: PriceAnswer) => format.instant(valid_from ?? from),
    Prompt: ({ input }: PriceAnswer) => (input === null ? muted('no such model') : priceText(c, unit, input)),
    Completion: ({ output }: PriceAnswer) => (output === null ? muted('no such model') : priceText(c, unit, output)),
    Model: ({ company_id, input }: PriceAnswer) =>
      input === null ? muted('none') : company_id === null ? 'shared' : "the company's own",
  };
  return html`<section class="card" id="question"><h2>What was the price?</h2>${state.summary}
<form method="get" action="${path}#question" class="stack">
${field(state, { name: 'day', label: 'Day', type: 'date', required: true, hint: `In ${c.var.services.calendar.timeZone}.` })}
${await companyPicker(c, state, 'Company', 'Name or id; empty for one without a model of its own.')}
<div class="actions"><button>Show the price</button></div></form>
${answers.length === 0 ? '' : table(`Prices on ${day}, in EUR per ${UNIT_TOKENS[unit]} tokens`, answers, { cells, figures: ['Prompt', 'Completion'] })}</section>`;
}

/** The cost prices of the operator. They are never on a page of a company. */
function costCard(c: PageContext, form: Form, model: ModelRow, rows: readonly CostPriceRow[], unit: PriceUnit): Html {
  const path = `/models/${model.id}/costs`;
  const state = formState(form, path);
  const own = rows.filter(({ company_id }) => company_id === model.company_id);
  const cells = {
    From: ({ valid_from }: CostPriceRow) => valid_from,
    Prompt: ({ input }: CostPriceRow) => priceText(c, unit, input),
    Completion: ({ output }: CostPriceRow) => priceText(c, unit, output),
    'Changed by': ({ changed_by }: CostPriceRow) => actorName(changed_by),
    Action: ({ id, valid_from }: CostPriceRow) =>
      html`<a class="button quiet" href="${path}/${id}/remove">Remove<span class="sr"> the cost price of ${valid_from}</span></a>`,
  };
  return html`<section class="card"><h2>What it costs you</h2>
<p class="muted">What you pay the provider, in EUR per ${UNIT_TOKENS[unit]} tokens, from a day on. Companies never see it. <a href="/margin">Margin</a></p>
${own.length === 0 ? '' : table('Cost prices', own, { cells, figures: ['Prompt', 'Completion'] }, true)}${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${unitInput(unit)}
${field(state, { name: 'since', label: 'First day', type: 'date', hint: 'Past or to come; empty for today.' })}
${priceFields(state, 'cost_', 'Your cost', unit)}
<div class="actions"><button>Save cost price</button></div></form></section>`;
}

export async function setCost(c: PageContext, form: Form): Promise<Response> {
  const { id, slug, company_id } = await modelOfPath(c);
  const { calendar, clock } = c.var.services;
  const since = form.optional('since', readDay) ?? calendar.date(clock());
  const prices = readPrices(form, 'cost_');
  form.check();
  await change(c, async (sql) => {
    await lockRow(sql, 'models', id);
    const costs = await costPrices(sql, slug);
    const present = costs.find((cost) => cost.company_id === company_id && cost.valid_from === since);
    if (present !== undefined) askToReplace(c, form, present, prices);
    await setCostPrice(sql, { slug, company_id, ...prices }, since);
  });
  return c.redirect(`/models/${id}?done=saved`, 303);
}

export async function removeCostPage(c: PageContext): Promise<Response> {
  const model = await modelOfPath(c);
  const found = (await read(c, (sql) => costPrices(sql, model.slug))).find(({ id }) => id === param(c, 'cost'));
  if (found === undefined) throwNotFound('price', 'There is no such cost price.');
  const back = `/models/${model.id}`;
  const body = html`<h1>Remove this cost price?</h1>
${confirmation(c, {
  action: `${back}/costs/${found.id}/remove`,
  button: 'Remove cost price',
  back,
  text: html`<p>What <code>${model.slug}</code> costs you from ${found.valid_from} on: ${priceText(c, '1k', found.input)} and ${priceText(c, '1k', found.output)} per ${UNIT_TOKENS['1k']} tokens.</p>
<p>The margin of these days is then computed with the cost price before it. What companies pay stays as it is.</p>`,
})}`;
  return page(c, 'Remove a cost price', body);
}

export async function removeCost(c: PageContext): Promise<Response> {
  await change(c, (sql) => removeCostPrice(sql, param(c, 'cost')));
  return c.redirect(`/models/${param(c, 'model')}?done=removed`, 303);
}
