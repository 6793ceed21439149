import t from 'tap';
import { pauseAfter } from '../../src/domain/event.ts';

t.test('pauses grow, vary by a quarter, and last about a day in all', async (t) => {
  const pauses: number[] = [];
  for (let attempts = 1; ; attempts++) {
    const pause = pauseAfter(attempts, 0.5);
    if (pause === null) break;
    t.ok(pause >= (pauses.at(-1) ?? 0), `${pause} s`);
    t.equal(pauseAfter(attempts, 0), pause * 0.75);
    t.equal(pauseAfter(attempts, 1), pause * 1.25);
    pauses.push(pause);
  }
  t.equal(pauses[0], 10);
  const hours = pauses.reduce((sum, pause) => sum + pause, 0) / 3600;
  t.ok(hours > 20 && hours < 30, `${hours} hours`);
});
