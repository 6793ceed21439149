import { type Prices, timesFactor } from './pricing/prices.ts';

/** What models do: each kind has endpoints of its own. */
export const MODEL_KINDS = ['chat', 'embedding', 'rerank'] as const;
export type ModelKind = (typeof MODEL_KINDS)[number];

/** Whether a model takes token ids in place of text. */
export type TokenInput = 'accept' | 'refuse';

/** A model of a company, with its internal name (spec section 1, rule 2). */
export interface Model {
  readonly slug: string;
  /** The internal name: sent upstream and stored in the ledger, never shown to a client. */
  readonly upstream: string;
  readonly kind: ModelKind;
  readonly euHosted: boolean;
  /** Whether the input of an embedding, or the prompt of a text completion, may be token ids. */
  readonly acceptsTokens: boolean;
  /** Tokens of prompt and answer together, and the most of an answer; null: not told. */
  readonly contextLength?: number | null;
  readonly maxOutputTokens?: number | null;
  readonly prices: Prices;
  /** Unix seconds; `created` of the model entry. */
  readonly created: number;
  /** The price that begins next; null when none is to come. */
  readonly next: ComingPrice | null;
}

/** A price that begins at a date: the same model with other prices. */
export interface ComingPrice {
  /** Milliseconds since the epoch; a part of one is possible. */
  readonly from: number;
  readonly model: Model;
}

/** The factors of a company on its prices, as exact decimal text: the one that holds, and each that begins at a date. */
export type PriceFactors = readonly { readonly from: number; readonly factor: string }[];

/** The model with its prices times the factors of a company, each from the instant on when it begins. */
export function withFactors(model: Model, factors: PriceFactors, n = 0): Model {
  const { next } = model;
  const price = next?.from ?? Number.POSITIVE_INFINITY;
  const factor = factors[n + 1]?.from ?? Number.POSITIVE_INFINITY;
  const from = Math.min(price, factor);
  const then = price === from && next !== null ? next.model : model;
  return {
    ...model,
    prices: timesFactor(model.prices, (factors[n] as PriceFactors[number]).factor),
    next:
      from === Number.POSITIVE_INFINITY
        ? null
        : { from, model: withFactors(then, factors, factor === from ? n + 1 : n) },
  };
}

/** The model with the prices of an instant. @param at milliseconds since the epoch */
export function modelAt(model: Model, at: number): Model {
  let priced = model;
  while (priced.next !== null && priced.next.from <= at) priced = priced.next.model;
  return priced;
}

/** The prices of a model that begin at a date, the next one first. */
export function* comingPrices(model: Model | undefined): Generator<ComingPrice> {
  for (let next = model?.next ?? null; next !== null; next = next.model.next) yield next;
}

/** A model list entry (spec section 2.1). @param ownedBy name of the operating party */
export function modelEntry(
  { slug, created, contextLength, maxOutputTokens }: Model,
  ownedBy: string,
): object {
  const sizes = {
    context_length: contextLength ?? undefined,
    max_output_tokens: maxOutputTokens ?? undefined,
  };
  return { id: slug, object: 'model', created, owned_by: ownedBy, ...sizes };
}

/** The names under which an upstream model may appear: "hub/azure/gpt-4o" is also "azure/gpt-4o" and "gpt-4o". */
export function internalNames(upstream: string): string[] {
  const names = [upstream];
  for (let slash = upstream.indexOf('/'); slash >= 0; slash = upstream.indexOf('/', slash + 1)) {
    const behind = upstream.slice(slash + 1);
    if (behind.length >= 3) names.push(behind);
  }
  return names;
}

/** Whether models of a kind generate tokens. Others charge for their input alone. */
export function generates(kind: ModelKind): boolean {
  return kind === 'chat';
}

const RERANKS = /rerank/i;
const EMBEDS = /embed|\bbge\b|\bgte\b|\be5\b|minilm/i;

/** What a model is most likely for, by its name; people decide. */
export function likelyKind(upstream: string): ModelKind {
  if (RERANKS.test(upstream)) return 'rerank'; // "bge-reranker" has a part of other names
  return EMBEDS.test(upstream) ? 'embedding' : 'chat';
}
