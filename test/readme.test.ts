import { execFile, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, matchesGlob } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { allCommands } from '../src/cli/commands.ts';
import { SECRETS_NOTE } from '../src/cli/frame/help.ts';
import { PROGRAMS } from '../src/cli/programs.ts';
import { VARIABLES } from '../src/config.ts';
import { ERROR_NAMES, GatewayError } from '../src/domain/errors.ts';
import {
  STEERING_METADATA,
  STEERING_TABLE,
  STEERING_WITHIN,
  type SteeringGroup,
} from '../src/domain/members/steering-table.ts';
import { CHILD_ENV } from './support/child.ts';
import { startWorld } from './support/world.ts';

const COMMANDS = await allCommands();

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SKIPPED = ['node_modules', 'dist', 'data', '.git', '.tap'];
const README_LINES = 200;
/** A page that a reader still takes in. What the benchmarks write is as long as they are. */
const PAGE_LINES = 300;
const WRITTEN = ['bench/RESULTS.md'];

/** Every page of documentation, as paths from the root. */
function documents(folder = ''): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED.includes(entry.name) ? [] : documents(path);
    return path.endsWith('.md') ? [path] : [];
  });
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

/** The rules of the API: what the specification says, and what the contract adds. */
const RULES = `${read('test/spec/README.md')}\n${read('test/spec/CONTRACT.md')}`;

/** The variables as a Markdown table, from the code that reads the environment. */
function table(): string {
  const rows = VARIABLES.map(
    ({ name, fallback, shown, meaning }) =>
      `| \`${name}\` | ${shown ?? `\`${fallback}\``} | ${meaning} |`,
  );
  return ['| variable | default | meaning |', '|---|---|---|', ...rows].join('\n');
}

/** Refused members as a Markdown table. */
function refused(groups: readonly SteeringGroup[]): string {
  const rows = groups.map(
    ([names, obeyedBy, effect]) =>
      `| ${names.replace(/\S+/g, '`$&`').replace(/\s+/g, ', ')} | ${obeyedBy} | ${effect} |`,
  );
  return ['| member | obeyed by | what a caller could do |', '|---|---|---|', ...rows].join('\n');
}

/** The floors as a drawing, from the top down. */
function floors(): string {
  const [, list = ''] =
    /^const FLOORS[^\n]*\[\n(.*?)^\];/ms.exec(read('test/floors.test.ts')) ?? [];
  const rows = [...list.matchAll(/^ {2}\[(.*)\],/gm)].map(([, names = '']) =>
    names.replace(/'/g, '').replaceAll(', ', ' | '),
  );
  const numbered = rows.map((names, i) => `${`${i}`.padStart(2)}  ${names}`).reverse();
  return ['```', ...numbered, '```'].join('\n');
}

const SECRETS = SECRETS_NOTE.replace(/[A-Z_]{2,}/g, '`$&`');

/** The text with everything between `<!-- name: … -->` and `<!-- /name -->` replaced. */
function filled(text: string, name: string, content: string): string {
  const block = new RegExp(`(<!-- ${name}:[^>]*-->\\n)[\\s\\S]*?(<!-- /${name} -->)`);
  return text.replace(block, (_all, begin, end) => `${begin}\n${content}\n\n${end}`);
}

t.test(
  'the documents have every setting, refused member, floor and example as the code has them',
  async (t) => {
    const expected = {
      '.deploy/configuration.md': filled(
        read('.deploy/configuration.md'),
        'configuration',
        `${table()}\n\n${SECRETS}`,
      ),
      'src/domain/members/README.md': filled(
        read('src/domain/members/README.md'),
        'refused',
        [
          refused(STEERING_TABLE),
          'In `metadata`, these too:',
          refused(STEERING_METADATA),
          'Within other members, unless they are null:',
          refused(STEERING_WITHIN),
        ].join('\n\n'),
      ),
      'src/cli/configuration-file.md': filled(
        read('src/cli/configuration-file.md'),
        'tollgate.yml',
        `\`\`\`yaml\n${read('.deploy/tollgate.yml')}\`\`\``,
      ),
      'src/README.md': filled(read('src/README.md'), 'floors', floors()),
    };
    for (const [path, text] of Object.entries(expected)) {
      if (process.env.UPDATE_README === '1') writeFileSync(join(ROOT, path), text);
      t.equal(read(path), text, `${path}: run UPDATE_README=1 node test/readme.test.ts`);
    }
  },
);

t.test('every error is in the table of the rules of the API', async (t) => {
  const rows = RULES.match(/^\| \d{3}\b.*$/gm) ?? [];
  for (const name of ERROR_NAMES) {
    const { status, type, code } = new GatewayError(name);
    const cell = code === null ? /\| null\b/ : `\`${code}\``;
    const row = rows.find(
      (row) => row.split('|')[1]?.includes(String(status)) && row.search(cell) > 0,
    );
    t.match(row, `\`${type}\``, name);
  }
});

t.test('every runtime dependency has a line that says why', async (t) => {
  const { dependencies } = JSON.parse(read('package.json'));
  for (const name of Object.keys(dependencies)) t.match(read('README.md'), `\n| ${name} |`, name);
});

t.test('the README stays short', async (t) => {
  t.ok(read('README.md').split('\n').length <= README_LINES);
});

t.test('the figures of the README are those of the published results', async (t) => {
  const [, ratio, least, most, nginx] =
    /\(([\d.]+) of it, between ([\d.]+) and ([\d.]+)\), and ([\d.]+) times what nginx takes/.exec(
      read('README.md'),
    ) ?? [];
  const row = /^\| a small request \|.*$/m.exec(read('bench/RESULTS.md'))?.[0].split(' | ') ?? [];
  t.equal(row[3], `${ratio} (${least}–${most})`);
  t.equal(row[4]?.split(' ')[0], nginx);
});

/** Where a document leads: in Markdown or HTML, text or picture, `[name]: path` too. */
function linksOf(text: string): string[] {
  const found = withoutCode(text).matchAll(
    /\]\(<?([^)>\s]+)[^)]*\)|(?:src|href)="([^"]+)"|^\[[^\]]+\]: (\S+)/gm,
  );
  return [...found].map(([, inline, html, named]) => (inline ?? html ?? named) as string);
}

/** Whether a path of the repository is in the published package. */
function isPublished(path: string): boolean {
  const files: string[] = JSON.parse(read('package.json')).files;
  return (
    path === 'README.md' ||
    files.some((file) => path === file || path.startsWith(`${file}/`) || matchesGlob(path, file))
  );
}

t.test(
  'every link of every document leads to a file and, with an anchor, to a heading of it',
  async (t) => {
    for (const path of documents()) {
      for (const link of linksOf(read(path))) {
        if (/^[a-z]+:/.test(link)) continue;
        const [file = '', anchor] = link.split('#');
        const target = file === '' ? path : join(dirname(path), file);
        t.ok(existsSync(join(ROOT, target)), `${path} links to ${link}`);
        if (anchor !== undefined)
          t.ok(anchors(read(target)).includes(anchor), `${path} links to ${link}`);
      }
    }
  },
);

t.test('every file that a document names exists', async (t) => {
  for (const path of documents()) {
    if (path === '.github/CHANGELOG.md') continue; // tells of files that were there
    for (const [, name = ''] of withoutCode(read(path)).matchAll(
      /`((?:\.?[\w-]+\/)+[\w.-]+\.(?:ts|js|sql|json|ya?ml|md|service))`/g,
    )) {
      const places = [dirname(path), '.', 'src', 'bench'];
      if (/^(node_modules|dist)\//.test(name)) continue; // made by npm or a build
      t.ok(
        places.some((place) => existsSync(join(ROOT, place, name))),
        `${path} names ${name}`,
      );
    }
  }
});

/** What release.sh writes, and no checkout has. */
const MADE_BY_RELEASE = new Set(['notes.md', 'release/notes.md']);

t.test(
  'what the program says about a document is true: the file, its section, and that the package has it',
  async (t) => {
    const files = ['src', 'sql', '.deploy', 'test', 'bench'].flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => /\.(ts|js|sql|ya?ml|service)$/.test(name) && !/\.generated\./.test(name))
        .map((name) => join(folder, name)),
    );
    for (const file of [...files, 'Dockerfile', 'Makefile']) {
      const isProgram = /^(src|sql|\.deploy)\//.test(file);
      for (const [, name = '', section] of read(file).matchAll(
        /([\w./-]*\w\.md)\b(?!\()(?:, "([^"]+)")?/g,
      )) {
        const short = isProgram ? [] : documents().filter((path) => basename(path) === name);
        const path = [name, join(dirname(file), name), ...short].find((place) =>
          existsSync(join(ROOT, place)),
        );
        if (path === undefined) {
          if (!MADE_BY_RELEASE.has(name)) t.fail(`${file} names ${name}`);
          continue;
        }
        if (section !== undefined)
          t.match(read(path), `# ${section}\n`, `${file} names "${section}" of ${name}`);
        if (/^(src|sql|\.deploy)\//.test(file))
          t.ok(isPublished(path), `${file} names ${path}, which the package lacks`);
      }
    }
  },
);

t.test(
  'the package has the pages of the manual, and the schema that a configuration file names',
  async (t) => {
    const manual = documents().filter((path) =>
      /^(\.deploy|sql|src\/(admin|cli|domain))\//.test(path),
    );
    t.same(
      manual.filter((path) => !isPublished(path)),
      [],
    );
    const [, schema = ''] =
      /\$schema=node_modules\/tollgate\/(\S+)/.exec(read('.deploy/tollgate.yml')) ?? [];
    t.ok(
      existsSync(join(ROOT, schema)) && isPublished(schema),
      `the schema of a configuration file: ${schema}`,
    );
  },
);

t.test(`no page has more than ${PAGE_LINES} lines`, async (t) => {
  const long = documents().filter((path) => read(path).trimEnd().split('\n').length > PAGE_LINES);
  t.same(
    long.filter((path) => !WRITTEN.includes(path)),
    [],
  );
});

t.test('a heading has blank lines around it', async (t) => {
  for (const path of documents()) {
    const text = withoutCode(read(path));
    for (const [found] of text.matchAll(/[^\n]\n#+ .*|^#+ .*\n[^\n].*/gm))
      t.fail(`${path}: ${found}`);
  }
});

t.test('every command that a document shows exists, with its options', async (t) => {
  const optionsOf = new Map<string, string[]>();
  for (const { name, options } of [...PROGRAMS, ...COMMANDS]) {
    optionsOf.set(name, [
      ...Object.values(options).map(({ shown }) => shown.split(' ', 1)[0] as string),
      '--json',
      '--help',
    ]);
  }
  for (const path of documents()) {
    for (const [, text = ''] of read(path).matchAll(/(?:npx |`|^)tollgate ([a-z][^`|\n#]*)/gm)) {
      const [noun = '', verb] = text.trim().split(/\s+/);
      const known =
        optionsOf.get(`${noun} ${verb}`) ??
        optionsOf.get(noun) ??
        (verb === '--help' && ['--help']);
      t.ok(known, `${path}: ${text}`);
      for (const [option] of text.matchAll(/--[a-z-]+/g))
        t.ok((known || []).includes(option), `${path}: ${text}`);
    }
  }
});

/** The text without blocks of code, whose comments look like headings. */
function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, '```');
}

/** The anchors of a document's headings, as GitHub makes them: the second of the same words ends in -1. */
function anchors(text: string): string[] {
  const seen = new Map<string, number>();
  return [...withoutCode(text).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => {
    const anchor = (heading as string)
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
      .replaceAll(' ', '-');
    const before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
}

t.test('every section and rule that the code cites is in the rules of the API', async (t) => {
  const sections = new Map(
    RULES.split(/^(?=##)/m).map((text) => [
      /^#+ (Contract \d|[\d.]*\d)/.exec(text)?.[1] ?? '',
      text,
    ]),
  );
  const files = ['src', 'test', 'sql'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(ts|sql)$/.test(name))
      .map((name) => join(folder, name)),
  );
  for (const file of files) {
    const text = read(file).replace(/\n\s*(\*|\/\/|--) /g, ' '); // a citation may run on to the next line of a comment
    for (const [cited, kind, list, tail] of text.matchAll(
      /(spec|contract),? sections? ([\d.]*\d(?:(?:,| and| to) \d\.\d)*)((?:,[^;:)]*)?)/gi,
    )) {
      const numbers = (list as string).split(/, | and | to /);
      for (const number of numbers) {
        const name = kind?.toLowerCase() === 'contract' ? `Contract ${number}` : number;
        const section = sections.get(name);
        t.ok(section, `${file} cites "${cited}"`);
        const rule = /(?:rules?|behaviours?|streaming) (\d)/i.exec(tail as string)?.[1];
        if (rule !== undefined)
          t.match(section ?? '', new RegExp(`^${rule}\\. `, 'm'), `${file} cites "${cited}"`);
      }
    }
  }
});

/** The examples of the README in a language, as somebody pastes them who has this gateway and key. */
function examples(language: string, url: string, key: string): string[] {
  const blocks = [
    ...read('README.md').matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g')),
  ];
  const origin = new URL(url).origin;
  return blocks.map(([, code = '']) =>
    code.replaceAll('http://127.0.0.1:8080', origin).replaceAll('<API_KEY>', key),
  );
}

t.test('the TypeScript example of the README prints an answer when it is pasted', async (t) => {
  const { url, model, upstream, customer } = await startWorld(t);
  await model('demo-chat', { upstream: upstream.parts.chat });
  mkdirSync(join(ROOT, '.tap'), { recursive: true });
  const folder = mkdtempSync(join(ROOT, '.tap/readme-')); // below the packages that the examples import
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));

  const pasted = examples('ts', url, customer.key);
  t.equal(pasted.length, 1);
  for (const [i, code] of pasted.entries()) {
    const file = join(folder, `${i}.ts`);
    writeFileSync(file, code);
    const { stdout } = await run(process.execPath, [file], { env: CHILD_ENV });
    const answers = stdout.match(/\w+ from the Tollgate demo/g) ?? [];
    t.equal(answers.length, code.match(/console\.log|write\(/g)?.length, code);
  }
});

const withoutCurl = spawnSync('curl', ['--version']).status === 0 ? false : 'curl is not installed';

t.test(
  'the curl example of the README prints an answer when it is pasted',
  { skip: withoutCurl },
  async (t) => {
    const { url, model, upstream, customer, assistant } = await startWorld(t);
    await model('demo-chat', { upstream: upstream.parts.chat });
    const id = await assistant(customer.company, { model: 'demo-chat' });
    const [code = '', ...others] = examples('sh', url, customer.key);
    t.same(others, []);
    const { stdout } = await run('sh', ['-c', code.replace('<ASSISTANT_ID>', id)]);
    t.match(stdout, /{"text":".*You wrote: A long text/);
  },
);
