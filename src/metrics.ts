import { Counter, collectDefaultMetrics, Gauge, type Metric, Registry } from 'prom-client';

/**
 * Prometheus metrics. Few labels, all of them bounded: never a key, a company or an
 * internal model name. The hot path only adds to plain numbers; they become series when
 * somebody asks: 45 ns for all of a request, where prom-client's own histogram alone took 100.
 */
export class Metrics {
  readonly registry = new Registry();
  /** Streams whose clients are still there. */
  openStreams = 0;
  /** Answers by endpoint, then by status. */
  readonly #answers = new Map<string, Float64Array>();
  readonly #seconds = new Buckets([0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]);
  readonly #added = new Buckets([
    0.00005, 0.0001, 0.00015, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2,
  ]);
  readonly #firstByte = new Buckets([0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]);
  /** Usage records by source, then by outcome. */
  readonly #records = SOURCES.map(() => new Float64Array(OUTCOMES.length));
  #promptTokens = 0;
  #completionTokens = 0;
  #eur = 0;
  #dropped = 0;
  #overshoot = { month: '', by: 0n };

  constructor() {
    collectDefaultMetrics({ register: this.registry });
    this.counter('tollgate_requests_total', 'Answers sent; status 0 is none', ['endpoint', 'status'], (add) => {
      for (const [endpoint, counts] of this.#answers) {
        counts.forEach((count, status) => {
          if (count > 0) add({ endpoint, status }, count);
        });
      }
    });
    this.#histogram('tollgate_request_seconds', 'Time from request to the end of the answer', this.#seconds);
    this.#histogram('tollgate_added_seconds', 'Time of a request the gateway itself took', this.#added);
    const firstByte = 'Time from request to the first byte of a streamed answer; others leave whole';
    this.#histogram('tollgate_first_byte_seconds', firstByte, this.#firstByte);
    this.gauge('tollgate_open_streams', 'Streamed answers whose clients are still there', () => this.openStreams);
    this.counter('tollgate_dropped_connections_total', 'Connections refused: MAX_CONNECTIONS', [], (add) => {
      add({}, this.#dropped);
    });
    this.counter('tollgate_tokens_total', 'Tokens booked', ['direction'], (add) => {
      add({ direction: 'prompt' }, this.#promptTokens);
      add({ direction: 'completion' }, this.#completionTokens);
    });
    this.counter('tollgate_cost_eur_total', 'Cost booked in EUR, rounded', [], (add) => {
      add({}, this.#eur);
    });
    this.counter('tollgate_usage_records_total', 'Usage records booked', ['source', 'outcome'], (add) => {
      for (const [s, source] of SOURCES.entries()) {
        for (const [o, outcome] of OUTCOMES.entries()) add({ source, outcome }, this.#records[s]?.[o] as number);
      }
    });
    const help =
      'The most any company was found beyond its budget this month, in EUR; a budget lowered meanwhile shows too';
    this.gauge('tollgate_budget_overshoot_eur', help, () => Number(this.#overshoot.by) / 1e15);
  }

  /**
   * An answer has left, or its client has.
   * @param endpoint one of a fixed set
   */
  answered(endpoint: string, status: number): void {
    let counts = this.#answers.get(endpoint);
    if (counts === undefined) {
      counts = new Float64Array(MOST_STATUS);
      this.#answers.set(endpoint, counts);
    }
    counts[status] = (counts[status] as number) + 1;
  }

  /**
   * What it took, in milliseconds.
   * @param added by the gateway itself
   * @param firstByte until a streamed answer began; NaN for others
   */
  took(all: number, added: number, firstByte: number): void {
    this.#seconds.observe(all / 1000);
    this.#added.observe(added / 1000);
    if (firstByte >= 0) this.#firstByte.observe(firstByte / 1000);
  }

  /** A connection was refused because there are too many. */
  dropped(): void {
    this.#dropped++;
  }

  /** A record was booked. */
  booked(record: {
    readonly tokens: { readonly prompt: number; readonly completion: number };
    readonly cost: bigint;
    readonly source: string;
    readonly outcome: string;
  }): void {
    this.#promptTokens += record.tokens.prompt;
    this.#completionTokens += record.tokens.completion;
    this.#eur += Number(record.cost) / 1e15;
    const counts = this.#records[record.source === 'upstream' ? 0 : 1] as Float64Array;
    const { outcome } = record;
    const at = outcome === 'completed' ? 0 : outcome === 'client_aborted' ? 1 : 2;
    counts[at] = (counts[at] as number) + 1;
  }

  /**
   * A company was found beyond its budget.
   * @param by femto-EUR
   */
  overBudget(month: string, by: bigint): void {
    if (month > this.#overshoot.month) this.#overshoot = { month, by: 0n };
    if (month === this.#overshoot.month && by > this.#overshoot.by) this.#overshoot.by = by;
  }

  /** A figure read when somebody asks for it. */
  gauge(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.registry],
      collect() {
        this.set(read());
      },
    });
  }

  /** A counter whose series are read when somebody asks for them. */
  counter(
    name: string,
    help: string,
    labelNames: string[],
    read: (add: (labels: Record<string, string | number>, value: number) => void) => void,
  ): void {
    new Counter({
      name,
      help,
      labelNames,
      registers: [this.registry],
      collect() {
        this.reset();
        read((labels, value) => {
          this.inc(labels, value);
        });
      },
    });
  }

  #histogram(name: string, help: string, buckets: Buckets): void {
    const metric = { name, help, type: 'histogram', get: () => ({ ...metric, values: buckets.values(name) }) };
    this.registry.registerMetric(metric as unknown as Metric); // it only ever asks for these
  }
}

const MOST_STATUS = 600;
const SOURCES = ['upstream', 'estimated'];
const OUTCOMES = ['completed', 'client_aborted', 'upstream_failed'];

/** A histogram as plain numbers. */
class Buckets {
  readonly #bounds: Float64Array;
  /** One more than there are bounds, for what is beyond them. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds upper ones, ascending */
  constructor(bounds: readonly number[]) {
    this.#bounds = Float64Array.from(bounds);
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let at = 0;
    while (value > (this.#bounds[at] as number)) at++; // nothing is greater than undefined
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += value;
  }

  /** As Prometheus has them: each bucket holds the smaller ones too. */
  values(name: string): { metricName: string; labels: Record<string, string | number>; value: number }[] {
    let count = 0;
    const buckets = [...this.#counts].map((own, at) => {
      count += own;
      return { metricName: `${name}_bucket`, labels: { le: this.#bounds[at] ?? '+Inf' }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: {}, value: this.#sum },
      { metricName: `${name}_count`, labels: {}, value: count },
    ];
  }
}
