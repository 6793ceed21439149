import t from 'tap';
import { ask } from '../support/client.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld(t);
const root = world.url.replace(/\/v1$/, '');

t.test(
  '9 the base address carries the version segment /v1, and no other version is served',
  async (t) => {
    const { key } = world.customer;
    t.equal((await ask(`${root}/v1/models`, { key })).status, 200);
    for (const path of ['/models', '/v2/models', '/v1beta/models', '/V1/models', '/v1/v1/models']) {
      t.equal((await ask(root + path, { key })).status, 404, path);
    }
  },
);
