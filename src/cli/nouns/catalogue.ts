import { readSlug, readText, readUsdRate } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import { convertBy } from '../../domain/settings/catalogue.ts';
import {
  type CatalogueEntry,
  entriesOf,
  unsaidText,
} from '../../domain/settings/catalogue-entry.ts';
import { readJson } from '../../domain/settings/litellm-rows.ts';
import { MODEL, priceTexts, rateText, type SomePrices } from '../../domain/settings/model.ts';
import {
  acceptCatalogue,
  type CataloguePriced,
  compareCatalogue,
} from '../../operations/catalogue.ts';
import { askModelInfo } from '../../upstream/router-models.ts';
import {
  ArgumentError,
  type Context,
  command,
  Failure,
  flag,
  optional,
  repeated,
  required,
} from '../frame/command.ts';
import { inputName, readInput } from '../frame/files.ts';
import { callerOf } from '../frame/setting.ts';
import { sections } from '../frame/text.ts';
import { routerOf } from './model.ts';

const MOST_BYTES = 64 << 20; // the public catalogue has 2 MiB

export const catalogueCommand = command({
  name: 'model prices',
  summary: "compare prices with a catalogue of providers' prices, and take them over",
  options: {
    catalogue: required(
      '--catalogue FILE|router',
      readText,
      "a file in LiteLLM's public format, - for standard input, or router: what GET /model/info of a LiteLLM at UPSTREAM_URL tells",
    ),
    usdRate: required('--usd-rate EUR_PER_USD', readUsdRate, 'EUR for one USD, such as 0.92'),
    slugs: repeated('--model SLUG', readSlug, 'only this shared model; may be repeated'),
    accept: flag('--accept', 'set what differs, all in one transaction'),
    from: optional(
      '--from DATE',
      readMoment,
      'with --accept: when prices begin, a date in the billing time zone or an ISO time; default: now',
    ),
  },
  notes: `Shared models are found by their upstream name. Numbers are read as they are written and converted exactly. What has more than 12 decimals in EUR per 1000 is rounded and listed by name ("not exact"), as is every price that has no counterpart here; "aside" is what no call here pays, and how the rest was read.
"would be" is what the calls of the last month would have cost at these prices. A price below the cost price ("tollgate model cost") is listed, exits 1, and is not accepted.`,
  async run(context, { catalogue, usdRate, slugs, accept, from = null }) {
    if (from !== null && !accept) throw new ArgumentError('--from goes with --accept');
    const caller = callerOf(context, MODEL);
    const entries = await readCatalogue(context, catalogue);
    const compared = await context.read((sql) =>
      compareCatalogue(
        sql,
        entries,
        slugs.length === 0 ? null : slugs,
        convertBy(usdRate),
        Date.now(),
      ),
    );
    const { models, left } = compared;
    const differing = models.filter(({ isPriceNew, sizes, below_cost: below }) => {
      return isPriceNew || Object.keys(sizes).length > 0 || below.length > 0;
    });
    const below = models.filter(({ below_cost }) => below_cost.length > 0).map(({ slug }) => slug);
    const isAccepted = accept && below.length === 0;
    if (isAccepted) await context.transact((sql) => acceptCatalogue(sql, caller, compared, from));
    const same = models.length - differing.length;
    const verb = isAccepted ? 'set' : 'differ';
    const text = sections(
      differing.map(showModel).join('\n'),
      left.map(({ slug, why }) => `! ${slug} ${why}`).join('\n'),
      below.length === 0
        ? ''
        : `Below the cost price: ${below.join(', ')}.${accept ? ' Nothing was set: name the other models with --model.' : ''}`,
      `${differing.length} ${verb}, ${same} as in the catalogue.`,
    );
    const json = { accepted: isAccepted, models: models.map(jsonOf), left };
    return { json, text, exit: below.length === 0 ? 0 : 1 };
  },
});

/** The entries of a catalogue file, of standard input (-), or of the router. @throws Failure */
export async function readCatalogue(
  { config, stdin }: Pick<Context, 'config' | 'stdin'>,
  source: string,
): Promise<ReadonlyMap<string, CatalogueEntry>> {
  const entries = entriesOf(await readSource());
  if (entries === null)
    throw new Failure(`${source === 'router' ? 'the router' : inputName(source)} lists no models`);
  return entries;

  async function readSource(): Promise<unknown> {
    if (source === 'router') {
      const router = routerOf(config);
      if (router === null) throw new Failure('UPSTREAM_URL is not set: there is no router to ask');
      return askModelInfo(router).catch(({ message }: Error) => {
        throw new Failure(message);
      });
    }
    const text = await readInput(source, stdin, MOST_BYTES);
    try {
      return readJson(text);
    } catch {
      throw new Failure(`${inputName(source)} is not JSON`);
    }
  }
}

function jsonOf({ now, wanted, isPriceNew, ...model }: CataloguePriced) {
  return { ...model, differs: isPriceNew, now, catalogue: wanted };
}

function showModel(model: CataloguePriced): string {
  const { slug, entry, now, wanted, sizes, last_month, below_cost, inexact, aside, notes } = model;
  const lines = [
    ...(model.isPriceNew
      ? [`now        ${priceLines(now)}`, `catalogue  ${priceLines(wanted)}`]
      : []),
    ...Object.entries(sizes).map(([size, tokens]) => `${size.replaceAll('_', ' ')}: ${tokens}`),
    `last month ${last_month.calls} calls, ${last_month.cost_eur} EUR; would be ${last_month.would_eur} EUR`,
    ...below_cost.map((price) => `below its cost price: ${price}`),
    ...(inexact.length > 0 ? [`not exact: ${unsaidText(inexact)}`] : []),
    ...(aside.length > 0 ? [`aside: ${unsaidText(aside)}`] : []),
    ...notes,
  ];
  return [`~ ${slug} (${entry})`, ...lines.map((line) => `    ${line}`)].join('\n');
}

function priceLines({ rates, ...prices }: SomePrices): string {
  const each = (rates ?? []).map((rate) => rateText(rate));
  return [priceTexts(prices), ...each].join(`\n${' '.repeat(15)}`);
}
