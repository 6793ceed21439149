import type { ServerResponse } from 'node:http';
import type { AnswerBytes } from '../json/splice.ts';
import { STATUS_CODES } from '../runtime/node-http.ts';

/**
 * Nothing of the API is kept by a cache on the way, which would hand it to others: it may know callers by `x-api-key`,
 * which caches do not heed. A part of every head, not a pair of headers: that costs nothing.
 */
export const NO_STORE = 'cache-control: no-store';

/**
 * The head of an answer, byte for byte as node:http writes it, which takes 2 µs for each header.
 * @param headers names and values alternate. Whoever takes a value from others checks it, as Reply does: checking all
 *   that is made here took 0.3 µs of a request
 * @param idleMs how long the connection stays open for the next request, in milliseconds; null: it closes
 */
export function answerHead(
  status: number,
  headers: readonly string[],
  idleMs: number | null,
  isChunked: boolean,
): string {
  let lines = '';
  for (let i = 0; i < headers.length; i += 2) {
    lines += `${headers[i]}: ${headers[i + 1]}\r\n`;
  }
  lines += `Date: ${httpDate()}\r\nConnection: `;
  lines +=
    idleMs === null
      ? 'close\r\n'
      : `keep-alive\r\nKeep-Alive: timeout=${Math.floor(idleMs / 1000)}\r\n`;
  if (isChunked) lines += 'Transfer-Encoding: chunked\r\n';
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${NO_STORE}\r\n${lines}\r\n`;
}

/** A body up to this size is sent as text, in one write with its head: saves 12 % of a small request. */
const MAX_TEXT = 65_536;

/** Sends the body of a whole answer as Node's own response does it fastest. */
export function endWith(res: ServerResponse, body: AnswerBytes | string): void {
  if (typeof body === 'string') res.end(body, 'latin1');
  else if (Buffer.isBuffer(body))
    res.end(body.length > MAX_TEXT ? body : body.toString('latin1'), 'latin1');
  else {
    for (const piece of body) res.write(piece);
    res.end();
  }
}

let second = Number.NaN;
let date = '';

/** The time of day as HTTP writes it (RFC 9110, section 5.6.7), made once a second. */
function httpDate(): string {
  const now = Date.now();
  if (!(now >= second && now < second + 1000)) {
    second = now - (now % 1000);
    date = new Date(second).toUTCString();
  }
  return date;
}
