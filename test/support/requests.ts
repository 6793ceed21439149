import type { TrailStore } from '../../src/domain/ports.ts';
import { newRequestId } from '../../src/runtime/request-id.ts';

/** One request of the trail; missing members get a default. */
export interface SomeRequest {
  /** When it came, milliseconds since the epoch. */
  readonly at?: number;
  readonly id?: string;
  readonly company?: string;
  readonly key?: string;
  readonly status?: number;
  readonly ms?: number;
  readonly addedUs?: number;
  readonly endpoint?: string;
  readonly model?: string;
  readonly asked?: string;
  readonly code?: string;
  readonly param?: string;
  readonly outcome?: string;
  readonly prompt?: number;
  readonly completion?: number;
  readonly eur?: string;
  readonly upstreamStatus?: number;
  readonly reason?: string;
}

/** Adds requests to the trail as gateways do. @returns their ids */
export async function addRequests(store: TrailStore, rows: readonly SomeRequest[]): Promise<string[]> {
  const all = rows.map((row) => {
    const at = row.at ?? Date.now();
    return { ...row, at, id: row.id ?? newRequestId(at) };
  });
  const days = all.map(({ at }) => new Date(at).toISOString().slice(0, 10)).sort();
  await store.keep(365, days[0] as string, days.at(-1) as string);
  const json = all.map((row) => ({
    i: row.id,
    t: new Date(row.at).toISOString(),
    c: row.company,
    k: row.key,
    s: row.status ?? 200,
    u: row.upstreamStatus,
    d: row.ms ?? 100,
    a: row.addedUs ?? 100,
    e: row.endpoint ?? 'chat.completions',
    m: row.model,
    q: row.asked,
    x: row.code,
    p: row.param,
    o: row.outcome,
    n: row.prompt,
    g: row.completion,
    v: row.eur,
    r: row.reason,
  }));
  await store.insert(Buffer.from(JSON.stringify(json)));
  return all.map(({ id }) => id);
}
