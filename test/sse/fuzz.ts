import fc from 'fast-check';
import type { Test } from 'tap';
import { fuzzRuns } from '../support/fuzz.ts';

/**
 * Checks a property from one seed, so that a change is judged by what it changes.
 * `FUZZ_RUNS` asks for more, from a seed of chance that is printed; `FUZZ_SEED` sets it, to
 * see a failure again.
 * @param runs with ALL; a quarter of them else
 */
export function fuzz<Ts extends [unknown, ...unknown[]]>(
  t: Test,
  property: fc.IProperty<Ts>,
  runs = 200,
): void {
  const { FUZZ_RUNS, FUZZ_SEED } = process.env;
  const seed = Number(FUZZ_SEED ?? (FUZZ_RUNS === undefined ? 1 : Date.now() & 0x7fffffff));
  const numRuns = fuzzRuns(runs);
  t.comment(`FUZZ_SEED=${seed} FUZZ_RUNS=${numRuns}`);
  const { failed, errorInstance, counterexample } = fc.check(property, { seed, numRuns });
  t.notOk(failed, 'holds', { counterexample: shown(counterexample), error: String(errorInstance) });
}

/** Where to cut a buffer; for `cutAt`. */
export const places = fc.array(fc.nat(), { maxLength: 12 });

/** The buffer in chunks, cut at the given places taken modulo its length. */
export function cutAt(buffer: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [...new Set(places.map((place) => place % (buffer.length + 1)))].sort(
    (a, b) => a - b,
  );
  const chunks: Buffer[] = [];
  let from = 0;
  for (const cut of [...cuts, buffer.length]) {
    chunks.push(buffer.subarray(from, cut));
    from = cut;
  }
  return chunks;
}

/** Between two cuts of one set: several events are whole in a chunk. */
const APART = 401;

/**
 * Sets of places for `cutAt` that together cut a stream once at every byte; with line ends that have a CR,
 * once at every byte beside one.
 */
export function everyCut(bytes: Buffer, lineEnd: string): number[][] {
  const sets: number[][] = Array.from({ length: APART }, () => []);
  for (let cut = 1; cut < bytes.length; cut++) {
    if (lineEnd === '\n' || bytes.subarray(cut - 1, cut + 2).includes('\r'))
      sets[cut % APART]?.push(cut);
  }
  return sets.filter(({ length }) => length > 0);
}

const SOME = 40;

/**
 * Sets of `everyCut`: all with ALL, else as many as SOME says, chosen by a seed that is printed and that `FUZZ_SEED` sets.
 * @returns a function of the bytes of a stream and their line end
 */
export function someCuts(t: Test): typeof everyCut {
  const { ALL, FUZZ_SEED } = process.env;
  const seed = Number(FUZZ_SEED ?? Date.now() & 0x7fffffff);
  if (ALL === undefined) t.comment(`FUZZ_SEED=${seed}`);
  return (...stream) => {
    const sets = everyCut(...stream);
    if (ALL !== undefined || sets.length <= SOME) return sets;
    const chosen = fc.shuffledSubarray(sets, { minLength: SOME, maxLength: SOME });
    return fc.sample(chosen, { seed, numRuns: 1 })[0] as number[][];
  };
}

/** Buffers as latin1 text: a stream is easier to read than its byte values. */
function shown(values: readonly unknown[] | null): string {
  return JSON.stringify(values, (_, value) =>
    value?.type === 'Buffer' ? Buffer.from(value).toString('latin1') : value,
  );
}
