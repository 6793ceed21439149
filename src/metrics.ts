import { readdirSync, readFileSync } from 'node:fs';

const MAX_STATUS = 600;
const SOURCES = ['upstream', 'estimated'];
const OUTCOMES = ['completed', 'client_aborted', 'upstream_failed'];

/** Labels of one series, in the order they are written. */
type Labels = Readonly<Record<string, string | number>>;

/** Writes one series of a metric; `suffix` names the part of a histogram, such as "_bucket". */
type WriteSeries = (labels: Labels, value: number, suffix?: string) => void;

/** Reads a metric at each scrape: returns the value of the only series, or writes series itself, or there are none. */
type Read = (write: WriteSeries) => number | undefined;

/** How the values of several processes become one. */
export type Join = 'sum' | 'max' | 'min';

interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly join: Join;
  readonly read: Read;
}

/** A metric as it was read: what a process tells another of it. */
export interface Family extends Omit<Metric, 'read'> {
  /** Suffix and labels in the text format, such as `_bucket{le="5"}`, and the value in it. */
  readonly series: readonly (readonly [labels: string, value: string])[];
}

/**
 * Prometheus metrics. Few labels, all of them bounded: never a key, a company or an internal model
 * name. A request only adds to plain numbers (45 ns in all); they become text when they are scraped.
 * prom-client took 2 MB, 10 ms of every start, and 1 % of an idle core for a timer.
 */
export class Metrics {
  /** The media type of the text format. */
  static readonly contentType = 'text/plain; version=0.0.4; charset=utf-8';
  readonly #metrics: Metric[] = [];
  /** Streams whose clients are connected. */
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
  #faults = 0;
  #upstreamFailed = 0;
  #overshoot = { month: '', by: 0n };

  constructor() {
    this.#process();
    this.counter('tollgate_requests_total', 'Answers sent; status 0 is none', (add) => {
      for (const [endpoint, counts] of this.#answers) {
        counts.forEach((count, status) => {
          if (count > 0) add({ endpoint, status }, count);
        });
      }
    });
    this.#histogram(
      'tollgate_request_seconds',
      'Time from request to the end of the answer',
      this.#seconds,
    );
    this.#histogram(
      'tollgate_added_seconds',
      'Time of a request the gateway itself took',
      this.#added,
    );
    const firstByte =
      'Time from request to the first byte of a streamed answer; others leave whole';
    this.#histogram('tollgate_first_byte_seconds', firstByte, this.#firstByte);
    this.gauge(
      'tollgate_open_streams',
      'Streamed answers whose clients are still there',
      () => this.openStreams,
    );
    const upstream =
      'Requests the upstream failed, streams too; not those it refused because of what the client sent';
    this.counter('tollgate_upstream_failures_total', upstream, () => this.#upstreamFailed);
    this.counter(
      'tollgate_dropped_connections_total',
      'Connections refused: MAX_CONNECTIONS',
      () => this.#dropped,
    );
    const faults = "Requests and connections that ended by a fault of the gateway's own code";
    this.counter('tollgate_faults_total', faults, () => this.#faults);
    this.counter('tollgate_tokens_total', 'Tokens booked', (add) => {
      add({ direction: 'prompt' }, this.#promptTokens);
      add({ direction: 'completion' }, this.#completionTokens);
    });
    this.counter('tollgate_cost_eur_total', 'Cost booked in EUR, rounded', () => this.#eur);
    this.counter('tollgate_usage_records_total', 'Usage records booked', (add) => {
      for (const [s, source] of SOURCES.entries()) {
        for (const [o, outcome] of OUTCOMES.entries())
          add({ source, outcome }, this.#records[s]?.[o] as number);
      }
    });
  }

  /** Counts an answer that was sent or whose client left. @param endpoint one of a fixed set */
  answered(endpoint: string, status: number): void {
    let counts = this.#answers.get(endpoint);
    if (counts === undefined) {
      counts = new Float64Array(MAX_STATUS);
      this.#answers.set(endpoint, counts);
    }
    counts[status] = (counts[status] as number) + 1;
  }

  /**
   * Records the time of a request, in milliseconds.
   * @param added by the gateway itself
   * @param firstByte until a streamed answer began; NaN for others
   */
  took(all: number, added: number, firstByte: number): void {
    this.#seconds.observe(all / 1000);
    this.#added.observe(added / 1000);
    if (firstByte >= 0) this.#firstByte.observe(firstByte / 1000);
  }

  /** Counts a request that the upstream failed. */
  upstreamFailed(): void {
    this.#upstreamFailed++;
  }

  /** Counts a fault of the gateway's own code. */
  threw(): void {
    this.#faults++;
  }

  /** Counts a connection refused because there are too many. */
  dropped(): void {
    this.#dropped++;
  }

  /** Counts a booked record. */
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

  /** Records that a company was found over its budget. @param by femto-EUR */
  overBudget(month: string, by: bigint): void {
    if (month > this.#overshoot.month) this.#overshoot = { month, by: 0n };
    if (month === this.#overshoot.month && by > this.#overshoot.by) this.#overshoot.by = by;
  }

  /** The most that a company was found over its budget in a month, in EUR. */
  overshoot(month: string): number {
    return month === this.#overshoot.month ? Number(this.#overshoot.by) / 1e15 : 0;
  }

  /** All metrics in the Prometheus text format. */
  text(): string {
    return this.families().map(familyText).join('\n');
  }

  /** All metrics as they are now. */
  families(): Family[] {
    return this.#metrics.map(readFamily);
  }

  /** @param join how the values of several processes become one */
  gauge(name: string, help: string, read: Read, join: Join = 'sum'): void {
    this.#add('gauge', name, help, read, join);
  }

  counter(name: string, help: string, read: Read): void {
    this.#add('counter', name, help, read);
  }

  #add(type: string, name: string, help: string, read: Read, join: Join = 'sum'): void {
    if (this.#metrics.some((metric) => metric.name === name))
      throw new Error(`there is a metric ${name} already`);
    this.#metrics.push({ name, help, type, join, read });
  }

  #histogram(name: string, help: string, buckets: Buckets): void {
    this.#add('histogram', name, help, (write) => {
      buckets.write(write);
    });
  }

  /** Metrics of the process, with the names that client libraries of Prometheus use. */
  #process(): void {
    const cpu = (name: string, help: string, micros: (usage: NodeJS.CpuUsage) => number): void =>
      this.counter(`process_cpu_${name}`, help, () => micros(process.cpuUsage()) / 1e6);
    cpu('user_seconds_total', 'Total user CPU time spent in seconds.', ({ user }) => user);
    cpu('system_seconds_total', 'Total system CPU time spent in seconds.', ({ system }) => system);
    cpu(
      'seconds_total',
      'Total user and system CPU time spent in seconds.',
      ({ user, system }) => user + system,
    );
    const began = Math.round(Date.now() / 1000 - process.uptime());
    const gauge = (name: string, help: string, read: () => number, join?: Join): void =>
      this.gauge(name, help, () => orNone(read), join);
    gauge(
      'process_start_time_seconds',
      'Start time of the process since unix epoch in seconds.',
      () => began,
      'min',
    );
    gauge('process_resident_memory_bytes', 'Resident memory size in bytes.', () =>
      process.memoryUsage.rss(),
    );
    gauge('process_open_fds', 'Number of open file descriptors.', openDescriptors);
    this.gauge(
      'process_max_fds',
      'Maximum number of open file descriptors.',
      openFilesLimit,
      'min',
    );
    const { memoryUsage } = process;
    gauge(
      'nodejs_heap_size_total_bytes',
      'Process heap size from Node.js in bytes.',
      () => memoryUsage().heapTotal,
    );
    gauge(
      'nodejs_heap_size_used_bytes',
      'Process heap size used from Node.js in bytes.',
      () => memoryUsage().heapUsed,
    );
    gauge(
      'nodejs_external_memory_bytes',
      'Node.js external memory size in bytes.',
      () => memoryUsage().external,
    );
    const version: Read = (write) => {
      const [major = '', minor = '', patch = ''] = process.versions.node.split('.');
      write({ version: process.version, major, minor, patch }, 1);
    };
    this.gauge('nodejs_version_info', 'Node.js version info.', version, 'max');
  }
}

function readFamily({ read, ...metric }: Metric): Family {
  const series: [string, string][] = [];
  const write: WriteSeries = (labels, value, suffix = '') => {
    const pairs = Object.entries(labels).map(
      ([label, of]) => `${label}="${escaped(`${of}`).replaceAll('"', '\\"')}"`,
    );
    series.push([
      `${suffix}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`}`,
      formatValue(value),
    ]);
  };
  const only = read(write);
  if (typeof only === 'number') write({}, only);
  return { ...metric, series };
}

/** A metric in the text format. */
export function familyText({ name, help, type, series }: Family): string {
  const lines = series.map(([labels, value]) => `${name}${labels} ${value}\n`);
  return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

/** A value in the text format. */
export function formatValue(value: number): string {
  return Number.isFinite(value) ? `${value}` : value > 0 ? '+Inf' : value < 0 ? '-Inf' : 'NaN';
}

/** undefined where there is no /proc. */
function orNone(read: () => number): number | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length - 1; // without the one that reads
}

/** How many files this process may have open, sockets among them; undefined where there is no /proc. */
export function openFilesLimit(): number | undefined {
  return orNone(() => {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit);
  });
}

/** A histogram as plain numbers. */
class Buckets {
  readonly #bounds: Float64Array;
  /** One more than there are bounds, for values beyond them. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds upper bounds, ascending */
  constructor(bounds: readonly number[]) {
    this.#bounds = Float64Array.from(bounds);
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let at = 0;
    while (value > (this.#bounds[at] as number)) at++; // ends behind the last bound: nothing is greater than undefined
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += value;
  }

  /** Cumulative, as Prometheus has them: each bucket includes the smaller ones. */
  write(write: WriteSeries): void {
    let count = 0;
    this.#counts.forEach((own, at) => {
      count += own;
      write({ le: this.#bounds[at] ?? '+Inf' }, count, '_bucket');
    });
    write({}, this.#sum, '_sum');
    write({}, count, '_count');
  }
}
