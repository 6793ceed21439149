import { GatewayError } from '../domain/errors.ts';
import type { RequestHead } from '../http/request-head.ts';

/** Any parameters (RFC 9110, section 8.3), but no character set other than UTF-8. */
const JSON_TYPE =
  /^application\/json[ \t]*(?:;(?![ \t]*charset=(?!"?utf-?8"?[ \t]*(?:;|$)))[^;,]*)*$/i;
/** A name, an IPv4 or an IPv6 address, perhaps with a port; empty is allowed (RFC 9112, section 3.2). */
const HOST = /^(?:[\w.~%-]*|\[[0-9a-f:.]+\])(?::\d{0,5})?$/i;

/**
 * Refuses a head that two HTTP readers could understand differently, where Node's parser accepts it.
 * @param minorVersion of HTTP/1.x
 * @throws GatewayError 400, or 431 for too many headers
 */
export function requireOneMeaning(
  head: RequestHead,
  minorVersion: number,
  maxHeaders: number,
): void {
  if (head.count > maxHeaders) throw new GatewayError('request_header_fields_too_large');
  if (head.repeated !== null) {
    throw new GatewayError('invalid_request', `The header '${head.repeated}' occurs twice.`);
  }
  const { host, transferEncoding, contentLength } = head;
  if (transferEncoding !== undefined) {
    if (minorVersion === 0 || contentLength >= 0 || !/^chunked$/i.test(transferEncoding)) {
      throw new GatewayError(
        'invalid_request',
        'The request body is framed in a way the gateway does not read.',
      );
    }
  }
  if (host === undefined ? minorVersion > 0 : !HOST.test(host)) {
    throw new GatewayError('invalid_request', "The header 'host' is missing or malformed.");
  }
}

/** @throws GatewayError 415 unless the body is plain JSON in UTF-8 */
export function requireJson({ contentType, contentEncoding }: RequestHead): void {
  if (contentEncoding !== undefined && contentEncoding.toLowerCase() !== 'identity') {
    throw new GatewayError('unsupported_media_type');
  }
  if (contentType === 'application/json') return;
  if (contentType === undefined || !JSON_TYPE.test(contentType))
    throw new GatewayError('unsupported_media_type');
}
