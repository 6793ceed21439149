import fc from 'fast-check';
import t from 'tap';
import { HeadPattern, headEnd } from '../../src/http/head-pattern.ts';
import { fuzz } from '../sse/fuzz.ts';

const LINES = [
  'POST /v1/chat/completions HTTP/1.1',
  'Host: 127.0.0.1:8080',
  'Content-Type: application/json',
  'Authorization: Bearer svc_abcdefghijklmnop',
  'X-Stainless-Lang: js',
  'Content-Length: 1024',
];

const head = (lines: readonly string[]): Buffer =>
  Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
const replaced = (from: string, to: string): Buffer =>
  head(LINES.map((line) => line.replace(from, to)));

function patternOf(lines: readonly string[]): HeadPattern {
  return HeadPattern.of(head(lines)) as HeadPattern;
}

/** Whatever stands behind the end is not looked at. */
function matched(pattern: HeadPattern, bytes: Buffer): number {
  return pattern.match(Buffer.concat([bytes, Buffer.from('\r\n\r\n12')]), bytes.length);
}

t.test('the same head matches, whatever body follows', async (t) => {
  const pattern = patternOf(LINES);
  t.equal(
    matched(pattern, Buffer.concat([head(LINES), Buffer.from('{"a":1}')])),
    head(LINES).length,
  );
  t.equal(pattern.contentLength, 1024);
  t.equal(pattern.token, 'svc_abcdefghijklmnop');
  t.ok(pattern.sameToken);
});

t.test('another length and another key are read', async (t) => {
  for (const lines of [LINES, [LINES[0] as string, ...LINES.slice(1).toReversed()]]) {
    const pattern = patternOf(lines);
    const other = head(
      lines.map((line) =>
        line
          .replace('1024', '7')
          .replace('svc_abcdefghijklmnop', 'svc_other-key_of.another~length+/='),
      ),
    );
    t.equal(matched(pattern, other), other.length);
    t.equal(pattern.contentLength, 7);
    t.equal(pattern.token, 'svc_other-key_of.another~length+/=');
    t.notOk(pattern.sameToken);
    t.equal(matched(pattern, head(lines)), head(lines).length);
    t.equal(pattern.contentLength, 1024, 'and nothing of it is left behind');
    t.equal(pattern.token, 'svc_abcdefghijklmnop');
    t.ok(pattern.sameToken);
  }
});

t.test('a head without a bearer token repeats to the letter, but for its length', async (t) => {
  const lines = LINES.map((line) => line.replace('Bearer', 'Basic'));
  const pattern = patternOf(lines);
  t.equal(pattern.token, null);
  const longer = head(lines.map((line) => line.replace('1024', '99999')));
  t.equal(matched(pattern, longer), longer.length);
  t.equal(matched(pattern, head(lines.map((line) => line.replace('svc_a', 'svc_b')))), -1);
});

t.test('what could mean anything else does not match', async (t) => {
  const cases: Record<string, Buffer> = {
    'another path': replaced('chat', 'chit'),
    'another letter case': replaced('Host', 'host'),
    'a leading zero': replaced('1024', '01024'),
    'no length': replaced('1024', ''),
    'a sign': replaced('1024', '+1024'),
    'nine digits': replaced('1024', '123456789'),
    'a length in hex': replaced('1024', '0x10'),
    'a space behind the length': replaced('1024', '1024 '),
    'two lengths': replaced('1024', '1024, 1024'),
    'no token': replaced('svc_abcdefghijklmnop', ''),
    'a space in the token': replaced('svc_', 'svc '),
    'a tab in the token': replaced('svc_', 'svc\t'),
    'a byte beyond ASCII': replaced('svc_', 'sv\xe4'),
    'a NUL': replaced('svc_', 'sv\0'),
    'a bare line feed': replaced('svc_', 'sv\nX: '),
    'a bare carriage return': replaced('svc_', 'sv\rX: '),
    'a token that is too long': replaced('svc_', 'x'.repeat(600)),
    'another header': replaced('svc_abcdefghijklmnop', 'svc_abc\r\nTransfer-Encoding: chunked'),
    'one header less': head(LINES.toSpliced(4, 1)),
    'a line folded': replaced('Lang: js', 'Lang:\r\n js'),
    'half a head': head(LINES).subarray(0, -1),
    'half a line': head(LINES).subarray(0, 100),
    nothing: Buffer.alloc(0),
  };
  const pattern = patternOf(LINES);
  for (const [what, bytes] of Object.entries(cases)) t.equal(matched(pattern, bytes), -1, what);
});

t.test(
  'heads that say no length, say it twice or oddly, or are too long make no pattern',
  async (t) => {
    const cases: Record<string, readonly string[]> = {
      'no length': LINES.slice(0, -1),
      twice: [...LINES, 'content-length: 1024'],
      'twice, one of them oddly': [...LINES, 'content-length:1024'],
      'without the usual space': [...LINES.slice(0, -1), 'Content-Length:1024'],
      'with a tab': [...LINES.slice(0, -1), 'Content-Length: 1024\t'],
      'with a leading zero': [...LINES.slice(0, -1), 'Content-Length: 01024'],
      long: [...LINES, `X: ${'x'.repeat(4096)}`],
    };
    for (const [what, lines] of Object.entries(cases)) t.equal(patternOf(lines), null, what);
    const twoKeys = patternOf([...LINES, 'authorization: Bearer x']);
    t.equal(twoKeys.token, null, 'of two keys none may differ');
  },
);

t.test('the pattern keeps its own copy', async (t) => {
  const bytes = head(LINES);
  const pattern = HeadPattern.of(bytes) as HeadPattern;
  bytes.fill(0);
  t.equal(matched(pattern, head(LINES)), head(LINES).length);
});

t.test('a head ends behind its blank line', async (t) => {
  const { length } = head(LINES);
  const two = Buffer.concat([head(LINES), head(LINES)]);
  t.equal(headEnd(two, 0), length);
  t.equal(headEnd(two, length), 2 * length);
  t.equal(headEnd(two.subarray(0, -1), length), -1);
  t.equal(headEnd(two, length - 2), -1, 'empty lines are no head');
});

/** What a strict reader makes of a head: its lines, with the two that may differ taken out. */
function read(bytes: Buffer): { rest: string; length: string; token: string } {
  const lines = bytes.toString('latin1', 0, headEnd(bytes, 0)).split('\r\n');
  const value = (name: string): string =>
    lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? '';
  const rest = lines.map((line) => line.replace(/^(Content-Length|Authorization): .*$/, '$1'));
  return {
    rest: rest.join('\n'),
    length: value('Content-Length'),
    token: value('Authorization').replace('Bearer ', ''),
  };
}

const edits = fc.array(
  fc.record({
    at: fc.nat(400),
    remove: fc.nat(3),
    insert: fc.oneof(
      fc.constantFrom('\r\n', '\r', '\n', ' ', '\t', '0', '9', ':', 'a', '\0', '\xff'),
      fc.string(),
    ),
  }),
  { maxLength: 3 },
);

t.test('whatever matches has the same lines, a length and a token', async (t) => {
  fuzz(
    t,
    fc.property(fc.shuffledSubarray(LINES.slice(1), { minLength: 5 }), edits, (fields, edits) => {
      const lines = [LINES[0] as string, ...fields];
      let text = head(lines).toString('latin1');
      for (const { at, remove, insert } of edits)
        text = text.slice(0, at) + insert + text.slice(at + remove);
      const bytes = Buffer.from(text, 'latin1');
      const pattern = patternOf(lines);
      const end = matched(pattern, bytes);
      if (end < 0) return text !== head(lines).toString('latin1');
      const is = read(bytes);
      return (
        end === headEnd(bytes, 0) &&
        is.rest === read(head(lines)).rest &&
        is.length === String(pattern.contentLength) &&
        is.token === pattern.token &&
        /^[!-~]+$/.test(is.token)
      );
    }),
  );
});
