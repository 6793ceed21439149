import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { Hono } from 'hono';
import { pino } from 'pino';
import t from 'tap';
import { download, nameFile } from '../../../src/admin/page/download.ts';
import type { FormBindings } from '../../../src/admin/page/form.ts';
import { Busy, Semaphore } from '../../../src/admin/process/semaphore.ts';
import { createServer } from '../../../src/runtime/node-http.ts';
import { until } from '../../support/until.ts';

t.test(
  'an export whose reader is slow ends for somebody who finds no permit; one that computes does not',
  async (t) => {
    let now = 0;
    const services = {
      slow: new Semaphore({ permits: 3, queue: 0 }),
      log: pino({ level: 'silent' }),
      clock: () => now,
    };
    const piece = Buffer.alloc(65_536);
    const written = { slow: 0, late: 0, other: 0, computing: 0 };
    const ended: string[] = [];
    const computed = Promise.withResolvers<void>();
    const app = new Hono<{ Bindings: FormBindings }>();
    app.get('/:company', (c) => {
      const company = c.req.param('company') as keyof typeof written;
      return download(
        c,
        services,
        company,
        { name: 'all.csv', type: 'text/csv' },
        async (write) => {
          while (await write(piece)) {
            written[company] += piece.length;
            if (company === 'computing') await computed.promise;
          }
          ended.push(company);
        },
      );
    });
    app.onError((error, c) => c.text(error.name, error instanceof Busy ? 503 : 500));
    const server = createServer(getRequestListener(app.fetch, { overrideGlobalObjects: false }));
    t.teardown(() => server.close());
    t.teardown(() => server.closeAllConnections());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    /** @returns the status of an export that nobody reads */
    const open = async (company: string) => {
      const [answer] = await once(get({ port, path: `/${company}`, agent: false }), 'response');
      return (answer as IncomingMessage).on('error', () => {}).statusCode;
    };

    for (const company of ['computing', 'slow', 'late']) t.equal(await open(company), 200);
    let before = -1;
    await until(() => {
      const last = before;
      before = written.slow + written.late;
      return last === before;
    }, 'the buffers of the connections are full');
    now += 9999;
    t.equal(await open('other'), 503, 'nobody is slow yet');
    now += 1_000_000;
    t.equal(await open('other'), 200);
    await until(
      () => ended,
      'one export ends',
      ({ length }) => length > 0,
    );
    computed.resolve();
    t.same(ended, ['slow']);
    t.equal(await open('another'), 200, 'the other slow one');
  },
);

t.test('the name of a file begins with its company, whatever its letters', async (t) => {
  const app = new Hono();
  app.get('/', (c) => {
    nameFile(c, { name: 'sums.csv', company: c.req.query('company') as string, type: 'text/csv' });
    return c.body('');
  });
  const nameOf = async (company: string) =>
    (await app.request(`/?${new URLSearchParams({ company })}`)).headers.get('content-disposition');
  t.equal(
    await nameOf(`O'Neill & Söhne (東京) *`),
    `attachment; filename="sums.csv"; filename*=UTF-8''O%27Neill%20%26%20S%C3%B6hne%20%28%E6%9D%B1%E4%BA%AC%29%20%2a%20sums.csv`,
  );
  const long = decodeURIComponent((await nameOf('🦄'.repeat(200)))?.split("''")[1] ?? '');
  t.equal(long, `${'🦄'.repeat(40)} sums.csv`);
});
