import t from 'tap';
import {
  eachLimit,
  LIMIT_COLUMNS,
  LIMIT_NAMES,
  leftOf,
  limitHeaders,
  limitText,
  secondsUntilFree,
  tighter,
} from '../../src/domain/limits.ts';

/** Leased so many seconds ago, in a window of ten. */
const window = (ago: Readonly<Record<number, number>>) =>
  Array.from({ length: 10 }, (_, n) => ago[9 - n] ?? 0);

t.test('the wait is until enough units are free', async (t) => {
  const units = window({ 8: 3, 5: 2, 0: 5 });
  t.equal(secondsUntilFree(units, 10, 1), 2);
  t.equal(secondsUntilFree(units, 10, 3), 2);
  t.equal(secondsUntilFree(units, 10, 4), 5);
  t.equal(secondsUntilFree(units, 10, 6), 10);
  t.equal(secondsUntilFree(units, 11, 1), 0);
  t.equal(secondsUntilFree(window({ 0: 50 }), 10, 10), 10, 'more was used than the limit');
});

t.test('what is left, and when all of it is', async (t) => {
  t.same(leftOf(window({ 8: 3, 5: 2 }), 10, 0), { limit: 10, remaining: 5, resetSeconds: 5 });
  t.same(
    leftOf(window({ 8: 3, 5: 2 }), 10, 2),
    { limit: 10, remaining: 7, resetSeconds: 5 },
    'leased, but not used',
  );
  t.same(leftOf(window({ 8: 3 }), 10, 3), { limit: 10, remaining: 10, resetSeconds: 0 });
  t.same(leftOf(window({ 8: 30 }), 10, 0), { limit: 10, remaining: 0, resetSeconds: 2 });
});

t.test('headers as the reference format writes them', async (t) => {
  const requests = { limit: 60, remaining: 59, resetSeconds: 1 };
  const tokens = { limit: 150_000, remaining: 149_984, resetSeconds: 360 };
  // biome-ignore format: a table
  t.same(limitHeaders({ requests, tokens, calls: null }), [
    'x-ratelimit-limit-requests', '60', 'x-ratelimit-remaining-requests', '59', 'x-ratelimit-reset-requests', '1s',
    'x-ratelimit-limit-tokens', '150000', 'x-ratelimit-remaining-tokens', '149984',
    'x-ratelimit-reset-tokens', '6m0s',
  ]);
  t.same(limitHeaders({ requests: null, tokens: null, calls: requests }), []);
});

t.test('a refusal counts one request in the singular', async (t) => {
  const text = (limit: number): string => limitText('requests', 'key', limit, 61);
  t.equal(text(1), 'This key is limited to 1 request per minute. Try again in 1m1s.');
  t.equal(text(2), 'This key is limited to 2 requests per minute. Try again in 1m1s.');
});

t.test('the tighter of two limits', async (t) => {
  const [wide, narrow] = [10, 3].map((remaining) => ({
    limit: 20,
    remaining,
    resetSeconds: 1,
  })) as [object, object];
  t.equal(tighter(wide as never, narrow as never), narrow);
  t.equal(tighter(narrow as never, null), narrow);
  t.equal(tighter(null, null), null);
});

t.test('each limit has one row, in the order of answers and forms', async (t) => {
  t.same(LIMIT_NAMES, ['requests_per_minute', 'tokens_per_minute', 'max_concurrent']);
  t.same(LIMIT_COLUMNS, {
    requests: 'requests_per_minute',
    tokens: 'tokens_per_minute',
    calls: 'max_concurrent',
  });
  t.same(
    eachLimit(({ most, member }) => [member, most]),
    {
      requests_per_minute: ['requestsPerMinute', 1e9],
      tokens_per_minute: ['tokensPerMinute', 1e12],
      max_concurrent: ['maxConcurrent', 1e6],
    },
  );
});
