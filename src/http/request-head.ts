import { hash } from 'node:crypto';

/**
 * The few request headers the gateway reads, taken in one pass over the raw list. Reading
 * `req.headers` instead makes an object of all headers: more than all other routing costs.
 */
export class RequestHead {
  authorization: string | undefined;
  /** `x-api-key`, `anthropic-version` and `anthropic-beta` of the Messages API. */
  apiKey: string | undefined;
  apiVersion: string | undefined;
  apiBeta: string | undefined;
  contentType: string | undefined;
  contentEncoding: string | undefined;
  host: string | undefined;
  transferEncoding: string | undefined;
  /** Bytes announced; -1 when none were (a chunked body, or none). */
  contentLength = -1;
  /** The client waits for "100 Continue" before it sends its body. */
  expectsContinue = false;
  /** The client asks for another protocol; the API speaks none. */
  upgrades = false;
  /** How many headers there are. */
  readonly count: number;
  /** A header that occurs twice and that two readers could understand differently. */
  repeated: string | null = null;
  /** null: there is none; undefined: not looked for yet. */
  #bearer: string | null | undefined;
  #bearerDigest: string | null = null;
  #apiKeyDigest: string | null = null;

  /** @param raw names and values in turn */
  constructor(raw: readonly string[], count = raw.length >> 1) {
    this.count = count;
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i] as string;
      // these names differ in length, so most other headers are passed over by their length alone
      switch (name.length) {
        case 4:
          if (name.toLowerCase() === 'host') {
            if (this.host !== undefined) this.repeated = 'host';
            this.host = raw[i + 1];
          }
          break;
        case 6:
          if (name.toLowerCase() === 'expect') this.expectsContinue = /^100-continue$/i.test(raw[i + 1] as string);
          break;
        case 7:
          if (name.toLowerCase() === 'upgrade') this.upgrades = true;
          break;
        case 9:
          if (name.toLowerCase() === 'x-api-key') {
            if (this.apiKey !== undefined) this.repeated = 'x-api-key';
            this.apiKey = (raw[i + 1] as string).trim();
          }
          break;
        case 12:
          if (name.toLowerCase() === 'content-type') {
            if (this.contentType !== undefined) this.repeated = 'content-type';
            this.contentType = raw[i + 1];
          }
          break;
        case 13:
          if (name.toLowerCase() === 'authorization') {
            if (this.authorization !== undefined) this.repeated = 'authorization';
            this.authorization = raw[i + 1];
          }
          break;
        case 14:
          if (name.toLowerCase() === 'content-length') {
            if (this.contentLength >= 0) this.repeated = 'content-length';
            this.contentLength = Number(raw[i + 1]);
          } else if (name.toLowerCase() === 'anthropic-beta') {
            this.apiBeta = this.apiBeta === undefined ? raw[i + 1] : `${this.apiBeta},${raw[i + 1]}`;
          }
          break;
        case 16:
          if (name.toLowerCase() === 'content-encoding') {
            if (this.contentEncoding !== undefined) this.repeated = 'content-encoding';
            this.contentEncoding = raw[i + 1];
          }
          break;
        case 17:
          if (name.toLowerCase() === 'transfer-encoding') {
            if (this.transferEncoding !== undefined) this.repeated = 'transfer-encoding';
            this.transferEncoding = raw[i + 1];
          } else if (name.toLowerCase() === 'anthropic-version') this.apiVersion = raw[i + 1];
          break;
      }
    }
  }

  /** The same head with another bearer token. */
  withBearer(token: string): RequestHead {
    const head = new RequestHead(NO_HEADERS, this.count);
    head.authorization = `Bearer ${token}`;
    head.#bearer = token.length > MAX_TOKEN ? null : token;
    head.apiKey = this.apiKey;
    head.apiVersion = this.apiVersion;
    head.apiBeta = this.apiBeta;
    head.contentType = this.contentType;
    head.contentEncoding = this.contentEncoding;
    head.host = this.host;
    head.transferEncoding = this.transferEncoding;
    head.contentLength = this.contentLength;
    head.expectsContinue = this.expectsContinue;
    head.upgrades = this.upgrades;
    head.repeated = this.repeated;
    return head;
  }

  /** The bearer token (RFC 6750), or null when there is none that could be a key. */
  get bearer(): string | null {
    if (this.#bearer === undefined) this.#bearer = bearerOf(this.authorization);
    return this.#bearer;
  }

  /** SHA-256 of the bearer token, in hex. A head that a connection repeats makes it once: 1 µs of 35. */
  get bearerDigest(): string | null {
    const { bearer } = this;
    if (bearer !== null) this.#bearerDigest ??= hash('sha256', bearer, 'hex');
    return this.#bearerDigest;
  }

  /** The same of `x-api-key`; null when it is missing or too long to be a key. */
  get apiKeyDigest(): string | null {
    const { apiKey = '' } = this;
    if (apiKey !== '' && apiKey.length <= MAX_TOKEN) this.#apiKeyDigest ??= hash('sha256', apiKey, 'hex');
    return this.#apiKeyDigest;
  }
}

const NO_HEADERS: readonly string[] = [];
const SCHEME = 'bearer ';
const MAX_TOKEN = 505;

function bearerOf(value = ''): string | null {
  const { length } = SCHEME;
  if (value.length <= length || value.length > length + MAX_TOKEN) return null;
  return value.slice(0, length).toLowerCase() === SCHEME ? value.slice(length).trim() : null;
}
