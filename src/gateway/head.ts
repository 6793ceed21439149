import { GatewayError } from '../domain/errors.ts';

/**
 * The few request headers the gateway reads, taken in one pass over Node's raw list:
 * building `req.headers` would cost more than the rest of the routing together.
 */
export class RequestHead {
  authorization: string | undefined;
  contentType: string | undefined;
  contentEncoding: string | undefined;
  /** Bytes announced; -1 when none were (chunked or no body). */
  contentLength = -1;
  /** Two authorization or content-type headers: two hops could read them differently. */
  ambiguous = false;

  constructor(raw: readonly string[]) {
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i] as string;
      // the lengths of the four names differ, but for other headers of the same length
      switch (name.length) {
        case 13:
          if (name.toLowerCase() === 'authorization') {
            if (this.authorization !== undefined) this.ambiguous = true;
            this.authorization = raw[i + 1];
          }
          break;
        case 12:
          if (name.toLowerCase() === 'content-type') {
            if (this.contentType !== undefined) this.ambiguous = true;
            this.contentType = raw[i + 1];
          }
          break;
        case 14:
          if (name.toLowerCase() === 'content-length') this.contentLength = Number(raw[i + 1]);
          break;
        case 16:
          if (name.toLowerCase() === 'content-encoding') this.contentEncoding = raw[i + 1];
          break;
      }
    }
  }

  /** The bearer token (RFC 6750), or undefined when there is none that could be a key. */
  get bearer(): string | undefined {
    const value = this.authorization;
    if (value === undefined || this.ambiguous || value.length < 8 || value.length > 512) return undefined;
    if (value.charCodeAt(6) !== 0x20 || value.slice(0, 6).toLowerCase() !== 'bearer') return undefined;
    return value.slice(7).trim();
  }

  /** @throws GatewayError 415 unless the body is plain JSON in UTF-8 */
  requireJson(): void {
    const { contentType, contentEncoding } = this;
    if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity') {
      throw new GatewayError('unsupported_media_type');
    }
    if (contentType === 'application/json') return;
    if (this.ambiguous || contentType === undefined || !JSON_TYPE.test(contentType)) {
      throw new GatewayError('unsupported_media_type');
    }
  }
}

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i;
