import { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Makes a later version of the program: this one with more migrations. @returns its main file */
export function nextVersion(t: Test, files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-next-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (const part of ['src', 'sql', 'package.json'])
    cpSync(join(ROOT, part), join(folder, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, 'sql/migrations', name), text);
  return join(folder, 'src/main.ts');
}
