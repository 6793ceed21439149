import { IsoTime } from './iso.ts';
import type { Model } from './model.ts';
import { type Femto, formatEur, parseEur } from './money.ts';
import type { UsageRecord } from './usage.ts';

/** What `readRecordCost` finds in a record. */
const RECORD =
  /^\{"billing_month":"([\d-]{10})","request_id":"([\da-f-]{36})","company_id":"([\da-f-]{36})",.*,"cost_eur":(\d+(?:\.\d+)?),"price_input":/;

/** What all records of a model share, as JSON members. */
interface ModelMembers {
  readonly names: string;
  readonly prices: string;
}

/**
 * Writes usage records as JSON objects whose members are the columns of `api_usage`, in ASCII and
 * without line breaks: the line of a spool and the element of a batch. What all calls of a model
 * share is made once.
 */
export class RecordWriter {
  readonly #iso = new IsoTime();
  readonly #models = new WeakMap<Model, ModelMembers>();

  /** The record without a line break. */
  text({ admission, tokens, cost, source, outcome }: UsageRecord): string {
    const { month, requestId, payer, model, endpoint, at } = admission;
    const { names, prices } = this.#membersOf(model);
    return (
      `{"billing_month":"${month}","request_id":"${requestId}","company_id":"${payer.companyId}"` +
      `,"api_key_id":"${payer.id}",${names},"endpoint":"${endpoint}","prompt_tokens":${tokens.prompt}` +
      `,"completion_tokens":${tokens.completion},"cost_eur":${formatEur(cost)},${prices}` +
      `,"usage_source":"${source}","outcome":"${outcome}","occurred_at":"${this.#iso.of(at)}"}`
    );
  }

  #membersOf(model: Model): ModelMembers {
    let members = this.#models.get(model);
    if (members === undefined) {
      const { slug, upstream, prices } = model;
      members = {
        // only names and slugs are free text and need escaping
        names: `"model_slug":${asciiJson(slug)},"upstream_model":${asciiJson(upstream)}`,
        prices: `"price_input":${prices.inputText},"price_output":${prices.outputText}`,
      };
      this.#models.set(model, members);
    }
    return members;
  }
}

/** The cost of a record and where it counts. */
export interface RecordCost {
  readonly requestId: string;
  readonly companyId: string;
  readonly month: string;
  readonly cost: Femto;
}

/** Parses what RecordWriter wrote; null for anything else. */
export function readRecordCost(json: string): RecordCost | null {
  const match = RECORD.exec(json);
  if (match === null) return null;
  const [, month, requestId, companyId, eur] = match as unknown as [string, string, string, string, string];
  return { requestId, companyId, month, cost: parseEur(eur) };
}

/** A JSON string of ASCII characters. */
export function asciiJson(text: string): string {
  if (/^[\w.:/@+!-]*$/.test(text)) return `"${text}"`; // the usual slug: 35 ns instead of 90
  return JSON.stringify(text).replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
