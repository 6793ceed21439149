import { createHmac } from 'node:crypto';

/**
 * Codes as apps make them (RFC 6238 with HMAC-SHA-1, RFC 4226), without the library that checks them. The vectors of
 * RFC 6238 are in test/operations/second-factor.test.ts.
 * @param at milliseconds since 1970
 */
export function totp(secret: Buffer, at: number, digits = 6): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)));
  const hash = createHmac('sha1', secret).update(counter).digest();
  const offset = (hash[19] as number) & 15;
  const number = hash.readUInt32BE(offset) & 0x7fffffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

/** The bytes of a key as pages show it: base32, in groups. */
export function base32Bytes(text: string): Buffer {
  let bits = '';
  for (const letter of text.replaceAll(/[\s=]/g, '').toLowerCase()) {
    const value = 'abcdefghijklmnopqrstuvwxyz234567'.indexOf(letter);
    if (value < 0) throw new Error(`no base32: ${text}`);
    bits += value.toString(2).padStart(5, '0');
  }
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
