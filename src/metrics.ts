import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/**
 * Prometheus metrics. Few labels, all of them bounded: never a key, a company or an
 * internal model name. Children are bound once, so an observation costs no label lookup.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly #requests: Counter;
  readonly #seconds: Histogram;
  readonly #tokens: Counter;
  readonly #eur: Counter;
  readonly #records: Counter;
  readonly #requestsBy = new Map<string, Counter.Internal>();

  constructor() {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.#requests = new Counter({
      name: 'tollgate_requests_total',
      help: 'Answers sent, by endpoint and status',
      labelNames: ['endpoint', 'status'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'tollgate_request_seconds',
      help: 'Time from request to the end of the answer',
      buckets: [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
      registers,
    });
    this.#tokens = new Counter({
      name: 'tollgate_tokens_total',
      help: 'Tokens booked',
      labelNames: ['direction'],
      registers,
    });
    this.#eur = new Counter({ name: 'tollgate_cost_eur_total', help: 'Cost booked in EUR, rounded', registers });
    this.#records = new Counter({
      name: 'tollgate_usage_records_total',
      help: 'Usage records, by where the figures come from and how the call ended',
      labelNames: ['source', 'outcome'],
      registers,
    });
  }

  /** An answer has left, whatever it was. */
  answered(endpoint: string, status: number, seconds: number): void {
    const name = `${endpoint} ${status}`;
    let child = this.#requestsBy.get(name);
    if (child === undefined) {
      child = this.#requests.labels(endpoint, `${status}`);
      this.#requestsBy.set(name, child);
    }
    child.inc();
    this.#seconds.observe(seconds);
  }

  /** A record was booked. */
  booked(record: {
    readonly tokens: { readonly prompt: number; readonly completion: number };
    readonly cost: bigint;
    readonly source: string;
    readonly outcome: string;
  }): void {
    this.#tokens.labels('prompt').inc(record.tokens.prompt);
    this.#tokens.labels('completion').inc(record.tokens.completion);
    this.#eur.inc(Number(record.cost) / 1e15);
    this.#records.labels(record.source, record.outcome).inc();
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
}
