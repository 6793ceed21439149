import dns from 'node:dns';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import connectorOf from 'undici/lib/core/connect.js';
import { Address } from '../../src/upstream/address.ts';
import type { AddressChange } from '../../src/upstream/addresses.ts';
import { FastPool } from '../../src/upstream/fast-pool.ts';
import { UndiciPool } from '../../src/upstream/undici-pool.ts';
import { Stopped, type Upstream, type UpstreamOptions } from '../../src/upstream/upstream.ts';
import { blackHole } from '../support/black-hole.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';
import { Call, post, send } from './calls.ts';

type Open = (options: UpstreamOptions) => Upstream;

const WAYS: readonly [string, Open][] = [
  ['over fast connections', (options) => new FastPool(options, connectorOf)],
  ['over undici', (options) => new UndiciPool(options)],
];

/** One router: what it got, and what becomes of it. */
class Router {
  /** The `host` of each request, and how often it was asked whether it lives. */
  readonly requests: string[] = [];
  asked = 0;
  /** It takes requests and answers none; with `asks` not even those that ask whether it lives. */
  silent: 'no' | 'thinks' | 'frozen' = 'no';
  /** What it does with calls: answers with a status, closes each connection, takes a call and closes, cuts an answer. */
  does: number | 'closes' | 'takes' | 'cuts' = 200;
  readonly sockets = new Set<Socket>();
  #server: Server | null = null;
  port = 0;

  async start(t: Test, host = '127.0.0.1', port = this.port): Promise<this> {
    const server = createServer((req, res) => {
      if (req.method === 'HEAD') this.asked++;
      else this.requests.push(req.headers.host as string);
      if (this.silent === 'frozen' || (this.silent === 'thinks' && req.method === 'POST')) return;
      if (this.does === 'takes') return void req.socket.destroy();
      if (this.does === 'cuts') {
        res.writeHead(200, { 'content-length': 2 }).flushHeaders();
        return void setImmediate(() => req.socket.end());
      }
      if (typeof this.does === 'number') res.statusCode = this.does;
      req.resume().on('end', () => res.end('ok'));
    });
    server.on('connection', (socket) => {
      if (this.does === 'closes') socket.destroy();
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
    });
    this.port = port || (await freePort());
    server.listen(this.port, host);
    await once(server, 'listening');
    this.#server = server;
    t.teardown(() => this.stop());
    return this;
  }

  /** As if its process died: connections are closed and refused. */
  stop(): void {
    this.#server?.close();
    for (const socket of this.sockets) socket.destroy();
  }

  at(host = '127.0.0.1'): string {
    return `http://${host}:${this.port}/v1`;
  }
}

/** Lets a name stand for these IPs; null: it has none. */
function named(t: Test, name: string, ips: () => readonly string[] | null): void {
  const { lookup } = dns;
  t.teardown(() => Object.assign(dns, { lookup }));
  Object.assign(dns, {
    lookup(
      host: string,
      ...more: [dns.LookupOptions, (error: Error | null, found?: dns.LookupAddress[]) => void]
    ) {
      if (host !== name)
        return lookup(host, ...(more as unknown as [dns.LookupOneOptions, () => void]));
      const found = ips()?.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
      if (found === undefined) setImmediate(more[1], new Error(`getaddrinfo ENOTFOUND ${name}`));
      else setImmediate(more[1], null, found);
    },
  });
}

for (const [way, open] of WAYS) {
  t.test(way, async (t) => {
    const serve = (t: Test, ...urls: string[]) => {
      const changes: AddressChange[] = [];
      const all = urls.map((url) => new URL(url)) as [URL, ...URL[]];
      const onChange = (change: AddressChange) => changes.push(change);
      const upstream = open({
        urls: all,
        apiKey: 'sk-master',
        idleMs: 30_000,
        connectMs: 5000,
        onChange,
      });
      t.teardown(() => upstream.destroy());
      return { upstream, changes };
    };
    const answers = async (upstream: Upstream, count: number): Promise<number> => {
      const calls = Array.from({ length: count }, () => post(upstream));
      const ends = await Promise.allSettled(calls.map(({ ended }) => ended));
      return ends.filter(({ status }) => status === 'fulfilled').length;
    };

    t.test('requests are shared by all addresses, each under its own host', async (t) => {
      const routers = await Promise.all([1, 2, 3].map(() => new Router().start(t)));
      const { upstream, changes } = serve(t, ...routers.map((router) => router.at()));
      t.equal(await answers(upstream, 30), 30, 'at once');
      t.same(
        routers.map(({ requests }) => requests.length),
        [10, 10, 10],
      );
      for (let n = 0; n < 9; n++) await post(upstream).ended;
      t.same(
        routers.map(({ requests }) => requests.length),
        [13, 13, 13],
        'one after the other: in turn',
      );
      for (const { requests, port } of routers)
        t.same([...new Set(requests)], [`127.0.0.1:${port}`]);
      t.same(upstream.shares, [1, 1, 1]);
      t.same(changes, []);
      for (const { port } of routers)
        t.ok(upstream.secrets.includes(`127.0.0.1:${port}`), 'no client sees a host');
    });

    t.test('an address that refuses is passed over, and used again once it answers', async (t) => {
      const [first, second] = [await new Router().start(t), await new Router().start(t)];
      const { upstream, changes } = serve(t, first.at(), second.at());
      first.stop();
      t.equal(await answers(upstream, 20), 20);
      t.equal(second.requests.length, 20);
      t.same(upstream.shares, [0, 1]);
      t.match(changes, [{ address: 1, ip: '127.0.0.1', reason: /ECONNREFUSED/ }]);
      await first.start(t);
      await until(
        () => changes.length,
        'it is used again',
        (count) => count === 2,
      );
      t.same(changes[1], { address: 1, ip: '127.0.0.1', reason: null });
      t.ok(first.asked > 0);
      t.equal(await answers(upstream, 20), 20);
      t.equal(first.requests.length, 10);
    });

    /** Ten clients, each with one call at a time. @returns how many of their calls got 200 */
    const callAll = async (upstream: Upstream, count: number): Promise<number> => {
      let [left, good] = [count, 0];
      const client = async (): Promise<void> => {
        while (left-- > 0) {
          const call = post(upstream);
          const answer = await call.ended.catch(() => '');
          if (answer === 'ok' && call.status === 200) good++;
        }
      };
      await Promise.all(Array.from({ length: 10 }, client));
      return good;
    };

    for (const does of [503, 500, 401, 404, 429, 'closes', 'takes', 'cuts'] as const) {
      t.test(
        `an address that is quick to fail (${does}) does not draw the calls of those that are well`,
        async (t) => {
          for (const bad of [1, 2]) {
            const routers = await Promise.all(
              Array.from({ length: bad + 1 }, () => new Router().start(t)),
            );
            for (const router of routers.slice(1)) router.does = does;
            const { upstream, changes } = serve(t, ...routers.map((router) => router.at()));
            const good = await callAll(upstream, 500);
            t.ok(good > 400, `${good} of 500 calls, with ${bad} such addresses`);
            t.same(upstream.shares, [1, ...Array(bad).fill(0)]);
            t.match(changes, Array(bad).fill({ reason: '3 calls in a row failed' }));
            const sent = routers.reduce((sum, { requests }) => sum + requests.length, 0);
            t.ok(does === 'closes' ? sent <= 500 : sent === 500, 'no call was sent twice');
            for (const router of routers) router.does = 200;
            await until(
              async () => {
                await callAll(upstream, 10);
                return upstream.shares;
              },
              'a call succeeded at each of them',
              (shares) => shares.every((share) => share === 1),
            );
            t.equal(await callAll(upstream, 50), 50);
          }
        },
      );
    }

    t.test('what an answer says of a request is no fault of the address', async (t) => {
      for (const status of [400, 403, 413, 422]) {
        const routers = await Promise.all([1, 2].map(() => new Router().start(t)));
        for (const router of routers) router.does = status;
        const { upstream, changes } = serve(t, ...routers.map((router) => router.at()));
        await callAll(upstream, 40);
        t.same([upstream.shares, changes], [[1, 1], []], `${status}`);
      }
    });

    t.test('that routers lack an endpoint which they may lack is no fault of them', async (t) => {
      for (const status of [404, 405, 501]) {
        const routers = await Promise.all([1, 2].map(() => new Router().start(t)));
        for (const router of routers) router.does = status;
        const { upstream, changes } = serve(t, ...routers.map((router) => router.at()));
        for (let n = 0; n < 20; n++) {
          const call = post(upstream);
          call.isOptional = true;
          await call.ended;
        }
        t.same([upstream.shares, changes], [[1, 1], []], `${status}`);
      }
    });

    t.test('one address alone takes all calls, whatever it answers', async (t) => {
      const router = await new Router().start(t);
      router.does = 503;
      const { upstream, changes } = serve(t, router.at());
      await callAll(upstream, 40);
      t.equal(router.requests.length, 40);
      t.same([upstream.shares, changes], [[1], []]);
    });

    t.test(
      'where the calls fail at all addresses, all take calls, and all do at once when it is over',
      async (t) => {
        const routers = await Promise.all([1, 2, 3, 4].map(() => new Router().start(t)));
        for (const router of routers) router.does = 503;
        const { upstream } = serve(t, ...routers.map((router) => router.at()));
        await callAll(upstream, 200);
        for (const { requests } of routers) t.ok(requests.length > 30, `${requests.length} of 200`);
        for (const router of routers) router.does = 200;
        t.equal(await callAll(upstream, 40), 40);
        t.same(upstream.shares, [1, 1, 1, 1]);
      },
    );

    t.test(
      'with all addresses down a request fails once, and the next one after any is back does not',
      async (t) => {
        const [first, second] = [await new Router().start(t), await new Router().start(t)];
        const { upstream, changes } = serve(t, first.at(), second.at());
        first.stop();
        second.stop();
        for (let n = 0; n < 5; n++) {
          const call = post(upstream);
          await t.rejects(call.ended, /ECONNREFUSED/);
          t.equal(call.call, null, 'nothing was sent');
        }
        t.same(upstream.shares, [0, 0]);
        t.equal(changes.length, 2);
        await second.start(t);
        t.equal(await answers(upstream, 4), 4, 'at once, whatever the pauses are');
        t.equal(second.requests.length, 4);
      },
    );

    t.test('a connection that is not made soon is looked for at another address', async (t) => {
      const router = await new Router().start(t);
      const { upstream, changes } = serve(t, await blackHole(t), router.at());
      t.equal(await answers(upstream, 6), 6);
      t.match(changes, [{ address: 1, reason: 'no connection within 1000 ms' }]);
      t.equal(await answers(upstream, 6), 6);
      t.equal(router.requests.length, 12);
    });

    t.test('an address that takes requests and answers none gets no further ones', async (t) => {
      const [frozen, thinking, third] = await Promise.all(
        [1, 2, 3].map(() => new Router().start(t)),
      );
      if (frozen === undefined || thinking === undefined || third === undefined) return;
      frozen.silent = 'frozen';
      thinking.silent = 'thinks';
      const { upstream, changes } = serve(t, frozen.at(), thinking.at(), third.at());
      const calls = Array.from({ length: 6 }, () => post(upstream));
      await until(
        () => changes.length,
        'it is found',
        (count) => count > 0,
      );
      t.match(changes, [{ address: 1, reason: /HEAD \/models/ }]);
      t.ok(thinking.asked > 0, 'silence alone shows nothing');
      t.same(upstream.shares, [0, 1, 1]);
      const { length } = frozen.requests;
      thinking.silent = 'no';
      t.equal(await answers(upstream, 10), 10);
      t.equal(frozen.requests.length, length);
      frozen.silent = 'no';
      await until(
        () => upstream.shares[0],
        'it is used again',
        (share) => share === 1,
      );
      for (const call of calls) call.call?.abort(call);
    });

    t.test('what was not sent is sent to another address; what was sent is not', async (t) => {
      const [first, second] = [await new Router().start(t), await new Router().start(t)];
      const { upstream } = serve(t, first.at(), second.at());
      t.equal(await answers(upstream, 2), 2);
      await sleep(1); // undici frees a connection after it has told the end of an answer
      const calls = [new Call(), new Call()];
      for (const call of calls) {
        const onConnected = call.onConnected.bind(call);
        call.onConnected = (connection) => {
          first.stop(); // nothing of it is known here yet
          return onConnected(connection);
        };
        send(upstream, call, { body: [Buffer.from('{}')] });
      }
      for (const { ended } of calls) t.equal(await ended, 'ok');
      t.same(calls.map(({ stale }) => stale).sort(), [0, 1]);
      t.equal(first.requests.length + second.requests.length, 4);
      second.silent = 'thinks';
      const sent = post(upstream);
      await until(
        () => second.requests.length,
        'it is read',
        (count) => count === 4,
      );
      await first.start(t);
      for (const socket of second.sockets) socket.destroy();
      await t.rejects(sent.ended);
      t.equal(first.requests.length, 1, 'not sent again');
    });

    t.test('a name that cannot be looked up is an address that is down', async (t) => {
      let ips: readonly string[] | null = null;
      named(t, 'router.example', () => ips);
      const router = await new Router().start(t);
      const { upstream, changes } = serve(t, router.at('router.example'), router.at());
      t.equal(await answers(upstream, 10), 10);
      t.same(upstream.shares, [0, 1]);
      t.match(changes, [{ address: 1, ip: undefined, reason: /ENOTFOUND/ }]);
      router.stop();
      await until(
        () => post(upstream).ended.catch(({ message }) => message),
        'both are down',
        (end) => end !== 'ok',
      );
      ips = ['127.0.0.1'];
      await router.start(t);
      t.equal(await post(upstream).ended, 'ok');
      await until(
        () => upstream.shares[0],
        'the name is looked up',
        (share) => share === 1,
      );
      t.match(changes.at(-1), { reason: null });
    });

    t.test(
      'with a name that has no IP alone, a request fails before anything is sent',
      async (t) => {
        named(t, 'router.example', () => null);
        const { upstream } = serve(t, 'http://router.example/v1');
        for (let n = 0; n < 3; n++) {
          const call = post(upstream);
          await t.rejects(call.ended, /ENOTFOUND/);
          t.equal(call.call, null);
        }
      },
    );

    t.test('each IP of a name is used, but for one that is dead', async (t) => {
      const ips = ['127.0.0.2', '127.0.0.3', '127.0.0.4'];
      named(t, 'router.example', () => ips);
      const first = await new Router().start(t, ips[0]);
      const third = await new Router().start(t, ips[2], first.port);
      const { upstream, changes } = serve(t, first.at('router.example'));
      t.equal(await answers(upstream, 20), 20);
      t.same([first.requests.length, third.requests.length], [10, 10]);
      t.same([...new Set(first.requests)], [`router.example:${first.port}`]);
      t.match(changes, [{ address: 1, ip: '127.0.0.3', reason: /ECONNREFUSED/ }]);
      t.ok(Math.abs((upstream.shares[0] as number) - 2 / 3) < 0.001);
    });

    t.test(
      'a call to an IP that its name no longer has goes on, and the next is sent elsewhere',
      async (t) => {
        let ips = ['127.0.0.2'];
        named(t, 'router.example', () => ips);
        const first = await new Router().start(t, '127.0.0.2');
        const second = await new Router().start(t, '127.0.0.3', first.port);
        first.silent = 'thinks';
        const { upstream } = serve(t, first.at('router.example'));
        const call = post(upstream);
        await until(() => first.requests.length, 'it is sent');
        ips = ['127.0.0.3'];
        const { now } = performance;
        t.intercept(performance, 'now', { value: () => now.call(performance) + 40_000 });
        for (let n = 0; n < 3; n++) t.equal(await post(upstream).ended, 'ok');
        t.same([first.requests.length, second.requests.length], [1, 3]);
        await upstream.destroy();
        t.ok(
          (await call.ended.catch((error: unknown) => error)) instanceof Stopped,
          'it is known until its end',
        );
      },
    );

    t.test('a name that moves to another IP is followed', async (t) => {
      let ips = ['127.0.0.2'];
      named(t, 'router.example', () => ips);
      const first = await new Router().start(t, '127.0.0.2');
      const second = await new Router().start(t, '127.0.0.3', first.port);
      const { upstream } = serve(t, first.at('router.example'));
      t.equal(await answers(upstream, 3), 3);
      ips = ['127.0.0.3'];
      first.stop();
      await until(
        () => post(upstream).ended.catch(() => null),
        'the new IP',
        (end) => end === 'ok',
      );
      t.ok(second.requests.length > 0);
    });

    t.test(
      'of a name with IPs of both families those that work are used, and nothing is told',
      async (t) => {
        named(t, 'router.example', () => ['::1', '127.0.0.1']);
        const router = await new Router().start(t);
        const { upstream, changes } = serve(t, router.at('router.example'));
        t.equal(await answers(upstream, 5), 5);
        t.same([upstream.shares, changes], [[1], []]);
        router.stop();
        await t.rejects(
          until(
            () => post(upstream).ended,
            'all is down',
            () => false,
          ),
        );
        await router.start(t);
        t.equal(await post(upstream).ended, 'ok');
      },
    );

    t.test(
      'a family that is not reachable is left for the other one within a second or so',
      async (t) => {
        named(t, 'router.example', () => ['::1', '127.0.0.1']);
        const { port } = new URL(await blackHole(t, '::1'));
        const router = await new Router().start(t, '127.0.0.1', Number(port));
        const { upstream, changes } = serve(t, router.at('router.example'));
        t.equal(await answers(upstream, 5), 5);
        t.same([upstream.shares, changes], [[1], []]);
      },
    );

    t.test('an IPv6 address', async (t) => {
      const router = await new Router().start(t, '::1');
      const { upstream } = serve(t, router.at('[::1]'), `http://127.0.0.1:${await freePort()}/v1`);
      t.equal(await answers(upstream, 5), 5);
      t.equal(router.requests[0], `[::1]:${router.port}`);
    });

    t.test(
      'when the gateway stops, requests that wait for a connection get `Stopped`',
      async (t) => {
        named(t, 'router.example', () => ['127.0.0.1']);
        const { upstream } = serve(t, 'http://router.example:1/v1', await blackHole(t));
        const calls = [post(upstream), post(upstream)];
        await upstream.destroy();
        for (const { ended } of calls)
          t.ok((await ended.catch((error: unknown) => error)) instanceof Stopped);
      },
    );
  });
}

t.test('an IP is used for half a minute after the last answer that had it', async (t) => {
  let now = 0;
  t.intercept(performance, 'now', { value: () => now });
  let ips = ['127.0.0.2'];
  named(t, 'router.example', () => ips);
  const retired: string[] = [];
  const address = new Address(1, new URL('http://router.example/v1'), (_url, ip) => ({
    busy: 0,
    retire: () => retired.push(ip),
  }));
  t.ok(address.isDue(now));
  await address.look();
  t.notOk(address.isDue(now));
  ips = ['127.0.0.3'];
  for (const [at, known, gone] of [
    [1000, ['127.0.0.2', '127.0.0.3'], []],
    [29_000, ['127.0.0.2', '127.0.0.3'], []],
    [30_001, ['127.0.0.3'], ['127.0.0.2']],
  ] as const) {
    now = at;
    t.ok(address.isDue(now));
    await address.look();
    t.same(
      address.known.map(({ ip }) => ip),
      known,
    );
    t.same(retired, gone);
  }
});
