import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parse } from 'yaml';
import { Person } from '../admin/people.ts';
import { CHILD_ENV } from '../support/child.ts';
import { ROOT } from '../support/cli.ts';
import { ask } from '../support/client.ts';
import { freePort } from '../support/port.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

/** The files for Docker Compose: each service's process runs without its container. */

interface Service {
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly healthcheck?: { readonly test?: readonly string[] };
}

const read = (name: string) => readFileSync(new URL(`.deploy/${name}`, ROOT), 'utf8');
const { services } = parse(read('compose.yml')) as { services: Readonly<Record<string, Service>> };
const { url } = await emptyDatabase(t);
const folder = t.testdir({ 'tollgate.yml': read('tollgate.yml') });
const [router, api, admin] = [await freePort(), await freePort(), await freePort()];
const SECRETS = {
  OPERATOR_PASSWORD: 'correct horse battery staple',
  WEBSITE_KEY: 'website-key-of-acme-4711-0815',
};

t.test(
  'Postgres, a router, the gateway, its pages, a first operator and a key, from nothing',
  async (t) => {
    run('router');
    const configured = run('configure');
    t.equal(await configured.exit, 0, configured.output());
    t.equal(await run('configure').exit, 0, 'again, as at every start');
    const gateway = run('gateway');
    await until(
      async () => (await ask(`http://127.0.0.1:${admin}/readyz`).catch(() => null))?.status === 200,
      'the gateway is ready',
    );

    const body = { model: 'fast', messages: [{ role: 'user', content: 'Hello' }] };
    t.match(
      await ask(`http://127.0.0.1:${api}/v1/chat/completions`, { key: SECRETS.WEBSITE_KEY, body }),
      {
        status: 200,
        json: { model: 'fast' },
      },
    );
    const operator = new Person(`http://127.0.0.1:${admin}`);
    t.equal((await operator.signIn('ops@acme.example', SECRETS.OPERATOR_PASSWORD)).status, 303);
    t.match((await operator.get('/companies')).text, /Acme/);
    gateway.child.kill('SIGTERM');
    t.equal(await gateway.exit, 0, gateway.output());
  },
);

t.test('Postgres counts as healthy when it answers by TCP, as the others ask it', async (t) => {
  const [kind, program, ...args] = services.postgres?.healthcheck?.test ?? [];
  t.same([kind, program], ['CMD', 'pg_isready']);
  t.match(args.join(' '), /-h 127\.0\.0\.1\b/, 'its socket answers while it is being set up');
});

/** Starts a service with the names of hosts and files that hold without containers. */
function run(name: string): {
  child: ChildProcess;
  exit: Promise<number | null>;
  output(): string;
} {
  const {
    entrypoint = ['node', '/app/src/main.ts'],
    command = name === 'router' ? [] : ['serve'],
    environment = {},
  } = services[name] as Service;
  const local = (text: string): string =>
    text
      .replace('postgres://tollgate:secret@postgres/tollgate', url)
      .replace('router:4000', `127.0.0.1:${router}`)
      .replace('0.0.0.0', '127.0.0.1')
      .replace('port: 4000', `port: ${router}`)
      .replace('/app/dist/demo/server.js', new URL('src/demo/server.ts', ROOT).href)
      .replace('/app/', ROOT.pathname)
      .replace('/etc/tollgate.yml', join(folder, 'tollgate.yml'))
      .replace(/\$\{(\w+):\?\}/, (_, secret: keyof typeof SECRETS) => SECRETS[secret]);
  const [program = '', ...args] = [...entrypoint, ...command].map(local);
  const spool = join(folder, 'spool');
  mkdirSync(spool, { recursive: true });
  const env = {
    ...Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, local(value)])),
    ...CHILD_ENV,
    PORT: `${api}`,
    ADMIN_PORT: `${admin}`,
    SPOOL_DIR: spool,
  };
  const child = spawn(program === 'node' ? process.execPath : program, args, {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const pieces: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (piece: Buffer) => pieces.push(piece));
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { child, exit, output: () => Buffer.concat(pieces).toString() };
}
