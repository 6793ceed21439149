import { dayOf, IsoTime } from '../domain/iso.ts';
import type { EndedRequest } from '../domain/ports.ts';
import { asciiJson } from '../domain/record.ts';
import { nameOrNot } from '../domain/request/redact.ts';
import { CLOSE_BRACE, CLOSE_BRACKET, OPEN_BRACKET } from '../json/bytes.ts';
import { writeWhole } from '../json/decimal.ts';

/** Bytes of a block: some 2000 requests, which are one statement. */
export const BLOCK_BYTES = 524_288;
const MAX_REASON = 600; // characters of the upstream's words
const ID_LENGTH = 36; // a UUID; the database takes no other ids
const TIME_LENGTH = 24;
/** Beginnings of rows that are kept, one for each endpoint and model; more than any gateway has. */
const MAX_STARTS = 4096;
/** The most bytes of a row's numbers, their names and the cost's text, besides its beginning. */
const NUMBERS_ROOM = 160;

/**
 * Requests as a JSON array in a block of memory outside V8's heap, written when they end. Members have one letter
 * (see the statement in store/gateway/request-trail.ts), because most of a short request's text would be names.
 *
 *   [{"i":"019a…","t":"2026-11-22T…","e":"chat.completions","s":200,"d":412,"a":63,…},{…}]
 *
 * Nearly all rows are of calls that were answered whole. Theirs are not put together as text: what all of a model and an
 * endpoint share is copied, and the rest is written into its gaps and behind it, as RecordWriter does.
 */
export class TrailRows {
  readonly #bytes = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  readonly #iso = new IsoTime();
  /** The beginnings of rows of whole answers, by endpoint and model, and the one that was used last. */
  readonly #starts = new Map<string, Map<string, Buffer>>();
  #startCount = 0;
  #lastEndpoint = '';
  #lastSlug = '';
  #lastStart: Buffer = NONE;
  /** False once a statement with its bytes failed: they may still be being sent. */
  reusable = true;
  #used = 0;
  #count = 0;
  #firstAt = Number.POSITIVE_INFINITY;
  #lastAt = Number.NEGATIVE_INFINITY;

  get count(): number {
    return this.#count;
  }

  /** The first and the last day of its requests in UTC, "2026-11-22". */
  get days(): readonly [first: string, last: string] {
    return [dayOf(this.#firstAt), dayOf(this.#lastAt)];
  }

  /** @returns its bytes; 0 where there is no room for it */
  add(request: EndedRequest, ms: number, added: number, firstEvent: number): number {
    const { at } = request;
    const bytes = isWhole(request)
      ? this.#addWhole(request, ms, added, firstEvent)
      : this.#addText(request, ms, added, firstEvent);
    if (bytes === 0) return 0;
    this.#count++;
    if (at < this.#firstAt) this.#firstAt = at;
    if (at > this.#lastAt) this.#lastAt = at;
    return bytes;
  }

  #addWhole(
    { at, reply, endpoint, companyId, keyId, slug, meter }: WholeRequest,
    ms: number,
    added: number,
    firstEvent: number,
  ): number {
    const start = this.#startOf(endpoint, slug);
    const bytes = this.#bytes;
    const from = this.#used;
    if (from + start.length + NUMBERS_ROOM + meter.cost.length > BLOCK_BYTES) return 0;
    bytes.set(start, from);
    bytes.write(reply.requestId, from + ID_AT, ID_LENGTH, 'latin1');
    this.#iso.write(bytes, from + TIME_AT, at);
    bytes.write(companyId, from + COMPANY_AT, ID_LENGTH, 'latin1');
    bytes.write(keyId, from + KEY_AT, ID_LENGTH, 'latin1');
    let next = writeWhole(bytes, from + start.length, Math.round(ms));
    next = this.#number(next, ADDED, Math.round(added * 1000));
    if (firstEvent >= 0) next = this.#number(next, FIRST_EVENT, Math.round(firstEvent));
    next = this.#number(next, PROMPT, meter.tokens.prompt);
    next = this.#number(next, COMPLETION, meter.tokens.completion);
    bytes.set(COST, next);
    next += COST.length;
    next += bytes.write(meter.cost, next, 'latin1');
    bytes[next++] = CLOSE_BRACE;
    this.#used = next;
    return next - from;
  }

  #number(at: number, name: Buffer, value: number): number {
    this.#bytes.set(name, at);
    return writeWhole(this.#bytes, at + name.length, value);
  }

  /** What rows of whole answers of a model at an endpoint begin with. */
  #startOf(endpoint: string, slug: string): Buffer {
    if (endpoint === this.#lastEndpoint && slug === this.#lastSlug) return this.#lastStart;
    let starts = this.#starts.get(endpoint);
    if (starts === undefined || this.#startCount >= MAX_STARTS) {
      if (this.#startCount >= MAX_STARTS) this.#starts.clear();
      this.#startCount = starts === undefined ? this.#startCount : 0;
      starts = new Map();
      this.#starts.set(endpoint, starts);
    }
    let start = starts.get(slug);
    if (start === undefined) {
      start = Buffer.from(
        `${GAPS},"e":"${endpoint}","m":${asciiJson(slug)},"o":"completed","s":200,"d":`,
      );
      starts.set(slug, start);
      this.#startCount++;
    }
    this.#lastEndpoint = endpoint;
    this.#lastSlug = slug;
    this.#lastStart = start;
    return start;
  }

  #addText(request: EndedRequest, ms: number, added: number, firstEvent: number): number {
    const { at, reply, endpoint, companyId, keyId, slug, meter } = request;
    let text = `,{"i":"${reply.requestId}","t":"${this.#iso.of(at)}","e":"${endpoint}","s":${reply.status},"d":${Math.round(ms)},"a":${Math.round(added * 1000)}`;
    if (companyId !== null) text += `,"c":"${companyId}"`;
    if (keyId !== null) text += `,"k":"${keyId}"`;
    if (slug !== null) text += `,"m":${asciiJson(slug)}`;
    if (firstEvent >= 0) text += `,"f":${Math.round(firstEvent)}`;
    if (meter !== null) text += callText(meter);
    if (reply.failure !== null) text += failureText(request, reply.failure);
    text += '}';
    if (this.#used + text.length + 1 > BLOCK_BYTES) return 0;
    this.#used += this.#bytes.write(text, this.#used, 'latin1');
    return text.length;
  }

  /** The array. Nothing may be added afterwards, until it is emptied. */
  close(): Buffer {
    this.#bytes[0] = OPEN_BRACKET;
    this.#bytes[this.#used] = CLOSE_BRACKET;
    return this.#bytes.subarray(0, this.#used + 1);
  }

  /** The bytes may be written anew. */
  empty(): void {
    this.#used = 0;
    this.#count = 0;
    this.#firstAt = Number.POSITIVE_INFINITY;
    this.#lastAt = Number.NEGATIVE_INFINITY;
  }
}

const NONE = Buffer.alloc(0);
const NO_ID = ' '.repeat(ID_LENGTH);
const GAPS = `,{"i":"${NO_ID}","t":"${' '.repeat(TIME_LENGTH)}","c":"${NO_ID}","k":"${NO_ID}"`;
const ID_AT = ',{"i":"'.length;
const TIME_AT = ID_AT + ID_LENGTH + '","t":"'.length;
const COMPANY_AT = TIME_AT + TIME_LENGTH + '","c":"'.length;
const KEY_AT = COMPANY_AT + ID_LENGTH + '","k":"'.length;
const ADDED = Buffer.from(',"a":');
const FIRST_EVENT = Buffer.from(',"f":');
const PROMPT = Buffer.from(',"n":');
const COMPLETION = Buffer.from(',"g":');
const COST = Buffer.from(',"v":');

/** A call that was answered whole and booked. */
interface WholeRequest extends EndedRequest {
  readonly companyId: string;
  readonly keyId: string;
  readonly slug: string;
  readonly meter: NonNullable<EndedRequest['meter']> & {
    readonly tokens: { readonly prompt: number; readonly completion: number };
    readonly cost: string;
  };
}

function isWhole(request: EndedRequest): request is WholeRequest {
  const { reply, companyId, keyId, slug, meter } = request;
  if (
    meter === null ||
    meter.outcome !== 'completed' ||
    meter.tokens === null ||
    meter.cost === null
  )
    return false;
  return (
    reply.status === 200 &&
    reply.failure === null &&
    meter.failure === null &&
    slug !== null &&
    keyId !== null &&
    companyId !== null
  );
}

function callText({ outcome, tokens, cost, failure }: NonNullable<EndedRequest['meter']>): string {
  let text = `,"o":"${outcome ?? 'client_aborted'}"`; // a client that stays sees the end of its call
  if (tokens !== null) text += `,"n":${tokens.prompt},"g":${tokens.completion}`;
  if (cost !== null) text += `,"v":${cost}`;
  if (failure === null) return text;
  if (failure.status !== null) text += `,"u":${failure.status}`;
  // Postgres takes neither NUL nor half a character
  const reason = failure.reason.slice(0, MAX_REASON).replaceAll('\0', '').toWellFormed();
  return `${text},"r":${asciiJson(reason)}`;
}

function failureText(
  { slug, asked }: EndedRequest,
  { name, code, param, setting = null }: NonNullable<EndedRequest['reply']['failure']>,
) {
  let text = `,"x":"${code ?? name}"`;
  const about = setting ?? param;
  if (about !== null) text += `,"p":${asciiJson(nameOrNot(about))}`;
  if (asked !== null && slug === null) text += `,"q":${asciiJson(nameOrNot(asked))}`;
  return text;
}
