import t from 'tap';
import { Metrics } from '../../src/metrics.ts';
import { JoinedMetrics } from '../../src/workers/joined-metrics.ts';

/** Metrics of one process, as they come over a channel of JSON. */
function read(requests: number, { lag = 0, available = 1 } = {}) {
  const metrics = new Metrics();
  for (let n = 0; n < requests; n++) {
    metrics.answered('chat', 200);
    metrics.took(20, 1, Number.NaN);
  }
  metrics.gauge('tollgate_lag', 'Lag', () => lag, 'max');
  metrics.gauge('tollgate_available', 'Available', () => available, 'min');
  return JSON.parse(JSON.stringify(metrics.families()));
}

const requests = (text: string): string[] =>
  text.match(/^tollgate_(?:worker_)?requests_total.*$/gm) ?? [];

t.test(
  'each metric has the value of all workers, and that of each under another name',
  async (t) => {
    const [one, two] = [read(3, { lag: 5 }), read(4, { available: 0 })];
    const text = new JoinedMetrics().text(
      [one, two],
      new Map([
        [1, one],
        [2, two],
      ]),
    );
    t.same(requests(text), [
      'tollgate_requests_total{endpoint="chat",status="200"} 7',
      'tollgate_worker_requests_total{worker="1",endpoint="chat",status="200"} 3',
      'tollgate_worker_requests_total{worker="2",endpoint="chat",status="200"} 4',
    ]);
    t.match(text, /^tollgate_lag 5$/m, 'the highest of figures that cannot be added');
    t.match(text, /^tollgate_available 0$/m, 'and the lowest');
    t.match(text, /^tollgate_worker_lag\{worker="2"\} 0$/m);
    t.match(text, /^tollgate_request_seconds_bucket\{le="0.025"\} 7$/m);
    t.match(text, /^tollgate_request_seconds_count 7$/m);
    t.match(text, /^tollgate_worker_request_seconds_bucket\{worker="1",le="\+Inf"\} 3$/m);
    t.equal(
      text.match(/^# TYPE tollgate_requests_total counter$/gm)?.length,
      1,
      'each name is declared once',
    );
  },
);

t.test('sums do not fall when a worker ends', async (t) => {
  const joined = new JoinedMetrics();
  joined.ended(read(3, { lag: 9 }));
  joined.ended(read(10));
  const two = read(1);
  const text = joined.text([two], new Map([[1, two]]));
  t.same(requests(text), [
    'tollgate_requests_total{endpoint="chat",status="200"} 14',
    'tollgate_worker_requests_total{worker="1",endpoint="chat",status="200"} 1',
  ]);
  t.match(text, /^tollgate_lag 0$/m, 'what it was at its end is no longer');
});
