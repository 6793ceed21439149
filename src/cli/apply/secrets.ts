import { FieldError } from '../../domain/field.ts';
import { readSecretFile } from '../../runtime/regular-file.ts';
import type { SecretReference } from './schema.ts';

const MAX_BYTES = 8192;
const KEY_TEXT = /^[\x21-\x7e]{24,200}$/;

/** Reads a secret that the file refers to. @throws Error that says why there is none, without the secret */
export function readSecret(reference: SecretReference, env: NodeJS.ProcessEnv): string {
  if ('env' in reference) {
    const text = env[reference.env] ?? '';
    if (text === '')
      throw new Error(`needs the environment variable ${reference.env}, which is not set`);
    return text;
  }
  let text: string;
  try {
    text = readSecretFile(reference.file);
  } catch (error) {
    throw new Error(
      `needs the file ${reference.file}, which cannot be read: ${(error as Error).message}`,
    );
  }
  if (text === '' || text.length > MAX_BYTES)
    throw new Error(`needs a secret of 1 to ${MAX_BYTES} bytes in ${reference.file}`);
  return text;
}

/** The text of a key. @throws FieldError */
export function readKeyText(text: string): string {
  if (!KEY_TEXT.test(text)) throw new FieldError('must be 24 to 200 printable characters');
  return text;
}
