import t from 'tap';
import { BodyMemory } from '../../src/gateway/body-memory.ts';

t.test('after every 4 MiB of bodies the young generation is collected', async (t) => {
  let collected = 0;
  const memory = new BodyMemory(() => collected++);
  for (let n = 1; n <= 4096; n++) memory.took(1023);
  t.equal(collected, 0);
  memory.took(8192);
  t.equal(collected, 1);
  memory.took(20 << 20);
  t.equal(collected, 2, 'once for a large one');
  for (let n = 1; n <= 4096; n++) memory.took(1024);
  t.equal(collected, 3, 'and counted anew');
});

t.test('in a process of somebody else it is left alone', async (t) => {
  const memory = new BodyMemory(null);
  t.doesNotThrow(() => memory.took(20 << 20));
});
