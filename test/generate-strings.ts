import { readFileSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import wabt from 'wabt';

const SOURCE = new URL('../src/json/strings.wat', import.meta.url);
/** The file that `make generate` writes; a test compares it with a new run. */
export const GENERATED = new URL('../src/json/strings.generated.ts', import.meta.url);

/** Assembles strings.wat and writes the module as base64 text, so that a build needs no assembler. */
export async function generateStrings(): Promise<string> {
  const { parseWat } = await wabt();
  const { buffer } = parseWat('strings.wat', readFileSync(SOURCE, 'latin1')).toBinary({});
  const base64 = Buffer.from(buffer).toString('base64');
  return `// generated from strings.wat by \`make generate\`; not to be edited\nexport const MODULE =\n  '${base64}';\n`;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  writeFileSync(GENERATED, await generateStrings());
}
