import fc from 'fast-check';
import t from 'tap';
import { VectorEncoder } from '../../src/json/vectors.ts';
import { cutAt, fuzz } from '../sse/fuzz.ts';

const FLOATS = [0.5, -1, 0, 3.25];
const BASE64 = Buffer.from(Float32Array.from(FLOATS).buffer).toString('base64');

function encoded(pieces: readonly Buffer[]): { text: string; encoder: VectorEncoder } {
  const encoder = new VectorEncoder();
  const out = pieces.map((piece) => Buffer.from(encoder.push(piece)));
  return { text: `${Buffer.concat(out)}`, encoder };
}

const ANSWER = `{ "object":"list","data":[{"object":"embedding","embedding" \n:\t[0.5,-1, 0,\n3.25],"index":0},{"embedding":"${BASE64}"},
  {"embedding":[0.5,-1,0,3.25]}],"note":"\\"embedding\\":[1]","x":""embedding"","model":"m"}`;
const EXPECTED = ANSWER.replace(/\[0\.5[^\]]*\]/g, JSON.stringify(BASE64));

t.test('vectors become base64 wherever the bytes are cut, and nothing else changes', async (t) => {
  const bytes = Buffer.from(ANSWER);
  for (let at = 0; at <= bytes.length; at++) {
    const { text, encoder } = encoded([bytes.subarray(0, at), bytes.subarray(at)]);
    if (text !== EXPECTED) t.equal(text, EXPECTED, `cut at ${at}`);
    t.match(encoder, { isBroken: false, hasVectors: true, pending: 0 });
  }
  t.equal(encoded([...bytes].map((byte) => Buffer.from([byte]))).text, EXPECTED, 'byte by byte');
});

t.test('in any pieces the result is that of one piece', async (t) => {
  const part = fc.constantFrom(
    '"embedding"',
    ':',
    '[',
    ']',
    '1',
    ',',
    ' ',
    '"',
    '\\"',
    'e',
    '"embed',
    'ding"',
    '{',
    'null',
  );
  fuzz(
    t,
    fc.property(fc.array(part), fc.array(fc.nat(200)), (parts, cuts) => {
      const bytes = Buffer.from(parts.join(''));
      const whole = encoded([bytes]);
      const cut = encoded(cutAt(bytes, cuts));
      return (
        whole.text === cut.text &&
        whole.encoder.isBroken === cut.encoder.isBroken &&
        whole.encoder.pending === cut.encoder.pending
      );
    }),
  );
});

t.test('bytes without vectors to encode are not copied', async (t) => {
  const encoder = new VectorEncoder();
  for (const text of ['{"data":[{"embedding":"', BASE64, '"}]}']) {
    const bytes = Buffer.from(text);
    t.equal(encoder.push(bytes), bytes);
  }
  t.match(encoder, { isBroken: false, hasVectors: true });
});

t.test('what is no vector is told', async (t) => {
  for (const wrong of ['[1,null]', '[1,"2"]', '[[1],[2]]', '[1,]', '[1 2]']) {
    t.ok(encoded([Buffer.from(`{"embedding":${wrong}}`)]).encoder.isBroken, wrong);
  }
  t.ok(encoded([Buffer.from('{"embedding":[1]},{"embedding":null}')]).encoder.isBroken);
  t.match(encoded([Buffer.from('{"embedding":3}')]).encoder, {
    isBroken: false,
    hasVectors: false,
  });
});

t.test('the digits of a vector are held until it is whole', async (t) => {
  const encoder = new VectorEncoder();
  t.equal(`${encoder.push(Buffer.from('{"embedding":[1,'))}`, '{"embedding":');
  t.equal(encoder.pending, 3);
  encoder.push(Buffer.from('2,'.repeat(500)));
  t.equal(encoder.pending, 1003);
});
