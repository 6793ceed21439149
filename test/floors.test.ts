import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import t from 'tap';
import { LEAKING_MEMBERS } from '../src/domain/request/answer-members.ts';
import { STEERING } from '../src/domain/request/steering.ts';

/**
 * The house, from the ground up. A folder, or a file of `src` itself, imports from itself and from lower floors:
 * never from its own floor, so that a file does not know a sibling adapter, and there is no circle of folders.
 */
const FLOORS: readonly (readonly string[])[] = [
  ['config-headers.ts', 'config-addresses.ts', 'config-tracing.ts'],
  ['json', 'runtime', 'log.ts', 'metrics.ts'],
  ['config-brand.ts'],
  ['sse', 'http', 'config.ts'],
  ['domain/members'],
  ['domain/pricing'],
  ['domain'],
  ['domain/language', 'domain/tokens'],
  ['domain/wording', 'domain/documents'],
  ['domain/request'],
  ['domain/settings'],
  ['domain/reports'],
  ['store/connection', 'ledger', 'limits', 'upstream', 'tracing', 'events', 'trail'],
  ['store/schema', 'store/gateway', 'store/events'],
  ['store/company'],
  ['store/users', 'store/statement'],
  ['store/lists'],
  ['store/usage'],
  ['gateway/request'],
  ['gateway/answer'],
  ['gateway/endpoints'],
  ['gateway'],
  ['demo'],
  ['engine.ts'],
  ['index.ts'],
  ['operations/frame'],
  ['operations'],
  ['admin/process'],
  ['admin/page'],
  ['admin/usage'],
  ['admin/company'],
  ['admin/operator', 'admin/api'],
  ['admin/sign-in'],
  ['admin'],
  ['app.ts'],
  ['workers'],
  ['cli/frame'],
  ['cli/apply'],
  ['cli/nouns'],
  ['cli'],
  ['main.ts'],
];
/** Files that a reader still takes in at one look. */
const MOST_FILES = 25;
/** Lists of one noun each: they have as many files as there are nouns. */
const LISTS_OF_NOUNS = ['operations', 'cli/nouns', 'store/company', 'domain/settings', 'admin/api'];
/** What the gateway needs of the store. It stands without the administration. */
const ENGINE_STORE = ['store/connection', 'store/schema', 'store/gateway', 'store/events'];

const SRC = new URL('../src/', import.meta.url).pathname;
const FILES = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
);

function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g)].map(([, path]) =>
    relative(SRC, join(SRC, dirname(file), path as string)),
  );
}

const folder = (file: string): string => (file.includes('/') ? dirname(file) : file);
const room = (file: string): string => file.split('/')[0] as string;
const floor = (file: string): number =>
  FLOORS.findIndex((folders) => folders.includes(folder(file)));

t.test('every folder stands on a floor, and every floor has folders', async (t) => {
  const found = [...new Set(FILES.map(folder))].sort();
  t.same(FLOORS.flat().toSorted(), found);
});

t.test('imports point down, or within the same folder', async (t) => {
  const wrong = FILES.flatMap((file) =>
    importsOf(file)
      .filter((target) => folder(target) !== folder(file) && floor(target) >= floor(file))
      .map((target) => `${file} imports ${target}`),
  );
  t.same(wrong, []);
});

t.test(`no folder has more than ${MOST_FILES} files, but for lists of one noun each`, async (t) => {
  const counts = Map.groupBy(
    FILES.filter((file) => file.includes('/') && !LISTS_OF_NOUNS.includes(folder(file))),
    folder,
  );
  const wide = [...counts].filter(([, files]) => files.length > MOST_FILES);
  t.same(
    wide.map(([name, { length }]) => `${name}: ${length}`),
    [],
  );
});

t.test(
  'the gateway stands without the administration: its engine imports nothing of it, however indirectly',
  async (t) => {
    const seen = new Set<string>();
    const visit = (file: string): void => {
      if (seen.has(file)) return;
      seen.add(file);
      for (const target of importsOf(file)) visit(target);
    };
    visit('engine.ts');
    const foreign = [...seen].filter((file) => {
      const name = folder(file);
      if (room(file) === 'store') return !ENGINE_STORE.includes(name);
      return ['admin', 'operations', 'cli'].includes(room(file));
    });
    t.same(foreign, []);
  },
);

t.test(
  'the gateway loads no words of pages: e-mails have them where they are set up',
  async (t) => {
    const seen = new Set<string>();
    const visit = (file: string): void => {
      if (seen.has(file)) return;
      seen.add(file);
      const text = readFileSync(join(SRC, file), 'utf8');
      const loaded = text.matchAll(/^(?:import|export)(?! type)[^';]*from\s*'(\.[^']+)'/gm); // types and import() load nothing
      for (const [, path] of loaded) visit(relative(SRC, join(SRC, dirname(file), path as string)));
    };
    for (const file of ['engine.ts', 'app.ts', 'cli/serve.ts']) visit(file);
    t.same(
      [...seen].filter((file) => folder(file) === 'domain/language'),
      [],
    );
  },
);

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
  return FILES.filter(
    (file) => !allowed.includes(room(file)) && pattern.test(readFileSync(join(SRC, file), 'utf8')),
  );
}

t.test('json, sse and domain hold no socket, no database, no file and no clock', async (t) => {
  const impure = FILES.filter((file) => ['json', 'sse', 'domain'].includes(room(file))).flatMap(
    (file) => {
      const text = readFileSync(join(SRC, file), 'utf8');
      return [
        /'node:(net|http|https|fs|tls|dns|child_process)[^']*'/,
        /'(postgres|undici)'/,
        /\bDate\.now\b/,
        /\bperformance\.now\b/,
      ]
        .filter((pattern) => pattern.test(text))
        .map((pattern) => `${file}: ${pattern.source}`);
    },
  );
  t.same(impure, []);
});

t.test('what leaks and what steers is listed in domain alone', async (t) => {
  const names = [...LEAKING_MEMBERS, ...STEERING].filter(
    (name) => name.includes('_') && !name.includes('*'),
  );
  const elsewhere = FILES.filter((file) =>
    ['json', 'sse', 'http', 'upstream', 'gateway'].includes(room(file)),
  );
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
  t.same(occurrences(/\bsocket\.\w+ = \w*(send|write)/i, ['http']), [
    'store/connection/large-parameter.ts',
  ]);
});

t.test(
  'connections without a socket, the parser of a socket and bindings are used in http alone',
  async (t) => {
    const sent = /\.send\([^;]*as (never|any)|'message', (async )?\([^)]*,/; // of IPC, with a handle
    t.same(occurrences(sent, ['http']), []);
    t.same(
      occurrences(/\bsocket\??\.parser\b|\bonconnection\b|process\.binding|internalBinding/, [
        'http',
      ]),
      [],
    );
  },
);

t.test('symbols by which a library hides its state are used nowhere', async (t) => {
  t.same(occurrences(/\bpino\.symbols|getOwnPropertySymbols|\bsymbols\.\w+Sym\b/, []), []);
});

t.test("V8's flags, its collector and its figures are used in runtime alone", async (t) => {
  t.same(
    occurrences(
      /setFlagsFromString|runInNewContext|--expose-gc|\bgc\(|'node:(v8|vm|async_hooks)'/,
      ['runtime'],
    ),
    [],
  );
});

t.test('an internal file of a library is imported in upstream alone', async (t) => {
  t.same(occurrences(/'[a-z@][\w@/-]*\/(lib|dist|src|internal)\/[^']*'/, ['upstream']), []);
});

t.test(
  'node:http is imported for its types alone: as a value it loads all of fetch and HTTP/2',
  async (t) => {
    t.same(occurrences(/^import (?!type ).*'node:http2?'/m, []), []);
  },
);
