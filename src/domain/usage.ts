import { IsoTime } from './iso.ts';
import type { Model } from './model.ts';
import { costOf, type Femto, formatEur, parseEur } from './money.ts';

export type Endpoint = 'chat.completions' | 'embeddings' | 'assistants.run';
export type UsageSource = 'upstream' | 'estimated';
export type Outcome = 'completed' | 'client_aborted' | 'upstream_failed';

/** Token counts of one call, whole and not negative. */
export interface Tokens {
  readonly prompt: number;
  readonly completion: number;
}

/**
 * What was decided about a request once every gate let it through. Made once, read by
 * everything after: what was gated is what is sent, rewritten and booked.
 */
export interface Admission {
  readonly requestId: string;
  readonly companyId: string;
  readonly keyId: string;
  readonly model: Model;
  readonly endpoint: Endpoint;
  /** Milliseconds since the epoch at admission, and the billing month that instant lies in. */
  readonly at: number;
  readonly month: string;
}

/** One ledger row (spec section 2.8), complete when it is made: nothing is looked up later. */
export interface UsageRecord {
  readonly admission: Admission;
  readonly tokens: Tokens;
  readonly cost: Femto;
  readonly source: UsageSource;
  readonly outcome: Outcome;
}

export function usageRecord(admission: Admission, tokens: Tokens, source: UsageSource, outcome: Outcome): UsageRecord {
  const cost = costOf(admission.model.prices, tokens.prompt, tokens.completion);
  return { admission, tokens, cost, source, outcome };
}

/**
 * Writes records as JSON objects whose members are the columns of `api_usage`: the line in
 * the spool and the element of a batch. ASCII alone, and without line breaks. What is the
 * same for all calls of a model is written once.
 */
export class RecordWriter {
  readonly #iso = new IsoTime();
  readonly #models = new WeakMap<Model, readonly [names: string, prices: string]>();

  serialize({ admission, tokens, cost, source, outcome }: UsageRecord): string {
    const { model } = admission;
    let parts = this.#models.get(model);
    if (parts === undefined) {
      parts = partsOf(model);
      this.#models.set(model, parts);
    }
    return (
      `{"billing_month":"${admission.month}","request_id":"${admission.requestId}","company_id":"${admission.companyId}"` +
      `,"api_key_id":"${admission.keyId}",${parts[0]},"endpoint":"${admission.endpoint}"` +
      `,"prompt_tokens":${tokens.prompt},"completion_tokens":${tokens.completion},"cost_eur":${formatEur(cost)}` +
      `,${parts[1]},"usage_source":"${source}","outcome":"${outcome}","occurred_at":"${this.#iso.of(admission.at)}"}`
    );
  }
}

function partsOf({ slug, upstream, prices }: Model): [string, string] {
  // names and slugs are the only free text of a record; everything else is ours and needs no escaping
  return [
    `"model_slug":${quote(slug)},"upstream_model":${quote(upstream)}`,
    `"price_input":${prices.inputText},"price_output":${prices.outputText}`,
  ];
}

/** What the budget needs of a serialised record: whose it is and what it costs. */
export interface RecordCost {
  readonly requestId: string;
  readonly companyId: string;
  readonly month: string;
  readonly cost: Femto;
}

/** Reads back what RecordWriter wrote; null when it is something else. */
export function readRecordCost(json: string): RecordCost | null {
  const match = RECORD.exec(json);
  if (match === null) return null;
  const [, month, requestId, companyId, eur] = match as unknown as [string, string, string, string, string];
  return { requestId, companyId, month, cost: parseEur(eur) };
}

const RECORD =
  /^\{"billing_month":"([\d-]{10})","request_id":"([\da-f-]{36})","company_id":"([\da-f-]{36})",.*,"cost_eur":(\d+(?:\.\d+)?),"price_input":/;

/** A JSON string of ASCII characters. */
function quote(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return JSON.stringify(text).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const PLAIN = /^[\w.:/@+!-]*$/;
