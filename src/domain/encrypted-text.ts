import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

/**
 * Texts encrypted with AES-256-GCM. HKDF-SHA-256 derives the key from a secret of at least 128 random bits.
 * The bytes are 12 of nonce, 16 of tag, and the ciphertext.
 */

const ALGORITHM = 'aes-256-gcm';
const NONCE = 12;
const TAG = 16;

/** @param context what the text belongs to: only with the same context can it be decrypted */
export function encryptText(text: string, secret: string, context: string): Buffer {
  const nonce = randomBytes(NONCE);
  const cipher = createCipheriv(ALGORITHM, keyOf(secret), nonce).setAAD(Buffer.from(context));
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

/** The text; null with another secret or context, or when the bytes were changed. */
export function decryptText(bytes: Buffer, secret: string, context: string): string | null {
  if (bytes.length < NONCE + TAG) return null;
  const decipher = createDecipheriv(ALGORITHM, keyOf(secret), bytes.subarray(0, NONCE), {
    authTagLength: TAG,
  });
  decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(NONCE, NONCE + TAG));
  try {
    return decipher.update(bytes.subarray(NONCE + TAG), undefined, 'utf8') + decipher.final('utf8');
  } catch {
    return null;
  }
}

function keyOf(secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', 'tollgate encrypted text', 32));
}
