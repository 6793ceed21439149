import type { GatewayRow, UnreadUsage } from '../../domain/reports/overview.ts';
import type { Database, Sql } from '../connection/pool.ts';
import { EXPIRING } from './expired.ts';

const BEAT_MS = 2000;
const MARK_MS = 10_000;
const SUM_MS = 60_000;
const FORGET_MS = 20_000;
const REMOVE_MS = 1000;
const ID_LENGTH = 36;

/** What a gateway tells of itself (sql/schema/gateways.sql). */
export interface GatewayState {
  /** Usage records not yet in the database, and for how many milliseconds the oldest of them has waited. */
  readonly backlog: number;
  readonly lag: number;
  /** Usage records lost since the start. */
  readonly lost: number;
  readonly spoolFailing: boolean;
  /** Limits: it goes on without the other gateways. */
  readonly limitsAlone: boolean;
  readonly inFlight: number;
  readonly unreadUsage: readonly UnreadUsage[];
  /** Spool folders that it took over; emptied when it has told of them. They begin with the ids of gateways. */
  readonly adopted: Set<string>;
}

export type GatewayStore = ReturnType<typeof gatewayStore>;

/** @param id this start of this gateway @param name of its machine or pod */
export function gatewayStore(db: Database, id: string, name: string, version: string) {
  return {
    /**
     * Writes the gateway's row, and forgets gateways that it replaces or that are long gone.
     * @returns whether a mark is due, and the time of the database in milliseconds since the epoch
     */
    async beat({
      backlog,
      lag,
      lost,
      spoolFailing,
      limitsAlone,
      inFlight,
      unreadUsage,
      adopted,
    }: GatewayState) {
      const adoptedNow = [...adopted];
      const [row] = await db.run(
        BEAT_MS,
        (sql) => sql<[{ due: boolean; at: number }]>`
          select beat_gateway(${id}::uuid, ${name}, ${version}, ${backlog}::integer, ${lag / 1000}::float8,
            ${lost}::bigint, ${spoolFailing}::boolean, ${limitsAlone}::boolean, ${inFlight}::integer,
            ${adoptedNow.map((folder) => folder.slice(0, ID_LENGTH))}::text[],
            ${JSON.stringify(unreadUsage)}::text::jsonb) as due,
            extract(epoch from clock_timestamp())::float8 * 1000 as at`,
      );
      for (const folder of adoptedNow) adopted.delete(folder);
      return row;
    },
    /** Stores the usage up to now, for comparisons, and sums up the requests of all companies. */
    async mark() {
      await db.run(MARK_MS, (sql) => sql`select mark_usage()`);
      await db.run(SUM_MS, (sql) => sql`select sum_request_hours()`);
    },
    /** Deletes what pages and operations keep for a day or less. */
    async forget() {
      for (const prune of EXPIRING) await db.run(FORGET_MS, prune);
    },
    /** Removes the gateway's row. */
    async remove() {
      await db.run(REMOVE_MS, (sql) => sql`delete from gateways where id = ${id}`);
    },
  };
}

/** A gateway whose row was removed by hand, with the usage records that it had not booked then. */
export type ForgottenGateway = Pick<GatewayRow, 'id' | 'name' | 'last_seen_at' | 'backlog'>;

/** Removes the rows of gateways with a name that were not seen for a minute. The audit log keeps it. */
export async function deleteGateways(sql: Sql, name: string): Promise<ForgottenGateway[]> {
  const gone = await sql<ForgottenGateway[]>`
    delete from gateways where name = ${name} and last_seen_at < now() - interval '1 minute'
    returning id, name, utc_text(last_seen_at) as last_seen_at, backlog`;
  for (const { id, ...before } of gone) {
    await sql`insert into audit_log (actor, action, subject, subject_id, before)
      values (audit_actor(), 'delete', 'gateways', ${id}, ${JSON.stringify(before)}::text::jsonb)`;
  }
  return gone;
}

export async function hasGateway(sql: Sql, name: string): Promise<boolean> {
  return (await sql`select from gateways where name = ${name}`).length > 0;
}
