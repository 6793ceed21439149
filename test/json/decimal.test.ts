import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { writePadded, writeWhole } from '../../src/json/decimal.ts';

const AT = 3;

function written(write: (bytes: Uint8Array, at: number) => number): string {
  const bytes = Buffer.alloc(32, '.');
  const text = bytes.toString('latin1', AT, write(bytes, AT));
  assert.equal(bytes.toString('latin1', 0, AT), '...');
  assert.match(bytes.toString('latin1', AT + text.length), /^\.+$/, 'nothing behind it');
  return text;
}

t.test('whole numbers are written as JavaScript prints them', async () => {
  const edges = [0, 9, 10, 99, 1e9 - 1, 1e9, 2 ** 31, 1e15, Number.MAX_SAFE_INTEGER];
  const any = fc.oneof(fc.maxSafeNat(), fc.nat(), fc.constantFrom(...edges));
  fc.assert(
    fc.property(any, (value) => {
      assert.equal(
        written((bytes, at) => writeWhole(bytes, at, value)),
        `${value}`,
      );
    }),
  );
});

t.test('last digits are written with the zeros before them', async () => {
  for (const [value, digits, text] of [
    [7, 3, '007'],
    [0, 9, '000000000'],
    [999_999_999, 9, '999999999'],
    [120, 3, '120'],
  ] as const) {
    assert.equal(
      written((bytes, at) => writePadded(bytes, at, value, digits)),
      text,
    );
  }
});
