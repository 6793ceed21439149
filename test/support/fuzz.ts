const { FUZZ_RUNS, ALL } = process.env;

/**
 * How many random inputs a test tries: FUZZ_RUNS, or else a quarter of what it tries with ALL.
 * @param all with ALL
 */
export function fuzzRuns(all: number): number {
  return Number(FUZZ_RUNS ?? (ALL === undefined ? Math.ceil(all / 4) : all));
}
