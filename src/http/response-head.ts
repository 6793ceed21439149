import { STATUS_CODES, validateHeaderValue } from '../runtime/node-http.ts';

const JSON_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ';

/**
 * The headers of a whole JSON answer.
 * @param idHeader a second header, besides `x-request-id`, that has the request id; null: none
 * @param cost value of `x-cost-eur`; null: without that header
 */
export function jsonHeaders(requestId: string, idHeader: string | null, length: number, cost: string | null): string[] {
  const headers = ['content-type', 'application/json', 'content-length', `${length}`, 'x-request-id', requestId];
  if (idHeader !== null) headers.push(idHeader, requestId);
  if (cost !== null) headers.push('x-cost-eur', cost);
  return headers;
}

/**
 * The head of a JSON answer of status 200 with the headers that `jsonHeaders` names, byte for byte as node:http
 * writes it.
 * @param idleMs how long the connection stays open for the next request; null: it closes
 */
export function jsonHead(
  requestId: string,
  idHeader: string | null,
  length: number,
  cost: string | null,
  idleMs: number | null,
): string {
  const idLine = idHeader === null ? '' : `${idHeader}: ${requestId}\r\n`;
  const costLine = cost === null ? '' : `x-cost-eur: ${cost}\r\n`;
  return `${JSON_HEAD}${length}\r\nx-request-id: ${requestId}\r\n${idLine}${costLine}${connectionLines(idleMs)}\r\n`;
}

/**
 * The head of any other answer, byte for byte as node:http writes it.
 * @param headers names and values alternate
 * @param idleMs as in `jsonHead`
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
    const [name, value] = [headers[i] as string, headers[i + 1] as string];
    validateHeaderValue(name, value);
    lines += `${name}: ${value}\r\n`;
  }
  const framing = isChunked ? 'Transfer-Encoding: chunked\r\n' : '';
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines}${connectionLines(idleMs)}${framing}\r\n`;
}

function connectionLines(idleMs: number | null): string {
  const connection = idleMs === null ? 'close' : `keep-alive\r\nKeep-Alive: timeout=${Math.floor(idleMs / 1000)}`;
  return `Date: ${httpDate()}\r\nConnection: ${connection}\r\n`;
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
