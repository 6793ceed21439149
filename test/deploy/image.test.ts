import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { ask } from '../support/client.ts';
import { until } from '../support/until.ts';
import { MASTER_KEY } from '../support/upstream.ts';
import { CHAT, startWorld } from '../support/world.ts';

/**
 * Builds the Dockerfile and runs the image as uid 1000 on a read-only root. It takes some minutes, so it
 * runs with IMAGE=1 alone, on Linux as root, with buildah, runc and debootstrap; the base it makes is kept.
 */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NODE = readFileSync(join(ROOT, '.nvmrc'), 'utf8').trim();
const BASE = `localhost/tollgate-test-base:${NODE}`;
const IMAGE = 'localhost/tollgate-test';
const MOST_BYTES = 20_000_000; // of what the image adds to its base
const USER = 1000;
const LONGEST_MS = 1_200_000; // npm in a build asks the registry for each package
t.setTimeout(LONGEST_MS);

const missing = ['buildah', 'runc', 'debootstrap'].filter((program) => {
  try {
    execFileSync('which', [program], { stdio: 'ignore' });
    return false;
  } catch {
    return true;
  }
});
const skip =
  process.env.IMAGE !== '1'
    ? 'IMAGE=1 builds and runs the image'
    : process.getuid?.() !== 0
      ? 'needs root'
      : missing.length > 0 &&
        `needs ${missing.join(' and ')}: apt-get install buildah runc debootstrap`;

const run = (command: string, ...args: string[]): string =>
  execFileSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();

/** Debian with the pinned Node and npm, in place of Node's image, which needs a registry. */
function makeBase(t: Test): void {
  if (run('buildah', 'images', '--format', '{{.Name}}:{{.Tag}}').split('\n').includes(BASE)) return;
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-base-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  run('debootstrap', '--variant=minbase', '--include=libatomic1,libstdc++6', 'bookworm', folder);
  const local = join(folder, 'usr/local');
  run('cp', '-L', process.execPath, join(local, 'bin/node'));
  // npm lies beside its own command: "npm root --global" tells of the Node that comes first in PATH
  const npm = join(realpathSync(run('which', 'npm')), '../..');
  mkdirSync(join(local, 'lib/node_modules'), { recursive: true });
  run('cp', '-a', npm, join(local, 'lib/node_modules/npm'));
  run('ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin/npm'));
  const container = run('buildah', 'from', 'scratch');
  run('buildah', 'copy', '--quiet', container, folder, '/');
  run('buildah', 'config', '--env', 'PATH=/usr/local/bin:/usr/bin:/bin', container);
  run('buildah', 'commit', '--rm', '--quiet', container, BASE);
}

/** npm in the build is set up as npm here: its settings, its authorities, its cache. */
function buildImage(t: Test): void {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-build-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const npm = (name: string): string => run('npm', 'config', 'get', name);
  const authorities = process.env.NODE_EXTRA_CA_CERTS ?? '/etc/ssl/certs/ca-certificates.crt';
  writeFileSync(
    join(folder, 'npmrc'),
    `registry=${npm('registry')}\ncafile=/root/authorities.pem\nprefer-offline=true\n`,
  );
  const files = run('sh', '-c', 'ulimit -Hn');
  const volumes = {
    [join(folder, 'npmrc')]: '/root/.npmrc:ro',
    [authorities]: '/root/authorities.pem:ro',
    [npm('cache')]: '/root/.npm',
  };
  const options = Object.entries(volumes).flatMap(([from, to]) => ['--volume', `${from}:${to}`]);
  options.push('--ulimit', `nofile=${files}:${files}`, '--build-arg', `NODE_IMAGE=${BASE}`);
  run(
    'buildah',
    'build',
    '--isolation',
    'chroot',
    '--network',
    'host',
    ...options,
    '--tag',
    IMAGE,
    '.',
  );
}

interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
  readonly Volumes: object;
  readonly Labels: Readonly<Record<string, string>>;
}

/** Starts the image by runc, in the network of this machine.  */
function start(t: Test, root: string, config: ImageConfig, env: Record<string, string>) {
  const bundle = mkdtempSync(join(tmpdir(), 'tollgate-bundle-'));
  const spool = join(bundle, 'spool');
  mkdirSync(spool);
  chownSync(spool, USER, USER);
  const [uid, gid] = config.User.split(':').map(Number);
  const specification = {
    ociVersion: '1.0.2',
    process: {
      user: { uid, gid },
      args: [...config.Entrypoint, ...config.Cmd],
      env: [...config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
      cwd: config.WorkingDir,
      noNewPrivileges: true,
    },
    root: { path: root, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
      ...Object.keys(config.Volumes).map((destination) => ({
        destination,
        type: 'bind',
        source: spool,
        options: ['bind', 'rw'],
      })),
    ],
    linux: { namespaces: ['pid', 'mount', 'ipc', 'uts'].map((type) => ({ type })) },
  };
  writeFileSync(join(bundle, 'config.json'), JSON.stringify(specification));
  const id = `tollgate-test-${process.pid}-${Math.trunc(performance.now())}`;
  const child = spawn('runc', ['run', '--bundle', bundle, id], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => {
    try {
      execFileSync('runc', ['delete', '--force', id], { stdio: 'ignore' });
    } catch {} // it has ended, and runc forgot it
    rmSync(bundle, { recursive: true, force: true });
  });
  const execute = (...command: string[]) =>
    run(
      'runc',
      'exec',
      '--user',
      config.User,
      ...config.Env.flatMap((each) => ['--env', each]),
      ...Object.entries(env).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
      id,
      ...command,
    );
  return { child, spool, execute, end: () => run('runc', 'kill', id, 'TERM') };
}

/** The address of a database by TCP: the socket of the tests' Postgres is for its own user alone. */
async function reachable(t: Test, address: string): Promise<string> {
  const url = new URL(address.replace('@/', '@localhost/')); // URL takes no address without a host
  const folder = url.searchParams.get('host');
  if (folder === null) return address;
  const path = `${folder}/.s.PGSQL.${url.searchParams.get('port') ?? (url.port || '5432')}`;
  const relay = createServer((client) => {
    const server = connect(path);
    client.on('error', () => server.destroy()).pipe(server);
    server.on('error', () => client.destroy()).pipe(client);
  });
  relay.listen(0, '127.0.0.1');
  await once(relay, 'listening');
  t.teardown(() => relay.close());
  return `postgres://${url.username || 'postgres'}@127.0.0.1:${(relay.address() as AddressInfo).port}${url.pathname}`;
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  return child.exitCode ?? ((await once(child, 'exit'))[0] as number | null);
}

t.test(
  'the image runs as a user without rights, on a root that is read only',
  { skip, timeout: LONGEST_MS },
  async (t) => {
    makeBase(t);
    buildImage(t);
    const { OCIv1 } = JSON.parse(run('buildah', 'inspect', '--type', 'image', IMAGE));
    const config: ImageConfig = OCIv1.config;
    const container = run('buildah', 'from', IMAGE);
    const root = run('buildah', 'mount', container);
    t.teardown(() => run('buildah', 'rm', container));

    await t.test('it holds what runs, and says what that is', async (t) => {
      const files = readdirSync(join(root, 'app'), { recursive: true, encoding: 'utf8' });
      t.same(
        files.filter((name) => /\.(map|md|markdown|d\.[mc]?ts)$/i.test(name)),
        [],
      );
      const bytes = Number(run('du', '-sb', join(root, 'app')).split('\t')[0]);
      t.comment(`${(bytes / 1e6).toFixed(1)} MB`);
      t.ok(bytes < MOST_BYTES, `${bytes} bytes`);
      const { name, version, dependencies } = JSON.parse(
        readFileSync(join(ROOT, 'package.json'), 'utf8'),
      );
      t.match(config.Labels, {
        'org.opencontainers.image.title': 'Tollgate',
        'org.opencontainers.image.version': version,
        'org.opencontainers.image.licenses': 'Apache-2.0',
        'org.opencontainers.image.base.name': BASE,
      });
      const bill = JSON.parse(readFileSync(join(root, 'app/sbom.cdx.json'), 'utf8'));
      t.match(bill, { bomFormat: 'CycloneDX', metadata: { component: { name, version } } });
      const parts = new Set(
        bill.components.map((part: { group?: string; name: string }) =>
          [part.group, part.name].filter(Boolean).join('/'),
        ),
      );
      t.same(
        Object.keys(dependencies).filter((each) => !parts.has(each)),
        [],
      );
      t.notOk(parts.has('typescript'), 'what only builds it is not listed');
    });

    await t.test('without a database it says in one line what to set', async (t) => {
      const { child } = start(t, root, config, { LOG_LEVEL: 'error' });
      const said = text(child.stderr);
      t.equal(await exitOf(child), 1);
      t.match(await said, /^tollgate: [^\n]*set DATABASE_URL\n$/);
    });

    await t.test(
      'with one it serves, is healthy, drains at SIGTERM and leaves nothing behind',
      async (t) => {
        const world = await startWorld(t);
        const [port, adminPort] = [18_080, 18_081].map((each) =>
          String(each + (process.pid % 1000) * 2),
        ) as [string, string];
        const env = {
          HOST: '127.0.0.1',
          PORT: port,
          ADMIN_HOST: '127.0.0.1',
          ADMIN_PORT: adminPort,
          DATABASE_URL: await reachable(t, world.databaseUrl),
          UPSTREAM_URL: world.upstream.url,
          UPSTREAM_API_KEY: MASTER_KEY,
          LOG_LEVEL: 'error',
        };
        const { child, spool, execute, end } = start(t, root, config, env);
        child.stderr.pipe(process.stderr);
        const ready = () =>
          fetch(`http://127.0.0.1:${adminPort}/readyz`).then(
            ({ status }) => status === 200,
            () => false,
          );
        await until(() => child.exitCode !== null || ready(), 'the image is ready');
        t.equal(child.exitCode, null, 'it runs');
        t.doesNotThrow(() => execute('node', '/app/dist/cli/health.js'), 'its health check');
        t.match(execute('tollgate', '--version'), /^tollgate \d/, 'the command is in PATH');
        t.throws(
          () => execute('node', '-e', "require('fs').writeFileSync('/app/x', '')"),
          /EROFS|read-only/i,
        );
        const { key, company } = world.customer;
        const body = { model: CHAT, messages: [{ role: 'user', content: 'Hello' }] };
        const answer = await ask(`http://127.0.0.1:${port}/v1/chat/completions`, { key, body });
        t.equal(answer.status, 200);
        end();
        t.equal(await exitOf(child), 0);
        t.equal((await world.ledger(company, 1)).length, 1);
        t.same(readdirSync(spool), [], 'the spool is empty');
      },
    );
  },
);
