import fc from 'fast-check';

/** Any character of Unicode. fast-check's own `binary` first makes a map of all of them, which takes a second of CPU. */
export const character = fc.nat(0x10f7ff).map(characterOf, (text) => {
  const code = String(text).codePointAt(0) ?? 0;
  const n = code < 0xd800 ? code : code - 0x800;
  return characterOf(n) === text ? n : -1; // so that texts such as `__proto__` are tried too
});

function characterOf(n: number): string {
  return String.fromCodePoint(n < 0xd800 ? n : n + 0x800);
}
