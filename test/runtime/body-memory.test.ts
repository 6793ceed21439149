import { mock } from 'node:test';
import fc from 'fast-check';
import t from 'tap';
import { BodyMemory, free, LentSlabs } from '../../src/runtime/body-memory.ts';
import { cutAt, fuzz, places } from '../sse/fuzz.ts';

t.test('after every 4 MiB of small bodies the young generation is collected', async (t) => {
  let collected = 0;
  const memory = new BodyMemory(() => collected++);
  for (let n = 1; n <= 4096; n++) memory.noteSmall(1023);
  t.equal(collected, 0);
  memory.noteSmall(8192);
  t.equal(collected, 1);
  for (let n = 1; n <= 4096; n++) memory.noteSmall(1024);
  t.equal(collected, 2, 'and counted anew');
});

t.test('in a process of somebody else it is left alone', async (t) => {
  const memory = new BodyMemory();
  t.doesNotThrow(() => memory.noteSmall(4 << 20));
});

t.test('a large body is copied as it came, wherever its pieces end', async (t) => {
  const memory = new BodyMemory();
  const bytes = Buffer.from(Array.from({ length: 700_000 }, (_, n) => (n * 7) ^ (n >> 8)));
  fuzz(
    t,
    fc.property(
      places,
      fc.constantFrom(0, 1, 262_143, 262_144, 262_145, 524_288, bytes.length),
      (cuts, size) => {
        const body = bytes.subarray(0, size);
        const slabs = new LentSlabs(memory);
        for (const piece of cutAt(body, cuts)) slabs.add(piece);
        const same = Buffer.concat(slabs.pieces).equals(body);
        slabs.giveBack();
        return same;
      },
    ),
  );
});

t.test('its memory is lent again once it is given back, and to one body only', async (t) => {
  const memory = new BodyMemory();
  const first = new LentSlabs(memory);
  first.add(Buffer.alloc(600_000, 'a'));
  const slabs = new Set(first.pieces.map(({ buffer }) => buffer));
  const beside = new LentSlabs(memory);
  beside.add(Buffer.alloc(600_000, 'b'));
  t.notOk(
    beside.pieces.some(({ buffer }) => slabs.has(buffer)),
    'not before',
  );
  first.giveBack();
  first.giveBack();
  t.strictSame(first.pieces, []);
  const later = [new LentSlabs(memory), new LentSlabs(memory)];
  for (const slabs of later) slabs.add(Buffer.alloc(600_000, 'c'));
  const lent = later.flatMap(({ pieces }) => pieces.map(({ buffer }) => buffer));
  t.equal(new Set(lent).size, 6);
  t.equal(lent.filter((buffer) => slabs.has(buffer)).length, 3);
  t.ok(Buffer.concat(beside.pieces).equals(Buffer.alloc(600_000, 'b')));
});

t.test('what nobody uses for a while is kept no longer', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.teardown(() => mock.timers.reset());
  const memory = new BodyMemory();
  const slab = memory.lend();
  memory.giveBack([slab]);
  mock.timers.tick(10_000);
  t.equal(memory.lend(), slab);
  memory.giveBack([slab]);
  mock.timers.tick(12_000);
  t.not(memory.lend(), slab);
});

t.test(
  'of much memory that was used only once a part is freed, and what is used in turn is kept',
  async (t) => {
    mock.timers.enable({ apis: ['setInterval'] });
    t.teardown(() => mock.timers.reset());
    const memory = new BodyMemory();
    const many = Array.from({ length: 300 }, () => memory.lend());
    memory.giveBack(many);
    mock.timers.tick(1000);
    const again = Array.from({ length: 300 }, () => memory.lend());
    t.ok(again.every((slab) => many.includes(slab) && slab.length > 0));
    memory.giveBack(again);
    mock.timers.tick(1000);
    memory.giveBack([memory.lend()]);
    mock.timers.tick(1000);
    t.equal(many.filter(({ length }) => length > 0).length, 256);
    const lent = Array.from({ length: 256 }, () => memory.lend());
    t.ok(
      lent.every(({ length }) => length > 0),
      'none that was freed is lent',
    );
  },
);

t.test('a piece is freed that is all of its memory, and no other', async (t) => {
  const whole = Buffer.allocUnsafeSlow(65_536);
  free(whole);
  t.equal(whole.length, 0);
  const shared = Buffer.allocUnsafeSlow(65_536);
  free(shared.subarray(0, 60_000));
  t.equal(shared.length, 65_536);
});
