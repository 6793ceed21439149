import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const ROOT = fileURLToPath(new URL('../../bench', import.meta.url));
const FILES = readdirSync(ROOT, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
);

/** Files of bench/ that a file of it imports. */
function importsOf(file: string): string[] {
  const found = readFileSync(join(ROOT, file), 'utf8').matchAll(/ from '(\.[^']+)'/g);
  return [...found]
    .map(([, path]) => normalize(join(dirname(file), path as string)))
    .filter((path) => FILES.includes(path));
}

function circle(file: string, way: readonly string[] = []): string[] {
  if (way.includes(file)) return [...way, file];
  return importsOf(file).flatMap((next) => circle(next, [...way, file]));
}

t.test('no file imports itself by way of others', async (t) => {
  for (const file of FILES) t.same(circle(file), [], file);
});

t.test('the load test of users needs nothing of the benchmark', async (t) => {
  for (const file of FILES.filter((file) => /^load\b/.test(file))) {
    t.same(
      importsOf(file).filter((path) => !path.startsWith('load/')),
      [],
      file,
    );
  }
});
