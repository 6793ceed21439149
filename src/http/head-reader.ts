import { COLON, CR, SPACE } from '../json/bytes.ts';
import { READ_HEADERS, RequestHead } from './request-head.ts';

/** The longest head that is read here, in bytes; and the longest length, in digits. */
const MOST_BYTES = 8192;
const MOST_DIGITS = 10;

/** The head of an HTTP/1.1 request, as the reader took it from its bytes. */
export interface ReadHead {
  readonly method: string;
  readonly url: string;
  readonly head: RequestHead;
  /** All of it, latin1: the body begins behind as many bytes. */
  readonly text: string;
}

/**
 * Reads the common form of a request's head (RFC 9112): GET or POST, a path, HTTP/1.1, names of letters, digits, "-"
 * and "_", values of printable ASCII, one length or none, and a connection that stays open. What it takes, Node's
 * parser takes too and reads equal; what it does not take, or is in doubt about, is for Node's parser. Pure.
 * @param end of the bytes
 * @param mostHeaders how many headers there may be
 * @returns null where the bytes do not begin with a whole head of this form
 */
export function readHead(bytes: Buffer, end: number, mostHeaders: number): ReadHead | null {
  const limit = Math.min(end, MOST_BYTES);
  const method = METHODS.find((each) => isAt(bytes, limit, each.bytes, 0));
  if (method === undefined) return null;
  const path = method.bytes.length - 1; // each begins with its slash
  let at = endOf(TARGET, bytes, path, limit);
  if (!isAt(bytes, limit, VERSION, at)) return null;
  const url = bytes.toString('latin1', path, at);
  at += VERSION.length;
  const head = new RequestHead(NO_HEADERS);
  while (at < limit && bytes[at] !== CR) {
    const from = at;
    at = endOf(NAME, bytes, from, limit);
    const known = KNOWN[at - from];
    if (at === from || at === limit || bytes[at] !== COLON || ++head.count > mostHeaders)
      return null;
    do at++;
    while (at < limit && bytes[at] === SPACE);
    const value = at;
    at = endOf(VALUE, bytes, value, limit);
    if (!isAt(bytes, limit, LINE_END, at)) return null;
    for (let i = 0; known !== undefined && i < known.length; i++) {
      const { name, bytes: lower } = known[i] as (typeof known)[number];
      if (isNamed(bytes, from, lower) && !takes(head, name, bytes.toString('latin1', value, at)))
        return null;
    }
    at += LINE_END.length;
  }
  if (!isAt(bytes, limit, LINE_END, at)) return null;
  return {
    method: method.name,
    url,
    head,
    text: bytes.toString('latin1', 0, at + LINE_END.length),
  };
}

/** Takes a header that has a meaning here. @returns whether it is of the common form */
function takes(head: RequestHead, name: string, spaced: string): boolean {
  const value = spaced.trimEnd();
  switch (name) {
    case 'content-length':
      if (head.contentLength >= 0 || !LENGTH.test(value)) return false;
      break;
    case 'connection':
      return value.toLowerCase() === 'keep-alive';
    case 'expect':
    case 'proxy-connection':
    case 'transfer-encoding':
    case 'upgrade':
      return false;
  }
  head.take(name, value);
  return true;
}

/** The headers of a head that was read: names and values alternate, as Node's parser has them. */
export function rawHeadersOf({ text }: ReadHead): string[] {
  return text
    .split('\r\n')
    .slice(1, -2)
    .flatMap((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    });
}

const NO_HEADERS: readonly string[] = [];
const METHODS = ['POST', 'GET'].map((name) => ({ name, bytes: Buffer.from(`${name} /`) }));
const VERSION = Buffer.from(' HTTP/1.1\r\n');
const LINE_END = Buffer.from('\r\n');
const LENGTH = new RegExp(`^(?:0|[1-9]\\d{0,${MOST_DIGITS - 1}})$`);
const WITH_MEANING = [...READ_HEADERS, 'connection', 'proxy-connection'];
/** By the length of the name, which rules out most other headers. */
const KNOWN = Array.from({ length: 32 }, (_, length) => {
  const names = WITH_MEANING.filter((name) => name.length === length);
  return names.length === 0 ? undefined : names.map((name) => ({ name, bytes: Buffer.from(name) }));
});

/** What a byte may be a part of, as bits. */
const [NAME, VALUE, TARGET] = [1, 2, 4] as const;
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  const char = String.fromCharCode(byte);
  const bit = (form: RegExp, kind: number): number => (form.test(char) ? kind : 0);
  return bit(/[\w-]/, NAME) | bit(/[ -~]/, VALUE) | bit(/[\w/.~%?&=+,:;@!$'()*-]/, TARGET);
});

/** Where the bytes of a kind end that begin at an offset. */
function endOf(kind: number, bytes: Buffer, at: number, limit: number): number {
  while (at < limit && ((KINDS[bytes[at] as number] as number) & kind) !== 0) at++;
  return at;
}

function isAt(bytes: Buffer, limit: number, expected: Buffer, at: number): boolean {
  if (at + expected.length > limit) return false;
  for (let i = 0; i < expected.length; i++) if (bytes[at + i] !== expected[i]) return false;
  return true;
}

/** Whether a name stands at an offset, in letters of either case. @param lower it has letters and hyphens */
function isNamed(bytes: Buffer, at: number, lower: Buffer): boolean {
  for (let i = 0; i < lower.length; i++)
    if (((bytes[at + i] as number) | 0x20) !== lower[i]) return false;
  return true;
}
