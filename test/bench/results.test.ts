import t from 'tap';
import { drawComparison } from '../../bench/picture.ts';
import { targets, writeReport } from '../../bench/report.ts';
import { compared, Recorder, type Results, spreadOf } from '../../bench/results.ts';

/** Two rounds in which everything was twice as slow the second time. */
function results(): Results {
  const record = new Recorder();
  for (const factor of [1, 2]) {
    record.add('autocannon', 'proxy', { cpu: 40 * factor, rate: 1, p50: 1, p99: 1 });
    record.add('autocannon', 'gateway', { cpu: 38 * factor, rate: 1, p50: 1, p99: 1 });
  }
  const section = { taken: '2026-01-01', rounds: 2, seconds: 1, notes: [], series: record.series };
  return { machine: 'a <machine>', versions: 'Node', sections: { requests: section } };
}

t.test('median of odd and even counts, none of nothing', async (t) => {
  t.same(spreadOf([3, 1, 2]), { median: 2, low: 1, high: 3 });
  t.same(spreadOf([4, 1, 2, 3]), { median: 2.5, low: 1, high: 4 });
  t.equal(spreadOf([]), null);
});

t.test('compares within rounds: what slowed all of a round slows no quotient', async (t) => {
  const { requests } = results().sections;
  const quotient = compared(requests, ['autocannon', 'gateway'], ['autocannon', 'proxy'], 'cpu');
  t.same(quotient, { median: 0.95, low: 0.95, high: 0.95 });
});

t.test('the report tells what was measured against its target, and what was not', async (t) => {
  const [first, second] = targets(results());
  t.match(first, { least: 1.05, goal: 0.95, measured: { median: 0.95 } });
  t.equal(second?.measured, null);
  const text = writeReport(results());
  t.match(text, '| CPU per request ÷ do-nothing Node proxy | ≤ 1.05 | ≤ 0.95 | 0.95 (0.95–0.95) | goal |');
  t.match(text, '| CPU per request ÷ nginx | ≤ 2.5 | ≤ 2.2 | – | not measured |');
  t.match(text, '## Request bodies\n\nNot measured yet.');
});

t.test('the picture is well-formed and labelled', async (t) => {
  const svg = drawComparison(results());
  t.match(svg, 'µs per request');
  t.match(svg, '>Tollgate</text>');
  t.match(svg, 'a &#60;machine&#62;');
  t.equal(svg.match(/<rect /g)?.length, 2);
});
