import fc from 'fast-check';
import t, { type Test } from 'tap';
import { TimerWheel, type WheelMember } from '../../src/runtime/timer-wheel.ts';
import { fuzz } from '../sse/fuzz.ts';

const TICK = 250;

/** A wheel under a clock that this test turns. */
function start(t: Test, inactiveMs: number) {
  let at = 1_000_000;
  const wheel = new TimerWheel(inactiveMs, () => at);
  t.teardown(() => wheel.close());
  return {
    wheel,
    join(onInactive = () => {}) {
      const calls: number[] = [];
      const member: WheelMember & { calls: number[]; act(): void } = {
        index: -1,
        slot: null,
        activeAt: 0,
        calls,
        act() {
          member.activeAt = wheel.now;
        },
        onInactive() {
          calls.push(at - 1_000_000);
          onInactive();
        },
      };
      wheel.join(member);
      return member;
    },
    /** Lets time pass, in one turn or tick by tick. */
    pass(ms: number, step = TICK) {
      for (let passed = 0; passed < ms; passed += step) {
        at += step;
        wheel.turn();
      }
    },
  };
}

t.test('a member is called whenever it was inactive for so long', async (t) => {
  const { join, pass } = start(t, 1000);
  const still = join();
  pass(500);
  const late = join();
  pass(3000);
  t.same(still.calls, [1000, 2000, 3000]);
  t.same(late.calls, [1500, 2500, 3500]);
});

t.test('activity puts its call off, however often it comes', async (t) => {
  const { join, pass } = start(t, 1000);
  const member = join();
  for (let n = 0; n < 10; n++) {
    pass(750);
    member.act();
    member.act();
  }
  t.same(member.calls, []);
  pass(1000);
  t.same(member.calls, [8500]);
});

t.test('who has left is not called, and may leave twice or while it is called', async (t) => {
  const { wheel, join, pass } = start(t, 1000);
  const gone = join();
  const leaving = join(() => wheel.leave(leaving));
  const staying = join();
  wheel.leave(gone);
  wheel.leave(gone);
  pass(3000);
  t.same(gone.calls, []);
  t.same(leaving.calls, [1000]);
  t.same(staying.calls, [1000, 2000, 3000]);
});

t.test('after a pause of the process each is called once, and then as before', async (t) => {
  const { join, pass } = start(t, 1000);
  const members = [join()];
  for (let n = 0; n < 3; n++) {
    pass(TICK);
    members.push(join());
  }
  pass(60_000, 60_000);
  for (const { calls } of members) t.same(calls, [60_750]);
  pass(1000);
  for (const { calls } of members) t.same(calls, [60_750, 61_750]);
});

t.test(
  'members come and go, are active or not: each is called after its time, and no sooner than a tick before',
  (t) => {
    const acts = fc.array(
      fc.tuple(fc.nat(5), fc.constantFrom('join', 'leave', 'act', 'act', 'pass', 'long')),
      {
        maxLength: 60,
      },
    );
    fuzz(
      t,
      fc.property(acts, fc.constantFrom(250, 1000, 2250), (acts, inactiveMs) => {
        const { wheel, join, pass } = start(t, inactiveMs);
        let passed = 0;
        const members: (ReturnType<typeof join> & { since: number; seen: number })[] = [];
        for (const [n, act] of acts) {
          const member = members[n % Math.max(1, members.length)];
          if (act === 'join') members.push(Object.assign(join(), { since: passed, seen: 0 }));
          else if (act === 'leave' && member !== undefined) {
            wheel.leave(member);
            members.splice(members.indexOf(member), 1);
          } else if (act === 'act' && member !== undefined) {
            member.act();
            member.since = passed;
          } else {
            const ms = act === 'long' ? 3500 : TICK;
            pass(ms, ms);
            passed += ms;
            for (const each of members) {
              const isDue = passed - each.since >= inactiveMs;
              if (each.calls.length - each.seen !== (isDue ? 1 : 0)) return false;
              if (isDue) each.since = passed;
              each.seen = each.calls.length;
            }
          }
        }
        return true;
      }),
    );
    t.end();
  },
);
