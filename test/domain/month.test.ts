import t from 'tap';
import { Calendar } from '../../src/domain/month.ts';

t.test('the billing month is the calendar month of the zone', async (t) => {
  const utc = new Calendar('UTC');
  const berlin = new Calendar('Europe/Berlin');
  const newYear = Date.parse('2027-01-01T00:00:00Z');
  t.equal(utc.month(newYear - 1), '2026-12-01');
  t.equal(utc.month(newYear), '2027-01-01');
  t.equal(berlin.month(newYear - 3_600_001), '2026-12-01');
  t.equal(berlin.month(newYear - 3_600_000), '2027-01-01');
  t.equal(new Calendar('America/Los_Angeles').month(newYear), '2026-12-01');
});

t.test(
  'both nights of daylight saving, and zones off by quarter hours, keep their dates',
  async (t) => {
    for (const zone of ['Europe/Berlin', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'Pacific/Apia']) {
      const calendar = new Calendar(zone);
      const plain = new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' });
      const wrong: string[] = [];
      for (const around of [
        '2026-03-29T01:00:00Z',
        '2026-10-25T01:00:00Z',
        '2026-04-30T22:00:00Z',
      ]) {
        for (let minute = -1500; minute <= 1500; minute += 5) {
          const at = Date.parse(around) + minute * 60_000;
          for (const instant of [at - 1, at]) {
            if (calendar.date(instant) !== plain.format(instant))
              wrong.push(new Date(instant).toISOString());
          }
        }
      }
      t.same(wrong, [], zone);
    }
  },
);

t.test('a clock that steps back gives the earlier month again', async (t) => {
  const calendar = new Calendar('UTC');
  const newYear = Date.parse('2027-01-01T00:00:00Z');
  t.equal(calendar.month(newYear), '2027-01-01');
  t.equal(calendar.month(newYear - 7_200_000), '2026-12-01');
});

t.test('a month ends when the next one begins, in every zone, month and night', async (t) => {
  const ends = (zone: string, at: string): string => new Calendar(zone).monthEnd(Date.parse(at));
  t.equal(ends('UTC', '2026-11-01T00:00:00Z'), '2026-12-01T00:00:00Z', 'from its first instant');
  t.equal(ends('UTC', '2026-11-30T23:59:59.999Z'), '2026-12-01T00:00:00Z', 'to its last');
  t.equal(ends('UTC', '2026-12-31T23:59:59Z'), '2027-01-01T00:00:00Z');
  t.equal(ends('UTC', '2028-02-29T12:00:00Z'), '2028-03-01T00:00:00Z');
  t.equal(ends('Europe/Berlin', '2026-12-31T22:59:59Z'), '2026-12-31T23:00:00Z');
  t.equal(ends('Europe/Berlin', '2026-12-31T23:00:00Z'), '2027-01-31T23:00:00Z');
  t.equal(
    ends('Europe/Berlin', '2026-03-01T00:00:00Z'),
    '2026-03-31T22:00:00Z',
    'summer time began within it',
  );
  t.equal(
    ends('Europe/Berlin', '2026-10-01T00:00:00Z'),
    '2026-10-31T23:00:00Z',
    'and ended within it',
  );
  t.equal(ends('Asia/Kathmandu', '2026-11-15T00:00:00Z'), '2026-11-30T18:15:00Z');
  t.equal(ends('Pacific/Kiritimati', '2026-11-15T00:00:00Z'), '2026-11-30T10:00:00Z');

  const wrong: string[] = [];
  for (const zone of [
    'UTC',
    'Europe/Berlin',
    'America/New_York',
    'Australia/Lord_Howe',
    'Asia/Kathmandu',
  ]) {
    const calendar = new Calendar(zone);
    for (
      let at = Date.parse('2026-01-01T00:00:00Z');
      at < Date.parse('2028-03-01T00:00:00Z');
      at += 31_357_000
    ) {
      const end = Date.parse(calendar.monthEnd(at));
      const next = calendar.month(end);
      const isEnd =
        calendar.month(end - 1) === calendar.month(at) &&
        next > calendar.month(at) &&
        /-01$/.test(calendar.date(end));
      if (!isEnd || end <= at) wrong.push(`${zone} ${new Date(at).toISOString()}`);
    }
  }
  t.same(wrong, []);
});

t.test('the end of a month is right again after the clock stepped back', async (t) => {
  const calendar = new Calendar('UTC');
  t.equal(calendar.monthEnd(Date.parse('2027-01-01T00:00:00Z')), '2027-02-01T00:00:00Z');
  t.equal(calendar.monthEnd(Date.parse('2026-12-31T22:00:00Z')), '2027-01-01T00:00:00Z');
});

t.test('a day ends when the next one begins, after 23, 24 or 25 hours', async (t) => {
  const ends = (zone: string, at: string): string => new Calendar(zone).dayEnd(Date.parse(at));
  t.equal(ends('UTC', '2026-11-30T00:00:00Z'), '2026-12-01T00:00:00Z', 'from its first instant');
  t.equal(ends('UTC', '2026-11-30T23:59:59.999Z'), '2026-12-01T00:00:00Z', 'to its last');
  t.equal(
    ends('Europe/Berlin', '2026-10-24T22:00:00Z'),
    '2026-10-25T23:00:00Z',
    'a day of 25 hours',
  );
  t.equal(
    ends('Europe/Berlin', '2027-03-27T23:00:00Z'),
    '2027-03-28T22:00:00Z',
    'a day of 23 hours',
  );
  t.equal(ends('Asia/Kathmandu', '2026-11-15T00:00:00Z'), '2026-11-15T18:15:00Z');
  t.equal(
    ends('Atlantic/Azores', '2026-10-25T00:30:00Z'),
    '2026-10-26T01:00:00Z',
    'a midnight that comes twice',
  );
  const calendar = new Calendar('Europe/Berlin');
  t.equal(calendar.dayEnd(Date.parse('2026-11-28T10:00:00Z')), '2026-11-28T23:00:00Z');
  t.equal(
    calendar.dayEnd(Date.parse('2026-11-28T23:00:00Z')),
    '2026-11-29T23:00:00Z',
    'of the next one as well',
  );
  t.equal(calendar.dayEnd(Date.parse('2026-11-28T22:59:59Z')), '2026-11-28T23:00:00Z', 'and back');
});
