import t from 'tap';
import { firstRequestId, newRequestId, requestIdTime } from '../../src/runtime/request-id.ts';

t.test('a request id is a UUID of version 7 that tells its millisecond', (t) => {
  for (const at of [Date.UTC(2026, 0, 1), Date.UTC(2026, 0, 1), 5, 2 ** 47]) {
    const id = newRequestId(at);
    t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    t.equal(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16), at);
    t.equal(requestIdTime(id), at);
    for (const other of [
      id.replace('-7', '-4'),
      id.slice(1),
      `${id}0`,
      id.replaceAll('-', ''),
      `${id}\n`,
      'x',
      '',
    ]) {
      t.equal(requestIdTime(other), null, other);
    }
  }
  t.end();
});

t.test('an id of a time that Postgres cannot read is none', (t) => {
  const last = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
  t.same([requestIdTime(newRequestId(last)), requestIdTime(newRequestId(last + 1))], [last, null]);
  t.equal(requestIdTime(newRequestId(2 ** 48 - 1)), null);
  t.end();
});

t.test(
  'the first id of a millisecond sorts before all others of it, and after those before',
  (t) => {
    for (const at of [1, Date.UTC(2026, 0, 1)]) {
      const first = firstRequestId(at);
      t.equal(requestIdTime(first), at);
      for (let n = 0; n < 1000; n++)
        t.ok(first <= newRequestId(at) && newRequestId(at - 1) < first);
    }
    t.end();
  },
);

t.test('no two are the same, and every digit but the version varies', (t) => {
  const ids = Array.from({ length: 20_000 }, () => newRequestId(1));
  t.equal(new Set(ids).size, ids.length);
  for (const place of [15, 16, 17, 20, 21, 22, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35]) {
    t.equal(new Set(ids.map((id) => id[place])).size, 16, `digit ${place}`);
  }
  t.equal(new Set(ids.map((id) => id[19])).size, 4, 'the variant');
  t.end();
});
