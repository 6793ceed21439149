/**
 * HTTP/1.1 answers to a POST as a server, a broken one or a hostile one writes them, each
 * with what RFC 9112 makes of it. Nothing here knows a parser.
 *
 * The bytes are all that comes before the connection is closed, so an answer that is cut
 * off is malformed. Everything hangs on the seed: the same one makes the same answers.
 */
export interface GeneratedAnswer {
  readonly bytes: Buffer;
  /** What a strict reader makes of it. `reusable`: another request may follow on this connection. */
  readonly expected: Outcome | 'malformed';
  /** Where RFC 9112 leaves the choice to the reader, what it may make of it instead; mostly empty. */
  readonly alsoAllowed: readonly (Outcome | 'malformed')[];
  /** Headers of the final answer in their order, names in lower case, values as latin1; empty unless one is expected. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  /** What is special about it, for the message of a failing test. */
  readonly what: string;
}

export interface Outcome {
  readonly status: number;
  readonly body: Buffer;
  readonly reusable: boolean;
}

/** Half of them are as they should be, the other half has one thing twisted. */
export function* answers(seed: number, count: number): Iterable<GeneratedAnswer> {
  const random = new Random(seed);
  for (let n = 0; n < count; n += 1)
    yield random.chance(0.5) ? plain(random) : twisted(random, random.of(TWISTS));
}

/** So many answers of everything that can be twisted, one after the other. */
export function* eachTwist(seed: number, countOfEach: number): Iterable<GeneratedAnswer> {
  const random = new Random(seed);
  for (const twist of TWISTS) for (let n = 0; n < countOfEach; n += 1) yield twisted(random, twist);
}

type Framing = 'length' | 'chunked' | 'close' | 'none';

/** An answer in the parts it is written of, and what it means. All text is latin1. */
interface Draft {
  readonly framing: Framing;
  /** Informational answers before it, whole. */
  interim: string;
  version: string;
  status: number;
  statusLine: string;
  /** Without their line ends; one that has a line end in it makes two. */
  fields: string[];
  /** End of the last field line, and the empty line. */
  headEnd: string;
  chunks: Chunk[];
  lastChunk: string;
  /** With the empty line. */
  trailers: string;
  /** Sent where the framing is not chunked. */
  payload: string;
  /** Further bytes after the end. */
  behind: string;
  /** All there is instead of the parts. */
  whole?: string;
  /** What it means. */
  body: string;
  reusable: boolean;
}

interface Chunk {
  /** Size and extensions, without the line end. */
  head: string;
  headEnd: string;
  data: string;
  end: string;
}

/**
 * What the twisted answer is worth:
 * - `valid`: still as it should be
 * - `malformed`: must not be taken for an answer
 * - `better refused`: malformed, but RFC 9112 lets a reader mend it; then it means what the draft says
 * - `better taken`: to be understood, but a reader may refuse it, or not use the connection again
 */
type Worth = 'valid' | 'malformed' | 'better refused' | 'better taken';

interface Twist {
  readonly what: string;
  readonly worth: Worth;
  /** Framings it can be done to; none: all. */
  readonly to?: readonly Framing[];
  readonly twist: (draft: Draft, random: Random) => void;
}

function plain(random: Random): GeneratedAnswer {
  const draft = draftOf(random, random.of(['length', 'chunked', 'close', 'none'] as const));
  return generated(draft, 'valid', `plain, ${draft.framing}`);
}

function twisted(random: Random, { what, worth, to, twist }: Twist): GeneratedAnswer {
  const draft = draftOf(random, random.of(to ?? (['length', 'chunked', 'close', 'none'] as const)));
  twist(draft, random);
  return generated(draft, worth, `${what}, ${draft.framing}`);
}

function generated(draft: Draft, worth: Worth, what: string): GeneratedAnswer {
  const bytes = Buffer.from(written(draft), 'latin1');
  const outcome = {
    status: draft.status,
    body: Buffer.from(draft.body, 'latin1'),
    reusable: draft.reusable,
  };
  if (worth === 'malformed')
    return { bytes, expected: 'malformed', alsoAllowed: [], headers: [], what };
  if (worth === 'better refused')
    return { bytes, expected: 'malformed', alsoAllowed: [outcome], headers: [], what };
  const headers = draft.fields.map((field) => {
    const colon = field.indexOf(':');
    return [
      field.slice(0, colon).toLowerCase(),
      field.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, ''),
    ] as const;
  });
  const alsoAllowed: (Outcome | 'malformed')[] = worth === 'better taken' ? ['malformed'] : [];
  const mayClose = worth === 'better taken' || draft.version === 'HTTP/1.0'; // 9.3
  if (mayClose && draft.reusable) alsoAllowed.push({ ...outcome, reusable: false });
  return { bytes, expected: outcome, alsoAllowed, headers, what };
}

function written(draft: Draft): string {
  return draft.whole ?? draft.interim + headOf(draft) + messageBodyOf(draft) + draft.behind;
}

function headOf({ statusLine, fields, headEnd }: Draft): string {
  return [statusLine, ...fields].join('\r\n') + headEnd;
}

function messageBodyOf({ framing, chunks, lastChunk, trailers, payload }: Draft): string {
  if (framing !== 'chunked') return payload;
  const parts = chunks.map(({ head, headEnd, data, end }) => head + headEnd + data + end);
  return `${parts.join('')}${lastChunk}\r\n${trailers}`;
}

// ---- answers as they should be

const REASONS = [
  'OK',
  '',
  'Not Found',
  'a\treason',
  'HTTP/1.1 200 OK',
  'Zu viele Anfr\xe4gen',
  'content-length: 5',
];
const FINAL = [
  200, 200, 200, 201, 202, 206, 301, 307, 400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504,
  299, 599,
];
const HARMLESS = [
  'content-type: application/json',
  'Content-Type: text/event-stream; charset=utf-8',
  'x-request-id: 4f1c',
  'retry-after: 7',
  'X-Content-Length: 3',
  'content-length-x: 4',
  'x-transfer-encoding: chunked',
  'Set-Cookie: a=b, content-length=9',
  'set-cookie: c=d',
  'keep-alive: timeout=5, max=100',
  'proxy-connection: close',
  'trailer: x-checksum',
  "!#$%&'*+-.^_`|~: every sign of a token",
  'x-empty:',
  'x-blank: \t ',
  'x-colon: a:b:c',
  'x-tight:value',
  'x-wide: \t value with\ttabs \t',
  'x-latin: \xe4\xf6\xfc \x80\xff',
  'Date: Sun, 06 Nov 1994 08:49:37 GMT',
];

function draftOf(random: Random, framing: Framing): Draft {
  const old = random.chance(0.15) && framing !== 'chunked';
  const version = old ? 'HTTP/1.0' : 'HTTP/1.1';
  const status = framing === 'none' ? random.of([204, 304]) : random.of(FINAL);
  const body = framing === 'none' ? '' : bodyOf(random);
  const draft: Draft = {
    framing,
    interim: random.chance(0.2) ? interimOf(random) : '',
    version,
    status,
    statusLine: `${version} ${status} ${random.of(REASONS)}`,
    fields: random.some(HARMLESS, 4),
    headEnd: '\r\n\r\n',
    chunks: [],
    lastChunk: '0',
    trailers: '\r\n',
    payload: body,
    behind: '',
    body,
    reusable: !old && framing !== 'close',
  };
  if (framing === 'length') insert(draft, random, lengthField(random, body.length));
  if (framing === 'chunked') {
    insert(draft, random, random.of(CHUNKED));
    draft.chunks = chunksOf(random, body);
    draft.lastChunk = '0'.repeat(random.chance(0.1) ? random.from(1, 8) : 1) + extensionOf(random);
    draft.trailers = `${random.chance(0.2) ? trailersOf(random) : ''}\r\n`;
  }
  if (status === 304 && random.chance(0.5)) {
    insert(draft, random, old || random.chance(0.5) ? 'content-length: 1234' : random.of(CHUNKED));
  }
  if (random.chance(0.15)) {
    insert(
      draft,
      random,
      random.of(['connection: close', 'Connection: foo, Close', 'connection:close , keep-alive']),
    );
    draft.reusable = false;
  } else if (old && framing !== 'close' && random.chance(0.5)) {
    insert(
      draft,
      random,
      random.of(['connection: keep-alive', 'Connection: Keep-Alive', 'connection: foo,keep-alive']),
    );
    draft.reusable = true;
  } else if (!old && random.chance(0.2)) {
    insert(
      draft,
      random,
      random.of([
        'connection: keep-alive',
        'connection: closed',
        'connection: x-close',
        'connection:',
      ]),
    );
  }
  return draft;
}

const CHUNKED = [
  'transfer-encoding: chunked',
  'Transfer-Encoding: Chunked',
  'TRANSFER-ENCODING:CHUNKED',
  'transfer-encoding: \tchunked\t ',
];

function lengthField(random: Random, length: number): string {
  const name = random.of(['content-length', 'Content-Length', 'CONTENT-LENGTH']);
  const zeros = random.chance(0.1) ? '0'.repeat(random.from(1, 30)) : '';
  return `${name}:${random.of([' ', '', '\t', '  '])}${zeros}${length}${random.of(['', '', ' ', '\t'])}`;
}

/** Text that could be taken for framing is in many of them. */
function bodyOf(random: Random): string {
  const pieces = random.chance(0.03) ? random.from(100, 400) : random.from(0, 6);
  let body = '';
  for (let n = 0; n < pieces; n += 1) {
    body += random.chance(0.3)
      ? random.of([
          '\r\n',
          '\n',
          '\r',
          '0\r\n\r\n',
          '5\r\nhello\r\n',
          '\0',
          'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n',
        ])
      : random.chance(0.3)
        ? String.fromCharCode(
            ...Array.from({ length: random.from(1, 20) }, () => random.from(0, 255)),
          )
        : random.of([
            '{"id":"a","usage":{"prompt_tokens":1}}',
            'data: {"x":1}\n\n',
            'data: [DONE]\n\n',
            'abc',
            'f',
            ' ',
          ]);
  }
  return body;
}

function interimOf(random: Random): string {
  let interim = '';
  for (let n = random.from(1, 3); n > 0; n -= 1) {
    const status = random.of([100, 102, 103, 199]);
    const fields = random.some(['link: </a>; rel=preload', 'x-a: b'], 2);
    interim += `${[`HTTP/1.1 ${status} ${random.of(['', 'Continue', 'Early Hints'])}`, ...fields].join('\r\n')}\r\n\r\n`;
  }
  return interim;
}

function chunksOf(random: Random, body: string): Chunk[] {
  const chunks: Chunk[] = [];
  const most = random.of([1, 3, 20, 300, 5000]);
  for (let from = 0; from < body.length; ) {
    const data = body.slice(from, from + random.from(1, most));
    from += data.length;
    chunks.push({
      head: sizeOf(random, data.length) + extensionOf(random),
      headEnd: '\r\n',
      data,
      end: '\r\n',
    });
  }
  return chunks;
}

function sizeOf(random: Random, size: number): string {
  const digits = random.chance(0.5) ? size.toString(16) : size.toString(16).toUpperCase();
  return (random.chance(0.1) ? '0'.repeat(random.from(1, 6)) : '') + digits;
}

function extensionOf(random: Random): string {
  return random.chance(0.15)
    ? random.of([';a', ';a=b', ';a=""', ';a="b;c=\\"5\\" \t\xe4"', ';a;b=c;d="e"', ';5=5'])
    : '';
}

function trailersOf(random: Random): string {
  const fields = [
    'x-checksum: 1',
    'content-length: 3',
    'transfer-encoding: gzip',
    'x-empty:',
    'x: 0',
  ];
  return random
    .some(fields, 3)
    .map((field) => `${field}\r\n`)
    .join('');
}

/** At any place among the fields. */
function insert(draft: Draft, random: Random, field: string): void {
  draft.fields.splice(random.from(0, draft.fields.length), 0, field);
}

function without(draft: Draft, name: string): void {
  draft.fields = draft.fields.filter((field) => !field.toLowerCase().startsWith(`${name}:`));
}

/** A chunk of the draft, made where it has none. */
function chunkIn(draft: Draft, random: Random): Chunk {
  if (draft.chunks.length === 0) {
    draft.chunks = [{ head: '5', headEnd: '\r\n', data: 'hello', end: '\r\n' }];
    draft.body = 'hello';
  }
  return random.of(draft.chunks);
}

// ---- one thing twisted; section numbers are RFC 9112's unless said otherwise

const TWISTS: readonly Twist[] = [
  // 4: status line
  {
    what: 'status line without reason phrase and the space before it',
    worth: 'better taken',
    twist: (draft) => {
      draft.statusLine = `${draft.version} ${draft.status}`;
    },
  },
  {
    what: 'other white space in the status line',
    worth: 'better refused',
    twist: (draft, random) => {
      const { version, status } = draft;
      draft.statusLine = random.of([
        `${version}  ${status} OK`,
        `${version}\t${status} OK`,
        `${version} ${status}\tOK`,
        ` ${version} ${status} OK`,
      ]);
    },
  },
  {
    what: 'empty line before the status line',
    worth: 'better refused',
    twist: (draft, random) => {
      draft.statusLine = `${random.of(['\r\n', '\n', '\r\n\r\n'])}${draft.statusLine}`;
    },
  },
  {
    what: 'wrong version',
    worth: 'malformed',
    twist: (draft, random) => {
      const wrong = [
        'HTTP/2.0',
        'HTTP/3.0',
        'HTTP/0.9',
        'HTTP/2',
        'http/1.1',
        'Http/1.1',
        'HTTP/1',
        'HTTP/1.',
        'HTTP/.1',
      ];
      wrong.push(
        'HTTP/1.1.1',
        'HTTP/11',
        'HTTP/11.1',
        'HTTP/1.10',
        'HTTP/01.1',
        'HTTP/1,1',
        'HTTP-1.1',
        'HTTP /1.1',
      );
      wrong.push('HTTPS/1.1', 'ICY', 'RTSP/1.0', '', 'HTTP/1.x', 'HTTP/+1.1', 'XHTTP/1.1', 'HTT');
      draft.statusLine = `${random.of(wrong)} ${draft.status} OK`;
    },
  },
  {
    what: 'higher minor version',
    worth: 'better taken', // RFC 9110, 2.5
    twist: (draft, random) => {
      draft.statusLine = `HTTP/1.${random.from(2, 9)} ${draft.status} OK`;
      without(draft, 'connection');
      draft.reusable = draft.framing !== 'close';
    },
  },
  {
    what: 'wrong status code',
    worth: 'malformed',
    twist: (draft, random) => {
      const wrong = [
        '20',
        '2',
        '',
        '2000',
        '0200',
        '2x0',
        '20O',
        '-20',
        '+20',
        '2.0',
        '2 00',
        '0xC',
        '20\xb2',
        '200,',
        '200OK',
      ];
      draft.statusLine = `${draft.version} ${random.of(wrong)} OK`;
    },
  },
  {
    what: 'status code beyond 599',
    worth: 'better refused', // RFC 9110, 15
    to: ['length', 'chunked', 'close'],
    twist: (draft, random) => {
      draft.status = random.of([600, 700, 999]);
      draft.statusLine = `${draft.version} ${draft.status} OK`;
    },
  },
  {
    what: 'switching protocols, which nobody asked for',
    worth: 'malformed',
    twist: (draft, random) => {
      draft.statusLine = 'HTTP/1.1 101 Switching Protocols';
      if (random.chance(0.5)) draft.fields.push('upgrade: websocket', 'connection: upgrade');
    },
  },
  {
    what: 'no status line',
    worth: 'malformed',
    twist: (draft, random) => {
      draft.interim = '';
      draft.statusLine = random.of([
        '<html>',
        '{"error":1}',
        'POST / HTTP/1.1',
        '\x16\x03\x01\x02',
        'HTTP/1.1',
        'HTTP/1.1 ',
        '\0',
      ]);
    },
  },
  {
    what: 'control character in the reason phrase',
    worth: 'better refused',
    twist: (draft, random) => {
      draft.statusLine = `${draft.version} ${draft.status} O${random.of(['\0', '\r', '\x7f', '\x01', '\x1b'])}K`;
    },
  },

  // 5: fields
  {
    what: 'field line without a colon, or without a name',
    worth: 'malformed',
    twist: (draft, random) =>
      insert(draft, random, random.of(['x-nothing', ': value', ':', 'x y', 'HTTP/1.1 200 OK'])),
  },
  {
    what: 'field name that is no token',
    worth: 'malformed',
    twist: (draft, random) => {
      const sign = random.of([...'()<>@,;\\"/[]?={} \x7f\0\x01\t\xe4']);
      insert(
        draft,
        random,
        random.of([`x${sign}y: 1`, `${sign === ' ' || sign === '\t' ? 'x ' : ''}${sign}y: 1`]),
      );
    },
  },
  {
    what: 'white space before the colon',
    worth: 'better refused', // 5.1: a server must refuse it, a proxy take it away
    twist: (draft, random) =>
      insert(draft, random, random.of(['x-a : 1', 'x-a\t: 1', 'x-a  \t :1'])),
  },
  {
    what: 'white space before the colon of the length',
    worth: 'better refused',
    to: ['length'],
    twist: (draft, random) => {
      without(draft, 'content-length');
      insert(draft, random, `content-length${random.of([' ', '\t'])}: ${draft.body.length}`);
    },
  },
  {
    what: 'white space before the colon of the transfer coding',
    worth: 'better refused',
    to: ['chunked'],
    twist: (draft, random) => {
      without(draft, 'transfer-encoding');
      insert(draft, random, `transfer-encoding${random.of([' ', '\t'])}: chunked`);
    },
  },
  {
    what: 'white space before the first field',
    worth: 'better refused', // 2.2: refuse, or pass over the line
    twist: (draft, random) => {
      draft.fields.unshift(random.of([' x-a: 1', '\tx-a: 1', ' ', '\t', ' x']));
    },
  },
  {
    what: 'folded value',
    worth: 'better refused', // 5.2
    twist: (draft, random) =>
      insert(
        draft,
        random,
        random.of(['x-a: 1\r\n 2', 'x-a:\r\n\t1', 'x-a: 1\r\n  \r\n 2', 'x-a: 1\r\n\t']),
      ),
  },
  {
    what: 'folded length',
    worth: 'better refused',
    to: ['length'],
    twist: (draft, random) => {
      without(draft, 'content-length');
      insert(draft, random, `content-length:\r\n${random.of([' ', '\t'])}${draft.body.length}`);
    },
  },
  {
    what: 'control character in a value',
    worth: 'better refused', // RFC 9110, 5.5
    twist: (draft, random) =>
      insert(
        draft,
        random,
        `x-a: b${random.of(['\0', '\r', '\x01', '\x08', '\x0b', '\x7f', '\x1f'])}c`,
      ),
  },
  {
    what: 'bare LF between head lines',
    worth: 'better refused', // 2.2
    twist: (draft, random) => {
      if (random.chance(0.3)) draft.statusLine += '\nx-a: 1';
      else insert(draft, random, 'x-a: 1\nx-b: 2');
    },
  },
  {
    what: 'bare LF at the end of the head',
    worth: 'better refused',
    twist: (draft, random) => {
      draft.headEnd = random.of(['\n\n', '\r\n\n', '\n\r\n']);
    },
  },
  {
    what: 'bare CR at the end of the head',
    worth: 'malformed',
    to: ['length', 'close', 'none'],
    twist: (draft, random) => {
      draft.headEnd = random.of(['\r\r', '\r\n\r']);
      draft.payload = 'x'; // what follows must not make a line end of it
    },
  },

  // 6: length
  {
    what: 'length that is no number',
    worth: 'malformed',
    to: ['length'],
    twist: (draft, random) => {
      const n = draft.body.length;
      without(draft, 'content-length');
      const wrong = [
        '',
        ' ',
        `+${n}`,
        `-${n}`,
        '-0',
        `0x${n}`,
        `${n}.0`,
        `${n}e0`,
        `${n} ${n}`,
        `"${n}"`,
        `${n};`,
        `${n}x`,
      ];
      wrong.push(
        `x${n}`,
        `${n}_0`,
        `${n}\xa0`,
        `\xb2`,
        'five',
        `${n}\t0`,
        `0b1`,
        'NaN',
        'Infinity',
        '\xd9\xa1',
      );
      insert(draft, random, `content-length: ${random.of(wrong)}`);
    },
  },
  {
    what: 'length beyond all numbers',
    worth: 'malformed', // what comes is shorter
    to: ['length'],
    twist: (draft, random) => {
      const n = BigInt(draft.body.length);
      without(draft, 'content-length');
      const bits = random.of([31n, 32n, 53n, 63n, 64n, 128n, 1024n]);
      insert(draft, random, `content-length: ${(1n << bits) + n}`);
    },
  },
  {
    what: 'two lengths that differ',
    worth: 'malformed',
    to: ['length'],
    twist: (draft, random) => {
      const n = draft.body.length;
      const other = random.of([n + 1, n + 10, Math.max(0, n - 1) === n ? 1 : n - 1]);
      if (random.chance(0.5)) insert(draft, random, `content-length: ${other}`);
      else {
        without(draft, 'content-length');
        insert(
          draft,
          random,
          `content-length: ${random.of([`${n}, ${other}`, `${other},${n}`, `${n},${n}, ${other}`])}`,
        );
      }
    },
  },
  {
    what: 'the same length twice',
    worth: 'better refused', // RFC 9110, 8.6
    to: ['length'],
    twist: (draft, random) => {
      const n = draft.body.length;
      if (random.chance(0.5)) insert(draft, random, `Content-Length: ${n}`);
      else {
        without(draft, 'content-length');
        insert(draft, random, `content-length: ${n}, ${n}`);
      }
    },
  },
  {
    what: 'length and transfer coding',
    worth: 'better refused', // 6.3: ought to be handled as an error
    to: ['chunked'],
    twist: (draft, random) => {
      const n = messageBodyOf(draft).length;
      insert(draft, random, `content-length: ${random.of([0, draft.body.length, n, n + 5, 1])}`);
      draft.reusable = false;
    },
  },
  {
    what: 'transfer coding that is not ours',
    worth: 'better refused', // 6.3: until close, but then it is still coded
    to: ['close'],
    twist: (draft, random) => {
      const foreign = [
        'gzip',
        'identity',
        'xchunked',
        'chunked, gzip',
        'deflate',
        'chunked, identity',
        'chunkedx',
        'chunk',
      ];
      insert(draft, random, `transfer-encoding: ${random.of(foreign)}`);
    },
  },
  {
    what: 'transfer coding beneath chunked',
    worth: 'better refused',
    to: ['chunked'],
    twist: (draft, random) => {
      without(draft, 'transfer-encoding');
      insert(
        draft,
        random,
        `transfer-encoding: ${random.of(['gzip, chunked', 'identity, chunked', 'x, chunked'])}`,
      );
    },
  },
  {
    what: 'transfer coding badly written',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => {
      without(draft, 'transfer-encoding');
      const wrong = [
        '"chunked"',
        'chunked;q=1',
        'chunked, chunked',
        'chunked chunked',
        "'chunked'",
        'chun ked',
      ];
      insert(draft, random, `transfer-encoding: ${random.of(wrong)}`);
    },
  },
  {
    what: 'chunked twice',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => insert(draft, random, random.of(CHUNKED)),
  },
  {
    what: 'empty list members around chunked',
    worth: 'better taken', // RFC 9110, 5.6.1.2
    to: ['chunked'],
    twist: (draft, random) => {
      without(draft, 'transfer-encoding');
      insert(
        draft,
        random,
        `transfer-encoding: ${random.of([', chunked', 'chunked,', ',,chunked'])}`,
      );
    },
  },
  {
    what: 'chunked in HTTP/1.0',
    worth: 'better refused', // 6.1: framing is faulty
    to: ['chunked'],
    twist: (draft) => {
      draft.statusLine = `HTTP/1.0 ${draft.status} OK`;
      draft.reusable = false;
    },
  },
  {
    what: 'length or transfer coding where there is no body',
    worth: 'better taken', // 6.1 forbids it, 6.3 says what it means: nothing
    to: ['none'],
    twist: (draft, random) => {
      draft.status = 204;
      draft.statusLine = `${draft.version} 204 No Content`;
      without(draft, 'content-length');
      without(draft, 'transfer-encoding');
      const framed =
        draft.version === 'HTTP/1.0'
          ? ['content-length: 5']
          : ['content-length: 5', 'transfer-encoding: chunked'];
      insert(draft, random, random.of(framed));
    },
  },
  {
    what: 'length zero where there is no body',
    worth: 'better taken',
    to: ['none'],
    twist: (draft, random) => {
      draft.status = 204;
      draft.statusLine = `${draft.version} 204 No Content`;
      without(draft, 'content-length');
      without(draft, 'transfer-encoding');
      insert(draft, random, 'content-length: 0');
    },
  },
  {
    what: 'many informational answers',
    worth: 'valid',
    twist: (draft, random) => {
      draft.interim = 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(random.from(4, 20));
    },
  },
  {
    what: 'informational answer with a length',
    worth: 'better taken',
    twist: (draft, random) => {
      const field = random.of([
        'content-length: 0',
        'content-length: 7',
        'transfer-encoding: chunked',
      ]);
      draft.interim = `HTTP/1.1 ${random.of([100, 103])} \r\n${field}\r\n\r\n`;
    },
  },

  // 7.1: chunks
  {
    what: 'chunk size that is no number',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      const n = chunk.data.length.toString(16);
      const wrong = [
        '',
        `0x${n}`,
        `-${n}`,
        `+${n}`,
        `${n}g`,
        ` ${n}`,
        `\t${n}`,
        `${n},`,
        `${n}.`,
        `${n}h`,
        `"${n}"`,
        'z',
        ';a',
        '-0',
      ];
      wrong.push(`${n}\0`, `${n}\xa0`, `${n}_`, `${n}:`, `${n}/`, `${n}@`, `${n}\``, `\r\n${n}`);
      chunk.head = random.of(wrong);
    },
  },
  {
    what: 'chunk size beyond all numbers',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      const bits = random.of([31n, 32n, 53n, 63n, 64n, 128n, 1024n]);
      chunk.head = ((1n << bits) + BigInt(chunk.data.length)).toString(16);
    },
  },
  {
    what: 'chunk size of one too few or too many',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      const wrong = chunk.data.length === 1 ? 2 : chunk.data.length + random.of([-1, 1]);
      chunk.head = wrong.toString(16);
    },
  },
  {
    what: 'white space behind a chunk size',
    worth: 'better refused', // padded sizes of old servers; the grammar has none
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      chunk.head = chunk.data.length.toString(16) + random.of([' ', '\t', '   ']);
    },
  },
  {
    what: 'white space around a chunk extension',
    worth: 'better taken', // 7.1.1, bad white space
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      chunk.head =
        chunk.data.length.toString(16) + random.of([' ;a', ';\ta', ' ; a = b', '\t;a="b"']);
    },
  },
  {
    what: 'chunk extension badly written',
    worth: 'better refused', // but to be ignored where it is not known
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      const wrong = [
        ';',
        ';a=',
        ';=b',
        ';;',
        ';a="b',
        ';a b',
        ';a=b=c',
        ';a\0',
        ';a\x7f',
        ';a="\x01"',
        ';a\rb',
        ';a@',
      ];
      chunk.head = chunk.data.length.toString(16) + random.of(wrong);
    },
  },
  {
    what: 'bare LF in or behind a chunk size line',
    worth: 'malformed', // 2.2 speaks of head lines alone: two readers would see two sizes
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      if (random.chance(0.5)) chunk.headEnd = '\n';
      else chunk.head = `${chunk.data.length.toString(16)};a\nb`;
    },
  },
  {
    what: 'bare CR behind a chunk size',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => {
      const chunk = chunkIn(draft, random);
      chunk.head = chunk.data.length.toString(16);
      chunk.headEnd = '\r';
      if (chunk.data.startsWith('\n')) chunk.data = `x${chunk.data}`;
    },
  },
  {
    what: 'chunk without its line end',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => {
      chunkIn(draft, random).end = random.of(['', '\n', '\r', 'xx', '\r\r\n', ' \r\n', '\n\r']);
    },
  },
  {
    what: 'last chunk badly written',
    worth: 'malformed',
    to: ['chunked'],
    twist: (draft, random) => {
      draft.lastChunk = random.of(['', 'x', '-0', '0x0', '0\n', '+0', ' 0', '0,']);
    },
  },
  {
    what: 'trailer badly written',
    worth: 'better refused', // or thrown away unread
    to: ['chunked'],
    twist: (draft, random) => {
      const wrong = [
        'x-nothing\r\n',
        ': 1\r\n',
        'x-a : 1\r\n',
        'x-a: 1\r\n 2\r\n',
        'x-a: 1\n',
        'x-a: \0\r\n',
        ' x-a: 1\r\n',
      ];
      draft.trailers = `${random.of(wrong)}\r\n`;
    },
  },
  {
    what: 'bare LF after the trailers',
    worth: 'better refused',
    to: ['chunked'],
    twist: (draft) => {
      draft.trailers = draft.trailers.replace(/\r\n$/, '\n');
    },
  },

  // 8: incomplete; 9.3, 9.6: what stands behind
  {
    what: 'cut off',
    worth: 'malformed',
    twist: (draft, random) => {
      const { interim } = draft;
      const head = headOf(draft);
      const whole = draft.framing === 'close' ? head : head + messageBodyOf(draft);
      draft.whole = (interim + whole).slice(0, random.from(0, interim.length + whole.length - 1));
    },
  },
  {
    what: 'cut off at its last bytes',
    worth: 'malformed',
    to: ['length', 'chunked', 'none'],
    twist: (draft, random) => {
      const whole = written(draft);
      draft.whole = whole.slice(0, -random.from(1, 5));
    },
  },
  {
    what: 'informational answer and no other',
    worth: 'malformed',
    twist: (draft, random) => {
      draft.whole = interimOf(random);
    },
  },
  {
    what: 'bytes behind the end',
    worth: 'valid', // but they are nobody's answer
    to: ['length', 'chunked', 'none'],
    twist: (draft, random) => {
      const second = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi';
      draft.behind = random.of([
        'x',
        '\r\n',
        '\n',
        '\0',
        ' ',
        '0\r\n\r\n',
        second,
        'HTTP/1.1 408 Request Timeout\r\n\r\n',
        '{}',
        second + second,
      ]);
      draft.reusable = false;
    },
  },
];

/** The same numbers for the same seed (mulberry32). */
class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  chance(share: number): boolean {
    return this.#next() < share;
  }

  /** An integer, both ends included. */
  from(least: number, most: number): number {
    return least + Math.floor(this.#next() * (most - least + 1));
  }

  of<T>(values: readonly T[]): T {
    return values[this.from(0, values.length - 1)] as T;
  }

  /** Up to so many of them, in the order of chance. */
  some<T>(values: readonly T[], most: number): T[] {
    return Array.from({ length: this.from(0, most) }, () => this.of(values));
  }

  #next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
}
