import t from 'tap';
import { rawHeadersOf, readHead } from '../../src/http/head-reader.ts';
import { RequestHead } from '../../src/http/request-head.ts';
import { fuzzRuns } from '../support/fuzz.ts';

/**
 * The reader of heads against the parser of node:http: what it takes, that one takes too and reads equal. FUZZ_RUNS
 * sets how many mutated heads are tried, FUZZ_SEED which.
 */

interface NodesParser {
  initialize(type: number, resource: object, maxHeaderSize: number): void;
  execute(bytes: Buffer): number | Error;
  [callback: number]: unknown;
}
interface ParserClass {
  new (): NodesParser;
  readonly REQUEST: number;
  readonly kOnHeaders: number;
  readonly kOnHeadersComplete: number;
  readonly kOnBody: number;
  readonly kOnMessageComplete: number;
}
const { HTTPParser, methods } = process.getBuiltinModule('_http_common') as unknown as {
  HTTPParser: ParserClass;
  methods: string[];
};

/** A message as Node's parser read it. */
interface Message {
  readonly version: string;
  readonly method: string | undefined;
  readonly url: string;
  readonly raw: readonly string[];
  readonly upgrade: boolean;
  readonly shouldKeepAlive: boolean;
  body: string;
  complete: boolean;
}

/** One for all: the memory of each is freed late. */
const parser = new HTTPParser();
let messages: Message[] = [];
let [fields, path]: [string[], string] = [[], ''];
parser[HTTPParser.kOnHeaders] = (headers: string[], url: string) => {
  fields.push(...headers);
  path += url;
};
parser[HTTPParser.kOnHeadersComplete] = (
  major: number,
  minor: number,
  headers: string[] | undefined,
  method: number,
  url: string | undefined,
  _status: number,
  _text: string,
  upgrade: boolean,
  shouldKeepAlive: boolean,
) => {
  messages.push({
    version: `${major}.${minor}`,
    method: methods[method],
    url: path + (url ?? ''),
    raw: headers ?? fields,
    upgrade,
    shouldKeepAlive,
    body: '',
    complete: false,
  });
  [fields, path] = [[], ''];
  return 0;
};
parser[HTTPParser.kOnBody] = (piece: Buffer) => {
  (messages.at(-1) as Message).body += piece.toString('latin1');
};
parser[HTTPParser.kOnMessageComplete] = () => {
  (messages.at(-1) as Message).complete = true;
};

/** What Node's parser reads from bytes that come at once; null: it refuses them. */
function read(bytes: Buffer): Message[] | null {
  messages = [];
  [fields, path] = [[], ''];
  parser.initialize(HTTPParser.REQUEST, {}, 16_384);
  return parser.execute(bytes) instanceof Error ? null : messages;
}

const MOST_HEADERS = 40;
let taken = 0;

/** What is wrong with what the reader makes of bytes; null: nothing. */
function wrong(text: string): string | null {
  const bytes = Buffer.from(text, 'latin1');
  const mine = readHead(
    Buffer.concat([bytes, Buffer.from('\r\n\r\n12')]),
    bytes.length,
    MOST_HEADERS,
  );
  if (mine === null) return null;
  taken++;
  const length = Math.max(0, mine.head.contentLength);
  const from = mine.text.length;
  if (mine.text !== text.slice(0, from)) return 'the head has other bytes';
  if (from + length < bytes.length) text = text.slice(0, from + length); // more requests follow: they are read apart
  const nodes = read(Buffer.from(text, 'latin1'));
  const [only, ...more] = nodes ?? [];
  if (only === undefined) return 'Node refuses it';
  const { method, url } = mine;
  const raw = rawHeadersOf(mine);
  const body = text.slice(from);
  const is = { version: '1.1', method, url, raw, upgrade: false, shouldKeepAlive: true };
  const its = { ...is, body, complete: body.length === length };
  if (more.length > 0 || JSON.stringify(only) !== JSON.stringify(its))
    return `${JSON.stringify(its)} instead of ${JSON.stringify(nodes)}`;
  const { head } = mine;
  const fromRaw = new RequestHead(only.raw);
  if (JSON.stringify(head) !== JSON.stringify(fromRaw) || head.bearer !== fromRaw.bearer)
    return `${JSON.stringify(head)} instead of ${JSON.stringify(fromRaw)}`;
  return only.raw.length === 2 * head.count ? null : 'another count';
}

const LINES = [
  'POST /v1/chat/completions HTTP/1.1',
  'Host: 127.0.0.1:8080',
  'Content-Type: application/json',
  'Authorization: Bearer svc_abcdefghijklmnop',
  'X-Stainless-Lang: js',
  'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  'Connection: keep-alive',
  'Content-Length: 4',
];
const head = (lines: readonly string[]): string => `${lines.join('\r\n')}\r\n\r\n`;
const BODY = 'body';
/** The usual request, its lines changed. */
const changed = (from: string | RegExp, to: string): string =>
  head(LINES.map((line) => line.replace(from, to))) + BODY;
const with_ = (...lines: string[]): string => head([...LINES, ...lines]) + BODY;

t.test('common forms are taken', async (t) => {
  const cases: Record<string, string> = {
    'a POST': head(LINES) + BODY,
    'a part of its body': head(LINES),
    'a GET': head(['GET /v1/models/a%2Fb?x=1&y HTTP/1.1', 'host: x']),
    'no header': head(['GET / HTTP/1.1']),
    'no length': head(LINES.slice(0, -1)),
    'no space, many spaces, and spaces behind': changed('Host: ', 'Host:').replace('js', '  js  '),
    'an empty value': changed('js', ''),
    'a header twice': with_('x-other: 1', 'X-Other: 2', 'host: y'),
    'a key of another kind': with_(
      'x-api-key: svc_x ',
      'anthropic-version: 1',
      'anthropic-beta: a',
      'anthropic-beta: b',
    ),
    'a length of nothing': head(LINES.with(-1, 'content-length: 0')),
  };
  for (const [what, text] of Object.entries(cases)) {
    const before = taken;
    t.equal(wrong(text), null, what);
    t.equal(taken, before + 1, `${what} is taken`);
  }
});

t.test('the rest is declined', async (t) => {
  const cases: Record<string, string> = {
    // what frames a body otherwise, or could to somebody
    'a chunked body': changed(/Content-Length.*/, 'Transfer-Encoding: chunked'),
    'a length, then chunks': with_('Transfer-Encoding: chunked'),
    'chunks, then a length': with_('transfer-encoding: chunked', 'x: y'),
    'another coding': with_('TRANSFER-ENCODING: identity'),
    'chunks that are hidden': with_('Transfer-Encoding: xchunked'),
    'two lengths': with_('content-length: 4'),
    'two other lengths': with_('content-length: 5'),
    'a list of lengths': changed('Length: 4', 'Length: 4, 4'),
    'a plus sign': changed('Length: 4', 'Length: +4'),
    'a minus sign': changed('Length: 4', 'Length: -4'),
    'a leading zero': changed('Length: 4', 'Length: 04'),
    'hex digits': changed('Length: 4', 'Length: 0x4'),
    'an exponent': changed('Length: 4', 'Length: 4e0'),
    'a fraction': changed('Length: 4', 'Length: 4.0'),
    'a space in the number': changed('Length: 4', 'Length: 4 4'),
    'an empty length': changed('Length: 4', 'Length: '),
    'a length beyond all': changed('Length: 4', 'Length: 18446744073709551620'),
    // lines
    'a bare line feed': changed('js', 'js\nTransfer-Encoding: chunked'),
    'a bare carriage return': changed('js', 'js\rTransfer-Encoding: chunked'),
    'a line folded': changed('js', 'js\r\n more'),
    'a line folded by a tab': changed('js', 'js\r\n\tmore'),
    'the first line folded': changed('Host:', ' Host:'),
    'a blank line of a line feed': `${head(LINES).slice(0, -2)}\n${BODY}`,
    'an empty line before it': `\r\n${head(LINES)}${BODY}`,
    'a space before the colon': changed('Content-Length:', 'Content-Length :'),
    'a tab before the colon': changed('Content-Length:', 'Content-Length\t:'),
    'no colon': changed('Host: ', 'Host '),
    'no name': changed('Host:', ':'),
    'a space in a name': changed('Host:', 'Ho st:'),
    'a NUL in a name': changed('Content-Length:', 'Content-Length\0:'),
    'a NUL in a value': changed('js', 'j\0s'),
    'a tab in a value': changed('js', 'j\ts'),
    'a high byte in a name': changed('Host:', 'H\xf6st:'),
    'a high byte in a value': changed('js', 'j\xdf'),
    'a delete': changed('js', 'j\x7fs'),
    // the first line
    'HTTP/1.0': changed('HTTP/1.1', 'HTTP/1.0'),
    'HTTP/2.0': changed('HTTP/1.1', 'HTTP/2.0'),
    'http in lower case': changed('HTTP/1.1', 'http/1.1'),
    'no version': changed(' HTTP/1.1', ''),
    'a method in lower case': changed('POST', 'post'),
    'a method that is longer': changed('POST', 'POSTS'),
    'HEAD, whose answer has no body': changed('POST', 'HEAD'),
    CONNECT: changed('POST /v1/chat/completions', 'CONNECT x:1'),
    'an absolute target': changed(' /v1', ' http://x/v1'),
    'an asterisk': changed(/ \/v1[^ ]*/, ' *'),
    'two spaces': changed('POST /', 'POST  /'),
    'a space in the path': changed('chat', 'ch at'),
    'a fragment': changed('chat', '#chat'),
    'a high byte in the path': changed('chat', 'ch\xe4t'),
    'a NUL in the path': changed('chat', 'ch\0t'),
    // what asks for more than an answer
    'a closing connection': changed('keep-alive', 'close'),
    'a connection of two options': changed('keep-alive', 'keep-alive, x'),
    'a connection for a proxy': with_('proxy-connection: keep-alive'),
    'an upgrade': with_('Upgrade: h2c'),
    'an expectation': with_('Expect: 100-continue'),
    // limits
    'a long head': with_(`x: ${'x'.repeat(8192)}`),
    'many headers': with_(...Array.from({ length: MOST_HEADERS }, () => 'x: y')),
  };
  for (const [what, text] of Object.entries(cases)) {
    const before = taken;
    t.equal(wrong(text), null, what);
    t.equal(taken, before, what);
  }
});

t.test('a head that is not whole is declined, wherever it is cut', async (t) => {
  const whole = head(LINES);
  for (let end = 0; end < whole.length; end++)
    if (readHead(Buffer.from(whole), end, MOST_HEADERS) !== null) t.fail(`cut at ${end}`);
});

t.test('keys that are those of the head before need no digest', async (t) => {
  const of = (...lines: string[]): RequestHead => {
    const bytes = Buffer.from(head([LINES[0] as string, ...lines]));
    return readHead(bytes, bytes.length, MOST_HEADERS)?.head as RequestHead;
  };
  const key = (name: string): string[] => [`authorization: Bearer ${name}`, `x-api-key: ${name}`];
  let before = of(...key('one'));
  for (const lines of [
    key('one'),
    key('two'),
    [],
    key('two'),
    [`x-api-key: one`],
    key('x'.repeat(600)),
  ]) {
    const mine = of(...lines);
    const expected = of(...lines);
    mine.keysAsIn(before);
    t.equal(mine.bearerDigest, expected.bearerDigest);
    t.equal(mine.apiKeyDigest, expected.apiKeyDigest);
    before = mine;
  }
});

/** Pieces that are put in, also such as two readers take differently. */
const PIECES = [
  '\r\n',
  '\r',
  '\n',
  '\n\n',
  '\r\n\r\n',
  '\r\n ',
  '\r\n\t',
  ' ',
  '\t',
  ':',
  ' :',
  ';',
  ',',
  '0',
  '4',
  '+',
  '-',
  'a',
  'Z',
  '_',
  '\0',
  '\x0b',
  '\x7f',
  '\x80',
  '\xff',
  '#',
  '?',
  '/',
  '*',
  'chunked',
  'Transfer-Encoding: chunked',
  '\r\nTransfer-Encoding: chunked',
  '\r\nContent-Length: 4',
  '\r\nContent-Length: 40',
  '\r\ncontent-length:4',
  '\r\nContent_Length: 1',
  '\r\nConnection: close',
  '\r\nExpect: 100-continue',
  '\r\nUpgrade: x',
  '\r\nHost: y',
  '\r\nx: y',
  '0\r\n\r\n',
  '4;x=y\r\nbody\r\n',
  'GET / HTTP/1.1\r\n\r\n',
  'POST ',
  'HTTP/1.0',
  'http://x',
  '%00',
  '"',
  '<',
  '\\',
];

/** Numbers below a bound, from a seed (mulberry32): ten million mutations take no library. */
function chance(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

t.test("whatever a mutated head is taken for, it is Node's parser's own", async (t) => {
  const runs = fuzzRuns(160_000);
  const seed = Number(
    process.env.FUZZ_SEED ?? (process.env.FUZZ_RUNS === undefined ? 1 : Date.now() & 0x7fffffff),
  );
  t.comment(`FUZZ_SEED=${seed} FUZZ_RUNS=${runs}`);
  const before = taken;
  const random = chance(seed);
  for (let run = 0; run < runs; run++) {
    const fields = LINES.slice(1).filter(() => random(8) > 0);
    for (let swaps = random(3); swaps > 0 && fields.length > 0; swaps--)
      fields.push(fields.splice(random(fields.length), 1)[0] as string);
    let text = head([LINES[0] as string, ...fields]) + BODY;
    for (let edits = random(4); edits > 0; edits--) {
      const at = random(text.length);
      const piece =
        random(3) === 0
          ? String.fromCharCode(random(256))
          : (PIECES[random(PIECES.length)] as string);
      text = text.slice(0, at) + piece + text.slice(at + random(3));
    }
    const found = wrong(text);
    if (found === null) continue;
    t.fail(`holds: ${JSON.stringify(text)}: ${found}`, { run });
    break;
  }
  t.ok(taken - before > runs / 10, `and ${taken - before} of ${runs} were taken`);
});
