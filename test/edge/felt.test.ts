import pino from 'pino';
import t from 'tap';
import { API_ROUTES } from '../../src/gateway/router.ts';
import { CHANGE_KINDS } from '../../src/store/gateway/change-feed.ts';
import { CachedDirectory } from '../../src/store/gateway/directory.ts';
import { testDatabase } from '../support/postgres.ts';
import { ACTS, startScene } from './felt.ts';

/**
 * What one company can make others feel: in CPU of a gateway's event loop in one turn, as a multiple of a small request of
 * the same process, so that a busy machine changes little. The benchmark's section `felt` has the figures themselves.
 */

/**
 * Small requests that fit into the longest turn: 20 ms are 150 to 250 of them on a quiet machine. Those are reached by an
 * answer of 4 MiB where a machine takes 5 ms for each MiB of fresh memory.
 */
const MOST = 400;
/** The first turns run code that is not compiled yet, and a busy machine makes any of them dearer: the least counts. */
const ATTEMPTS = 10;
/** Of the largest that things may be: bodies of 5 MiB, for the sake of the time that the test takes. */
const SCALE = 0.25;

const { url, db } = await testDatabase(t);

t.test('every endpoint and every kind of change has an entry', async (t) => {
  const [row] = await db.run(
    10_000,
    (sql) => sql<{ text: string }[]>`
    select pg_get_constraintdef(oid) as text from pg_constraint where conname = 'changes_kind_check'`,
  );
  const kinds = [...(row?.text ?? '').matchAll(/'(\w+)'/g)].map(([, kind]) => kind);
  t.same([...CHANGE_KINDS].sort(), kinds.sort(), 'the kinds that the database may tell');
  const all = [...API_ROUTES, ...CHANGE_KINDS.map((kind) => `change ${kind}`), 'pages'];
  t.same([...new Set(ACTS.map(({ of }) => of))].sort(), all.sort());
});

t.test(
  'nothing that a company does keeps the event loop longer than some hundred small requests',
  async (t) => {
    const { smallRequest, longestTurn } = await startScene(t, url, SCALE);
    const small = await smallRequest();
    t.comment(`a small request takes ${small.toFixed(3)} ms of CPU`);
    for (const act of ACTS) {
      let turn = Number.POSITIVE_INFINITY;
      for (let n = 0; n < ATTEMPTS && turn > MOST * small; n++)
        turn = Math.min(turn, await longestTurn(act));
      t.ok(
        turn <= MOST * small,
        `${act.of}, ${act.name}: ${turn.toFixed(1)} ms, ${Math.round(turn / small)} small requests`,
      );
    }
  },
);

t.test('people whom one company names take the memory of no other', async (t) => {
  const directory = new CachedDirectory(db, pino({ level: 'silent' }), { maxEndUsers: 50 });
  const [few, many] = (await db.run(
    10_000,
    (sql) =>
      sql<{ id: string }[]>`insert into companies (name) values ('few'), ('many') returning id`,
  )) as unknown as [{ id: string }, { id: string }];
  const known = await directory.endUser(few.id, 'ann');
  await Promise.all(
    Array.from({ length: 200 }, (_, n) => directory.endUser(many.id, `person ${n}`)),
  );
  t.equal(directory.endUser(few.id, 'ann'), known);
});
