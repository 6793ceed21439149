import { PRICE, readName, SLUG } from '../field.ts';
import { likelyKind, type ModelKind } from '../model.ts';
import { COST_PARTS } from '../pricing/parts.ts';
import { type CataloguePrice, type Convert, KINDS } from './catalogue.ts';
import { membersOf, priceOf, unsaidText } from './catalogue-entry.ts';
import { type Left, nameFrom, objectIn, type Row, textIn, textsIn } from './litellm-rows.ts';
import { EU_HOSTED, modelPrices } from './model.ts';
import { type ModelSizes, sizesIn } from './model-sizes.ts';

/** A model of LiteLLM, which stays its router: callers name it as before, and so does the gateway. */
export interface LitellmModel {
  /** `team_id` of the team whose own it is; null: everybody's. */
  readonly team: string | null;
  readonly slug: string;
  readonly settings: ReturnType<typeof settingsOf>;
  readonly notes: readonly string[];
}

/** One of the deployments behind a name: what its row says, and what the router tells of it. */
interface Deployment {
  readonly row: Row;
  readonly info: Row;
  readonly params: Row;
  readonly told: Row;
  readonly toldParams: Row;
}

/** @param router entries of `GET /model/info`, which also has the models of the configuration file; null: not asked */
export function litellmModels(
  rows: readonly Row[],
  router: readonly Row[] | null,
  convert: Convert,
) {
  const told = new Map((router ?? []).map((entry) => [objectIn(entry.model_info).id, entry]));
  const stored = new Set(rows.map(({ model_id }) => model_id));
  const all = [
    ...rows,
    ...(router ?? []).filter(({ model_info }) => !stored.has(objectIn(model_info).id)),
  ];
  const deployments = all.map((row): Deployment => {
    const info = objectIn(row.model_info);
    const entry = told.get(row.model_id ?? info.id) ?? {};
    const isRow = row.model_id !== undefined;
    return {
      row,
      info: isRow ? info : {},
      params: isRow ? objectIn(row.litellm_params) : {},
      told: objectIn(entry.model_info),
      toldParams: objectIn(entry.litellm_params),
    };
  });
  const groups = new Map<string, string[]>(); // names of models by their access group
  const left: Left[] = [];
  const models: LitellmModel[] = [];
  const named = Map.groupBy(deployments, (each) => JSON.stringify([teamOf(each), nameOf(each)]));
  for (const same of named.values()) {
    const [first] = same as [Deployment];
    const name = nameOf(first);
    for (const { info, told } of same) {
      for (const group of textsIn(info.access_groups ?? told.access_groups))
        groups.set(group, [...(groups.get(group) ?? []), name]);
    }
    const model = modelOf(name, same, convert);
    if (typeof model === 'string') left.push({ what: `model ${nameFrom(name)}`, why: model });
    else models.push(model);
  }
  return { models, groups, left };
}

const teamOf = ({ info }: Deployment) => textIn(info.team_id);
const nameOf = ({ row, info }: Deployment) =>
  textIn(info.team_public_model_name) ?? textIn(row.model_name) ?? '';

/** @returns why it does not come */
function modelOf(
  slug: string,
  all: readonly Deployment[],
  convert: Convert,
): LitellmModel | string {
  const [first] = all as [Deployment];
  const used = all.filter(({ row }) => row.blocked !== true);
  const upstream = textIn(first.row.model_name) ?? '';
  if (used.length === 0) return 'is blocked there';
  if (slug.includes('*')) return 'is a pattern: offer its models one by one, with "model create"';
  if (!SLUG.test(slug) || !isName(upstream))
    return 'its name cannot be a slug: "model create" gives it another, with --upstream';
  const modes = new Set(
    used
      .map(({ info, told }) => textIn(info.mode) ?? textIn(told.mode))
      .filter((mode) => mode !== null),
  );
  const [mode, other] = modes;
  const kind = mode === undefined ? likelyKind(slug) : KINDS[mode];
  if (other !== undefined) return `its deployments are of several kinds: ${[...modes].join(', ')}`;
  if (kind === undefined) return `no kind of model is for ${nameFrom(mode)}`;
  const each = used.map(({ info, params, told, toldParams }) =>
    membersOf([info, params, toldParams], told),
  );
  const price = priceOf({ name: upstream, each }, kind, convert);
  if (price === null) return 'has no price: "model create" gives it one';
  const { prices, rates, inexact, aside } = price;
  const notes = mode === undefined ? ['its kind is told by its name alone'] : [];
  notes.push(...price.notes);
  if ([prices, ...rates].some((some) => COST_PARTS.some((part) => !isPrice(some[part]))))
    return 'has a price above all bounds';
  const sizes = used.reduce((least, { info, told }) => sizesIn(info, sizesIn(told, least)), {});
  const isEu = used.every(({ toldParams }) => toldParams.region_name === 'eu');
  if (!isEu) notes.push('nothing says that it runs in the EU');
  if (inexact.length > 0) notes.push(`not exact: ${unsaidText(inexact)}`);
  if (aside.length > 0) notes.push(`aside: ${unsaidText(aside)}`);
  return {
    team: teamOf(first),
    slug,
    settings: settingsOf(upstream, kind, isEu, price, sizes),
    notes,
  };
}

function settingsOf(
  upstream_model: string,
  kind: ModelKind,
  isEu: boolean,
  { prices, rates }: Pick<CataloguePrice, 'prices' | 'rates'>,
  sizes: ModelSizes,
) {
  return {
    upstream_model,
    kind,
    [EU_HOSTED]: isEu,
    ...modelPrices(prices),
    ...(rates.length > 0 && { rates }),
    ...sizes,
  };
}

const isPrice = (price: string | null | undefined) => price == null || PRICE.test(price);

function isName(text: string): boolean {
  try {
    return readName(text) === text;
  } catch {
    return false;
  }
}
