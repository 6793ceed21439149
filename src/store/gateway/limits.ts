import type { LeasedUnits, LimitStore } from '../../domain/ports.ts';
import type { Database } from '../connection/pool.ts';

const LEASE_MS = 2000; // requests wait for it: later the gateway decides alone
const TRIM_MS = 2000;

/** Limits over all gateways (sql/schema/limits.sql). */
export function limitStore(db: Database): LimitStore {
  return {
    async lease(gateway, leaseSeconds, asked) {
      const [row] = await db.run(
        LEASE_MS,
        (sql) => sql<[{ gateways: number; leased: readonly LeasedUnits[] }]>`
          select owners as gateways, leased from lease_limits(${gateway}::uuid, ${leaseSeconds}::integer, ${JSON.stringify(asked)}::text::json)`,
      );
      return row;
    },
    async trim() {
      await db.run(TRIM_MS, (sql) => sql`select trim_limits()`);
    },
  };
}
