import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Ajv } from 'ajv';
import standaloneModule from 'ajv/dist/standalone/index.js';
import * as requests from '../src/domain/schemas.ts';

/** The file `make generate` writes and the test of the validators compares with. */
export const GENERATED = new URL('../src/domain/validators.generated.ts', import.meta.url);

/** Compiles the request schemas ahead of time, so that the gateway starts without ajv. */
export function generateValidators(): string {
  const schemas = Object.values(requests);
  const ajv = new Ajv({ schemas, code: { source: true, esm: true }, allowUnionTypes: true, strictRequired: false });
  const standalone = standaloneModule.default;
  const code = standalone(ajv, Object.fromEntries(schemas.map(({ $id }) => [$id, $id])));
  if (code.includes('require(')) throw new Error('a keyword needs a runtime import: hoist it or drop the keyword');
  return `// @ts-nocheck generated from schemas.ts by \`make generate\`; not to be edited\n${code.replace('"use strict";', '')}\n`;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  writeFileSync(GENERATED, generateValidators());
}
