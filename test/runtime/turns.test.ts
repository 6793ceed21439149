import t from 'tap';
import { Turns } from '../../src/runtime/turns.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('one part has its turn in each turn of the event loop, in their order', async (t) => {
  const turns = new Turns();
  const done: string[] = [];
  const parts = (name: string, left: number): void => {
    done.push(name);
    if (left > 1) turns.enter(() => parts(name, left - 1));
  };
  turns.enter(() => parts('a', 3));
  turns.enter(() => parts('b', 2));
  t.same(done, [], 'not at once');
  for (let n = 1; n <= 5; n++) {
    await nextTurn();
    t.ok(done.length <= n + 1, `${done}`);
  }
  await nextTurn();
  t.same(done, ['a', 'b', 'a', 'b', 'a']);
});

t.test(
  'parts share a turn while there is time, and those that enter meanwhile have the next',
  async (t) => {
    const turns = new Turns(60_000);
    const done: string[] = [];
    for (const name of ['a', 'b', 'c']) {
      turns.enter(() => {
        done.push(name);
        if (name !== 'c') turns.enter(() => done.push(`${name} again`));
      });
    }
    await nextTurn();
    t.same(done, ['a', 'b', 'c']);
    await nextTurn();
    t.same(done, ['a', 'b', 'c', 'a again', 'b again']);
  },
);

t.test('a part that fails keeps none from its turn', async (t) => {
  const turns = new Turns();
  const failed = new Promise<unknown>((resolve) => {
    const before = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.once('uncaughtException', (error) => {
      for (const listener of before) process.on('uncaughtException', listener);
      resolve(error.message);
    });
  });
  turns.enter(() => {
    throw new Error('part');
  });
  const second = new Promise<void>((resolve) => turns.enter(resolve));
  t.equal(await failed, 'part');
  await second;
});
