import type { Profiler } from 'node:inspector';

/** What a gateway works on, by the file nearest to each sample of a profile; the first that fits counts. */
const CAUSES: readonly (readonly [cause: string, file: RegExp])[] = [
  ['spool', /\/ledger\/(?:disk|spool|spool-line|backlog)\./],
  [
    'batches of the ledger',
    /\/(?:ledger\/(?:writer|record-block|spend|reservations)|store\/(?:ledger|large-parameter))\./,
  ],
  ['polls', /\/(?:ledger|store|events|limits)\//],
  ['trail', /\/trail\//],
  ['log', /\/(?:log|gateway\/request-log)\./],
  ['requests', /\/(?:gateway|http|upstream|json|sse|domain|metrics)\b|node_modules\/undici\//],
  ['answers of Postgres', /node_modules\/postgres\//],
];
const COLLECTION = 'garbage collection';
const OTHER = 'Node, and the rest';
/** All work between two rests of the event loop, whatever it is. */
export const WHOLE = 'all work between two rests';

/** Where ten samples or more are missing while there was work: the thread was in the kernel, or its core was given to something else. */
export const GAP = 'gaps in the profile, not in the rows above';
const GAP_MS = 1;

export const PIECE_CAUSES: readonly string[] = [
  ...CAUSES.map(([cause]) => cause),
  COLLECTION,
  OTHER,
  WHOLE,
  GAP,
];

/** Work without interruption on one thing. */
export interface Pieces {
  /** Milliseconds of all of them. */
  total: number;
  /** The longest, in milliseconds. */
  longest: number;
  /** How many took above a millisecond. */
  long: number;
}

/**
 * Cuts a profile into pieces: samples in a row with the same cause, and all those between two rests. A sample
 * interrupts any code of the process, so a gap is no work of it: it is told by itself, but for those of a collection.
 * A piece is as exact as the profile's interval.
 */
export function piecesOf({
  nodes,
  samples = [],
  timeDeltas = [],
}: Profiler.Profile): Record<string, Pieces> {
  const causes = causesOf(nodes);
  const pieces = Object.fromEntries(
    PIECE_CAUSES.map((cause) => [cause, { total: 0, longest: 0, long: 0 }]),
  );
  const end = (cause: string, ms: number): void => {
    const found = pieces[cause];
    if (found === undefined || ms === 0) return;
    found.total += ms;
    found.longest = Math.max(found.longest, ms);
    if (ms > 1) found.long++;
  };
  let current = '';
  let ms = 0;
  let whole = 0;
  for (const [i, id] of samples.entries()) {
    const cause = causes.get(id) ?? '';
    const passed = (timeDeltas[i + 1] ?? 0) / 1000; // until the next sample
    if (cause !== current) {
      end(current, ms);
      current = cause;
      ms = 0;
    }
    if (cause === '') {
      end(WHOLE, whole);
      whole = 0;
    } else if (passed > GAP_MS && cause !== COLLECTION) end(GAP, passed);
    else {
      ms += passed;
      whole += passed;
    }
  }
  end(current, ms);
  end(WHOLE, whole);
  return pieces;
}

/** The cause of each node by its id; '' where nothing is done. */
function causesOf(nodes: readonly Profiler.ProfileNode[]): Map<number, string> {
  const causes = new Map<number, string>();
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const visit = (node: Profiler.ProfileNode, above: string): void => {
    const { functionName, url } = node.callFrame;
    const own = CAUSES.find(([, file]) => file.test(url))?.[0];
    const cause =
      functionName === '(idle)'
        ? ''
        : functionName === '(garbage collector)'
          ? COLLECTION
          : (own ?? above);
    causes.set(node.id, cause);
    for (const child of node.children ?? []) visit(byId.get(child) as Profiler.ProfileNode, cause);
  };
  const [root] = nodes;
  if (root !== undefined) visit(root, OTHER);
  return causes;
}
