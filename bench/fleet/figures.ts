/** What is measured of a fleet, as it stands in fleet.json. */
export interface Figures {
  machine: string;
  taken: string;
  /** One replica against four on one Postgres, all behind HAProxy; medians over rounds. */
  replicas: Replicas | null;
  /** Ledger rows into one Postgres; `writers` gateways at once, each with `batch` records a statement. */
  rows: Rows[];
  walBytesPerRow: number;
  diskBytesPerRow: number;
  /** What following costs Postgres and a replica: CPU microseconds per poll, by how many figures changed. */
  polls: { idleMicrosPerSecond: number; spend: Poll[] } | null;
  connections: { perReplica: number; bytesEach: number } | null;
}

export interface Replicas {
  /** Requests per second that each replica was given. */
  ratePerReplica: number;
  /** CPU microseconds per request of the gateways: one replica, four replicas. */
  one: number;
  four: number;
  /** Quotient of four and one within each round, sorted. */
  quotients: number[];
  /** One replica with the load of four, and with all that it can take. */
  oneAtFour: number;
  flatOut: number;
  /** CPU microseconds per request of Postgres and HAProxy, four replicas. */
  postgres: number;
  haproxy: number;
  /** Milliseconds. */
  p50: number;
  p99: number;
  idleBytes: number;
}

export interface Rows {
  writers: number;
  batch: number;
  companies: number;
  /** Rows per second. */
  rate: number;
  batchMs: number;
  /** CPU microseconds per row. */
  postgresMicros: number;
}

export interface Poll {
  changed: number;
  micros: number;
  clientMicros: number;
}
