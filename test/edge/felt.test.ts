import pino from 'pino';
import t from 'tap';
import { API_ROUTES } from '../../src/gateway/router.ts';
import { CHANGE_KINDS } from '../../src/store/gateway/change-feed.ts';
import { CachedDirectory } from '../../src/store/gateway/directory.ts';
import { testDatabase } from '../support/postgres.ts';
import { ACTS, endsOf, startScene } from './felt.ts';
import { CARRIAGES, noticesIn } from './felt-office.ts';

/**
 * What one company can make others feel: in CPU of a gateway's event loop in one turn, as a multiple of a small request of
 * the same process, so that a busy machine changes little. The benchmark's section `felt` has the figures themselves.
 */

/** Small requests that fit into the longest turn: 20 ms are 150 to 250 of them on a quiet machine. */
const MOST = 400;
/** No busy machine makes a turn so much dearer. */
const HOPELESS = 10 * MOST;
/**
 * How many times as much CPU a request may take as it counts for its company. Answers count by their bytes, which take
 * longer where fresh memory does.
 */
const MOST_UNCOUNTED = 8;
const MOST_OF_ANSWER = 30;
/** How many times as long as its parts together something may take that is large in two ways. */
const MOST_TOGETHER = 2;
/** The first turns run code that is not compiled yet, and a busy machine makes any of them dearer: the least counts. */
const ATTEMPTS = 10;
/** Of the largest that things may be: bodies of 5 MiB, for the sake of the time that the test takes. */
const SCALE = 0.25;

const { url, db } = await testDatabase(t);

t.test(
  'every endpoint, every notice of the database, and every kind of page and operation has an entry',
  async (t) => {
    const [row] = await db.run(
      10_000,
      (sql) => sql<{ text: string }[]>`
    select pg_get_constraintdef(oid) as text from pg_constraint where conname = 'changes_kind_check'`,
    );
    const kinds = [...(row?.text ?? '').matchAll(/'(\w+)'/g)].map(([, kind]) => kind);
    t.same([...CHANGE_KINDS].sort(), kinds.sort(), 'the kinds that the database may tell');
    const notices = await db.run(10_000, (sql) => noticesIn(sql));
    const all = [...API_ROUTES, ...notices, ...CARRIAGES, 'metrics'];
    t.same([...new Set(ACTS.flatMap(endsOf))].sort(), all.sort());
  },
);

t.test(
  'nothing that a company does keeps the event loop longer than some hundred small requests, or counts for less than it is',
  async (t) => {
    const { smallRequest, feel } = await startScene(t, url, SCALE);
    const small = await smallRequest();
    t.comment(`a small request takes ${small.toFixed(3)} ms of CPU`);
    for (const act of ACTS) {
      const [of] = endsOf(act) as [string];
      const isRequest = API_ROUTES.includes(of);
      const mostUncounted = act.isAnswer ? MOST_OF_ANSWER : MOST_UNCOUNTED;
      let [turn, uncounted] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
      for (let n = 0; n < ATTEMPTS; n++) {
        const felt = await feel(act);
        turn = Math.min(turn, felt.turn / small);
        uncounted = isRequest ? Math.min(uncounted, felt.cpu / small / felt.work) : 0;
        if ((turn <= MOST && uncounted <= mostUncounted) || turn > HOPELESS) break;
      }
      const figures = `${(turn * small).toFixed(1)} ms, ${Math.round(turn)} small requests, and ${uncounted.toFixed(1)} times what counts`;
      t.ok(turn <= MOST && uncounted <= mostUncounted, `${of}, ${act.name}: ${figures}`);
    }
    for (const act of ACTS.filter(({ parts }) => parts !== undefined)) {
      const { of, name } = act;
      const parts = ACTS.filter((each) => each.of === of && act.parts?.includes(each.name));
      let [turn, together] = [Number.POSITIVE_INFINITY, 0];
      for (let n = 0; n < ATTEMPTS && turn > MOST_TOGETHER * together; n++) {
        together = 0; // measured again each time: a busy machine makes all of them dearer
        for (const part of parts) together += (await feel(part)).turn;
        turn = (await feel(act)).turn;
      }
      t.ok(
        turn <= MOST_TOGETHER * together,
        `${of}, ${name}: ${turn.toFixed(1)} ms, its parts ${together.toFixed(1)} ms`,
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
