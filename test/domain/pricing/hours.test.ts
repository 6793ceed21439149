import fc from 'fast-check';
import t from 'tap';
import { type Hours, overlaps, parseHours } from '../../../src/domain/pricing/hours.ts';

const at = (text: string): number => Date.parse(text);

t.test('a window is half-open, and holds on its days', async (t) => {
  const hours = parseHours('Mon-Fri 01:00-04:00,06:00-10:00 UTC');
  for (const [instant, holds] of [
    ['2026-11-23T00:59:59.999Z', false], // Monday
    ['2026-11-23T01:00:00Z', true],
    ['2026-11-23T03:59:59.999Z', true],
    ['2026-11-23T04:00:00Z', false],
    ['2026-11-23T06:00:00Z', true],
    ['2026-11-27T09:59:59Z', true], // Friday
    ['2026-11-28T02:00:00Z', false], // Saturday
    ['2026-11-29T02:00:00Z', false],
  ] as const)
    t.equal(hours.holds(at(instant)), holds, instant);
});

t.test('a window across midnight belongs to the day on which it begins', async (t) => {
  const hours = parseHours('Fri 22:00-02:00 UTC');
  t.ok(hours.holds(at('2026-11-27T22:00:00Z')));
  t.ok(hours.holds(at('2026-11-28T01:59:00Z')), 'Saturday morning is of Friday');
  t.notOk(hours.holds(at('2026-11-28T02:00:00Z')));
  t.notOk(hours.holds(at('2026-11-27T01:00:00Z')), 'Friday morning is of Thursday');
  t.ok(parseHours('Sat 23:00-24:00 UTC').holds(at('2026-11-28T23:30:00Z')));
  t.ok(parseHours('Sat 20:00-04:00 UTC').holds(at('2026-11-29T03:00:00Z')), 'into the next week');
  t.ok(parseHours('Fri-Mon 00:00-24:00 UTC').holds(at('2026-11-29T12:00:00Z')), 'across Sunday');
  t.notOk(parseHours('Fri-Mon 00:00-24:00 UTC').holds(at('2026-11-24T00:00:00Z')));
});

t.test('hours are those that clocks of the zone show, on both sides of a change', async (t) => {
  const berlin = parseHours('00:30-05:00 Europe/Berlin');
  t.ok(berlin.holds(at('2026-03-28T23:30:00Z')), 'half past twelve in winter');
  t.ok(berlin.holds(at('2026-03-29T02:59:00Z')), 'one minute to five in summer');
  t.notOk(berlin.holds(at('2026-03-29T03:00:00Z')));
  t.ok(berlin.holds(at('2026-10-25T00:30:00Z')), 'the first half past two');
  t.ok(berlin.holds(at('2026-10-25T01:30:00Z')), 'the second one');
  t.notOk(berlin.holds(at('2026-10-25T04:00:00Z')));
  t.ok(parseHours('05:45-06:00 Asia/Kathmandu').holds(at('2026-11-28T00:00:00Z')));
});

t.test('hours that cannot be read are refused', async (t) => {
  for (const text of [
    '',
    '01:00-04:00',
    'Mon-Fri 01:00-04:00',
    '1:00-4:00 UTC',
    '25:00-26:00 UTC',
    '24:00-02:00 UTC',
    '01:00-01:00 UTC',
    'Mon-Fry 01:00-02:00 UTC',
    '01:00-04:00 Mars/Olympus',
    '01:00-04:00, 06:00-10:00 UTC',
    `${Array.from({ length: 13 }, (_, n) => `${n + 10}:00-${n + 10}:30`)} UTC`,
    'Sun,Mon,Tue,Wed,Thu,Fri,Sat,Sun 01:00-02:00 UTC',
  ])
    t.throws(() => parseHours(text), RangeError, text);
});

t.test('windows overlap where some instant is in both', async (t) => {
  const now = at('2026-11-28T00:00:00Z');
  const both = (one: string, other: string) => overlaps(now)(parseHours(one), parseHours(other));
  t.ok(both('01:00-04:00 UTC', '03:59-05:00 UTC'));
  t.notOk(both('01:00-04:00 UTC', '04:00-05:00 UTC'));
  t.notOk(both('Mon 01:00-04:00 UTC', 'Tue-Sun 01:00-04:00 UTC'));
  t.ok(both('Mon 23:00-01:00 UTC', 'Tue 00:30-02:00 UTC'));
  t.ok(both('01:00-02:00 UTC', '02:00-03:00 Europe/Berlin'), 'in winter');
  t.ok(both('00:00-01:00 UTC', '02:00-03:00 Europe/Berlin'), 'in summer');
  t.notOk(both('02:00-12:00 UTC', '02:00-03:00 Europe/Berlin'));
});

t.test('windows of two zones overlap as each minute of a year says', async (t) => {
  const now = at('2026-11-28T00:07:00Z');
  const meet = overlaps(now);
  const clock = (minute: number) =>
    `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;
  const zones = ['Europe/Berlin', 'America/New_York', 'America/Chicago', 'Australia/Lord_Howe'];
  const hours = fc
    .tuple(fc.constantFrom(...zones), fc.nat(1438), fc.constantFrom('', 'Sun '), fc.nat(90))
    .map(([zone, from, days, length]) =>
      parseHours(`${days}${clock(from)}-${clock((from + 1 + length) % 1440)} ${zone}`),
    );
  const inBoth = (one: Hours, other: Hours) => {
    for (let minute = 0; minute < 366 * 1440; minute++) {
      const instant = at('2026-11-28T00:00:00Z') + minute * 60_000;
      if (one.holds(instant) && other.holds(instant)) return true;
    }
    return false;
  };
  fc.assert(
    fc.property(hours, hours, (one, other) => meet(one, other) === inBoth(one, other)),
    { numRuns: 15 },
  );
  t.ok(
    meet(
      parseHours('Sun 03:30-03:31 America/New_York'),
      parseHours('Sun 01:30-01:31 America/Chicago'),
    ),
    'one hour of the year has this difference',
  );
});

t.test('a minute of the week is in a window as arithmetic says', async () => {
  const clock = (minute: number) =>
    `${String(Math.floor(minute / 60)).padStart(2, '0')}:${String(minute % 60).padStart(2, '0')}`;
  const minutes = fc.nat(24 * 60 - 1);
  fc.assert(
    fc.property(minutes, minutes, fc.nat(7 * 24 * 60 - 1), (from, to, asked) => {
      fc.pre(from !== to);
      const length = (to - from + 24 * 60) % (24 * 60);
      const sunday = at('2026-11-29T00:00:00Z');
      const expected =
        (asked % 1440) - from >= 0
          ? (asked % 1440) - from < length
          : (asked % 1440) + 1440 - from < length;
      return (
        parseHours(`${clock(from)}-${clock(to)} UTC`).holds(sunday + asked * 60_000) === expected
      );
    }),
  );
});
