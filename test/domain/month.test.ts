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

t.test('both nights of daylight saving, and zones off by quarter hours, keep their dates', async (t) => {
  for (const zone of ['Europe/Berlin', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'Pacific/Apia']) {
    const calendar = new Calendar(zone);
    const plain = new Intl.DateTimeFormat('en-CA', { timeZone: zone, dateStyle: 'short' });
    const wrong: string[] = [];
    for (const around of ['2026-03-29T01:00:00Z', '2026-10-25T01:00:00Z', '2026-04-30T22:00:00Z']) {
      for (let minute = -1500; minute <= 1500; minute += 5) {
        const at = Date.parse(around) + minute * 60_000;
        for (const instant of [at - 1, at]) {
          if (calendar.date(instant) !== plain.format(instant)) wrong.push(new Date(instant).toISOString());
        }
      }
    }
    t.same(wrong, [], zone);
  }
});

t.test('a clock that steps back gives the earlier month again', async (t) => {
  const calendar = new Calendar('UTC');
  const newYear = Date.parse('2027-01-01T00:00:00Z');
  t.equal(calendar.month(newYear), '2027-01-01');
  t.equal(calendar.month(newYear - 7_200_000), '2026-12-01');
});

t.test('a billing month ends where the next one begins', async (t) => {
  const ends: Record<string, string> = {
    UTC: '2026-12-01T00:00:00Z',
    'Europe/Berlin': '2026-11-30T23:00:00Z',
    'America/Los_Angeles': '2026-12-01T08:00:00Z',
    'Asia/Kathmandu': '2026-11-30T18:15:00Z',
    'Pacific/Kiritimati': '2026-11-30T10:00:00Z',
    'Pacific/Pago_Pago': '2026-12-01T11:00:00Z',
  };
  for (const [zone, end] of Object.entries(ends)) {
    const calendar = new Calendar(zone);
    t.equal(calendar.monthEnd(Date.parse('2026-11-15T12:00:00Z')), end, zone);
    t.equal(calendar.monthEnd(Date.parse(end) - 1), end, 'of its last instant');
    t.equal(calendar.month(Date.parse(end)), '2026-12-01');
  }
  t.equal(new Calendar('UTC').monthEnd(Date.parse('2026-12-31T23:59:59Z')), '2027-01-01T00:00:00Z');
});
