import t from 'tap';
import { fillPages } from '../../bench/run/pages-data.ts';
import { pathsOf } from '../../bench/sections/pages.ts';
import type { Database } from '../../src/store/connection/pool.ts';
import { signedIn, startOwnOffice } from '../admin/people.ts';

t.test('every page that is measured is there, over the data that are made for it', async (t) => {
  const office = await startOwnOffice(t, {}, async (sql) => {
    const session = await sql.reserve(); // settings of the session hold while it fills
    const db = {
      run: (_ms: number, work: (sql: unknown) => unknown) => work(session),
    } as unknown as Database;
    await fillPages(db, { companies: 20, keys: 10, ledgerRows: 4000 }, () => {});
    const [hours, days] = await sql`
      select sum(requests) as requests, sum(refused) as refused, sum(failed) as failed from request_hours
      union all select sum(requests), sum(refused), sum(failed) from request_days`;
    t.strictSame(hours, days, 'requests by day are those by hour');
    t.ok(Object.values(hours ?? {}).every((sum) => Number(sum) > 0));
    await session`reset all`;
    session.release();
  });
  const operator = await signedIn(office, 'operator');
  for (const [name, path] of Object.entries(pathsOf(new Date().toISOString().slice(0, 10)))) {
    t.equal((await operator.get(path)).status, 200, `${name}: ${path}`);
  }
});
