import type { Company } from '../../domain/company.ts';
import { readPriceFactor } from '../../domain/field.ts';
import { UNIT_TOKENS } from '../../domain/price.ts';
import { COMPANY, PRICE_FACTOR } from '../../domain/settings/company.ts';
import { priceTexts } from '../../domain/settings/model.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import {
  priceFactors,
  schedulePriceFactor,
  withdrawPriceFactor,
} from '../../operations/company.ts';
import type { PriceFactorRow } from '../../store/company/price-factor.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { callerOf } from '../page/caller.ts';
import {
  changeAsOperator,
  mayNow,
  type PageContext,
  param,
  presentCompany,
  type Route,
  read,
  removal,
} from '../page/context.ts';
import { csrfInput, field } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, muted, table } from '../page/layout.ts';
import { momentReader } from '../page/local-time.ts';
import { priceText, priceUnitOf } from '../page/price-unit.ts';
import { type SettingCard, saveCompany, settingCard } from './company-edit.ts';

/** The factor of a company on its prices, for operators: a card of its settings. */

const PATH = '/companies/:company/price-factor';
const MOST_MODELS = 3;
const CARD = {
  path: 'price-factor',
  action: 'company.limit',
  settings: PRICE_FACTOR,
  texts: () => ({
    title: 'Price factor',
    save: 'Save factor',
    lead: 'Multiplies every price of the company, those of its own models included. Its people see what they pay, and not the factor. What is booked stays as it is.',
  }),
  by: changeAsOperator,
} as const satisfies SettingCard;

export function priceFactorRoutes(page: NonNullable<Route['page']>): readonly Route[] {
  return [
    { method: 'POST', path: PATH, action: 'company.limit', handle: save, page },
    { method: 'POST', path: `${PATH}/:factor/withdraw`, action: 'company.limit', handle: withdraw },
  ];
}

export async function priceFactorCard(c: PageContext, form: Form): Promise<Html | string> {
  if (!mayNow(c, CARD.action)) return '';
  const { id, price_factor } = presentCompany(c);
  const [catalogue, history] = await read(c, async (sql) => [
    await readCompany(sql, id),
    await priceFactors(sql, id),
  ]);
  const zone = c.var.services.calendar.timeZone;
  return html`${settingCard(c, form, CARD, {
    above: pricesTable(c, catalogue),
    fields: (state) => html`<div class="pair">
${field(state, { name: 'price_factor', label: 'Factor', required: true, inputmode: 'decimal', value: price_factor ?? '', hint: '0.9 is 10% below the list, 1.2 is 20% above.' })}
${field(state, { name: 'from', label: 'Begins', type: 'datetime-local', hint: `Empty: now. On the clock of ${zone}.` })}</div>`,
  })}${historyCard(c, history)}`;
}

/** Prices of some models before the factor and with it. Nothing where there is no factor. */
function pricesTable(
  c: PageContext,
  { id, factors, listedModels, sharedModels }: Company,
): Html | string {
  if (factors === null) return '';
  const unit = priceUnitOf(c);
  const slugs = [...listedModels.keys()].sort().slice(0, MOST_MODELS);
  const prices = (models: Company['sharedModels']) => (slug: string) => {
    const model = models.get(slug);
    return model === undefined
      ? ''
      : priceTexts(model.prices.texts, (price) => priceText(c, unit, price));
  };
  const cells = {
    Model: (slug: string) => html`<code>${slug}</code>`,
    'List price': prices(listedModels),
    'It pays': prices(sharedModels),
  };
  return html`${table(`Prompt and completion tokens, EUR per ${UNIT_TOKENS[unit]}`, slugs, { cells, figures: ['List price', 'It pays'] })}
<p><a href="/companies/${id}/models">All prices that it pays</a></p>`;
}

function historyCard(c: PageContext, rows: readonly PriceFactorRow[]): Html | string {
  if (rows.length === 0) return '';
  const { format } = c.var;
  const cells = {
    From: ({ valid_from, begun }: PriceFactorRow) =>
      html`${format.instant(valid_from)}${begun ? '' : html` ${badge('warn', 'to come')}`}`,
    Factor: ({ factor }: PriceFactorRow) => format.decimal(Number(factor)),
    'Changed by': ({ changed_by }: PriceFactorRow) => actorName(changed_by),
    Action: ({ id, company_id, valid_from, begun }: PriceFactorRow) =>
      begun
        ? muted('none')
        : html`<form class="inline" method="post" action="/companies/${company_id}/price-factor/${id}/withdraw">${csrfInput(c)}<button class="quiet">Withdraw<span class="sr"> the factor of ${format.instant(valid_from)}</span></button></form>`,
  };
  return html`<section class="card"><h2>History of the price factor</h2>
<p class="muted">The latest first. What has begun never changes.</p>
${table('History of the price factor', rows, { cells, figures: ['Factor'] }, true)}</section>`;
}

async function save(c: PageContext, form: Form): Promise<Response> {
  const price_factor = form.required('price_factor', form.numeric(readPriceFactor));
  const from = form.optional('from', momentReader(c));
  if (from === null) return saveCompany(c, form, CARD, { price_factor });
  form.check();
  const id = param(c, 'company');
  await changeAsOperator(c, (sql) =>
    schedulePriceFactor(sql, callerOf(c, form, COMPANY), id, price_factor, from),
  );
  return c.redirect(`/companies/${id}/settings?done=scheduled`, 303);
}

async function withdraw(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  await removal(c, (sql) => withdrawPriceFactor(sql, id, { id: param(c, 'factor') }));
  return c.redirect(`/companies/${id}/settings?done=price-withdrawn`, 303);
}
