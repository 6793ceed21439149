import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Ajv, type Options } from 'ajv';
import standaloneModule from 'ajv/dist/standalone/index.js';
import { CONFIGURATION } from '../src/cli/apply/schema.ts';
import * as requests from '../src/domain/request/schemas.ts';
import { OPERATIONS } from '../src/operations/list.ts';

interface Named {
  readonly $id: string;
}

/** The files that `make generate` writes, by their paths below src. A test compares them. */
export const GENERATED: Readonly<Record<string, () => string>> = {
  'domain/request/validators.generated.ts': () => compile(Object.values(requests), 'schemas.ts'),
  'admin/api/validators.generated.ts': () =>
    compile(OPERATIONS.flatMap(namedSchemas), 'the operations', { allErrors: true }),
  'cli/apply/validators.generated.ts': () =>
    compile(
      [{ ...CONFIGURATION, $schema: undefined, $id: 'configuration' } as Named],
      'schema.ts',
      {
        allErrors: true,
      },
    ),
  'cli/apply/configuration.schema.json': () => `${JSON.stringify(CONFIGURATION, null, 2)}\n`,
};

export function generatedFile(path: string): URL {
  return new URL(`../src/${path}`, import.meta.url);
}

/** Body and query of an operation, under the names by which check.ts finds them. */
function namedSchemas({ id, body, query }: (typeof OPERATIONS)[number]): Named[] {
  return Object.entries({ [`${id}Body`]: body, [`${id}Query`]: query })
    .filter(([, schema]) => schema !== undefined)
    .map(([$id, schema]) => ({ ...schema, $id }));
}

/** Compiles schemas ahead of time, so that no process needs ajv. */
function compile(schemas: readonly Named[], source: string, options: Options = {}): string {
  const code = { source: true, esm: true };
  const ajv = new Ajv({
    ...options,
    schemas: [...schemas],
    code,
    allowUnionTypes: true,
    strictRequired: false,
    validateFormats: false,
  });
  const standalone = standaloneModule.default;
  const text = standalone(ajv, Object.fromEntries(schemas.map(({ $id }) => [$id, $id])));
  if (text.includes('require('))
    throw new Error('a keyword needs a runtime import: hoist it or drop the keyword');
  return `// @ts-nocheck generated from ${source} by \`make generate\`; not to be edited\n${text.replace('"use strict";', '')}\n`;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const [path, generate] of Object.entries(GENERATED))
    writeFileSync(generatedFile(path), generate());
}
