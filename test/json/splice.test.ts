import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { type Edit, edited, lengthOf, splice, splicePieces } from '../../src/json/splice.ts';
import { cutAt, fuzz, places } from '../sse/fuzz.ts';

const edit = (start: number, end: number, text: string): Edit => ({
  start,
  end,
  bytes: Buffer.from(text),
});

t.test('edits replace, insert and remove; all other bytes stay', (t) => {
  const body = Buffer.from('0123456789');
  t.equal(splice(body, []).toString(), '0123456789');
  t.equal(splice(body, [edit(2, 4, 'abc')]).toString(), '01abc456789');
  t.equal(
    splice(body, [edit(0, 0, 'a'), edit(5, 6, ''), edit(10, 10, 'z')]).toString(),
    'a012346789z',
  );
  t.equal(
    splice(body, [edit(3, 5, 'x'), edit(5, 5, 'y'), edit(5, 7, 'z')]).toString(),
    '012xyz789',
  );
  t.equal(splice(body, [edit(0, 10, '')]).toString(), '');
  t.end();
});

t.test('a body in pieces is not copied', (t) => {
  const pieces = [Buffer.from('01234'), Buffer.from('56789')];
  const spliced = splicePieces(pieces, [edit(6, 8, 'x')]);
  t.strictSame(spliced.map(String), ['01234', '5', 'x', '89']);
  t.equal(spliced[0], pieces[0]);
  t.equal(spliced[1]?.buffer, pieces[1]?.buffer);
  t.end();
});

t.test('a large body with few edits is not copied, and all others are whole', (t) => {
  const large = Buffer.from('0123456789'.repeat(10_000));
  const pieces = edited(large, [edit(3, 5, 'abc')]);
  t.strictSame((pieces as Buffer[]).map(String), ['012', 'abc', `${large}`.slice(5)]);
  t.equal((pieces as Buffer[])[0]?.buffer, large.buffer);
  t.equal(lengthOf(pieces), 100_001);
  const many = Array.from({ length: 7 }, (_, n) => edit(n * 10, n * 10 + 1, 'xy'));
  for (const [body, edits] of [
    [large, many],
    [large.subarray(0, 65_536), [edit(3, 5, 'abc')]],
  ] as const) {
    const whole = edited(body, edits);
    t.ok(Buffer.isBuffer(whole));
    t.same(whole, splice(body, edits));
    t.equal(lengthOf(whole), whole.length);
  }
  t.end();
});

t.test('in pieces or in one, the spliced body is the same', (t) => {
  const edits = fc.array(fc.tuple(fc.nat(12), fc.nat(5), fc.string()), { maxLength: 6 });
  fuzz(
    t,
    fc.property(fc.string({ minLength: 1, maxLength: 60 }), edits, places, (text, gaps, cuts) => {
      const body = Buffer.from(text);
      const made: Edit[] = [];
      let at = 0;
      let expected = '';
      for (const [gap, length, replacement] of gaps) {
        const start = Math.min(at + gap, body.length);
        const end = Math.min(start + length, body.length);
        expected +=
          body.toString('latin1', at, start) + Buffer.from(replacement).toString('latin1');
        made.push({ start, end, bytes: Buffer.from(replacement) });
        at = end;
      }
      expected += body.toString('latin1', at);
      assert.equal(splice(body, made).toString('latin1'), expected);
      assert.equal(
        Buffer.concat(splicePieces(cutAt(body, cuts), made)).toString('latin1'),
        expected,
      );
    }),
  );
  t.end();
});
