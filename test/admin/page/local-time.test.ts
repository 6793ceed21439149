import t from 'tap';
import { localText, readLastDay, readLocal } from '../../../src/admin/page/local-time.ts';

/** Times on the clock of the billing time zone, on days on which clocks change. */

t.test(
  'a day ends when the next one begins, where clocks skip midnight or have it twice too',
  async (t) => {
    const ends = {
      'America/Santiago 2026-09-05': '2026-09-06T04:00:00.000Z', // 00:00 is skipped: the day begins at 01:00
      'America/Havana 2026-03-07': '2026-03-08T05:00:00.000Z',
      'Asia/Beirut 2026-03-28': '2026-03-28T22:00:00.000Z',
      'America/Havana 2026-10-31': '2026-11-01T04:00:00.000Z', // 00:00 is there twice
      'Europe/Berlin 2026-10-25': '2026-10-25T23:00:00.000Z',
    };
    for (const [asked, end] of Object.entries(ends)) {
      const [zone, day] = asked.split(' ') as [string, string];
      t.equal(readLastDay(day, zone, Date.parse(end) - 1).toISOString(), end, asked);
      t.throws(() => readLastDay(day, zone, Date.parse(end)), {
        message: 'must be today or later',
      });
    }
  },
);

t.test('a time that clocks skip is as much later as they were put forward', async (t) => {
  t.equal(readLocal('2026-03-29T02:30', 'Europe/Berlin').toISOString(), '2026-03-29T01:30:00.000Z');
  t.equal(
    readLocal('2026-03-08T02:30', 'America/New_York').toISOString(),
    '2026-03-08T07:30:00.000Z',
  );
  t.equal(
    readLocal('2026-03-29T02:30+01:00', 'Europe/Berlin').toISOString(),
    '2026-03-29T01:30:00.000Z',
  );
});

t.test('the first and the last day that are read are shown again, in every zone', async (t) => {
  for (const zone of ['UTC', 'Asia/Tokyo', 'America/New_York', 'Pacific/Kiritimati']) {
    for (const text of ['1000-01-01T00:00', '2999-12-31T23:59'])
      t.equal(localText(readLocal(text, zone), zone), text);
  }
});

t.test(
  'an instant of a day that has four digits in one zone and three in another is shown in both',
  async (t) => {
    const first = new Date('1000-01-01T00:00:00Z');
    t.equal(localText(first, 'America/New_York'), '0999-12-31T19:03');
    t.equal(localText(first, 'Asia/Tokyo'), '1000-01-01T09:18');
  },
);
