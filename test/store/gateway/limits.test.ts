import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { AskedUnits } from '../../../src/domain/ports.ts';
import { limitStore } from '../../../src/store/gateway/limits.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const store = limitStore(db);
const LEASE_SECONDS = 10;

/** Asks for units of one limit. */
async function lease(
  asked: Partial<AskedUnits> & Pick<AskedUnits, 'subject'>,
  gateway: string = randomUUID(),
) {
  const all = {
    kind: 'requests' as const,
    limit: 10,
    want: 0,
    owed: 0,
    back: [],
    held: 0,
    ...asked,
  };
  const { leased } = await store.lease(gateway, LEASE_SECONDS, [all]);
  const [{ granted, units, others }] = leased as [(typeof leased)[number]];
  return { granted, used: units.reduce((sum, each) => sum + each, 0), units, others };
}

/** Sets the clock of the server forward, or back. */
const setClock = (subject: string, seconds: number) =>
  db.run(
    5000,
    (sql) =>
      sql`update limit_windows set second = second - ${seconds}::integer where subject = ${subject}`,
  );

t.test('units are granted up to the limit, and count for 62 seconds', async (t) => {
  const subject = randomUUID();
  t.match(await lease({ subject, want: 7 }), { granted: 7, used: 7 });
  await setClock(subject, 30);
  t.match(await lease({ subject, want: 7 }), { granted: 3, used: 10 });
  t.match(await lease({ subject, want: 1 }), { granted: 0, used: 10 });
  await setClock(subject, 32);
  t.match(
    await lease({ subject, want: 9 }),
    { granted: 7, used: 10 },
    'the first seven count no longer',
  );
  await setClock(subject, 3600);
  t.match(await lease({ subject }), { used: 0 });
});

t.test(
  'a clock that is set back gives nothing away, and holds nothing longer than a minute',
  async (t) => {
    const subject = randomUUID();
    await lease({ subject, want: 10 });
    await setClock(subject, -3600);
    t.match(await lease({ subject, want: 5 }), { granted: 0, used: 10 });
    await setClock(subject, 62);
    t.match(await lease({ subject, want: 5 }), { granted: 5, used: 5 });
  },
);

t.test(
  'units come back to the second they were leased in, and no more than were leased',
  async (t) => {
    const subject = randomUUID();
    await lease({ subject, want: 4 });
    await setClock(subject, 20);
    await lease({ subject, want: 6 });
    const { units, used } = await lease({ subject, back: [[20, 3]] });
    t.equal(used, 7);
    t.equal(Math.max(...units.slice(-5)), 6, 'of the older ones');
    t.match(await lease({ subject, back: [[0, 1000]] }), { used: 0 });
    await lease({ subject, want: 5 });
    t.match(
      await lease({ subject, back: [[1, 5]] }),
      { used: 0 },
      'of a gateway whose second began just before',
    );
  },
);

t.test('what was used without a lease counts beyond the limit, from then on', async (t) => {
  const subject = randomUUID();
  t.match(await lease({ subject, owed: 25, want: 1 }), { granted: 0, used: 25 });
  const { used, units } = await lease({ subject, back: [[20, -30]] });
  t.equal(used, 55);
  t.equal(units.at(-20), 30);
});

t.test('a lower limit grants nothing until less is used', async (t) => {
  const subject = randomUUID();
  await lease({ subject, want: 8 });
  t.match(await lease({ subject, limit: 5, want: 1 }), { granted: 0, used: 8 });
  t.match(await lease({ subject, limit: 9, want: 5 }), { granted: 1, used: 9 });
});

t.test('slots are shared by gateways, and end with the lease', async (t) => {
  const subject = randomUUID();
  const [one, other] = [randomUUID(), randomUUID()];
  const slots = (gateway: string, held: number, want: number) =>
    lease({ subject, kind: 'calls', held, want }, gateway);
  t.match(await slots(one, 0, 6), { granted: 6, others: 0 });
  t.match(await slots(other, 0, 6), { granted: 4, others: 6 });
  t.match(await slots(one, 2, 0), { granted: 2, others: 4 }, 'returned');
  t.match(await slots(other, 4, 9), { granted: 8, others: 2 });
  t.match(await slots(one, 2, 5), { granted: 2, others: 8 }, 'none is taken from a call in flight');
  await db.run(
    5000,
    (sql) => sql`update limit_slots set expires_at = now() where owner = ${other}`,
  );
  t.match(await slots(one, 2, 20), { granted: 10, others: 0 });
  t.match(await slots(one, 0, 0), { granted: 0 });
});

t.test('gateways that lease in another order do not block each other', async (t) => {
  const subjects = Array.from({ length: 40 }, () => randomUUID());
  const ask = (order: readonly string[]) =>
    store.lease(
      randomUUID(),
      LEASE_SECONDS,
      order.map((subject) => ({
        subject,
        kind: 'requests',
        limit: 100,
        want: 10,
        owed: 0,
        back: [],
        held: 0,
      })),
    );
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) => ask(n % 2 === 0 ? subjects : subjects.toReversed())),
  );
  const granted = answers
    .flatMap(({ leased }) => leased)
    .reduce((sum, each) => sum + each.granted, 0);
  t.equal(granted, 40 * 100);
});

t.test('what no longer counts is deleted', async (t) => {
  const [old, fresh] = [randomUUID(), randomUUID()];
  for (const subject of [old, fresh]) await lease({ subject, want: 1 });
  await setClock(old, 3700);
  await store.trim();
  const rows = await db.run(
    5000,
    (sql) => sql`select from limit_windows where subject in (${old}, ${fresh})`,
  );
  t.equal(rows.length, 1);
});
