import t from 'tap';
import {
  MAX_WAIT_MS,
  MAX_WAITING,
  PACE,
  REFUSE_MS,
  ShedQueue,
} from '../../../src/gateway/request/shed-queue.ts';

const TICK_MS = 50;

/** So many requests at once, and then again as soon as they were refused, for so long. @returns refusals, and the longest wait */
function insist(clients: number, ms: number): { refused: number; longest: number } {
  const refusals = new ShedQueue<number>();
  for (let n = 0; n < clients; n++) refusals.add(0, 0);
  let refused = 0;
  let longest = 0;
  for (let now = TICK_MS; now <= ms; now += TICK_MS) {
    for (const since of refusals.take(now)) {
      refused++;
      longest = Math.max(longest, now - since);
      refusals.add(now, now);
    }
  }
  return { refused, longest };
}

t.test('a single one is refused after a moment', async (t) => {
  const refusals = new ShedQueue<string>();
  refusals.add('a', 1000);
  t.same(refusals.take(1000 + REFUSE_MS - 1), []);
  t.same(refusals.take(1000 + REFUSE_MS), ['a']);
  t.same(refusals.take(1000 + REFUSE_MS), [], 'once');
  t.equal(refusals.waiting, 0);
});

t.test('the oldest first', async (t) => {
  const refusals = new ShedQueue<number>();
  for (let n = 0; n < 100; n++) refusals.add(n, n);
  t.same(
    [9, 200, 400].flatMap((ms) => refusals.take(REFUSE_MS + ms)),
    Array.from({ length: 100 }, (_, n) => n),
  );
});

t.test('clients that try again at once do not make it refuse faster', async (t) => {
  for (const clients of [20, 100, 400, 1000]) {
    const { refused, longest } = insist(clients, 20_000);
    t.ok(refused <= 20 * PACE * 1.05 + clients, `${clients} clients: ${refused} refusals in 20 s`);
    t.ok(
      refused >= 20 * Math.min(PACE, clients * 4) * 0.9,
      `${clients} clients: ${refused} refusals, not fewer`,
    );
    t.ok(longest <= MAX_WAIT_MS * 1.02, `${longest} ms at most`);
  }
});

t.test('where thousands wait, none waits much longer than it may', async (t) => {
  const { longest } = insist(9000, 30_000);
  t.ok(longest <= MAX_WAIT_MS * 1.06, `${longest} ms`);
});

t.test('no more wait than may', async (t) => {
  const refusals = new ShedQueue<number>();
  for (let n = 0; n < MAX_WAITING + 500; n++) refusals.add(n, 0);
  t.same(refusals.take(1).slice(-1), [499], 'the oldest go at once');
  t.equal(refusals.waiting, MAX_WAITING);
});

t.test('a pause between bursts earns no faster pace', async (t) => {
  const refusals = new ShedQueue<number>();
  refusals.add(0, 0);
  refusals.take(REFUSE_MS);
  for (let n = 0; n < 1000; n++) refusals.add(n, 100_000);
  t.ok(refusals.take(100_000 + REFUSE_MS).length <= 100);
});
