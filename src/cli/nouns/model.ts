import { readSlug, readUuid } from '../../domain/field.ts';
import { type Moment, readMoment } from '../../domain/price.ts';
import {
  MODEL,
  modelPrices,
  PRICED,
  PRICES,
  pricesOf,
  RATES,
} from '../../domain/settings/model.ts';
import type { ModelSizes } from '../../domain/settings/model-sizes.ts';
import type { PricePreview } from '../../operations/frame/refused.ts';
import { changeModel, createModel, removeModel } from '../../operations/model.ts';
import { schedulePrice, triedPrice } from '../../operations/price.ts';
import { findCompany } from '../../store/company/company.ts';
import {
  listModels,
  type ModelChanges,
  type ModelName,
  type ModelRow,
  slugsOf,
} from '../../store/company/model.ts';
import { askRouter } from '../../upstream/router-models.ts';
import {
  ArgumentError,
  type Context,
  command,
  Failure,
  flag,
  optional,
  required,
  someChange,
} from '../frame/command.ts';
import { commandsOf } from '../frame/noun.ts';
import { callerOf, changeOptions, newOptions, withFiles } from '../frame/setting.ts';
import { card, instant, listing, plainly, sections, yesNo } from '../frame/text.ts';
import { PRICE_HEADINGS, priceColumns, priceJson, showPrice, slug } from './price.ts';

const PRICE_NOTE =
  'Prices are exact, in EUR per 1000 tokens. Ledger rows keep the prices of their time.';
const FROM = 'when the prices begin: a date in the billing time zone, or an ISO time';

const models = commandsOf('model', MODEL, ({ slug, company_id, created_at }: ModelRow) => ({
  slug,
  company: company_id ?? 'all',
  created: instant(created_at),
}));

export const modelCommands = [
  models.create({
    summary: 'add a model, for all companies or for one',
    options: {
      slug: required('--slug SLUG', readSlug, 'public name that clients use'),
      ...newOptions(MODEL),
      company_id: optional(
        '--company ID',
        readUuid,
        'only for this company; takes precedence over a shared model with the same slug',
      ),
    },
    notes: PRICE_NOTE,
    change: (sql, caller, { company_id = null, ...values }) =>
      createModel(sql, caller, { ...values, company_id }),
  }),
  command({
    name: 'model set',
    summary: 'change the upstream name, kind or prices of a model',
    operand: slug,
    options: {
      ...changeOptions(MODEL),
      company: optional(
        '--company ID',
        readUuid,
        "change this company's own model instead of the shared one",
      ),
      from: optional('--from DATE', readMoment, FROM),
      dryRun: flag('--dry-run', 'only show what the last month would have cost at these prices'),
    },
    notes: `${PRICE_NOTE}\nA slug cannot be changed: create another model and remove this one.`,
    async run(context, { company: company_id = null, from, dryRun, ...values }, slug) {
      const changes: ModelChanges = await withFiles(context, someChange(values));
      if (dryRun) return tryPrice(context, { slug, company_id }, changes);
      if (from !== undefined) return setFrom(context, { slug, company_id, from }, changes);
      const caller = callerOf(context, MODEL);
      const model = await context.transact((sql) =>
        changeModel(sql, caller, { slug, company_id }, changes),
      );
      return { json: model, text: models.show('Model changed.', model) };
    },
  }),
  models.list({
    summary: 'list all models with upstream names and prices',
    options: {
      company: optional(
        '--company ID',
        readUuid,
        'list only shared models and those of this company',
      ),
    },
    async read(sql, { company }) {
      if (company !== undefined) await findCompany(sql, company);
      return listModels(sql, company);
    },
    columns: (rows) => ({
      ...plainly('slug', 'kind'),
      EU: ({ eu_hosted }) => yesNo(eu_hosted),
      ...priceColumns(rows, (row) => ({ ...pricesOf<string | null>(row), rates: row.rates })),
      UPSTREAM: ({ upstream_model }) => upstream_model,
      COMPANY: ({ company_id }) => company_id ?? 'all',
    }),
    empty: 'There are no models; "tollgate model create" adds one.',
    right: PRICE_HEADINGS,
  }),
  command({
    name: 'model offered',
    summary: 'list what the model router has, and under which slugs it is offered',
    options: {},
    notes:
      'Asks UPSTREAM_URL for its own list of models, as the gateway would, for 3 seconds at most. Some routers tell context length and most output too.',
    async run({ config, transact, warn }) {
      const router = routerOf(config);
      if (router === null)
        throw new Failure(
          'UPSTREAM_URL is not set, and the demo upstream runs with "tollgate serve" alone: set it',
        );
      const answer = await askRouter(router);
      if (answer.reason !== null) throw new Failure(answer.reason);
      const offered = await transact((sql) => slugsOf(sql, answer.names));
      const rows = answer.names.map((name) => ({
        upstream: name,
        slugs: offered.get(name) ?? [],
        ...answer.sizes[name],
      }));
      if (answer.leftOut > 0)
        warn(
          `${answer.leftOut} more in the router's list: beyond 500, or with a name that no model can have`,
        );
      const text = listing(
        rows,
        {
          UPSTREAM: ({ upstream }) => upstream,
          'OFFERED AS': ({ slugs }) => slugs.join(', ') || '-',
          ...(Object.keys(answer.sizes).length > 0 && {
            CONTEXT: ({ context_length }: ModelSizes) => `${context_length ?? '-'}`,
            'MOST OUTPUT': ({ max_output_tokens }: ModelSizes) => `${max_output_tokens ?? '-'}`,
          }),
        },
        '',
      );
      return { json: rows, text };
    },
  }),
  models.remove({
    summary: 'remove a model; its ledger rows stay',
    operand: slug,
    options: {
      company: optional(
        '--company ID',
        readUuid,
        "remove this company's own model instead of the shared one",
      ),
    },
    change: (sql, _caller, { company: company_id = null }, slug) =>
      removeModel(sql, { slug, company_id }),
  }),
];

/** The model router that is set; null: none is. */
export function routerOf({
  upstreamUrls,
  upstreamApiKey: apiKey,
  upstreamHeaders: headers,
}: Context['config']) {
  return (
    upstreamUrls && { urls: upstreamUrls.map(({ href }) => href), apiKey, headers, isDemo: false }
  );
}

/** Shows what the last month would have cost. @throws ArgumentError when something else is to change */
async function tryPrice(context: Context, name: ModelName, changes: ModelChanges) {
  onlyPrices(changes, 'be tried');
  const { rates } = changes;
  const preview = await context.read((sql) =>
    triedPrice(sql, name, { ...pricesOf(changes), rates }),
  );
  const columns = {
    COMPANY: ({ company_id, company_name }: Company) => company_name ?? company_id,
    CALLS: ({ calls }: Company) => `${calls}`,
    EUR: ({ cost_eur }: Company) => cost_eur,
    'AT THIS PRICE': ({ would_eur }: Company) => would_eur,
  };
  const { month, calls, cost_eur, would_eur, companies, notes } = preview;
  const cells = { calls: `${calls}`, 'EUR as booked': cost_eur, 'EUR at this price': would_eur };
  const text = sections(
    card(`API calls of ${month} to ${name.slug}. Nothing is changed.`, cells),
    companies.length === 0 ? '' : listing(companies, columns, '', Object.keys(columns).slice(1)),
    notes.map((note) => `! ${note}`).join('\n'),
  );
  return { json: preview, text };
}

type Company = PricePreview['companies'][number];

/** @throws ArgumentError */
function onlyPrices(changes: ModelChanges, what: string): void {
  const given = Object.entries(changes).filter(([, value]) => value !== undefined);
  const dated = [...Object.keys(modelPrices(PRICES)), ...Object.keys(RATES)];
  if (given.every(([column]) => dated.includes(column))) return;
  const options = Object.values(PRICED)
    .map(({ option }) => option.split(' ')[0])
    .join(', ');
  throw new ArgumentError(`only ${options} can ${what}; change the rest in another command`);
}

/** Lets prices begin at a date. @throws ArgumentError when something else is to change */
async function setFrom(
  context: Context,
  from: ModelName & { from: Moment },
  changes: ModelChanges,
) {
  onlyPrices(changes, 'begin at a date');
  const caller = callerOf(context, PRICED);
  const price = await context.transact((sql) =>
    schedulePrice(sql, caller, { ...from, ...pricesOf(changes), rates: changes.rates }),
  );
  return {
    json: priceJson(price),
    text: showPrice(
      'The price begins at its date, on every gateway.',
      price,
      context.config.billingTimezone,
    ),
  };
}
