import { readBoolean, readKind, readName, readPrice, readSlug, readTokenInput, readUuid } from '../../domain/field.ts';
import { type Moment, readMoment } from '../../domain/price.ts';
import { findCompany } from '../../store/company/company.ts';
import {
  createModel,
  listModels,
  type ModelChanges,
  type ModelRow,
  removeModel,
  setModel,
  slugsOf,
} from '../../store/company/model.ts';
import { datedPrice, schedulePrice } from '../../store/company/price.ts';
import { askRouter } from '../../upstream/router-models.ts';
import {
  ArgumentError,
  type Command,
  type Context,
  command,
  Failure,
  optional,
  required,
  someChange,
} from '../frame/command.ts';
import { card, instant, listing, yesNo } from '../frame/text.ts';
import { priceJson, showPrice, slug, warnOfReplaced } from './price.ts';

const tokenInput = optional(
  '--token-input accept|refuse',
  readTokenInput,
  'whether an embedding model takes token ids in place of text; default: refuse',
);
const PRICE_NOTE = 'Prices are exact, in EUR per 1000 tokens. Ledger rows keep the prices of their time.';
const FROM = 'when the prices begin: a date in the billing time zone, or an ISO time';

export const modelCommands: readonly Command[] = [
  command({
    name: 'model create',
    summary: 'add a model, for all companies or for one',
    options: {
      slug: required('--slug SLUG', readSlug, 'public name that clients use'),
      upstream_model: required('--upstream NAME', readName, 'internal name that the upstream gets and no client sees'),
      kind: required('--kind chat|embedding', readKind, 'endpoint that it serves'),
      eu_hosted: required('--eu-hosted true|false', readBoolean, 'whether the model runs in the EU'),
      cost_eur_per_1k_input: required('--input-price EUR', readPrice, 'per 1000 prompt tokens'),
      cost_eur_per_1k_output: required('--output-price EUR', readPrice, 'per 1000 completion tokens'),
      token_input: tokenInput,
      company_id: optional(
        '--company ID',
        readUuid,
        'only for this company; takes precedence over a shared model with the same slug',
      ),
    },
    notes: PRICE_NOTE,
    async run(context, { company_id = null, ...values }) {
      const model = await context.transact((sql) => createModel(sql, { ...values, company_id }));
      warnOfFree(context, model);
      return { json: model, text: show('Model created.', model) };
    },
  }),
  command({
    name: 'model set',
    summary: 'change the upstream name, kind or prices of a model',
    operand: slug,
    options: {
      upstream_model: optional('--upstream NAME', readName, 'internal name that the upstream gets and no client sees'),
      kind: optional('--kind chat|embedding', readKind, 'endpoint that it serves'),
      eu_hosted: optional('--eu-hosted true|false', readBoolean, 'whether the model runs in the EU'),
      cost_eur_per_1k_input: optional('--input-price EUR', readPrice, 'per 1000 prompt tokens'),
      cost_eur_per_1k_output: optional('--output-price EUR', readPrice, 'per 1000 completion tokens'),
      token_input: tokenInput,
      company: optional('--company ID', readUuid, "change this company's own model instead of the shared one"),
      from: optional('--from DATE', readMoment, FROM),
    },
    notes: `${PRICE_NOTE}\nA slug cannot be changed: create another model and remove this one.`,
    async run(context, { company = null, from, ...values }, slug) {
      const changes = someChange(values);
      if (from !== undefined) return setFrom(context, slug, company, from, changes);
      const model = await context.transact((sql) => setModel(sql, slug, company, changes));
      warnOfFree(context, model);
      return { json: model, text: show('Model changed.', model) };
    },
  }),
  command({
    name: 'model list',
    summary: 'list all models with upstream names and prices',
    options: { company: optional('--company ID', readUuid, 'list only shared models and those of this company') },
    async run({ transact }, { company }) {
      const models = await transact(async (sql) => {
        if (company !== undefined) await findCompany(sql, company);
        return listModels(sql, company);
      });
      const text = listing(
        models,
        {
          SLUG: ({ slug }) => slug,
          KIND: ({ kind }) => kind,
          EU: ({ eu_hosted }) => yesNo(eu_hosted),
          'EUR/1K IN': ({ cost_eur_per_1k_input }) => cost_eur_per_1k_input,
          'EUR/1K OUT': ({ cost_eur_per_1k_output }) => cost_eur_per_1k_output,
          UPSTREAM: ({ upstream_model }) => upstream_model,
          COMPANY: ({ company_id }) => company_id ?? 'all',
        },
        'There are no models; "tollgate model create" adds one.',
        ['EUR/1K IN', 'EUR/1K OUT'],
      );
      return { json: models, text };
    },
  }),
  command({
    name: 'model offered',
    summary: 'list what the model router has, and under which slugs it is offered',
    options: {},
    notes: 'Asks UPSTREAM_URL for its own list of models, as the gateway would, for 3 seconds at most.',
    async run({ config, transact, warn }) {
      const { upstreamUrls, upstreamApiKey: apiKey, upstreamHeaders: headers } = config;
      if (upstreamUrls === null)
        throw new Failure('UPSTREAM_URL is not set, and the demo upstream runs with "tollgate serve" alone: set it');
      const urls = upstreamUrls.map(({ href }) => href);
      const answer = await askRouter({ urls, apiKey, headers, isDemo: false });
      if (answer.reason !== null) throw new Failure(answer.reason);
      const offered = await transact((sql) => slugsOf(sql, answer.names));
      const rows = answer.names.map((name) => ({ upstream: name, slugs: offered.get(name) ?? [] }));
      if (answer.leftOut > 0)
        warn(`${answer.leftOut} more in the router's list: beyond 500, or with a name that no model can have`);
      const text = listing(
        rows,
        { UPSTREAM: ({ upstream }) => upstream, 'OFFERED AS': ({ slugs }) => slugs.join(', ') || '-' },
        '',
      );
      return { json: rows, text };
    },
  }),
  command({
    name: 'model remove',
    summary: 'remove a model; its ledger rows stay',
    operand: slug,
    options: {
      company: optional('--company ID', readUuid, "remove this company's own model instead of the shared one"),
    },
    async run({ transact }, { company = null }, slug) {
      const model = await transact((sql) => removeModel(sql, slug, company));
      return { json: model, text: show('Model removed.', model) };
    },
  }),
];

/** Lets a price begin at a date. @throws ArgumentError when something else is to change */
async function setFrom(context: Context, slug: string, company_id: string | null, from: Moment, changes: ModelChanges) {
  const { cost_eur_per_1k_input: input, cost_eur_per_1k_output: output, ...others } = changes;
  if (Object.values(others).some((value) => value !== undefined)) {
    throw new ArgumentError(
      'only --input-price and --output-price can begin at a date; change the rest in another command',
    );
  }
  const [{ price: before }, price] = await context.transact(async (sql) => [
    await datedPrice(sql, { slug, company_id }, from),
    await schedulePrice(sql, { slug, company_id, from, input, output }),
  ]);
  warnOfReplaced(context, before, price);
  return {
    json: priceJson(price),
    text: showPrice('The price begins at its date, on every gateway.', price, context.config.billingTimezone),
  };
}

/** Warns of a price of 0, which may be a mistake. */
function warnOfFree({ warn }: Context, model: ModelRow): void {
  const { cost_eur_per_1k_input: input, cost_eur_per_1k_output: output } = model;
  if (input === '0' && output === '0') warn(`${model.slug} costs nothing: this model is free`);
  else if (input === '0') warn(`${model.slug} has an input price of 0: its prompt tokens are free`);
  // embeddings have no completion tokens
  else if (output === '0' && model.kind === 'chat') {
    warn(`${model.slug} has an output price of 0: its completion tokens are free`);
  }
}

function show(sentence: string, model: ModelRow): string {
  return card(sentence, {
    slug: model.slug,
    company: model.company_id ?? 'all',
    upstream: model.upstream_model,
    kind: model.kind,
    'EU-hosted': yesNo(model.eu_hosted),
    'EUR per 1000 in': model.cost_eur_per_1k_input,
    'EUR per 1000 out': model.cost_eur_per_1k_output,
    'token ids': model.token_input,
    created: instant(model.created_at),
  });
}
