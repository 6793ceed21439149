import t from 'tap';
import type { LedgerStore } from '../../src/domain/ports.ts';
import { Reservations } from '../../src/ledger/reservations.ts';

t.test(
  'an outage of the database leaves ten thousand reservations to delete at most, the newest',
  async (t) => {
    let isAway = true;
    let deleted: readonly string[] = [];
    const store = {
      reserve: () => Promise.reject(new Error('away')),
      async keepReservations(_writer: string, ended: readonly string[]) {
        deleted = ended;
        if (isAway) throw new Error('away');
      },
    } as unknown as LedgerStore;
    const timing = { now: () => 0, uptime: () => 0, after: () => () => {}, soon: () => {} };
    const reservations = new Reservations(store, 'writer', timing);
    for (let round = 0; round < 15; round++) {
      const asked = Array.from({ length: 10_000 }, (_, n) => {
        const reservation = {
          companyId: 'company',
          month: '2026-11-01',
          amount: 1n,
          bounded: true,
        };
        return reservations.reserve({ ...reservation, requestId: `${round} ${n}` });
      });
      t.ok((await Promise.allSettled(asked)).every(({ status }) => status === 'rejected'));
      await t.rejects(reservations.keep(true), { message: 'away' });
    }
    isAway = false;
    await reservations.keep(true);
    t.equal(deleted.length, 10_000);
    t.equal(deleted.at(-1), '14 9999');
    t.ok(reservations.isQuiet);
  },
);
