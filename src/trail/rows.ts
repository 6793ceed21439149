import { dayOf, IsoTime } from '../domain/iso.ts';
import type { EndedRequest } from '../domain/ports.ts';
import { asciiJson } from '../domain/record.ts';
import { nameOrNot } from '../domain/request/redact.ts';
import { CLOSE_BRACKET, OPEN_BRACKET } from '../json/bytes.ts';

/** Bytes of a block: some 2000 requests, which are one statement. */
export const BLOCK_BYTES = 524_288;
const MAX_REASON = 600; // characters of the upstream's words

/**
 * Requests as a JSON array in a block of memory outside V8's heap, written when they end. Members have one letter
 * (see the statement in store/gateway/request-trail.ts), because most of a short request's text would be names.
 *
 *   [{"i":"019a…","t":"2026-11-22T…","e":"chat.completions","s":200,"d":412,"a":63,…},{…}]
 */
export class TrailRows {
  readonly #bytes = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  readonly #iso = new IsoTime();
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
    this.#count++;
    if (at < this.#firstAt) this.#firstAt = at;
    if (at > this.#lastAt) this.#lastAt = at;
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
