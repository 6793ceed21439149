import t from 'tap';
import { AnswerBody } from '../../src/gateway/answer-body.ts';

t.test('a body in pieces of any size is kept whole, in twice its memory at most', async (t) => {
  const whole = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251));
  for (const size of [1, 7, 1000, 16_384, 99_999]) {
    const body = new AnswerBody(1_000_000);
    for (let from = 0; from < whole.length; from += size) {
      const piece = Buffer.from(whole.subarray(from, from + size));
      body.push(piece, from + size >= whole.length);
      piece.fill(0); // its memory is used again
    }
    t.ok(body.bytes.equals(whole), `pieces of ${size}`);
    t.ok(body.bytes.buffer.byteLength <= 2 * whole.length, `${body.bytes.buffer.byteLength} bytes`);
  }
});

t.test('a body that comes in one piece is not copied, and one that is too large is not kept', async (t) => {
  const [one, large] = [new AnswerBody(10), new AnswerBody(10)];
  const piece = Buffer.from('whole body');
  one.push(piece, true);
  t.equal(one.bytes, piece);
  large.push(piece, false);
  large.push(Buffer.from('!'), true);
  t.ok(large.overflown);
  t.equal(new AnswerBody(10).bytes.length, 0);
});
