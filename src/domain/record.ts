import { CLOSE_BRACE } from '../json/bytes.ts';
import { writeWhole } from '../json/decimal.ts';
import { hasRareParts, type UsageDetails } from '../json/usage-counts.ts';
import { IsoTime } from './iso.ts';
import type { Model } from './model.ts';
import { type Femto, parseEur, writeEur } from './pricing/money.ts';
import { COLUMN_PARTS, COUNTED_PARTS } from './pricing/parts.ts';
import type { ChargedPart, Prices } from './pricing/prices.ts';
import {
  type EndpointName,
  type Outcome,
  RARE_DETAILS,
  type UsageRecord,
  type UsageSource,
} from './usage.ts';

/**
 * Writes usage records as JSON objects whose members are the columns of `api_usage`, in ASCII and
 * without line breaks: the line of a spool and the element of a batch. What all calls of a model
 * share is copied; the rest is written into its gaps and between its two parts:
 *
 *   {"billing_month":"          ","request_id":"    ","company_id":"    ","api_key_id":"    ",…,"prompt_tokens":
 *                     2026-11-01                019a…              5c0e…                91fa…
 *   200,"completion_tokens":100,"cost_eur":0.00025
 *   ,"price_input":…,"outcome":"completed","occurred_at":"                        "}
 *                                                         2026-11-21T10:15:30.123Z
 *
 * Details of the tokens, a cost centre and an end user are more members, at the end: they are copied as text.
 * Concatenating 16 strings and copying the result took 0.5 to 1.2 µs a record more.
 */
export class RecordWriter {
  readonly #iso = new IsoTime();
  readonly #models = new WeakMap<Model, Shared>();
  #last: Model | null = null;
  #lastShared: Shared = { starts: {}, ends: {}, rated: new Map() };

  /** The most bytes a record can take. */
  room({ admission, prices, parts, source, outcome, details }: UsageRecord): number {
    const { model, endpoint, costCenter, endUser } = admission;
    const shared = this.#sharedOf(model);
    const label = costCenter === '' ? 0 : COST_CENTER.length + 6 * costCenter.length + 3; // at most an escape a unit
    const person = endUser == null ? 0 : END_USER.length + ID_LENGTH + 2;
    const more = label + person + (details === null ? 0 : DETAILS_ROOM) + roomOfParts(parts);
    return (
      startOf(shared, model, endpoint).length +
      DIGITS +
      endOf(shared, prices, source, outcome).length +
      more
    );
  }

  /** Writes a record into a buffer with room for it. @returns the offset behind it */
  write(record: UsageRecord, bytes: Buffer, at: number): number {
    const { admission, tokens, cost, prices, parts, source, outcome, details } = record;
    const { model, payer, costCenter, endUser = null } = admission;
    const shared = this.#sharedOf(model);
    const start = startOf(shared, model, admission.endpoint);
    const end = endOf(shared, prices, source, outcome);

    bytes.set(start, at);
    bytes.write(admission.month, at + MONTH_AT, MONTH_LENGTH, 'latin1');
    bytes.write(admission.requestId, at + REQUEST_AT, ID_LENGTH, 'latin1');
    bytes.write(payer.companyId, at + COMPANY_AT, ID_LENGTH, 'latin1');
    bytes.write(payer.id, at + KEY_AT, ID_LENGTH, 'latin1');

    let next = writeWhole(bytes, at + start.length, tokens.prompt);
    bytes.set(COMPLETION, next);
    next = writeWhole(bytes, next + COMPLETION.length, tokens.completion);
    bytes.set(COST, next);
    next = writeEur(bytes, next + COST.length, cost);

    bytes.set(end, next);
    next += end.length;
    this.#iso.write(bytes, next - TIME_END, admission.at);
    if (costCenter === '' && details === null && endUser === null && parts === null) return next;
    next--; // over the closing brace
    if (details !== null) next = writeDetails(bytes, next, details, record.currency);
    if (costCenter !== '') next += bytes.write(COST_CENTER + asciiJson(costCenter), next, 'latin1');
    if (parts !== null) next += bytes.write(partsText(parts), next, 'latin1');
    if (endUser !== null) next += bytes.write(`${END_USER}${endUser.id}"`, next, 'latin1');
    bytes[next] = CLOSE_BRACE;
    return next + 1;
  }

  #sharedOf(model: Model): Shared {
    if (model === this.#last) return this.#lastShared;
    let shared = this.#models.get(model);
    if (shared === undefined) {
      shared = { starts: {}, ends: {}, rated: new Map() };
      this.#models.set(model, shared);
    }
    this.#last = model;
    this.#lastShared = shared;
    return shared;
  }
}

type Ends = { [source in UsageSource]?: { [outcome in Outcome]?: Buffer } };

/** The parts that all records of a model share, each made when first needed. */
interface Shared {
  readonly starts: { [endpoint in EndpointName]?: Buffer };
  readonly ends: Ends;
  /** Those of records whose prices are a rate's. */
  readonly rated: Map<Prices, Ends>;
}

const MONTH_LENGTH = 10;
const ID_LENGTH = 36; // a UUID; the database takes no other ids
const MONTH_AT = '{"billing_month":"'.length;
const REQUEST_AT = MONTH_AT + MONTH_LENGTH + '","request_id":"'.length;
const COMPANY_AT = REQUEST_AT + ID_LENGTH + '","company_id":"'.length;
const KEY_AT = COMPANY_AT + ID_LENGTH + '","api_key_id":"'.length;
const TIME_LENGTH = 24;
const TIME_END = TIME_LENGTH + '"}'.length;
const COMPLETION = Buffer.from(',"completion_tokens":');
const COST = Buffer.from(',"cost_eur":');
const COST_CENTER = ',"cost_center":';
const END_USER = ',"end_user_id":"';
const DIGITS = COMPLETION.length + COST.length + 2 * 16 + 48; // two counts, and a cost: 20 digits before the point and 15 behind it

const CACHED = Buffer.from(',"cached_tokens":');
const CACHE_WRITE = Buffer.from(',"cache_write_tokens":');
const AUDIO_PROMPT = Buffer.from(',"audio_prompt_tokens":');
const REASONING = Buffer.from(',"reasoning_tokens":');
const AUDIO_COMPLETION = Buffer.from(',"audio_completion_tokens":');
const RARE = COUNTED_PARTS.filter(({ column }) =>
  (RARE_DETAILS as readonly string[]).includes(column),
).map(({ count, column }) => ({ count, name: Buffer.from(`,"${column}":`) }));

/** Names and counts, and the cost with its currency. */
const DETAILS_ROOM = 128 + COUNTED_PARTS.length * 48;

/** Writes the members for what was told, each with a comma before it. @returns the offset behind them */
function writeDetails(bytes: Buffer, at: number, details: UsageDetails, currency: string): number {
  const { cached, cacheWrite, audioPrompt, reasoning, audioCompletion, cost } = details;
  if (cached !== null) at = writeCount(bytes, at, CACHED, cached);
  if (cacheWrite !== null) at = writeCount(bytes, at, CACHE_WRITE, cacheWrite);
  if (audioPrompt !== null) at = writeCount(bytes, at, AUDIO_PROMPT, audioPrompt);
  if (reasoning !== null) at = writeCount(bytes, at, REASONING, reasoning);
  if (audioCompletion !== null) at = writeCount(bytes, at, AUDIO_COMPLETION, audioCompletion);
  if (hasRareParts(details)) {
    for (const { count, name } of RARE) {
      const told = details[count];
      if (told !== null) at = writeCount(bytes, at, name, told);
    }
  }
  if (cost === null) return at;
  return (
    at + bytes.write(`,"upstream_cost":${cost},"upstream_currency":"${currency}"`, at, 'latin1')
  );
}

function writeCount(bytes: Buffer, at: number, name: Buffer, count: number): number {
  bytes.set(name, at);
  return writeWhole(bytes, at + name.length, count);
}

function startOf({ starts }: Shared, { slug, upstream }: Model, endpoint: EndpointName): Buffer {
  // only names and slugs are free text and need escaping
  starts[endpoint] ??= Buffer.from(
    `{"billing_month":"${' '.repeat(MONTH_LENGTH)}","request_id":"${NO_ID}","company_id":"${NO_ID}"` +
      `,"api_key_id":"${NO_ID}","model_slug":${asciiJson(slug)},"upstream_model":${asciiJson(upstream)}` +
      `,"endpoint":"${endpoint}","prompt_tokens":`,
  );
  return starts[endpoint];
}

function endOf(shared: Shared, prices: Prices, source: UsageSource, outcome: Outcome): Buffer {
  const { rate } = prices;
  let ends = rate === null ? shared.ends : shared.rated.get(prices);
  if (ends === undefined) {
    ends = {};
    shared.rated.set(prices, ends);
  }
  ends[source] ??= {};
  ends[source][outcome] ??= Buffer.from(
    COLUMN_PARTS.map((part) =>
      prices.texts[part] === null ? '' : `,"price_${part}":${prices.texts[part]}`,
    ).join('') +
      (rate === null ? '' : `,"rate":${asciiJson(rate)}`) +
      `,"usage_source":"${source}","outcome":"${outcome}","occurred_at":"${' '.repeat(TIME_LENGTH)}"}`,
  );
  return ends[source][outcome];
}

/** Room for the longest name of a part, its units and its price. */
const PART_ROOM = 96;

const roomOfParts = (parts: readonly ChargedPart[] | null): number =>
  parts === null ? 0 : 16 + parts.length * PART_ROOM;

/** The parts with their prices as text: no reader of JSON takes a digit of it. */
function partsText(parts: readonly ChargedPart[]): string {
  const each = parts.map(
    ({ part, units, price }) => `{"part":"${part}","units":${units},"price":"${price}"}`,
  );
  return `,"parts":[${each.join(',')}]`;
}

const NO_ID = ' '.repeat(ID_LENGTH);

/** The counts of a record, with the company, key and month that they are for. */
export interface RecordCost {
  readonly requestId: string;
  readonly companyId: string;
  readonly keyId: string;
  readonly month: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cost: Femto;
}

/** Parses what RecordWriter wrote; null for anything else. */
export function readRecordCost(json: string): RecordCost | null {
  const match = RECORD.exec(json);
  if (match === null) return null;
  const [, month, requestId, companyId, keyId, prompt, completion, eur] =
    match as string[] as Matched;
  const tokens = { promptTokens: Number(prompt), completionTokens: Number(completion) };
  return { requestId, companyId, keyId, month, ...tokens, cost: parseEur(eur) };
}

type Matched = [string, string, string, string, string, string, string, string];
const RECORD =
  /^\{"billing_month":"([\d-]{10})","request_id":"([\da-f-]{36})","company_id":"([\da-f-]{36})","api_key_id":"([\da-f-]{36})",.*?,"prompt_tokens":(\d+),"completion_tokens":(\d+),"cost_eur":(\d+(?:\.\d+)?),"price_input":/;

/** When the call of a record was admitted, milliseconds since the epoch; null for anything that RecordWriter did not write. */
export function readRecordTime(json: string): number | null {
  return Date.parse(/"occurred_at":"([^"]+)"/.exec(json)?.[1] ?? '') || null;
}

/** The end user of a record; null: none, or RecordWriter did not write it. */
export function readRecordEndUser(json: string): string | null {
  return /"end_user_id":"([\da-f-]{36})"/.exec(json)?.[1] ?? null;
}

/** A JSON string of ASCII characters. */
export function asciiJson(text: string): string {
  if (PLAIN.test(text)) return `"${text}"`;
  return JSON.stringify(text).replace(
    /[^\x20-\x7e]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

const PLAIN = /^[\w.:/@+!-]*$/;
