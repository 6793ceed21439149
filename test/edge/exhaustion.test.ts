import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { CHILD_ENV } from '../support/child.ts';
import { ask } from '../support/client.ts';
import { FAST_HTTP, startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { MASTER_KEY, type Script, scriptedUpstream } from '../support/upstream.ts';
import { type Customer, customerWith } from '../support/world.ts';

/** A full disk, no descriptors, a lagging event loop: what the gateway answers stays true. Real processes, real limits. */
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const upstream = await scriptedUpstream(t);
const answerAtOnce: Script = (res) => {
  res.setHeader('content-type', 'application/json');
  res.end(
    '{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
  );
};
upstream.answer(answerAtOnce);

const other = await startGateway(t, upstream.url); // has a database to share
await other.model('quick', { upstream: 'internal' });

/** Starts a gateway by a shell command, in which "$0" and "$@" stand for the gateway's own. */
async function serve(t: Test, shell: string, args: readonly string[], env: Record<string, string>) {
  const company = await other.company();
  const key = await other.key(company);
  const child: ChildProcess = spawn(
    args[0] as string,
    [...args.slice(1), 'sh', '-c', shell, process.execPath, MAIN, 'serve', '--json'],
    {
      env: {
        ...CHILD_ENV,
        PORT: '0',
        ADMIN_PORT: '0',
        DATABASE_URL: other.databaseUrl,
        UPSTREAM_URL: upstream.url,
        UPSTREAM_API_KEY: MASTER_KEY,
        LOG_LEVEL: 'warn',
        FAST_HTTP,
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  });
  let log = '';
  (child.stderr as NodeJS.ReadableStream).on('data', (chunk) => {
    log += chunk;
  });
  const [line] = await once(
    createInterface({ input: child.stdout as NodeJS.ReadableStream }),
    'line',
  );
  const { base_url: url, admin_url: adminUrl } = JSON.parse(line) as {
    base_url: string;
    admin_url: string;
  };
  const customer = customerWith(url, company, key);
  const failing = async () =>
    /^tollgate_spool_failing (\d)$/m.exec((await ask(`${adminUrl}/metrics`)).text)?.[1];
  const rows = (count: number) => other.ledger(company, count);
  return { child, url, customer, failing, rows, log: () => log };
}

/** Makes `count` calls one after the other. @returns their statuses; 0: the connection was refused or closed */
async function calls(customer: Customer, count: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let n = 0; n < count; n++) {
    const answer = await customer.chat({ model: 'quick' }).catch(() => ({ status: 0 }));
    statuses.push(answer.status);
  }
  return statuses;
}

const namespaces =
  spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;

t.test(
  'a full disk: every call is answered and booked, and spooling resumes once there is room',
  { skip: namespaces ? false : 'a mount namespace is not permitted here' },
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-full-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    mkdirSync(join(folder, 'spool'));
    const spool = join(folder, 'spool');
    const shell = `mount -t tmpfs -o size=256k tmpfs '${spool}' && exec "$0" "$@"`;
    const { child, customer, failing, rows, log } = await serve(t, shell, ['unshare', '-m'], {
      SPOOL_DIR: spool,
    });
    t.same(new Set(await calls(customer, 20)), new Set([200]));
    t.equal(await failing(), '0');

    const filler = `/proc/${child.pid}/root${spool}/filler`;
    const fill = () => {
      const fd = openSync(filler, 'a');
      try {
        for (;;) writeSync(fd, Buffer.alloc(4096));
      } catch (error) {
        t.match(error, { code: 'ENOSPC' });
      } finally {
        closeSync(fd);
      }
    };
    fill();
    const during: number[] = [];
    await until(async () => {
      during.push(...(await calls(customer, 20)));
      return (await failing()) === '1';
    }, 'the metric tells that the spool fails');
    during.push(...(await calls(customer, 50)));
    t.same(new Set(during), new Set([200]), 'requests go on');
    await until(() => log().includes('spool'), 'the log tells the operator');
    t.equal(
      (await rows(20 + during.length)).length,
      20 + during.length,
      'and every call is in the ledger',
    );

    rmSync(filler);
    const after: number[] = [];
    await until(async () => {
      after.push(...(await calls(customer, 5)));
      return (await failing()) === '0';
    }, 'the metric tells that the spool works again');
    const all = 20 + during.length + after.length;
    t.equal((await rows(all)).length, all, 'spooling resumes by itself');
  },
);

t.test(
  'no descriptors left: answered, refused with 503 or not connected, and as before once there are some',
  async (t) => {
    const { child, url, customer, rows } = await serve(
      t,
      'ulimit -n 100; exec "$0" "$@"',
      ['env'],
      { SPOOL_DIR: '' },
    );
    t.same(new Set(await calls(customer, 5)), new Set([200]));
    const { hostname, port } = new URL(url);
    const idle: Socket[] = [];
    for (let n = 0; n < 200; n++)
      idle.push(
        connect(Number(port), hostname)
          .on('error', () => {})
          .resume(),
      );
    t.teardown(() => idle.forEach((socket) => void socket.destroy()));
    await until(
      () => idle.some(({ destroyed }) => destroyed),
      'a connection is closed for lack of descriptors',
    );
    const during = await calls(customer, 20);
    t.ok(
      during.every((status) => status === 200 || status === 503 || status === 0),
      `answered, refused with 503 or not connected: ${[...new Set(during)]}`,
    );
    t.equal(child.exitCode, null, 'the process lives on');
    for (const socket of idle) socket.destroy();
    const after: number[] = [];
    await until(async () => {
      after.push(...(await calls(customer, 1)));
      return after.at(-1) === 200;
    }, 'a call is answered again');
    after.push(...(await calls(customer, 20)));
    t.same(new Set(after.slice(-20)), new Set([200]), 'it recovers by itself');
    const answered = 5 + [...during, ...after].filter((status) => status === 200).length;
    t.equal(
      (await rows(answered)).length,
      answered,
      'what was answered is in the ledger, and nothing else',
    );
  },
);

for (const [files, streams] of [
  [256, 400],
  [1024, 1200],
] as const) {
  t.test(
    `${streams} streams at once where ${files} files may be open: those that get in are served`,
    async (t) => {
      const ends: (() => void)[] = [];
      upstream.answer((res) => {
        res.writeHead(200, { 'content-type': 'text/event-stream' });
        res.write('data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n');
        ends.push(
          () =>
            void res.end(
              'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
            ),
        );
      });
      t.teardown(() => upstream.answer(answerAtOnce));
      const { url, customer, log } = await serve(t, `ulimit -n ${files}; exec "$0" "$@"`, ['env'], {
        SPOOL_DIR: '',
      });
      const body = { model: 'quick', messages: [{ role: 'user', content: 'x' }], stream: true };
      const open = (): Promise<{ status: number; text: string }> =>
        ask(`${url}/chat/completions`, { key: customer.key, body }).catch(() => ({
          status: 0,
          text: '',
        }));
      let over = 0;
      const all = Array.from({ length: streams }, () => open().finally(() => over++));
      await until(() => ends.length + over === streams, 'each is served or refused');
      const served = ends.length;
      for (const end of ends) end();
      const answers = await Promise.all(all);
      t.ok(served > files / 4, `${served} were served`);
      t.same(
        answers.filter(({ status, text }) => status === 200 && !text.includes('[DONE]')),
        [],
      );
      t.equal(answers.filter(({ status }) => status === 200).length, served);
      t.same(
        [...new Set(answers.map(({ status }) => status))].filter(
          (status) => ![0, 200, 503].includes(status),
        ),
        [],
      );
      await until(
        () => /one of the network that has the most is closed/.test(log()),
        'the log says that connections were closed',
      );
      t.match(log(), `"limit":${files},`);
      t.notMatch(log(), /upstream failed|could not be sent/);
    },
  );
}

t.test(
  'an event loop that lags: some calls are refused, the others answered; afterwards all are answered',
  async (t) => {
    const { customer, rows } = await serve(t, 'exec "$0" "$@"', ['env'], {
      SPOOL_DIR: '',
      MAX_DELAY_MS: '1',
    });
    const statuses: number[] = [];
    await until(async () => {
      statuses.push(
        ...(await Promise.all(Array.from({ length: 100 }, () => calls(customer, 5)))).flat(),
      );
      return statuses.includes(503) && statuses.includes(200);
    }, 'some calls are refused and some are answered');
    t.same([...new Set(statuses)].sort(), [200, 503]);
    await until(async () => {
      const some = await calls(customer, 20);
      statuses.push(...some);
      return some.every((status) => status === 200);
    }, 'all calls are answered');
    const answered = statuses.filter((status) => status === 200).length;
    t.equal((await rows(answered)).length, answered, 'refused calls cost nothing');
  },
);
