import type { Profiler } from 'node:inspector';
import t from 'tap';
import { GAP, PIECE_CAUSES, piecesOf, WHOLE } from '../../bench/programs/pieces.ts';

/** Functions by the id of their node: name, file, and the nodes that they call. */
const FUNCTIONS = {
  1: ['(root)', '', [2, 3, 4, 6]],
  2: ['(idle)', '', []],
  3: ['(garbage collector)', '', []],
  4: ['onStreamRead', 'node:internal/stream_base_commons', [5]],
  5: ['read', 'file:///app/dist/http/client-connection.js', [7]],
  6: ['listOnTimeout', 'node:internal/timers', []],
  7: ['writeSync', 'node:fs', []],
} as const;
const NODES = Object.entries(FUNCTIONS).map(([id, [functionName, url, children]]) => ({
  id: Number(id),
  callFrame: { functionName, url, scriptId: '0', lineNumber: 0, columnNumber: 0 },
  children: [...children],
}));

/** A profile with a sample every millisecond. */
const profile = (samples: number[]): Profiler.Profile => ({
  nodes: NODES,
  samples: [...samples, 2],
  timeDeltas: [0, ...samples.map(() => 1000)],
  startTime: 0,
  endTime: samples.length * 1000,
});

t.test('samples in a row with one cause are a piece', (t) => {
  const pieces = piecesOf(profile([5, 5, 3, 5, 2, 5]));
  t.same(pieces.requests, { total: 4, longest: 2, long: 1 });
  t.same(pieces['garbage collection'], { total: 1, longest: 1, long: 0 });
  t.same(pieces[WHOLE], { total: 5, longest: 4, long: 1 }, 'whatever is done between two rests');
  t.end();
});

t.test('a gap in the middle of work is no work, but in a collection', (t) => {
  const pieces = piecesOf({
    ...profile([5, 5, 5, 3, 2]),
    timeDeltas: [0, 1000, 7000, 1000, 9000, 50_000],
  });
  t.same(pieces.requests, { total: 2, longest: 2, long: 1 });
  t.same(pieces['garbage collection'], { total: 9, longest: 9, long: 1 });
  t.same(pieces[WHOLE], { total: 11, longest: 11, long: 1 });
  t.same(pieces[GAP], { total: 7, longest: 7, long: 1 }, 'not the one of a rest');
  t.end();
});

t.test('what Node does for a file counts as work of that file', (t) => {
  const pieces = piecesOf(profile([4, 7, 7, 7, 6]));
  t.equal(pieces.requests?.total, 3);
  t.equal(pieces['Node, and the rest']?.total, 2);
  t.end();
});

t.test('every cause is told, also of an empty profile', (t) => {
  t.same(Object.keys(piecesOf({ nodes: [], startTime: 0, endTime: 0 })), PIECE_CAUSES);
  t.end();
});
