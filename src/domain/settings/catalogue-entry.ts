import type { ModelKind } from '../model.ts';
import { COST_PARTS } from '../pricing/parts.ts';
import {
  amountIn,
  type CataloguePrice,
  type Convert,
  catalogue,
  isCost,
  KINDS,
  type Unsaid,
} from './catalogue.ts';
import { objectIn, type Row, textIn } from './litellm-rows.ts';
import { type ModelSizes, sizesIn } from './model-sizes.ts';

/** What a catalogue says of a name: an entry of a file, or the deployments of a router behind the name. */
export interface CatalogueEntry {
  readonly name: string;
  readonly kind: ModelKind | null;
  readonly sizes: ModelSizes;
  /** Members of each; deployments of one name may have prices of their own. */
  readonly each: readonly Row[];
}

/**
 * The entries by their names: a file in LiteLLM's public format, or the answer of `GET /model/info`.
 * @param json as `readJson` has it
 * @returns null: it is neither
 */
export function entriesOf(json: unknown): ReadonlyMap<string, CatalogueEntry> | null {
  const list = Array.isArray(json) ? json : (json as { data?: unknown } | null)?.data;
  const named = Array.isArray(list)
    ? list.map(objectIn).flatMap((row): [string, Row][] => {
        const name = textIn(row.model_name);
        const isOfTeam = textIn(objectIn(row.model_info).team_id) !== null;
        return name === null || isOfTeam ? [] : [[name, toldMembers(row)]];
      })
    : Object.entries(objectIn(json)).filter(([, value]) => Object.keys(objectIn(value)).length > 0);
  if (named.length === 0) return null;
  const entries = new Map<string, CatalogueEntry>();
  for (const [name, rows] of Map.groupBy(named as [string, Row][], ([name]) => name)) {
    const each = rows.map(([, members]) => members);
    const modes = new Set(each.map(({ mode }) => textIn(mode)));
    const kind = modes.size === 1 ? (KINDS[[...modes][0] ?? ''] ?? null) : null;
    const sizes = each.reduce((least: ModelSizes, row) => sizesIn(row, least), {});
    entries.set(name, { name, kind, sizes, each });
  }
  return entries;
}

/** The entry of an upstream model: of its name, or of what follows the provider in it. */
export function entryOf(
  entries: ReadonlyMap<string, CatalogueEntry>,
  upstream: string,
): CatalogueEntry | undefined {
  const [provider, ...rest] = upstream.split('/');
  const alike = entries.get(rest.join('/'));
  const isOfProvider = alike?.each.every(({ litellm_provider: of }) => of === provider);
  return entries.get(upstream) ?? (isOfProvider ? alike : undefined);
}

/** What the router tells of a deployment. */
function toldMembers(row: Row): Row {
  return membersOf([objectIn(row.litellm_params)], objectIn(row.model_info));
}

/**
 * The members of a deployment.
 * @param set by people, the first that says a price counts
 * @param told by the router: a 0 is no price, it has it for what it does not know. Where people set a price, the
 * router's prices under conditions are those of another price
 */
export function membersOf(set: readonly Row[], told: Row): Row {
  const own = set.toReversed().flatMap((row) => Object.entries(row).filter(isSaid));
  const isOwn = own.some(([name]) => /^input_cost_per_token$|^tiered_pricing$/.test(name));
  const kept = Object.entries(told).filter(([name, value]) => {
    if (!isCost(name)) return true;
    const isZero = amountIn(value) !== null && Number(amountIn(value)) === 0;
    return !isZero && !(isOwn && CONDITIONAL.test(name));
  });
  return { ...Object.fromEntries(kept), ...Object.fromEntries(own) };
}

const CONDITIONAL = /_above_\d+k_tokens|_(priority|flex)$|^tiered_pricing$/;

const isSaid = ([, value]: [string, unknown]): boolean => value !== null && value !== undefined;

/**
 * The price of an entry: of deployments with different prices the highest of each part, which no call exceeds.
 * @returns null: one of them says no price
 */
export function priceOf(
  { name, each }: Pick<CatalogueEntry, 'name' | 'each'>,
  kind: ModelKind,
  convert: Convert,
): (CataloguePrice & { readonly notes: readonly string[] }) | null {
  const found = each.map((members) =>
    catalogue(members, kind, textIn(members.key) ?? textIn(members.model) ?? name, convert),
  );
  const [first] = found;
  if (first == null || found.includes(null)) return null;
  const all = found as CataloguePrice[];
  const notes: string[] = [];
  const highest = COST_PARTS.map((part): [string, string | null | undefined] => {
    const known = all.flatMap(({ prices }) => prices[part] ?? []);
    const isWhole = known.length === all.length;
    if (new Set(all.map(({ prices }) => prices[part])).size > 1) {
      const which = isWhole ? 'the highest' : 'not of all';
      notes.push(`${part} price: ${which} of its ${all.length} deployments`);
    }
    const dearest = known.reduce(
      (most, price) => (Number(price) > Number(most) ? price : most),
      '0',
    );
    return [part, isWhole ? dearest : null];
  });
  const isOneRate = new Set(all.map(({ rates }) => JSON.stringify(rates))).size === 1;
  const rates = isOneRate ? first.rates : [];
  const apart = { name: 'rates', why: `differ between its ${all.length} deployments: none is set` };
  return {
    prices: Object.fromEntries(highest) as CataloguePrice['prices'],
    rates,
    inexact: once([...all.flatMap(({ inexact }) => inexact), ...(isOneRate ? [] : [apart])]),
    aside: once(all.flatMap(({ aside }) => aside)),
    notes,
  };
}

function once(all: readonly Unsaid[]): Unsaid[] {
  return [...new Map(all.map((each) => [`${each.name} ${each.why}`, each])).values()];
}

/** A list of what does not come, in one text. */
export function unsaidText(all: readonly Unsaid[]): string {
  return all.map(({ name, why }) => `${name} ${why}`).join('; ');
}
