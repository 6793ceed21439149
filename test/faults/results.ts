import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

const PARTS = new URL('../../.tap/faults/', import.meta.url);
const TABLE = new URL('RESULTS.md', import.meta.url);

/**
 * Notes what an experiment measured. A run with FAULTS writes the table of all of them, to be
 * copied into the README's reliability section. What stands below it under headings of its own stays.
 * @param order of the row in the table
 */
export function note(order: number, promise: string, experiment: string, measured: string): void {
  if (process.env.FAULTS === undefined) return;
  mkdirSync(PARTS, { recursive: true });
  writeFileSync(
    new URL(`${order.toFixed(1).padStart(5, '0')}.md`, PARTS),
    `| ${promise} | ${experiment} | ${measured} |\n`,
  );
  const rows = readdirSync(PARTS)
    .sort()
    .map((name) => readFileSync(new URL(name, PARTS), 'utf8'));
  const [, below = ''] = existsSync(TABLE) ? (/(\n## .*)$/s.exec(readFileSync(TABLE, 'utf8')) ?? []) : [];
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'CPU'}, Node ${process.versions.node}`;
  writeFileSync(
    TABLE,
    `# Fault experiments\n\nWritten by \`FAULTS=long node test/run.ts --jobs=1 test/faults/*.test.ts test/fleet/*.test.ts test/ledger/*.test.ts\` and \`FAULTS=soak node test/run.ts test/faults/soak.test.ts\` on ${machine}. Truth is the upstream's own journal and the clients' journals.\n\n| promise | experiment | measured |\n|---|---|---|\n${rows.join('')}${below}`,
  );
}
