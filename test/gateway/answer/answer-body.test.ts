import t from 'tap';
import { AnswerBody, AnswerEnd } from '../../../src/gateway/answer/answer-body.ts';

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

t.test(
  'a body that comes in one piece is not copied, and one that is too large is not kept',
  async (t) => {
    const [one, large] = [new AnswerBody(10), new AnswerBody(10)];
    const piece = Buffer.from('whole body');
    one.push(piece, true);
    t.equal(one.bytes, piece);
    large.push(piece, false);
    large.push(Buffer.from('!'), true);
    t.ok(large.overflown);
    t.equal(new AnswerBody(10).bytes.length, 0);
  },
);

t.test('a body whose length was announced lies where it was put first', async (t) => {
  const whole = Buffer.from(Array.from({ length: 100_000 }, (_, i) => i % 251));
  // also where more or less comes than was told, or nothing was told, or more than is kept
  for (const announced of [100_000, 150_000, 40_000, -1, Number.NaN, 5_000_000]) {
    const body = new AnswerBody(200_000, announced);
    const places = new Set<ArrayBufferLike>();
    for (let from = 0; from < whole.length; from += 10_000) {
      body.push(whole.subarray(from, from + 10_000), false);
      places.add(body.bytes.buffer);
    }
    t.ok(body.bytes.equals(whole), `${announced} announced`);
    t.ok(body.bytes.buffer.byteLength <= 200_000);
    if (announced >= 100_000) t.equal(places.size, 1);
  }
});

t.test(
  'of a body that is larger than it may be, what fits is kept, and nothing that was there before',
  async (t) => {
    const body = new AnswerBody(10);
    body.push(Buffer.from('four'), false);
    body.push(Buffer.from('more than six'), false);
    t.ok(body.overflown);
    t.equal(`${body.bytes}`, 'fourmore t');
    body.push(Buffer.from('more'), true);
    t.equal(`${body.bytes}`, 'fourmore t');
    const whole = new AnswerBody(10);
    whole.push(Buffer.from('more than ten'), true);
    t.equal(`${whole.bytes}`, 'more than ');
  },
);

t.test('the end of an endless body is kept, in pieces of any size', async (t) => {
  const whole = Buffer.from(Array.from({ length: 60_000 }, (_, i) => i % 251));
  for (const size of [7, 1000, 16_384, 40_000]) {
    const end = new AnswerEnd(whole.subarray(0, 5000));
    for (let from = 5000; from < whole.length; from += size) {
      const piece = Buffer.from(whole.subarray(from, from + size));
      t.ok(end.push(piece));
      piece.fill(0); // its memory is used again
    }
    t.ok(end.bytes.equals(whole.subarray(-16_384)), `pieces of ${size}`);
  }
  const endless = new AnswerEnd(Buffer.alloc(0));
  let pushed = 0;
  while (endless.push(Buffer.alloc(1_000_000))) pushed++;
  t.equal(pushed, 268);
});
