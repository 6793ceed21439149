import t from 'tap';
import { fairLevel, mayTakePlace } from '../../src/domain/fair-share.ts';

/** Random figures that are the same in each run. */
let seed = 1;
function random(): number {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed / 2_147_483_647;
}

const sum = (values: Iterable<number>) => [...values].reduce((all, value) => all + value, 0);

t.test(
  'the level divides a capacity: all of it is used, and who needs less than the level gets it',
  async (t) => {
    for (let round = 0; round < 2000; round++) {
      const uses = Array.from(
        { length: 1 + Math.floor(random() * 20) },
        () => random() ** 4 * 1000,
      );
      const capacity = random() * sum(uses);
      const level = fairLevel(Float64Array.from(uses), capacity);
      const admitted = uses.map((use) => Math.min(use, level));
      if (Math.abs(sum(admitted) - capacity) > 1e-6)
        t.fail(`${sum(admitted)} of ${capacity} for ${uses}`);
      if (level < capacity / uses.length - 1e-9) t.fail(`less than an equal part for ${uses}`);
    }
    t.pass('2000 random loads');
  },
);

t.test('where all fit, there is no level; who is alone gets everything', async (t) => {
  t.equal(fairLevel(Float64Array.of(3, 1, 2), 6), Number.POSITIVE_INFINITY);
  t.equal(fairLevel(Float64Array.of(), 0), Number.POSITIVE_INFINITY);
  t.equal(fairLevel(Float64Array.of(50), 20), 20);
  t.equal(fairLevel(Float64Array.of(1, 1000, 2), 23), 20, 'and so does who is left');
  t.equal(fairLevel(Float64Array.of(5, 5), 0), 0);
});

t.test(
  'companies that take all places they can get hold equally many, and one that holds few finds room',
  async (t) => {
    for (const companies of [1, 2, 5, 50]) {
      const places = 10_000;
      const held = new Array<number>(companies).fill(0);
      let taken = 0;
      for (let turn = 0; turn < 20 * places; turn++) {
        const one = Math.floor(random() * companies);
        if (random() < 0.3 && (held[one] as number) > 0) {
          held[one] = (held[one] as number) - 1; // a request ends
          taken--;
        }
        if (mayTakePlace(held[one] as number, taken, places)) {
          held[one] = (held[one] as number) + 1;
          taken++;
        }
      }
      const free = places - taken;
      t.ok(
        free >= Math.floor(places / (7 * companies + 1)),
        `${companies} companies leave ${free} free`,
      );
      t.ok(
        Math.max(...held) - Math.min(...held) <= 8 * companies,
        `${Math.min(...held)} to ${Math.max(...held)}`,
      );
      t.ok(taken >= (places * 7) / 8, `${taken} are taken`);
      t.ok(mayTakePlace(0, taken, places), 'another company finds room');
    }
  },
);

t.test('of a few places one company may take all', async (t) => {
  for (const places of [1, 3, 7]) t.ok(mayTakePlace(places - 1, places - 1, places));
  for (const places of [1, 3, 7, 100]) t.notOk(mayTakePlace(0, places, places), 'but not more');
});
