import t from 'tap';
import { BodyMemory } from '../../src/gateway/body-memory.ts';

t.test('after every 4 MiB of bodies the young generation is collected', async (t) => {
  let collected = 0;
  const memory = new BodyMemory(() => collected++);
  for (let n = 1; n <= 4096; n++) memory.took(1023);
  t.equal(collected, 0);
  memory.took(8192);
  t.equal(collected, 1);
  for (let n = 1; n <= 4096; n++) memory.took(1024);
  t.equal(collected, 2, 'and counted anew');
});

t.test('larger bodies are left alone: they are in use for longer', async (t) => {
  const memory = new BodyMemory(() => t.fail('collected'));
  for (let n = 1; n <= 10; n++) memory.took(20 << 20);
});

t.test('in a process of somebody else it is left alone', async (t) => {
  const memory = new BodyMemory(null);
  t.doesNotThrow(() => memory.took(4 << 20));
});
