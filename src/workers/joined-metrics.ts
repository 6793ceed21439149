import { type Family, familyText, formatValue, type Join } from '../metrics.ts';

const JOINS: Readonly<Record<Join, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  max: Math.max,
  min: Math.min,
};

/**
 * The metrics of all workers in one text. A metric keeps its name and has the value of all together; each worker's own
 * is beside it as `tollgate_worker_…` with the label `worker`. The names differ so that `sum()` counts nothing twice.
 */
export class JoinedMetrics {
  /** Counters of workers that have ended: without them the sums would fall, which reads as a restart. */
  #ended: Family[] = [];

  /** Keeps what a worker had counted when it ended. */
  ended(families: readonly Family[]): void {
    this.#ended = join([this.#ended, families.filter(({ type }) => type !== 'gauge')]);
  }

  /**
   * @param all of the supervisor and of every worker, those that are leaving included
   * @param workers by the number of the worker
   */
  text(
    all: readonly (readonly Family[])[],
    workers: ReadonlyMap<number, readonly Family[]>,
  ): string {
    const own = [...workers].map(([worker, families]) =>
      families.map((family) => labelled(family, worker)),
    );
    return [...join([...all, this.#ended]), ...join(own)].map(familyText).join('\n');
  }
}

/** One family of each name, with the series of all. */
function join(groups: readonly (readonly Family[])[]): Family[] {
  const joined = new Map<string, { family: Family; series: Map<string, number> }>();
  for (const family of groups.flat()) {
    let known = joined.get(family.name);
    if (known === undefined) {
      known = { family, series: new Map() };
      joined.set(family.name, known);
    }
    const { series } = known;
    for (const [labels, text] of family.series) {
      const value = readValue(text);
      const before = series.get(labels);
      series.set(labels, before === undefined ? value : JOINS[family.join](before, value));
    }
  }
  return [...joined.values()].map(({ family, series }) => ({
    ...family,
    series: [...series].map(([labels, value]) => [labels, formatValue(value)] as const),
  }));
}

function labelled(family: Family, worker: number): Family {
  const label = `worker="${worker}"`;
  const series = family.series.map(([labels, value]) => {
    const at = labels.indexOf('{');
    const with_ =
      at < 0 ? `${labels}{${label}}` : `${labels.slice(0, at)}{${label},${labels.slice(at + 1)}`;
    return [with_, value] as const;
  });
  const name = `tollgate_worker_${family.name.replace(/^tollgate_/, '')}`;
  return { ...family, name, help: `Of each worker: ${family.help}`, series };
}

function readValue(text: string): number {
  if (text === '+Inf') return Number.POSITIVE_INFINITY;
  return text === '-Inf' ? Number.NEGATIVE_INFINITY : Number(text);
}
