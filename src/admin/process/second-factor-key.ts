import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { type Logger, reasonOf } from '../../log.ts';

const FILE = 'second-factor.key';

/**
 * The keys of SECOND_FACTOR_KEY. For the embedded database, which one machine alone uses, a key is made in DATA_DIR at
 * first: it is in no dump of the database. Empty: there are no second factors.
 */
export function secondFactorKeys(
  {
    secondFactorKeys: keys,
    databaseUrl,
    dataDir,
  }: Pick<Config, 'secondFactorKeys' | 'databaseUrl' | 'dataDir'>,
  log: Pick<Logger, 'warn'>,
): readonly string[] {
  if (keys !== null) return keys;
  if (databaseUrl !== null) return [];
  const path = join(dataDir, FILE);
  try {
    return [readFileSync(path, 'utf8').trim()];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return none(error, log);
  }
  try {
    const key = randomBytes(32).toString('base64');
    writeFileSync(path, `${key}\n`, { mode: 0o600, flag: 'wx' });
    return [key];
  } catch (error) {
    return none(error, log);
  }
}

function none(error: unknown, log: Pick<Logger, 'warn'>): readonly string[] {
  log.warn(
    { reason: reasonOf(error) },
    `admin: ${FILE} in DATA_DIR cannot be used: there are no second factors`,
  );
  return [];
}
