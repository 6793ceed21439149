import type { Family } from '../metrics.ts';

/** The settings of a worker at its start. It reads the environment itself. */
export interface WorkerStart {
  /** The worker's place, from 1: in its log, in metrics, and in its name. */
  readonly worker: number;
  /** The embedded database; null: DATABASE_URL. */
  readonly databaseUrl: string | null;
  /** The demo upstream; null: UPSTREAM_URL. */
  readonly upstreamUrl: string | null;
  /** The worker's parts of MAX_CONNECTIONS, MAX_REQUESTS and MAX_MEMORY_MB. */
  readonly maxConnections: number;
  readonly maxRequests: number;
  readonly maxMemoryBytes: number;
  /** 48 bytes in base64, the same for all workers: each resumes the TLS sessions of the others. */
  readonly ticketKeys: string;
}

/** Messages of the supervisor to a worker. `connection` comes with an accepted connection. */
export type ToWorker =
  | { readonly start: WorkerStart }
  | 'connection'
  | 'adopt'
  | { readonly ask: WorkerQuery; readonly id: number }
  | { readonly leave: number };

/** `alive` is answered with no metrics. */
export type WorkerQuery = 'metrics' | 'alive';

/** Messages of a worker to the supervisor. */
export type FromWorker =
  | 'ready'
  | { readonly failed: StartFailure }
  /** Connections it was given since its start, and those that are open. */
  | { readonly taken: number; readonly open: number }
  | { readonly answer: number; readonly families: readonly Family[] }
  | { readonly left: Leave };

/** Why a worker could not start. */
interface StartFailure {
  /** Mistakes in the configuration; empty: the reason is another. */
  readonly mistakes: readonly string[];
  readonly message: string;
}

/** The last words of a worker. */
export interface Leave {
  /** Connections cut because their requests did not end in time. */
  readonly cut: number;
  /** Records that could not be written. */
  readonly lost: number;
  readonly families: readonly Family[];
}
