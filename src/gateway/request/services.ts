import type { Calendar } from '../../domain/month.ts';
import type { Calls, Clock, Directory, Ledger, Limiter } from '../../domain/ports.ts';
import type { CostCenters } from '../../domain/request/cost-center.ts';
import type { SteeringFilter } from '../../domain/request/steering.ts';
import type { Estimator } from '../../domain/tokens/estimate.ts';
import type { Logger } from '../../log.ts';
import type { Metrics } from '../../metrics.ts';
import type { BodyMemory } from '../../runtime/body-memory.ts';
import type { Upstream } from '../../upstream/upstream.ts';
import type { Deadlines } from './deadlines.ts';
import type { HeldMemory } from './held-memory.ts';
import type { Keepalive } from './keepalive.ts';
import type { RequestLog } from './log.ts';
import type { Names } from './model-names.ts';
import type { Overload } from './overload.ts';
import type { Tracer } from './trace.ts';
import type { UsageNotes } from './usage-notes.ts';

/** What the API's listener accepts from clients. Times in milliseconds. */
export interface ListenerLimits {
  readonly headerMs: number;
  /** The whole request, its head included. */
  readonly bodyMs: number;
  readonly maxHeaders: number;
  readonly maxHeaderBytes: number;
  readonly maxConnections: number;
  /** How long an idle connection is kept. */
  readonly clientIdleMs: number;
}

/** The settings of one gateway that requests are answered by. */
interface ApiSettings extends ListenerLimits {
  /** Path prefix of the API, such as "/v1". */
  readonly basePath: string;
  readonly ownedBy: string;
  /** Number of reverse proxies in front whose X-Forwarded-For is believed. */
  readonly apiProxies: number;
  readonly maxBodyBytes: number;
  readonly maxEventBytes: number;
  readonly maxAnswerBytes: number;
  /** How long an answer is read on after its client left, in milliseconds. */
  readonly readOnMs: { readonly streamed: number; readonly whole: number };
  /** The member of `metadata` that names the cost centre of a call; null: none does. */
  readonly costCenterMember: string | null;
  /** The header that does where the body names none, in lowercase; null: none does. */
  readonly costCenterHeader: string | null;
  /** The headers that name the person behind a key, in lowercase, in their order. */
  readonly endUserHeaders: readonly string[];
  /** Whether answers tell what is left of budgets. */
  readonly quotaHeaders: boolean;
  /** The currency in which the upstream tells its own cost, such as "USD". */
  readonly upstreamCurrency: string;
}

/** The parts of one gateway; put together in engine.ts and never changed. */
export interface Services {
  readonly directory: Directory;
  readonly ledger: Ledger;
  readonly limiter: Limiter;
  readonly calls: Calls;
  readonly upstream: Upstream;
  readonly calendar: Calendar;
  readonly clock: Clock;
  readonly estimator: Estimator;
  readonly costCenters: CostCenters;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly requestLog: RequestLog;
  /** null: tracing is off. */
  readonly tracer: Tracer | null;
  readonly settings: ApiSettings;
  readonly bodyMemory: BodyMemory;
  readonly deadlines: Deadlines;
  /** null: silent streams are left silent. */
  readonly keepalive: Keepalive | null;
  readonly overload: Overload;
  readonly heldMemory: HeldMemory;
  readonly names: Names;
  readonly usageNotes: UsageNotes;
  /** Which request members could choose another model, host or key. */
  readonly steering: SteeringFilter;
}
