import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import t from 'tap';
import { LEAKING_MEMBERS } from '../src/domain/answer-members.ts';
import { STEERING } from '../src/domain/steering.ts';

/** The house: imports point to a lower floor, or within the same folder; never to a sibling adapter, never in a circle. */
const FLOORS: readonly (readonly string[])[] = [
  ['config-headers.ts'],
  ['json', 'runtime', 'log.ts', 'metrics.ts'],
  ['sse', 'http', 'config.ts'],
  ['domain'],
  ['store', 'ledger', 'limits', 'upstream', 'tracing', 'events', 'trail'],
  ['gateway', 'admin'],
  ['app.ts', 'engine.ts', 'index.ts', 'demo', 'workers'],
  ['main.ts', 'cli.ts', 'cli'],
];

const SRC = new URL('../src/', import.meta.url).pathname;
const FILES = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));

function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, path]) =>
    relative(SRC, join(SRC, dirname(file), path as string)),
  );
}

const room = (file: string): string => file.split('/')[0] as string;
const floor = (file: string): number => FLOORS.findIndex((rooms) => rooms.includes(room(file)));

t.test('every file stands on a floor', async (t) => {
  t.same(
    FILES.filter((file) => floor(file) < 0),
    [],
  );
});

t.test('imports point down, or within the same room', async (t) => {
  const wrong = FILES.flatMap((file) =>
    importsOf(file)
      .filter((target) => room(target) !== room(file) && floor(target) >= floor(file) && !sameTop(file, target))
      .map((target) => `${file} imports ${target}`),
  );
  t.same(wrong, []);
});

/** On the two top floors files may lean on each other (app on demo, main on cli), as long as no circle forms. */
function sameTop(file: string, target: string): boolean {
  return floor(file) === floor(target) && floor(file) >= FLOORS.length - 2;
}

t.test('there is no import cycle', async (t) => {
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) {
      cycles.push([...path.slice(path.indexOf(file)), file].join(' > '));
      return;
    }
    if (done.has(file)) return;
    for (const target of importsOf(file)) visit(target, [...path, file]);
    done.add(file);
  };
  for (const file of FILES) visit(file, []);
  t.same(cycles, []);
});

/** The files outside of some rooms in which a pattern occurs. */
function occurrences(pattern: RegExp, allowed: readonly string[]): string[] {
  return FILES.filter((file) => !allowed.includes(room(file)) && pattern.test(readFileSync(join(SRC, file), 'utf8')));
}

t.test('json, sse and domain hold no socket, no database, no file and no clock', async (t) => {
  const impure = FILES.filter((file) => ['json', 'sse', 'domain'].includes(room(file))).flatMap((file) => {
    const text = readFileSync(join(SRC, file), 'utf8');
    return [
      /'node:(net|http|https|fs|tls|dns|child_process)[^']*'/,
      /'(postgres|undici)'/,
      /\bDate\.now\b/,
      /\bperformance\.now\b/,
    ]
      .filter((pattern) => pattern.test(text))
      .map((pattern) => `${file}: ${pattern.source}`);
  });
  t.same(impure, []);
});

t.test('what leaks and what steers is listed in domain alone', async (t) => {
  const names = [...LEAKING_MEMBERS, ...STEERING].filter((name) => name.includes('_') && !name.includes('*'));
  const elsewhere = FILES.filter((file) => ['json', 'sse', 'http', 'upstream', 'gateway'].includes(room(file)));
  const found = elsewhere.flatMap((file) => {
    const text = readFileSync(join(SRC, file), 'utf8');
    return names.filter((name) => text.includes(`'${name}'`)).map((name) => `${file}: ${name}`);
  });
  t.same(found, []);
});

t.test("Node's underscore fields are used in http alone", async (t) => {
  t.same(occurrences(/\._[a-z]|^\s+(readonly )?_[a-z]\w*\??: .*;$/m, ['http']), []);
});

t.test("a socket's method is replaced in one file of store alone", async (t) => {
  t.same(occurrences(/\bsocket\.\w+ = \w*(send|write)/i, ['http']), ['store/large-parameter.ts']);
});

t.test('connections without a socket, the parser of a socket and bindings are used in http alone', async (t) => {
  const sent = /\.send\([^;]*as (never|any)|'message', (async )?\([^)]*,/; // of IPC, with a handle
  t.same(occurrences(sent, ['http']), []);
  t.same(occurrences(/\bsocket\??\.parser\b|\bonconnection\b|process\.binding|internalBinding/, ['http']), []);
});

t.test('symbols by which a library hides its state are used nowhere', async (t) => {
  t.same(occurrences(/\bpino\.symbols|getOwnPropertySymbols|\bsymbols\.\w+Sym\b/, []), []);
});

t.test("V8's flags, its collector and its figures are used in runtime alone", async (t) => {
  t.same(
    occurrences(/setFlagsFromString|runInNewContext|--expose-gc|\bgc\(|'node:(v8|vm|async_hooks)'/, ['runtime']),
    [],
  );
});

t.test('an internal file of a library is imported in upstream alone', async (t) => {
  t.same(occurrences(/'[a-z@][\w@/-]*\/(lib|dist|src|internal)\/[^']*'/, ['upstream']), []);
});

t.test('node:http is imported for its types alone: as a value it loads all of fetch and HTTP/2', async (t) => {
  t.same(occurrences(/^import (?!type ).*'node:http2?'/m, []), []);
});
