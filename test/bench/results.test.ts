import t from 'tap';
import { describeRatios, describeSections, exceeded, writeReport } from '../../bench/report.ts';
import {
  compared,
  type Results,
  record,
  type SectionResults,
  spreadOf,
} from '../../bench/results.ts';
import { SECTIONS } from '../../bench/sections/list.ts';

/** Two rounds in which everything was twice as slow the second time. */
function measured(): SectionResults {
  const series = {};
  for (const factor of [1, 2]) {
    record(series, 'autocannon', 'proxy', { cpu: 40 * factor, rate: 1, p50: 1, p99: 1 });
    record(series, 'autocannon', 'gateway', { cpu: 38 * factor, rate: 1, p50: 1, p99: 1 });
    record(series, 'autocannon', 'plain', { cpu: 57 * factor, rate: 1, p50: 1, p99: 1 });
    record(series, 'autocannon', 'base', { cpu: 40 * factor, rate: 1, p50: 1, p99: 1 });
  }
  return {
    taken: '2026-01-01',
    rounds: 2,
    seconds: 1,
    notes: [],
    machine: 'a machine',
    versions: 'Node',
    series,
  };
}

function results(): Results {
  return { sections: { requests: measured() } };
}

t.test('median of odd and even counts, none of nothing', async (t) => {
  t.same(spreadOf([3, 1, 2]), { median: 2, low: 1, high: 3 });
  t.same(spreadOf([4, 1, 2, 3]), { median: 2.5, low: 1, high: 4 });
  t.equal(spreadOf([]), null);
});

t.test('compares within rounds: what slows a whole round changes no quotient', async (t) => {
  const quotient = compared(measured(), ['autocannon', 'gateway'], ['autocannon', 'proxy']);
  t.same(quotient, { median: 0.95, low: 0.95, high: 0.95 });
});

t.test('the report says what was measured against its target, and what was not', async (t) => {
  const [first, second] = SECTIONS.requests?.goals?.(measured()) ?? [];
  t.same(first?.slice(1), ['≤ 1.05', '≤ 0.95', '0.95 (0.95–0.95)', 'goal']);
  t.same(second?.slice(3), ['–', 'not measured']);
  const text = writeReport(results())['RESULTS.md'];
  t.match(text, /\n1 of \d+ were\.\n/, 'a target that was reached is counted');
  t.match(text, '| CPU per request ÷ nginx | ≤ 2.5 | – | none for it alone |');
  t.notMatch(text, '| CPU per request ÷ do-nothing Node proxy |');
  const { bodies, requests } = SECTIONS;
  t.match(
    describeSections({ requests }, results(), Number.POSITIVE_INFINITY).at(-1),
    '| CPU per request ÷ do-nothing Node proxy | ≤ 1.05 | ≤ 0.95 | 0.95 (0.95–0.95) | goal |',
    'all are printed with all tables of a section',
  );
  t.same(describeSections({ bodies }, results()), ['## Request bodies', 'Not measured yet.']);
});

t.test('the report has a row per program, and shows what the fast path saves', async (t) => {
  const text = writeReport(results())['RESULTS.md'];
  t.match(
    text,
    '| load by autocannon | CPU µs per request | ÷ do-nothing proxy | requests/s | p50 ms | p99 ms |',
  );
  t.match(text, '| do-nothing Node proxy | 60.0 (40.0–80.0) | 1 | 1.00 | 1.00 | 1.00 |');
  t.match(
    text,
    '| Tollgate, `FAST_HTTP=off` | 85.5 (57.0–114) | 1.43 (1.43–1.43) | 1.00 | 1.00 | 1.00 |',
  );
  t.match(text, '| requests, autocannon | 57.0 (38.0–76.0) | 85.5 (57.0–114) | 1.50 (1.50–1.50) |');
  t.match(
    writeReport({ ...results(), sections: {} })['RESULTS.md'],
    '## What the fast path saves\n\nNot measured yet.',
  );
});

t.test('two checkouts are compared by ratio, new ÷ old', async (t) => {
  t.match(describeRatios(results()), /requests, autocannon: CPU +0\.950 +0\.950 +0\.950\n/);
});

t.test('the gate tells what is above its bound, of CPU and of what is counted', async (t) => {
  const [series] = Object.keys(results().sections.requests?.series ?? {}) as [string];
  const counted = (gateway: Record<string, number[]>): Results => {
    const all = results();
    const base = { cpu: [100, 100, 100], allocated: [100, 100, 100] };
    all.sections = { requests: { ...measured(), series: { [series]: { gateway, base } } } };
    return all;
  };
  t.same(exceeded(counted({ cpu: [102, 100, 130], allocated: [105, 105, 105] }), 'before'), []);
  t.match(exceeded(counted({ cpu: [111, 112, 101], allocated: [105, 106, 106] }), 'before'), [
    /CPU: 1\.110 .* 1\.02 /,
    /allocated.*: 1\.060 .* 1\.05 /,
  ]);
  t.match(
    exceeded(counted({ cpu: [126, 127, 128], allocated: [106, 106, 106] }), 'accepted'),
    [/CPU: 1\.270 .* 1\.25 /],
    'of the accepted commit: CPU alone, by what was reached',
  );
  t.same(
    exceeded(counted({ cpu: [133, 81, 146] }), 'before'),
    [],
    'a round in which it costs no more: the machine is loud',
  );
  const all = results();
  const copies = (copied: number[]) => ({ copied, collections: [0, 0, 0] });
  const bodies = {
    'request of 1 MiB': { gateway: copies([104, 104, 104]), base: copies([100, 100, 100]) },
  };
  all.sections = { counts: { ...measured(), series: bodies } };
  t.match(
    exceeded(all, 'before'),
    [/1 MiB: bytes written into own buffers.*: 1\.040 .* 1\.03 /],
    'of bodies too',
  );
  t.equal(exceeded(all, 'before').length, 1, 'where neither collects garbage, neither costs more');
  t.equal(
    exceeded(counted({ cpu: [Number.NaN, Number.NaN, Number.NaN] }), 'before').length,
    1,
    'what was not measured passes no gate',
  );
});
