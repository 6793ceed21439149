import t from 'tap';
import { retryAfterSeconds } from '../../src/upstream/retry-after.ts';

const NOW = Date.UTC(1994, 10, 6, 8, 49, 0);

t.test('seconds and the three forms of a date are whole seconds, rounded up', async (t) => {
  for (const [value, seconds] of [
    ['0', 0],
    ['7', 7],
    ['7.5', 8],
    ['0.35', 1],
    ['0.0', 0],
    ['999999', 999_999],
    ['Sun, 06 Nov 1994 08:49:37 GMT', 37],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 37],
    ['Sun Nov  6 08:49:37 1994', 37],
    ['Sun, 06 Nov 1994 08:48:00 GMT', 0],
  ] as const) {
    t.equal(retryAfterSeconds(value, NOW), seconds, value);
  }
  t.equal(retryAfterSeconds('Sunday, 06-Nov-94 08:49:37 GMT', NOW - 500), 38);
});

t.test(
  'a year of two digits is in this century, unless that is more than 50 years ahead',
  async (t) => {
    const now = Date.UTC(2026, 10, 28);
    t.equal(retryAfterSeconds('Saturday, 28-Nov-26 00:01:00 GMT', now), 60);
    t.equal(retryAfterSeconds('Saturday, 28-Nov-77 00:01:00 GMT', now), 0, '1977');
    t.equal(retryAfterSeconds('Saturday, 28-Nov-76 00:01:00 GMT', now), undefined, '2076');
  },
);

t.test('what is no wait is none', async (t) => {
  for (const value of [
    '',
    '-5',
    '1e3',
    '7,5',
    '7.',
    '.5',
    '1234567',
    'soon',
    'Sun, 06 Foo 1994 08:49:37 GMT',
    '2026-11-28',
  ])
    t.equal(retryAfterSeconds(value, NOW), undefined, value);
  t.equal(retryAfterSeconds('Sun, 06 Nov 9994 08:49:37 GMT', NOW), undefined);
});
