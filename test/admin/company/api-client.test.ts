import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { CHAT } from '../../support/world.ts';
import { signedIn, startOwnOffice } from '../people.ts';

t.test('what calls the gateway itself never goes to a proxy of Node', async (t) => {
  const seen: string[] = [];
  const proxy = createServer((req, res) => {
    seen.push(`${req.method} ${req.url}`);
    res.writeHead(502).end();
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => proxy.close());
  const address = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  // the pages' process, which is started by the first page, has the environment of this one
  const env = {
    NODE_USE_ENV_PROXY: '1',
    HTTP_PROXY: address,
    HTTPS_PROXY: address,
    http_proxy: address,
    https_proxy: address,
    NO_PROXY: '',
    no_proxy: '',
  };
  for (const [name, value] of Object.entries(env)) {
    const before = process.env[name];
    process.env[name] = value;
    t.teardown(() => {
      if (before === undefined) delete process.env[name];
      else process.env[name] = before;
    });
  }
  const office = await startOwnOffice(t);
  const owner = await signedIn(office, 'owner');
  const path = `/companies/${office.customer.company}/playground`;
  const { status, text } = await owner.post(path, { model: CHAT, prompt: 'Hello there' });
  t.equal(status, 200);
  t.match(text, /x-request-id [\da-f-]{36}/, 'the gateway has answered');
  const { hostname, port } = new URL(office.adminUrl);
  const health = spawn(
    process.execPath,
    [new URL('../../../src/cli/health.ts', import.meta.url).pathname],
    { env: { ...process.env, ADMIN_HOST: hostname, ADMIN_PORT: port, TLS_CERT: '' } },
  );
  t.same(await once(health, 'exit'), [0, null], 'healthy');
  t.same(seen, []);
});
