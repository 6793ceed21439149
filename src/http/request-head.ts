import { hash } from 'node:crypto';

/**
 * The few request headers that the gateway reads, taken in one pass over the raw list. `req.headers` would make an
 * object of all headers, which costs more than all other routing.
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
  /** The announced length of the body in bytes; -1: none was announced (a chunked body, or no body). */
  contentLength = -1;
  /** The client waits for "100 Continue" before it sends its body. */
  expectsContinue = false;
  /** The client asks for another protocol; the API speaks none. */
  upgrades = false;
  /** How many headers there are. */
  count: number;
  /** A header that occurs twice and that two readers could understand differently. */
  repeated: string | null = null;
  /** null: there is none; undefined: not looked for yet. */
  #bearer: string | null | undefined;
  #bearerDigest: string | null = null;
  #apiKeyDigest: string | null = null;

  /** @param raw names and values alternate */
  constructor(raw: readonly string[]) {
    this.count = raw.length >> 1;
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i] as string;
      if (LENGTHS[name.length] === 1) this.take(name.toLowerCase(), raw[i + 1] as string);
    }
  }

  /** Takes a header. @param name in lower case */
  take(name: string, value: string): void {
    switch (name) {
      case 'authorization':
        this.authorization = this.#once(name, this.authorization, value);
        break;
      case 'content-length':
        this.contentLength = Number(
          this.#once(name, this.contentLength < 0 ? undefined : '', value),
        );
        break;
      case 'content-type':
        this.contentType = this.#once(name, this.contentType, value);
        break;
      case 'host':
        this.host = this.#once(name, this.host, value);
        break;
      case 'content-encoding':
        this.contentEncoding = this.#once(name, this.contentEncoding, value);
        break;
      case 'transfer-encoding':
        this.transferEncoding = this.#once(name, this.transferEncoding, value);
        break;
      case 'expect':
        this.expectsContinue = /(?:^|[\s,])100-continue(?:$|[\s,])/i.test(value);
        break;
      case 'upgrade':
        this.upgrades = true;
        break;
      case 'x-api-key':
        this.apiKey = this.#once(name, this.apiKey, value.trim());
        break;
      case 'anthropic-version':
        this.apiVersion = value;
        break;
      case 'anthropic-beta':
        this.apiBeta = this.apiBeta === undefined ? value : `${this.apiBeta},${value}`;
    }
  }

  #once(name: string, before: string | undefined, value: string): string {
    if (before !== undefined) this.repeated = name;
    return value;
  }

  /** Has the digests of an earlier head whose keys are the same: another one takes 1 µs of 35. */
  keysAsIn(before: RequestHead): void {
    if (before.authorization === this.authorization) {
      this.#bearer = before.#bearer;
      this.#bearerDigest = before.#bearerDigest;
    }
    if (before.apiKey === this.apiKey) this.#apiKeyDigest = before.#apiKeyDigest;
  }

  /** The bearer token (RFC 6750), or null when there is none that could be a key. */
  get bearer(): string | null {
    if (this.#bearer === undefined) this.#bearer = bearerOf(this.authorization);
    return this.#bearer;
  }

  /** SHA-256 of the bearer token, in hex. */
  get bearerDigest(): string | null {
    const { bearer } = this;
    if (bearer !== null) this.#bearerDigest ??= hash('sha256', bearer, 'hex');
    return this.#bearerDigest;
  }

  /** SHA-256 of `x-api-key`, in hex; null when that is missing or too long to be a key. */
  get apiKeyDigest(): string | null {
    const { apiKey = '' } = this;
    if (apiKey !== '' && apiKey.length <= MAX_TOKEN)
      this.#apiKeyDigest ??= hash('sha256', apiKey, 'hex');
    return this.#apiKeyDigest;
  }
}

/** The headers that `take` reads. */
export const READ_HEADERS = [
  'host',
  'expect',
  'upgrade',
  'x-api-key',
  'content-type',
  'authorization',
  'content-length',
  'anthropic-beta',
  'content-encoding',
  'transfer-encoding',
  'anthropic-version',
];
/** 1 for the lengths of their names: the length alone rules out most other headers. */
const LENGTHS = Uint8Array.from({ length: 32 }, (_, length) =>
  READ_HEADERS.some((name) => name.length === length) ? 1 : 0,
);
const SCHEME = 'bearer ';
const MAX_TOKEN = 505;

function bearerOf(value = ''): string | null {
  const { length } = SCHEME;
  if (value.length <= length || value.length > length + MAX_TOKEN) return null;
  return value.slice(0, length).toLowerCase() === SCHEME ? value.slice(length).trim() : null;
}
