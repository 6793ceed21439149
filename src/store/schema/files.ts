import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const SQL_DIRECTORY = fileURLToPath(new URL('../../../sql', import.meta.url));

/** What a database is brought to the present schema by: the baseline as a whole, or one file. */
export interface Migration {
  readonly name: string;
  readonly text: string;
  /** SHA-256 of the text in hex. */
  readonly hash: string;
  /** Number of the newest file that a program must know to run with this one; null: any program can. */
  readonly needs: string | null;
}

/** The files of sql/schema, in the order in which they are applied: together they are the baseline. */
const SUBJECTS = [
  ...[
    'settings',
    'companies',
    'users',
    'keys',
    'models',
    'ledger',
    'sums',
    'budgets',
    'seals',
    'feed',
    'statements',
    'limits',
  ],
  ...['events', 'requests', 'audit', 'erasure', 'gateways', 'tenant'],
];
/** The name under which a database keeps that it has the baseline; files of sql/migrations begin after it. */
export const BASELINE = '0100_baseline.sql';

/** The baseline and the files after it. @param directory with the folders "schema" and "migrations", of which one may be missing */
export function readMigrations(directory: string): Migration[] {
  const hasBaseline = sqlNames(directory, 'schema').length > 0;
  return [...(hasBaseline ? [baseline(directory)] : []), ...readFiles(directory, 'migrations')];
}

/** The schema as one file. A program that does not know it may not run with it. */
function baseline(directory: string): Migration {
  const text = SUBJECTS.map((name) => read(directory, 'schema', `${name}.sql`)).join('\n');
  return { name: BASELINE, text, hash: hashOf(text), needs: numberOf(BASELINE) };
}

function readFiles(directory: string, folder: string): Migration[] {
  return sqlNames(directory, folder)
    .sort()
    .map((name) => {
      const text = read(directory, folder, name);
      const head = /^(--.*\n)*/.exec(text)?.[0] ?? '';
      return {
        name,
        text,
        hash: hashOf(text),
        needs: /^-- needs (\d{4})\b/m.exec(head)?.[1] ?? null,
      };
    });
}

function sqlNames(directory: string, folder: string): string[] {
  const path = join(directory, folder);
  return existsSync(path) ? readdirSync(path).filter((name) => name.endsWith('.sql')) : [];
}

/** A checkout with other line ends has the same hash. */
function read(...path: readonly string[]): string {
  return readFileSync(join(...path), 'utf8').replaceAll('\r\n', '\n');
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

export const numberOf = (name: string): string => name.slice(0, 4);
