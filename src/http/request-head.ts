import { GatewayError } from '../domain/errors.ts';

/**
 * The few request headers the gateway reads, taken in one pass over Node's raw list:
 * building `req.headers` would cost more than the rest of the routing together.
 */
export class RequestHead {
  authorization: string | undefined;
  contentType: string | undefined;
  contentEncoding: string | undefined;
  host: string | undefined;
  transferEncoding: string | undefined;
  /** Bytes announced; -1 when none were (chunked or no body). */
  contentLength = -1;
  /** The client waits for "100 Continue" before it sends its body. */
  expectsContinue = false;
  /** The client would rather speak another protocol; the API has none. */
  upgrades = false;
  readonly count: number;
  /** A header that occurs twice and that two hops could read differently. */
  #twice: string | null = null;
  /** null: there is none; undefined: not looked for yet. */
  #bearer: string | null | undefined;

  constructor(raw: readonly string[], count = raw.length >> 1) {
    this.count = count;
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i] as string;
      // the lengths of the names differ, but for other headers of the same length
      switch (name.length) {
        case 4:
          if (name.toLowerCase() === 'host') {
            if (this.host !== undefined) this.#twice = 'host';
            this.host = raw[i + 1];
          }
          break;
        case 6:
          if (name.toLowerCase() === 'expect') this.expectsContinue = /^100-continue$/i.test(raw[i + 1] as string);
          break;
        case 7:
          if (name.toLowerCase() === 'upgrade') this.upgrades = true;
          break;
        case 13:
          if (name.toLowerCase() === 'authorization') {
            if (this.authorization !== undefined) this.#twice = 'authorization';
            this.authorization = raw[i + 1];
          }
          break;
        case 12:
          if (name.toLowerCase() === 'content-type') {
            if (this.contentType !== undefined) this.#twice = 'content-type';
            this.contentType = raw[i + 1];
          }
          break;
        case 14:
          if (name.toLowerCase() === 'content-length') {
            if (this.contentLength >= 0) this.#twice = 'content-length';
            this.contentLength = Number(raw[i + 1]);
          }
          break;
        case 16:
          if (name.toLowerCase() === 'content-encoding') {
            if (this.contentEncoding !== undefined) this.#twice = 'content-encoding';
            this.contentEncoding = raw[i + 1];
          }
          break;
        case 17:
          if (name.toLowerCase() === 'transfer-encoding') {
            if (this.transferEncoding !== undefined) this.#twice = 'transfer-encoding';
            this.transferEncoding = raw[i + 1];
          }
          break;
      }
    }
  }

  /** The same head with another bearer token. */
  withBearer(token: string): RequestHead {
    const head = new RequestHead(NO_HEADERS, this.count);
    head.authorization = `Bearer ${token}`;
    head.#bearer = token.length > MOST_TOKEN ? null : token; // known already: it is not taken out again
    head.contentType = this.contentType;
    head.contentEncoding = this.contentEncoding;
    head.host = this.host;
    head.transferEncoding = this.transferEncoding;
    head.contentLength = this.contentLength;
    head.expectsContinue = this.expectsContinue;
    head.upgrades = this.upgrades;
    head.#twice = this.#twice;
    return head;
  }

  /**
   * Refuses what two hops could read differently and Node's parser lets through.
   * @param minorVersion of HTTP/1.x
   * @param maxHeaders headers accepted
   * @throws GatewayError 400, or 431 for too many headers
   */
  requireOneMeaning(minorVersion: number, maxHeaders: number): void {
    if (this.count > maxHeaders) throw new GatewayError('request_header_fields_too_large');
    if (this.#twice !== null) throw new GatewayError('invalid_request', `The header '${this.#twice}' occurs twice.`);
    if (this.transferEncoding !== undefined) {
      if (minorVersion === 0 || this.contentLength >= 0 || !/^chunked$/i.test(this.transferEncoding)) {
        throw new GatewayError('invalid_request', 'The request body is framed in a way the gateway does not read.');
      }
    }
    const { host } = this;
    if (host === undefined ? minorVersion > 0 : !HOST.test(host)) {
      throw new GatewayError('invalid_request', "The header 'host' is missing or malformed.");
    }
  }

  /** The bearer token (RFC 6750), or null when there is none that could be a key. */
  get bearer(): string | null {
    if (this.#bearer === undefined) this.#bearer = bearerOf(this.authorization);
    return this.#bearer;
  }

  /** @throws GatewayError 415 unless the body is plain JSON in UTF-8 */
  requireJson(): void {
    const { contentType, contentEncoding } = this;
    if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity') {
      throw new GatewayError('unsupported_media_type');
    }
    if (contentType === 'application/json') return;
    if (contentType === undefined || !JSON_TYPE.test(contentType)) throw new GatewayError('unsupported_media_type');
  }
}

const SCHEME = 'bearer ';
const MOST_TOKEN = 505;

function bearerOf(value = ''): string | null {
  const { length } = SCHEME;
  if (value.length <= length || value.length > length + MOST_TOKEN) return null;
  return value.slice(0, length).toLowerCase() === SCHEME ? value.slice(length).trim() : null;
}

const NO_HEADERS: readonly string[] = [];
const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i;
/** A name, an IPv4 or an IPv6 address, perhaps with a port; empty is allowed (RFC 9112, section 3.2). */
const HOST = /^(?:[\w.~%-]*|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i;
