import { readFileSync } from 'node:fs';
import t from 'tap';
import { unsupportedRuntime } from '../../src/runtime/supported.ts';

t.test('Node 22.19 and newer is supported', async (t) => {
  t.equal(unsupportedRuntime(process.versions), null);
  for (const node of ['22.19.0', '23.0.0', '24.1.0', '26.10.0', '100.0.0'])
    t.equal(unsupportedRuntime({ node }), null, node);
});

t.test('an old Node is refused in one line that says how to get a newer one', async (t) => {
  for (const node of ['4.9.1', '12.22.12', '21.7.3', '22.18.0', 'unknown']) {
    const reason = unsupportedRuntime({ node });
    t.match(reason, /^needs Node 22\.19 or newer, this is \S+; .*nodejs\.org.*"make run"/, node);
  }
});

t.test('Bun and Deno are refused, although they report a version of Node', async (t) => {
  t.match(
    unsupportedRuntime({ node: '24.3.0', bun: '1.3.0' }),
    /^needs Node, this is Bun: .*HTTP server.*$/,
  );
  t.match(
    unsupportedRuntime({ node: '24.3.0', deno: '2.5.0' }),
    /^needs Node, this is Deno: .*HTTP server.*$/,
  );
});

t.test(
  'what the check is in can be read by an old Node: no static import, no new syntax',
  async (t) => {
    for (const [name, imports] of [
      ['main.ts', ['./runtime/supported.ts']],
      ['runtime/supported.ts', []],
    ] as const) {
      const text = readFileSync(new URL(`../../src/${name}`, import.meta.url), 'utf8');
      t.same(
        [...text.matchAll(/^import .*'(.*)'/gm)].map(([, path]) => path),
        imports,
      );
      t.notMatch(text, /^(?:const .*=\s*)?await /m, 'no await at the top level');
      t.notMatch(
        text,
        /\?\?=|\|\|=|&&=|\bstatic \{|\d_\d|\.at\(|\.replaceAll\(/,
        'nothing after ES2020',
      );
    }
  },
);
