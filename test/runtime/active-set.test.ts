import fc from 'fast-check';
import t from 'tap';
import { ActiveSet } from '../../src/runtime/active-set.ts';

t.test('it holds who joined and did not leave, whatever the order', async (t) => {
  const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(9)), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (steps) => {
      const members = Array.from({ length: 10 }, (_, n) => ({ n, index: -1 }));
      const set = new ActiveSet<{ n: number; index: number }>();
      const model = new Set<number>();
      for (const [joins, n] of steps) {
        const member = members[n] as { n: number; index: number };
        if (joins && !model.has(n)) {
          set.join(member);
          model.add(n);
        } else if (!joins) {
          set.leave(member);
          model.delete(n);
        }
      }
      const found: number[] = [];
      set.each(({ n }) => found.push(n));
      return (
        set.size === model.size &&
        JSON.stringify(found.sort()) === JSON.stringify([...model].sort())
      );
    }),
    { seed: 1 },
  );
  t.pass();
});

t.test('each is called once, also when those called leave', async (t) => {
  const set = new ActiveSet<{ n: number; index: number }>();
  const members = Array.from({ length: 7 }, (_, n) => ({ n, index: -1 }));
  for (const member of members) set.join(member);
  const called: number[] = [];
  set.each((member) => {
    called.push(member.n);
    if (member.n % 2 === 0) set.leave(member);
  });
  t.same(called.sort(), [0, 1, 2, 3, 4, 5, 6]);
  t.equal(set.size, 3);
});
