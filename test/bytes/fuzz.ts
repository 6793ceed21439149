import fc from 'fast-check';
import type { Test } from 'tap';

/**
 * Checks a property `FUZZ_RUNS` times (200 unless told), from a seed that is printed; set
 * `FUZZ_SEED` to it to see a failure again.
 */
export function fuzz<Ts extends [unknown, ...unknown[]]>(t: Test, property: fc.IProperty<Ts>): void {
  const seed = Number(process.env.FUZZ_SEED ?? Date.now() & 0x7fffffff);
  const numRuns = Number(process.env.FUZZ_RUNS ?? 200);
  t.comment(`FUZZ_SEED=${seed} FUZZ_RUNS=${numRuns}`);
  const { failed, errorInstance, counterexample } = fc.check(property, { seed, numRuns });
  t.notOk(failed, 'holds', { counterexample: shown(counterexample), error: String(errorInstance) });
}

/** Where to cut a buffer; for `cutAt`. */
export const places = fc.array(fc.nat(), { maxLength: 12 });

/** The buffer in chunks, cut at the given places taken modulo its length. */
export function cutAt(buffer: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [...new Set(places.map((place) => place % (buffer.length + 1)))].sort((a, b) => a - b);
  const chunks: Buffer[] = [];
  let from = 0;
  for (const cut of [...cuts, buffer.length]) {
    chunks.push(buffer.subarray(from, cut));
    from = cut;
  }
  return chunks;
}

/** Buffers as latin1 text: a stream is easier to read than its byte values. */
function shown(values: readonly unknown[] | null): string {
  return JSON.stringify(values, (_, value) => (value?.type === 'Buffer' ? Buffer.from(value).latin1Slice() : value));
}
