import { readSecretFile } from '../../runtime/regular-file.ts';
import type { SecretReference } from './wanted.ts';

const MAX_BYTES = 8192;

/** Reads a secret that the file refers to. @throws Error that says why there is none, without the secret */
export function readSecret(reference: SecretReference, env: NodeJS.ProcessEnv): string {
  if ('env' in reference) {
    const text = env[reference.env] ?? '';
    if (text === '') throw new Error(`needs the environment variable ${reference.env}, which is not set`);
    return text;
  }
  let text: string;
  try {
    text = readSecretFile(reference.file);
  } catch (error) {
    throw new Error(`needs the file ${reference.file}, which cannot be read: ${(error as Error).message}`);
  }
  if (text === '' || text.length > MAX_BYTES)
    throw new Error(`needs a secret of 1 to ${MAX_BYTES} bytes in ${reference.file}`);
  return text;
}
