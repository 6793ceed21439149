import t from 'tap';
import { Cache } from '../../../src/store/gateway/cache.ts';
import { until } from '../../support/until.ts';

interface Value {
  readonly text: string;
}

/** A source whose reads are answered one by one, when the test says so. */
function source() {
  const reads: {
    ids: readonly string[];
    answer: (found: Record<string, string>) => void;
    fail: () => void;
  }[] = [];
  const read = (ids: readonly string[]) =>
    new Promise<ReadonlyMap<string, Value>>((resolve, reject) => {
      reads.push({
        ids,
        answer: (found) =>
          resolve(new Map(Object.entries(found).map(([id, text]) => [id, { text }]))),
        fail: () => reject(new Error('away')),
      });
    });
  return { reads, read };
}

const tick = () => new Promise((resolve) => setImmediate(resolve));

t.test('a hit is the value itself, not a promise, and the same object each time', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  const first = cache.get('a');
  t.ok(first instanceof Promise);
  reads[0]?.answer({ a: 'one' });
  t.same(await first, { text: 'one' });
  t.same(cache.get('a'), { text: 'one' });
  t.equal(cache.get('a'), cache.get('a'));
  t.match(cache, { hits: 3, misses: 1, reads: 1, size: 1 });
});

t.test('many who miss one subject wait for one read', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  const waiting = Array.from({ length: 1000 }, () => cache.get('a'));
  await tick();
  t.equal(reads.length, 1);
  reads[0]?.answer({ a: 'one' });
  const values = await Promise.all(waiting);
  t.equal(new Set(values).size, 1);
});

t.test('subjects missed while reads are running are read together', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 1000 });
  const waiting = Array.from({ length: 302 }, (_, i) => cache.get(`k${i}`));
  t.same(
    reads.map(({ ids }) => ids.length),
    [1, 1],
  );
  reads[0]?.answer({ k0: 'v0' });
  await waiting[0];
  await tick();
  t.equal(reads[2]?.ids.length, 300);
  reads[1]?.answer({ k1: 'v1' });
  reads[2]?.answer(Object.fromEntries((reads[2]?.ids ?? []).map((id) => [id, `v${id.slice(1)}`])));
  t.same(
    (await Promise.all(waiting)).map((value) => value?.text),
    waiting.map((_, i) => `v${i}`),
  );
});

t.test(
  'an absence is remembered for less than a second, and forgotten at once by a change',
  async (t) => {
    const { reads, read } = source();
    const cache = new Cache(read, { max: 10, absenceMs: 300 });
    const first = cache.get('a');
    reads[0]?.answer({});
    t.equal(await first, null);
    t.equal(cache.get('a'), null, 'no second read');
    cache.drop('a');
    const second = cache.get('a');
    t.ok(second instanceof Promise, 'a change makes it be read again');
    reads[1]?.answer({});
    await second;
    await until(() => cache.get('a') instanceof Promise, 'the absence is forgotten');
    t.equal(reads.length, 3, 'time makes it be read again');
  },
);

t.test('a reading overtaken by a change is read again and never kept', async (t) => {
  const changes = { drop: 'drop', clear: 'clear', doubt: 'doubt' } as const;
  for (const change of Object.values(changes)) {
    const { reads, read } = source();
    const cache = new Cache(read, { max: 10 });
    const early = cache.get('a');
    cache[change]('a');
    const late = cache.get('a');
    reads[0]?.answer({ a: 'the past' });
    await tick();
    t.equal(cache.size, 0, change);
    reads[1]?.answer({ a: 'the present' });
    t.same(await early, { text: 'the present' }, change);
    t.same(await late, { text: 'the present' }, change);
    t.same(cache.get('a'), { text: 'the present' }, change);
  }
});

t.test('a reading overtaken by a change of something else is kept', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  const a = cache.get('a');
  cache.drop('b');
  reads[0]?.answer({ a: 'one' });
  await a;
  t.same(cache.get('a'), { text: 'one' });
});

t.test('an absence overtaken by a change is not remembered', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  const a = cache.get('a');
  cache.drop('a');
  reads[0]?.answer({});
  await tick();
  reads[1]?.answer({ a: 'created' });
  t.same(await a, { text: 'created' });
});

t.test(
  'what changes faster than it can be read is answered in the end, but not kept',
  async (t) => {
    const { reads, read } = source();
    const cache = new Cache(read, { max: 10 });
    const a = cache.get('a');
    for (let i = 0; i < 3; i++) {
      cache.drop('a');
      reads[i]?.answer({ a: `version ${i}` });
      await tick();
    }
    t.same(await a, { text: 'version 2' });
    t.ok(cache.get('a') instanceof Promise);
  },
);

t.test('a failed read rejects those who wait, and the next one asks again', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  const first = cache.get('a');
  reads[0]?.fail();
  await t.rejects(Promise.resolve(first), { message: 'away' });
  const second = cache.get('a');
  reads[1]?.answer({ a: 'one' });
  t.same(await second, { text: 'one' });
});

t.test('what is in doubt is read again, yet serves where it cannot be read', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  const load = async (ids: string[]) => {
    const values = ids.map((id) => cache.get(id));
    for (const { answer } of reads) answer({ a: 'old', b: 'old' });
    return Promise.all(values);
  };
  await load(['a', 'b']);
  cache.doubt();
  const inDoubt = cache.get('a');
  t.ok(inDoubt instanceof Promise);
  reads[2]?.fail();
  t.same(await inDoubt, { text: 'old' });
  t.same(
    cache.get('b'),
    { text: 'old' },
    'while the source is away the others serve without waiting for it',
  );

  cache.doubt();
  const again = cache.get('a');
  reads[3]?.answer({ a: 'new' });
  t.same(await again, { text: 'new' });
  const gone = cache.get('b');
  reads[4]?.answer({});
  t.equal(await gone, null);
  t.equal(cache.size, 1);
});

t.test(
  'what is in doubt serves after a moment where the reading takes long, and the reading goes on',
  async (t) => {
    const { reads, read } = source();
    const cache = new Cache(read, { max: 10 });
    const first = Promise.all(['a', 'b', 'c'].map((id) => cache.get(id)));
    for (let n = 0; n < 2; n++) {
      for (const { answer } of reads) answer({ a: 'old', b: 'old', c: 'old' });
      await tick();
    }
    await first;
    const before = reads.length;
    cache.doubt();
    const [a, c] = [cache.get('a'), cache.get('c')];
    cache.drop('c'); // it is known to have changed
    t.same(await a, { text: 'old' });
    t.same(cache.get('b'), { text: 'old' }, 'nobody else waits for a source that does not answer');
    t.equal(await Promise.race([c, Promise.resolve('waits')]), 'waits');
    for (const { answer } of reads.slice(before)) answer({ a: 'new' });
    await tick();
    for (const { answer } of reads.slice(before)) answer({});
    t.same(cache.get('a'), { text: 'new' });
    t.ok(cache.get('b') instanceof Promise, 'the source answers again: the others are read');
  },
);

t.test('what changed does not serve, even where it cannot be read', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  for (const change of ['drop', 'clear'] as const) {
    const before = cache.get('a');
    reads.at(-1)?.answer({ a: 'old' });
    await before;
    cache[change]('a');
    const after = cache.get('a');
    reads.at(-1)?.fail();
    await t.rejects(Promise.resolve(after), change);
  }
});

t.test('the bound holds: the least recently used goes first', async (t) => {
  const read = async (ids: readonly string[]) => new Map(ids.map((id) => [id, { text: id }]));
  const cache = new Cache(read, { max: 3 });
  for (const id of ['a', 'b', 'c']) await cache.get(id);
  cache.get('a');
  await cache.get('d');
  t.equal(cache.size, 3);
  t.same(cache.get('a'), { text: 'a' });
  t.ok(cache.get('b') instanceof Promise);

  const weighed = new Cache(read, { max: 100, maxWeight: 10, weigh: ({ text }) => text.length });
  for (const id of ['aaaa', 'bbbb', 'cccc']) await weighed.get(id);
  t.equal(weighed.size, 2);
  t.same(
    await weighed.get('longer than all of it'),
    { text: 'longer than all of it' },
    'answered, not kept',
  );
  t.equal(weighed.size, 2, 'nobody made room for it');
});

t.test('who is asked for stays, however many others come and go', async (t) => {
  const read = async (ids: readonly string[]) => new Map(ids.map((id) => [id, { text: id }]));
  const cache = new Cache(read, { max: 10 });
  await cache.get('asked for');
  for (let n = 0; n < 1000; n++) {
    t.same(cache.get('asked for'), { text: 'asked for' });
    t.ok(cache.get(`${n}`) instanceof Promise);
    await cache.get(`${n}`);
    if (n % 7 === 0) cache.drop(`${n - 3}`);
    if (n === 500) {
      cache.clear();
      await cache.get('asked for');
    }
    t.ok(cache.size <= 10);
  }
  for (let n = 1000; n < 1020; n++) await cache.get(`${n}`);
  t.ok(cache.get('asked for') instanceof Promise, 'no longer');
});

t.test('ids that begin alike are told apart, whichever comes or goes', async (t) => {
  const ids = ['a', 'b', 'c'].map((last) => `0123456${last.repeat(57)}`) as [
    string,
    string,
    string,
  ];
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10 });
  const ask = async (id: string) => {
    const found = cache.get(id);
    if (!(found instanceof Promise)) return found;
    reads.at(-1)?.answer(Object.fromEntries(ids.map((id) => [id, id])));
    return await found;
  };
  const allRight = async (text: string) => {
    for (const id of [...ids, ...ids.toReversed()]) t.same(await ask(id), { text: id }, text);
  };
  await allRight('in memory');
  t.equal(reads.length, 3);
  for (const gone of ids) {
    cache.drop(gone);
    t.equal(cache.peek(gone), null);
    t.ok(cache.get(gone) instanceof Promise, 'what changed is read again');
    reads.at(-1)?.answer({ [gone]: gone });
    await tick();
    await allRight('one came back');
  }
  t.equal(reads.length, 6);
  cache.clear();
  for (const id of ids) t.equal(cache.peek(id), null);
});

t.test('what weighs too much to be kept is not found later', async (t) => {
  const { reads, read } = source();
  const cache = new Cache(read, { max: 10, maxWeight: 5, weigh: ({ text }) => text.length });
  const first = cache.get('a');
  reads[0]?.answer({ a: 'too long' });
  t.same(await first, { text: 'too long' });
  t.equal(cache.size, 0);
  t.ok(cache.get('a') instanceof Promise, 'read again');
  t.equal(reads.length, 2);
});

t.test(
  'what serves in doubt is not served once it is known to have changed, while its reading still goes on',
  async (t) => {
    for (const change of ['drop', 'clear'] as const) {
      const { reads, read } = source();
      const cache = new Cache(read, { max: 10 });
      const first = cache.get('a');
      reads[0]?.answer({ a: 'old' });
      await first;
      cache.doubt();
      t.same(await cache.get('a'), { text: 'old' }, 'the reading takes long');
      cache[change]('a');
      const after = cache.get('a');
      t.equal(await Promise.race([after, Promise.resolve('waits')]), 'waits', change);
      reads[1]?.answer({ a: 'old' });
      await tick();
      t.equal(cache.size, 0, 'what was read before the change is not kept');
      reads[2]?.answer({ a: 'new' });
      t.same(await after, { text: 'new' });
      t.same(cache.get('a'), { text: 'new' });
    }
  },
);
