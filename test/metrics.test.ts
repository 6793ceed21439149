import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import t from 'tap';
import { Metrics } from '../src/metrics.ts';

t.test('plain buckets are told as prom-client would tell them', async (t) => {
  const metrics = new Metrics();
  const registry = new Registry();
  const help = 'Time from request to the end of the answer';
  const buckets = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
  const theirs = new Histogram({
    name: 'tollgate_request_seconds',
    help,
    buckets,
    registers: [registry],
  });
  for (const ms of [0, 4, 5, 5.5, 25, 99, 100, 100.5, 2500, 299_999, 300_000, 300_001, 9e9]) {
    metrics.took(ms, 0, Number.NaN);
    theirs.observe(ms / 1000);
  }
  const ours = metrics
    .text()
    .split('\n\n')
    .find((family) => family.startsWith('# HELP tollgate_request_seconds '));
  t.equal(ours, await registry.getSingleMetricAsString('tollgate_request_seconds'));
});

t.test('what is not streamed has no first byte of its own', async (t) => {
  const metrics = new Metrics();
  metrics.took(1000, 2, Number.NaN);
  metrics.took(1000, 0.1, 200);
  const text = metrics.text();
  t.match(text, /^tollgate_first_byte_seconds_count 1$/m);
  t.match(text, /^tollgate_first_byte_seconds_sum 0\.2$/m);
  t.match(text, /^tollgate_added_seconds_count 2$/m);
  t.match(text, /^tollgate_added_seconds_bucket\{le="0\.0001"\} 1$/m);
});

t.test('counters are told by their labels, and again without counting twice', async (t) => {
  const metrics = new Metrics();
  metrics.answered('chat.completions', 200);
  metrics.answered('chat.completions', 200);
  metrics.answered('shed', 503);
  metrics.answered('models', 0);
  const tokens = { prompt: 3, completion: 4 };
  metrics.booked({
    tokens,
    cost: 2_500_000_000_000_000n,
    source: 'upstream',
    outcome: 'completed',
  });
  metrics.booked({ tokens, cost: 0n, source: 'estimated', outcome: 'client_aborted' });
  metrics.booked({
    tokens,
    cost: 250_000_000_000_000n,
    source: 'estimated',
    outcome: 'client_aborted',
  });
  metrics.text();
  const text = metrics.text();
  const told = text
    .split('\n')
    .filter((line) => /^tollgate_(requests|usage|tokens|cost)/.test(line));
  t.same(told, [
    'tollgate_requests_total{endpoint="chat.completions",status="200"} 2',
    'tollgate_requests_total{endpoint="shed",status="503"} 1',
    'tollgate_requests_total{endpoint="models",status="0"} 1',
    'tollgate_tokens_total{direction="prompt"} 9',
    'tollgate_tokens_total{direction="completion"} 12',
    'tollgate_cost_eur_total 2.75',
    'tollgate_usage_records_total{source="upstream",outcome="completed"} 1',
    'tollgate_usage_records_total{source="upstream",outcome="client_aborted"} 0',
    'tollgate_usage_records_total{source="upstream",outcome="upstream_failed"} 0',
    'tollgate_usage_records_total{source="estimated",outcome="completed"} 0',
    'tollgate_usage_records_total{source="estimated",outcome="client_aborted"} 2',
    'tollgate_usage_records_total{source="estimated",outcome="upstream_failed"} 0',
  ]);
});

t.test('a month has its own overshoot of budgets, the most of any company', async (t) => {
  const metrics = new Metrics();
  metrics.overBudget('2026-11-01', 2_500_000_000_000_000n);
  metrics.overBudget('2026-11-01', 250_000_000_000_000n);
  t.equal(metrics.overshoot('2026-11-01'), 2.5);
  t.equal(metrics.overshoot('2026-12-01'), 0, 'before any company is over it');
  metrics.overBudget('2026-12-01', 250_000_000_000_000n);
  metrics.overBudget('2026-11-01', 9_000_000_000_000_000n); // a call admitted in the last second of the month
  t.equal(metrics.overshoot('2026-12-01'), 0.25);
});

t.test(
  'the process is told under the usual names',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const text = new Metrics().text();
    const told = new Map(text.split('\n').map((line) => line.split(' ') as [string, string]));
    t.ok(Number(told.get('process_cpu_seconds_total')) > 0);
    t.ok(Number(told.get('process_resident_memory_bytes')) > 20e6);
    t.ok(
      Math.abs(
        Number(told.get('process_start_time_seconds')) - (Date.now() / 1000 - process.uptime()),
      ) < 2,
    );
    t.ok(Number(told.get('process_open_fds')) > 2);
    t.ok(Number(told.get('process_max_fds')) >= Number(told.get('process_open_fds')));
    t.ok(
      Number(told.get('nodejs_heap_size_used_bytes')) <=
        Number(told.get('nodejs_heap_size_total_bytes')),
    );
    t.match(text, `nodejs_version_info{version="${process.version}"`);
  },
);

t.test('families are told to the letter as prom-client tells them', async (t) => {
  const ours = new Metrics();
  const theirs = new Registry();
  const help = 'With a \\ and\na second line and "quotes"';
  const registers = [theirs];

  const odd = { plain: 'a b', odd: 'quote " slash \\ line\n end', number: 7 };
  new Counter({ name: 'a_total', help, labelNames: Object.keys(odd), registers }).inc(odd, 2.5);
  ours.counter('a_total', help, (add) => {
    add(odd, 2.5);
  });

  new Gauge({ name: 'b', help: 'b', registers }).set(Number.POSITIVE_INFINITY);
  ours.gauge('b', 'b', () => Number.POSITIVE_INFINITY);
  new Gauge({ name: 'c', help: 'c', registers }).set(-1e-9);
  ours.gauge('c', 'c', () => -1e-9);
  new Counter({ name: 'none_total', help: 'none', labelNames: ['x'], registers });
  ours.counter('none_total', 'none', () => {});

  const text = ours.text(); // once: the figures of the process before these change their length
  t.equal(text.slice(text.indexOf('# HELP a_total ')), await theirs.metrics());
  t.equal(Metrics.contentType, theirs.contentType);
});

t.test('families are read anew each time, and a name is taken once', async (t) => {
  const metrics = new Metrics();
  let value = 1;
  metrics.gauge('now', 'Now', () => value);
  t.match(metrics.text(), /^now 1$/m);
  value = Number.NaN;
  t.match(metrics.text(), /^now NaN$/m);
  t.throws(() => metrics.counter('now', 'Again', () => {}));
});
