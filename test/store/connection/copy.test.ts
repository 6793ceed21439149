import t from 'tap';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { holds, testDatabase } from '../../support/postgres.ts';

const MS = 60_000;
const { url, db } = await testDatabase(t);

// some sizes make the driver pause its socket although it has the end of the rows
t.test('a copy of any size, read late, leaves the connection as good as new', async (t) => {
  const one = openDatabase({ url, maxConnections: 1 });
  t.teardown(() => one.close());
  for (let rows = 0; rows <= 16; rows++) {
    let bytes = 0;
    await one.run(MS, async (sql) => {
      for await (const piece of sql.copyOut(
        `copy (select repeat('x', 19999) from generate_series(1, ${rows})) to stdout`,
      )) {
        // meanwhile the rest has come
        if (bytes === 0) for (let n = 0; n < 10; n++) await db.run(MS, (other) => other`select 1`);
        bytes += piece.length;
      }
    });
    t.equal(bytes, rows * 20_000);
    const [row] = await one.run(MS, (sql) => sql`select ${rows}::integer as rows`);
    t.equal(row?.rows, rows);
  }
});

t.test(
  'a copy that is left early ends with the error of who left, and takes its connection along',
  async (t) => {
    const one = openDatabase({ url, maxConnections: 1 });
    t.teardown(() => one.close());
    const left = one.transaction(MS, async (sql) => {
      for await (const _ of sql.copyOut('copy (select generate_series(1, 1000000)) to stdout'))
        throw new Error('the disk is full');
    });
    await t.rejects(left, { message: 'the disk is full' });
    const [row] = await one.run(MS, (sql) => sql`select 1 as one`);
    t.equal(row?.one, 1);
  },
);

t.test(
  'a statement that fails while it is copied, early or late, is an error of whoever reads it',
  async (t) => {
    const one = openDatabase({ url, maxConnections: 1 });
    t.teardown(() => one.close());
    for (const rows of [1, 3, 100, 1500, 2000, 2500, 3000, 3500]) {
      const read = one.run(MS, async (sql) => {
        const text = `copy (select 1 / (${rows} - i), repeat('x', 30) from generate_series(1, ${rows}) i) to stdout`;
        let pieces = 0;
        for await (const _ of sql.copyOut(text)) {
          // meanwhile the rest has come, as in the first test
          if (pieces++ === 0)
            for (let n = 0; n < 10; n++) await db.run(MS, (other) => other`select 1`);
        }
      });
      await t.rejects(read, { message: /division by zero/ }, `after ${rows - 1} rows`);
      t.ok(await holds(one, 'true'), 'the connection goes on');
    }
  },
);
