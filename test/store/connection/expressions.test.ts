import t from 'tap';
import { dayBegins } from '../../../src/store/connection/expressions.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);

t.test(
  'a day begins with its first moment, in every time zone and whatever its clocks do',
  async (t) => {
    const zones = Intl.supportedValuesOf('timeZone').filter((zone) => zone.includes('/'));
    // two midnights, none, and no hour before it
    for (const zone of ['Atlantic/Azores', 'America/Santiago', 'America/Scoresbysund'])
      t.ok(zones.includes(zone));
    const dateOf = (at: string) => `(${at} at time zone zone)::date`;
    const wrong = await db.run(
      60_000,
      (sql: Sql) => sql`
      select zone, day::text, begins::text
      from (
        select zone, day, ${sql.unsafe(dayBegins('day', 'zone'))} as begins
        from unnest(${zones}::text[]) as zone,
          (select generate_series('2026-01-01', '2027-12-31', interval '1 day')::date as day) as days) as d
      where ${sql.unsafe(dateOf('begins'))} <> day or ${sql.unsafe(dateOf("(begins - interval '1 second')"))} <> day - 1`,
    );
    t.same(wrong, []);
  },
);
