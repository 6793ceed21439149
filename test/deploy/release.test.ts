import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { newFolder } from '../support/child.ts';

/** The steps of .github/release.sh that need neither a registry nor GitHub. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COPIED = [
  '.github/release.sh',
  '.github/CHANGELOG.md',
  '.deploy/chart',
  '.npmrc',
  'Dockerfile',
  'README.md',
  'package.json',
  'package-lock.json',
];

t.test('npm version moves all that names the version, and dates the changelog', async (t) => {
  const folder = newFolder(t);
  for (const name of COPIED) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  const git = (...args: string[]) =>
    run('git', '-c', 'user.name=a', '-c', 'user.email=a@b', ...args);
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  const check = (tag: string) =>
    spawnSync('sh', ['.github/release.sh', 'check'], {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, TAG: tag },
    });
  git('init', '-q');
  git('config', 'user.name', 'a');
  git('config', 'user.email', 'a@b');
  git('add', '-A');
  git('commit', '-qm', 'before');
  const { version } = JSON.parse(read('package.json')) as { version: string };
  const headings = () => read('.github/CHANGELOG.md').match(/^## \[[^\]]*\]/gm);
  const before = headings() as string[];
  t.equal(new Set(before).size, before.length, 'no heading twice');

  if (!before.includes(`## [${version}]`)) {
    run('npm', 'version', version, '--allow-same-version');
    t.equal(check(`v${version}`).status, 0, 'the version that package.json has already');
  }
  writeFileSync(
    join(folder, '.github/CHANGELOG.md'),
    read('.github/CHANGELOG.md').replace(
      '## [Unreleased]\n',
      '## [Unreleased]\n\n- something new\n',
    ),
  );
  git('commit', '-qam', 'something new');
  run('npm', 'version', '97.8.0');
  const checked = check('v97.8.0');
  t.equal(checked.status, 0, checked.stderr);
  t.equal(read('release/notes.md').trim(), '- something new');
  t.same(headings()?.slice(0, 3), ['## [Unreleased]', '## [97.8.0]', `## [${version}]`]);
  for (const name of [
    'README.md',
    'Dockerfile',
    '.deploy/chart/Chart.yaml',
    '.deploy/chart/README.md',
  ]) {
    t.match(read(name), '97.8.0', name);
    t.notOk(read(name).includes(version), `${name} has the version before no more`);
  }
  t.equal(git('status', '--porcelain', '--untracked-files=no'), '', 'all of it is committed');
  t.match(check('v97.9.0'), { status: 1, stderr: 'the tag is v97.9.0, the version 97.8.0\n' });
  const changelog = read('.github/CHANGELOG.md');
  writeFileSync(join(folder, '.github/CHANGELOG.md'), `${changelog}\n## [97.8.0] - again\n`);
  t.match(check('v97.8.0'), { status: 1, stderr: /heading twice: ## \[97\.8\.0\]/ });
  writeFileSync(join(folder, 'Dockerfile'), read('Dockerfile').replace('97.8.0', '97.7.0'));
  t.match(check('v97.8.0'), { status: 1, stderr: 'the Dockerfile has another version\n' });
});
