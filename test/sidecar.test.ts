import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { compile } from './support/compile.ts';
import { MASTER_KEY } from './support/upstream.ts';
import { CHAT, startWorld, type World } from './support/world.ts';

/** Runs the program as it is in the container image, with permission to write to one folder only. */

const NO_WARNING = '--disable-warning=ExperimentalWarning';
const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** A folder with the files that the Dockerfile copies. */
function image(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-image-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ['package.json', 'sql', 'src/admin/assets']) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  compile(join(folder, 'dist'), false);
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const name of Object.keys(dependencies)) {
    const link = join(folder, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true }); // of a scoped package
    symlinkSync(join(ROOT, 'node_modules', name), link);
  }
  return folder;
}

interface Sidecar {
  readonly env: Record<string, string>;
  readonly child: ChildProcess;
  readonly facts: { readonly socket: string; readonly admin_url: string | null };
}

/** Starts `serve` on a socket. A write outside of `writable` is an error. */
async function start(
  t: Test,
  program: string,
  world: World,
  writable: string,
  more = {},
): Promise<Sidecar> {
  const env = {
    LISTEN_SOCKET: join(writable, 'api.sock'),
    DATABASE_URL: `${world.databaseUrl}&application_name=sidecar`,
    DATABASE_CONNECTIONS: '3',
    UPSTREAM_URL: world.upstream.url,
    UPSTREAM_API_KEY: MASTER_KEY,
    LOG_LEVEL: 'error',
    ADMIN_PORT: '0',
    ...more,
  };
  const only = ['--permission', '--allow-fs-read=*', `--allow-fs-write=${writable}`];
  // Node 24 and older have no permission for the network
  if (process.allowedNodeEnvironmentFlags.has('--allow-net')) only.push('--allow-net', NO_WARNING);
  const child = spawn(
    process.execPath,
    [...only, join(program, 'dist/main.js'), 'serve', '--json'],
    {
      cwd: '/',
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  t.teardown(() => child.kill('SIGKILL'));
  let printed = '';
  for await (const piece of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += piece;
    if (printed.includes('\n')) break;
  }
  return { env, child, facts: JSON.parse(printed) };
}

function chat({ facts }: Sidecar, key: string): Promise<number | undefined> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return new Promise((resolve, reject) => {
    request(
      {
        socketPath: facts.socket,
        method: 'POST',
        path: '/v1/chat/completions',
        headers,
        agent: false,
      },
      (res) => res.resume().on('end', () => resolve(res.statusCode)),
    )
      .on('error', reject)
      .end(JSON.stringify({ model: CHAT, messages: [{ role: 'user', content: 'Hello' }] }));
  });
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  return (await once(child, 'exit'))[0] as number | null;
}

t.test(
  'a sidecar writes only to its spool and its socket, and opens three connections',
  async (t) => {
    const program = image(t);
    const world = await startWorld(t);
    const { customer, sql } = world;
    const health = (env: Record<string, string>) =>
      exitOf(
        spawn(process.execPath, [join(program, 'dist/cli/health.js')], { env, stdio: 'inherit' }),
      );

    for (const spooling of [true, false]) {
      await t.test(spooling ? 'with a spool' : 'without', async (t) => {
        const writable = mkdtempSync(join(tmpdir(), 'tollgate-writable-'));
        t.teardown(() => rmSync(writable, { recursive: true, force: true }));
        const more = spooling
          ? { SPOOL_DIR: join(writable, 'spool') }
          : { SPOOL_DIR: '', ADMIN_PORT: 'off' };
        const sidecar = await start(t, program, world, writable, more);
        t.same(
          new Set(await Promise.all(Array.from({ length: 20 }, () => chat(sidecar, customer.key)))),
          new Set([200]),
        );
        const [row] =
          await sql`select count(*)::integer as open from pg_stat_activity where application_name = 'sidecar'`;
        t.ok(row?.open <= 3, `${row?.open} connections`);

        const { admin_url } = sidecar.facts;
        const env = {
          ...sidecar.env,
          ...(admin_url === null ? {} : { ADMIN_PORT: new URL(admin_url).port }),
        };
        t.equal(await health(env), 0, 'healthy while it runs');
        sidecar.child.kill('SIGTERM');
        t.equal(await exitOf(sidecar.child), 0);
        t.equal(await health(env), 1, 'unhealthy after its end');
        t.same(
          readdirSync(writable, { recursive: true }).filter((name) => name !== 'api.sock'),
          spooling ? ['spool'] : [],
          'the spool is empty',
        );
      });
    }
    t.equal((await world.ledger(customer.company, 40)).length, 40);
  },
);

t.test(
  'without DATABASE_URL the image says in one line what to set, and makes no folder',
  async (t) => {
    const program = image(t);
    const cwd = mkdtempSync(join(tmpdir(), 'tollgate-cwd-'));
    t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
    for (const command of [['serve'], ['status']]) {
      const env = { SPOOL_DIR: '', PORT: '0', ADMIN_PORT: '0', LOG_LEVEL: 'error' };
      const child = spawn(process.execPath, [join(program, 'dist/main.js'), ...command], {
        cwd,
        env,
        stdio: 'pipe',
      });
      const said = text(child.stderr);
      t.equal(await exitOf(child), 1);
      t.match(await said, /^tollgate: [^\n]*DATABASE_URL is not set[^\n]*set DATABASE_URL\n$/);
      t.same(readdirSync(cwd), []);
    }
  },
);
