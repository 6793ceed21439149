import { IsoTime } from './iso.ts';
import type { Payer } from './key.ts';
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
  readonly payer: Payer;
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

/** What stands in all records of a model, between what differs. */
interface Constant {
  readonly names: Readonly<Record<Endpoint, string>>;
  readonly end: Readonly<Record<UsageSource, Readonly<Record<Outcome, string>>>>;
}

/**
 * Writes records as JSON objects whose members are the columns of `api_usage`: the line in
 * the spool and the element of a batch. ASCII alone, and without line breaks. What is the
 * same for all calls of a model is written once: each piece a string is put together of costs 10 ns.
 */
export class RecordWriter {
  readonly #iso = new IsoTime();
  readonly #models = new WeakMap<Model, Constant>();

  serialize({ admission, tokens, cost, source, outcome }: UsageRecord): string {
    const { model } = admission;
    let constant = this.#models.get(model);
    if (constant === undefined) {
      constant = constantOf(model);
      this.#models.set(model, constant);
    }
    return (
      `{"billing_month":"${admission.month}","request_id":"${admission.requestId}","company_id":"${admission.payer.companyId}"` +
      `,"api_key_id":"${admission.payer.id}${constant.names[admission.endpoint]}${tokens.prompt}` +
      `,"completion_tokens":${tokens.completion},"cost_eur":${formatEur(cost)}` +
      `${constant.end[source][outcome]}${this.#iso.of(admission.at)}"}`
    );
  }
}

function constantOf({ slug, upstream, prices }: Model): Constant {
  // names and slugs are the only free text of a record; everything else is ours and needs no escaping
  const names = (endpoint: Endpoint): string =>
    `","model_slug":${asciiJson(slug)},"upstream_model":${asciiJson(upstream)},"endpoint":"${endpoint}","prompt_tokens":`;
  const end = (source: UsageSource, outcome: Outcome): string =>
    `,"price_input":${prices.inputText},"price_output":${prices.outputText}` +
    `,"usage_source":"${source}","outcome":"${outcome}","occurred_at":"`;
  const ends = (source: UsageSource): Record<Outcome, string> => ({
    completed: end(source, 'completed'),
    client_aborted: end(source, 'client_aborted'),
    upstream_failed: end(source, 'upstream_failed'),
  });
  return {
    names: {
      'chat.completions': names('chat.completions'),
      embeddings: names('embeddings'),
      'assistants.run': names('assistants.run'),
    },
    end: { upstream: ends('upstream'), estimated: ends('estimated') },
  };
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
export function asciiJson(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return JSON.stringify(text).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const PLAIN = /^[\w.:/@+!-]*$/;
