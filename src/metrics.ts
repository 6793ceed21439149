import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/**
 * Prometheus metrics. Few labels, all of them bounded: never a key, a company or an
 * internal model name. The hot path only adds to plain numbers; they become series when
 * somebody asks, which is 2 µs a request cheaper than labelled counters.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly #seconds: Histogram;
  /** Answers by endpoint, then by status. */
  readonly #answers = new Map<string, number[]>();
  readonly #records = new Map<string, number>();
  #promptTokens = 0;
  #completionTokens = 0;
  #femto = 0n;
  #dropped = 0;
  #overshoot = { month: '', by: 0n };

  constructor() {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.#seconds = new Histogram({
      name: 'tollgate_request_seconds',
      help: 'Time from request to the end of the answer',
      buckets: [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
      registers,
    });
    this.#counter('tollgate_requests_total', 'Answers sent; status 0 is none', ['endpoint', 'status'], (add) => {
      for (const [endpoint, counts] of this.#answers) {
        counts.forEach((count, status) => {
          add({ endpoint, status }, count);
        });
      }
    });
    this.#counter('tollgate_dropped_connections_total', 'Connections refused: MAX_CONNECTIONS', [], (add) => {
      add({}, this.#dropped);
    });
    this.#counter('tollgate_tokens_total', 'Tokens booked', ['direction'], (add) => {
      add({ direction: 'prompt' }, this.#promptTokens);
      add({ direction: 'completion' }, this.#completionTokens);
    });
    this.#counter('tollgate_cost_eur_total', 'Cost booked in EUR, rounded', [], (add) => {
      add({}, Number(this.#femto) / 1e15);
    });
    this.#counter('tollgate_usage_records_total', 'Usage records booked', ['source', 'outcome'], (add) => {
      for (const [name, count] of this.#records) {
        const [source, outcome] = name.split(' ') as [string, string];
        add({ source, outcome }, count);
      }
    });
    const help =
      'The most any company was found beyond its budget this month, in EUR; a budget lowered meanwhile shows too';
    this.gauge('tollgate_budget_overshoot_eur', help, () => Number(this.#overshoot.by) / 1e15);
  }

  /** An answer has left, or its client has. */
  answered(endpoint: string, status: number, seconds: number): void {
    let counts = this.#answers.get(endpoint);
    if (counts === undefined) {
      counts = [];
      this.#answers.set(endpoint, counts);
    }
    counts[status] = (counts[status] ?? 0) + 1;
    this.#seconds.observe(seconds);
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
    this.#femto += record.cost;
    const name = `${record.source} ${record.outcome}`;
    this.#records.set(name, (this.#records.get(name) ?? 0) + 1);
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
  #counter(
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
}
