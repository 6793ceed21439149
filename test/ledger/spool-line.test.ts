import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { lineLength, readLines, type SpoolLine, writeLine } from '../../src/ledger/spool-line.ts';
import { fuzz } from '../sse/fuzz.ts';

const RECORDS = ['{"a":1}', '{"b":"two"}', `{"c":"${'x'.repeat(500)}"}`];

function linesOf(records: readonly string[]): Buffer {
  const bytes = Buffer.alloc(records.reduce((sum, record) => sum + lineLength(record.length), 0));
  let at = 0;
  for (const record of records) at = writeLine(bytes, at, record);
  return bytes;
}

const good = (lines: readonly SpoolLine[]): string[] =>
  lines.filter(({ damage }) => damage === null).map(({ record }) => record);

t.test('what was written is read back', async (t) => {
  const bytes = linesOf(RECORDS);
  t.match(bytes.toString(), /^00000007 [\da-f]{8} \{"a":1\}\n0000000b /, 'a line people can read');
  t.same(
    readLines(bytes),
    RECORDS.map((record) => ({ record, damage: null })),
  );
  t.same(readLines(Buffer.alloc(0)), []);
});

t.test('cut anywhere, the records before the cut are there and nothing else is', async (t) => {
  const bytes = linesOf(RECORDS);
  const ends = RECORDS.map((_, n) => linesOf(RECORDS.slice(0, n + 1)).length);
  for (let cut = 0; cut <= bytes.length; cut++) {
    const read = readLines(bytes.subarray(0, cut));
    const whole = ends.filter((end) => end <= cut).length;
    if (read.length !== whole || read.some(({ damage }) => damage !== null))
      t.fail(`cut at ${cut}`);
  }
  t.pass(`${bytes.length} cuts`);
});

t.test('a changed bit costs its own record, or two when it was the line break', async (t) => {
  const bytes = linesOf(RECORDS);
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const changed = Buffer.from(bytes);
    changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7));
    const left = good(readLines(changed));
    if (left.length < RECORDS.length - 2 || !left.every((record) => RECORDS.includes(record)))
      t.fail(`bit ${bit}`);
    if (left.length === RECORDS.length) t.fail(`bit ${bit} went unnoticed`);
  }
  t.pass(`${bytes.length * 8} bits`);
});

t.test('damage is told with its reason and what is left of the line', async (t) => {
  const text = linesOf(['{"a":1}']).toString();
  t.match(readLines(Buffer.from(text.replace('1}', '2}'))), [
    { record: '{"a":2}', damage: /checksum/ },
  ]);
  t.match(readLines(Buffer.from(text.replace('1}', '1 }'))), [{ damage: /length/ }]);
  t.match(readLines(Buffer.from('garbage\n')), [{ record: 'garbage', damage: /without/ }]);
  t.match(readLines(Buffer.concat([Buffer.alloc(9), Buffer.from(`\n${text}`)])), [
    { damage: /without/ },
    { record: '{"a":1}', damage: null },
  ]);
});

t.test(
  'whatever happens to a file, each record is read back as written, or told as damage, or was never finished',
  (t) => {
    const record = fc
      .oneof(
        fc.json(),
        fc.string({ unit: fc.constantFrom(...'0123456789abcdef {}":,'), maxLength: 60 }),
      )
      .map((text) => text.replace(/[^\x20-\x7e]/g, '?'));
    const change = fc.record({
      at: fc.nat(),
      cut: fc.nat(12),
      put: fc.uint8Array({ maxLength: 12 }),
    });
    fuzz(
      t,
      fc.property(
        fc.array(record, { maxLength: 8 }),
        fc.array(change, { maxLength: 3 }),
        fc.nat(),
        (records, changes, end) => {
          const written = linesOf(records);
          assert.deepEqual(good(readLines(written)), records);
          let bytes = written;
          for (const { at, cut, put } of changes) {
            const from = at % (bytes.length + 1);
            bytes = Buffer.concat([bytes.subarray(0, from), put, bytes.subarray(from + cut)]);
          }
          if (end % 3 === 0) bytes = bytes.subarray(0, end % (bytes.length + 1));
          const read = readLines(bytes);
          // nothing is lost but an unfinished last line, and nothing made up
          assert.equal(read.length, bytes.filter((byte) => byte === 10).length);
          for (const each of good(read)) assert.ok(records.includes(each), each);
          // what no change touched is still there
          const lines = new Set(bytes.toString('latin1').split('\n').slice(0, -1));
          const whole = records.filter((each) =>
            lines.has(linesOf([each]).toString('latin1').slice(0, -1)),
          );
          assert.deepEqual(new Set(good(read)), new Set(whole));
        },
      ),
    );
    t.end();
  },
);
