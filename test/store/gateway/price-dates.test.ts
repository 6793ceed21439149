import { pino } from 'pino';
import t from 'tap';
import type { Database } from '../../../src/store/connection/pool.ts';
import { PriceDates } from '../../../src/store/gateway/price-dates.ts';

/** Prices of which the database says in how many seconds the next begins, under a clock that the test turns. */
function scene() {
  const answers: (number | null | Error)[] = [];
  const logged: string[] = [];
  let asked = 0;
  let now = 0;
  const db = {
    async run() {
      asked++;
      const seconds = answers.shift() ?? null;
      if (seconds instanceof Error) throw seconds;
      return [{ seconds }];
    },
  } as unknown as Database;
  const dates = new PriceDates(
    db,
    pino({ level: 'info' }, { write: (line: string) => void logged.push(line) }),
    () => now,
  );
  return {
    dates,
    logged,
    /** A poll of the change feed. @returns how often the database was asked so far */
    async poll(seconds: number, answer?: number | null | Error) {
      now = seconds * 1000;
      if (answer !== undefined) answers.push(answer);
      dates.polled();
      dates.polled(); // one question at a time
      await dates.close();
      return asked;
    },
  };
}

t.test('the database is asked at the start, and again only when a price begins', async (t) => {
  const { poll } = scene();
  t.equal(await poll(0, 10), 1);
  t.equal(await poll(9.9), 1);
  t.equal(await poll(10, null), 2);
  t.equal(await poll(1e9), 2, 'never while none is to come');
});

t.test('a change of a model, or one that may have been missed, is a reason to ask', async (t) => {
  const { dates, poll } = scene();
  t.equal(await poll(0, null), 1);
  dates.changed('key');
  t.equal(await poll(1), 1);
  for (const [i, kind] of ['model', 'company', 'all'].entries()) {
    dates.changed(kind);
    t.equal(await poll(2 + i, null), 2 + i);
  }
  dates.missed();
  t.equal(await poll(5, null), 5);
  dates.polled();
  dates.changed('model'); // while it is asked
  await dates.close();
  t.equal(await poll(6, null), 6);
});

t.test('after a failure each poll asks until one succeeds, and the log is told once', async (t) => {
  const { poll, logged } = scene();
  t.equal(await poll(0, new Error('away')), 1);
  t.equal(await poll(1, new Error('away')), 2);
  t.equal(await poll(2, 5), 3);
  t.equal(await poll(3), 3);
  t.equal(logged.length, 1);
  t.equal(await poll(7, -1), 4, 'a model that somebody else holds is tried again');
  t.equal(await poll(8, null), 5);
});
