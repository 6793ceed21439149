import { PRICE, readName, SLUG } from '../field.ts';
import { generates, likelyKind, type ModelKind } from '../model.ts';
import {
  type Left,
  nameFrom,
  numberIn,
  objectIn,
  type Rate,
  type Row,
  textIn,
  textsIn,
} from './litellm-rows.ts';
import { EU_HOSTED, eachPrice, modelPrices, type NewPrices, type PriceName } from './model.ts';
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

/** What LiteLLM calls the price of one token in USD. */
const COSTS: Readonly<Record<PriceName, string>> = {
  input: 'input_cost_per_token',
  output: 'output_cost_per_token',
  cache_read: 'cache_read_input_token_cost',
  cache_write: 'cache_creation_input_token_cost',
  cache_write_1h: 'cache_creation_input_token_cost_above_1hr',
  audio_input: 'input_cost_per_audio_token',
  image_input: 'input_cost_per_image_token',
  reasoning: 'output_cost_per_reasoning_token',
  audio_output: 'output_cost_per_audio_token',
  image_output: 'output_cost_per_image_token',
  search_unit: 'input_cost_per_query',
  request: 'input_cost_per_request',
};

/** The kinds by LiteLLM's `mode`. */
const KINDS: Readonly<Record<string, ModelKind>> = {
  chat: 'chat',
  completion: 'chat',
  responses: 'chat',
  embedding: 'embedding',
  rerank: 'rerank',
};

/** @param router entries of `GET /model/info`, which also has the models of the configuration file; null: not asked */
export function litellmModels(rows: readonly Row[], router: readonly Row[] | null, eur: Rate) {
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
    const model = modelOf(name, same, eur);
    if (typeof model === 'string') left.push({ what: `model ${nameFrom(name)}`, why: model });
    else models.push(model);
  }
  return { models, groups, left };
}

const teamOf = ({ info }: Deployment) => textIn(info.team_id);
const nameOf = ({ row, info }: Deployment) =>
  textIn(info.team_public_model_name) ?? textIn(row.model_name) ?? '';

/** @returns why it does not come */
function modelOf(slug: string, all: readonly Deployment[], eur: Rate): LitellmModel | string {
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
  const usd = eachPrice((name) => used.map((each) => costOf(each, name, kind)));
  if ([...usd.input, ...usd.output].includes(null))
    return 'has no price: "model create" gives it one';
  const notes = mode === undefined ? ['its kind is told by its name alone'] : [];
  const prices = eachPrice((name) => {
    const known = usd[name].filter((cost) => cost !== null);
    const isWhole = known.length === used.length;
    if (new Set(usd[name]).size > 1)
      notes.push(
        `${name} price: ${isWhole ? 'the highest' : 'not of all'} of its ${used.length} deployments`,
      );
    return isWhole ? eur(Math.max(...known), 1000n) : null;
  }) as NewPrices;
  if (Object.values(prices).some((price) => price !== null && !PRICE.test(String(price))))
    return 'has a price below 0 or above all bounds';
  const sizes = used.reduce((least, { info, told }) => sizesIn(info, sizesIn(told, least)), {});
  const isEu = used.every(({ toldParams }) => toldParams.region_name === 'eu');
  if (!isEu) notes.push('nothing says that it runs in the EU');
  const more = new Set(used.flatMap(otherCosts));
  if (more.size > 0) notes.push(`no counterpart: ${[...more].join(', ')}`);
  return {
    team: teamOf(first),
    slug,
    settings: settingsOf(upstream, kind, isEu, prices, sizes),
    notes,
  };
}

function settingsOf(
  upstream_model: string,
  kind: ModelKind,
  isEu: boolean,
  prices: NewPrices,
  sizes: ModelSizes,
) {
  return { upstream_model, kind, [EU_HOSTED]: isEu, ...modelPrices(prices), ...sizes };
}

/** USD for one token; null: nobody says. A 0 that the router tells is no price: it has it for what it does not know. */
function costOf(
  { info, params, toldParams, told }: Deployment,
  name: PriceName,
  kind: ModelKind,
): number | null {
  const member = COSTS[name];
  for (const said of [info, params, toldParams])
    if (numberIn(said[member]) !== null) return numberIn(said[member]);
  return numberIn(told[member]) || (name === 'output' && !generates(kind) ? 0 : null);
}

/** Prices of a deployment that are not of tokens, or hold for some of them alone. */
function otherCosts({ info, params, toldParams, told }: Deployment): string[] {
  const all = Object.entries({ ...told, ...toldParams, ...params, ...info });
  const known = Object.values(COSTS);
  return all.flatMap(([name, value]) =>
    /^[a-z\d_]*cost[a-z\d_]*$/.test(name) && !known.includes(name) && numberIn(value) ? name : [],
  );
}

function isName(text: string): boolean {
  try {
    return readName(text) === text;
  } catch {
    return false;
  }
}
