import t from 'tap';
import { type KeyMemory, SpendTable, spendIdOf } from '../../src/ledger/spend.ts';

const MONTH = '2026-11-01';
const NEXT = '2026-12-01';

function keyOf(companyId: string): KeyMemory {
  return new SpendTable().key({ id: `key of ${companyId}`, companyId });
}

t.test('what a key remembers is what a look-up finds, for each of its keys and months', async (t) => {
  const table = new SpendTable();
  const [first, second] = [keyOf('a'), keyOf('a')];
  t.equal(table.of(first, MONTH), undefined, 'not read yet');
  table.add(second, MONTH, 3n);
  t.equal(table.of(first, MONTH), undefined, 'what is pending alone is no figure');
  table.set('a', MONTH, 10n);
  for (const key of [first, second]) t.equal(table.of(key, MONTH), 13n);
  t.equal(table.of(first, NEXT), undefined);
  table.set('a', NEXT, 0n);
  t.equal(table.of(first, NEXT), 0n);
  table.add(first, MONTH, 1n); // admitted before the month turned, booked after it
  t.equal(table.of(first, NEXT), 0n);
  for (const key of [first, second]) t.equal(table.of(key, MONTH), 14n);
  t.equal(table.get('a', MONTH), 14n);
});

t.test('a forgotten figure counts for nobody, though keys remember it', async (t) => {
  const table = new SpendTable(1);
  const key = keyOf('a');
  table.set('a', MONTH, 10n);
  table.set('b', MONTH, 20n);
  t.equal(table.of(key, MONTH), 10n);
  const { spend } = key;
  table.prune(MONTH);
  t.equal(table.get('a', MONTH), undefined, 'forgotten');
  t.equal(table.of(key, MONTH), undefined, 'by the key too');

  key.spend = spend; // as another key of the company would still have it
  table.add(key, MONTH, 5n);
  table.set('a', MONTH, 30n);
  t.equal(table.of(key, MONTH), 35n);
  t.equal(table.get('a', MONTH), 35n, 'booked where the next look-up finds it');

  table.prune(MONTH);
  t.equal(table.get('a', MONTH), 35n, 'something is pending: not forgotten');
  t.equal(table.get('b', MONTH), undefined);
  table.prune(NEXT);
  t.equal(table.of(key, MONTH), 35n);
});

t.test('a record counts once, from its booking on, however it is settled', async (t) => {
  const table = new SpendTable();
  const key = keyOf('a');
  table.set('a', MONTH, 100n);
  const spend = table.add(key, MONTH, 7n);
  table.add(key, MONTH, 2n);
  t.equal(table.of(key, MONTH), 109n);
  table.settle(spend, 7n, true);
  t.equal(table.of(key, MONTH), 109n, 'from pending to committed');
  t.equal(spend.pending, 2n);
  table.refresh('a', MONTH, 107n);
  t.equal(table.of(key, MONTH), 109n, 'what the database says now');
  table.refresh('a', MONTH, 150n);
  t.equal(table.of(key, MONTH), 152n, 'and with what others spent');
  table.settle(spend, 2n, false);
  t.equal(table.of(key, MONTH), 150n, 'it was there before');
  table.settleSum('a', MONTH, 0n, 4n);
  t.equal(table.of(key, MONTH), 154n, 'some of it was not');

  table.add(key, MONTH, 6n);
  table.resetPending([{ spend: null, companyId: 'a', month: MONTH, cost: 1n }]);
  t.equal(table.of(key, MONTH), 155n);
  t.equal(spend.pending, 1n);
  table.settleSum('a', MONTH, 1n, 0n);
  t.equal(table.of(key, MONTH), 154n);
});

t.test('before the figure is read, what is booked and settled leaves no trace in it', async (t) => {
  const table = new SpendTable();
  const key = keyOf('a');
  const spend = table.add(key, MONTH, 7n);
  table.add(key, MONTH, 1n);
  table.settle(spend, 7n, true); // the database has it now: it will be in the figure
  table.set('a', MONTH, 7n);
  t.equal(table.of(key, MONTH), 8n);

  table.assume('b', MONTH);
  t.equal(table.of(keyOf('b'), MONTH), 0n);
  t.same([...table.assumed()].length, 1);
  table.refresh('b', MONTH, 3n);
  t.same([...table.assumed()], []);
  t.equal(table.of(keyOf('b'), MONTH), 3n);
});

t.test('what a budgeted key spends counts for its company too; other keys cost no entry', async (t) => {
  const table = new SpendTable();
  const plain = table.key({ id: 'p', companyId: 'a', restriction: null });
  const key = table.key({ id: 'k', companyId: 'a', restriction: { budget: 1n } });
  const id = spendIdOf('a', 'k');
  table.set('a', MONTH, 100n);
  table.set(id, MONTH, 10n);
  table.add(plain, MONTH, 1n);
  t.equal(table.ofOwn(key, MONTH), 10n);
  const spend = table.add(key, MONTH, 5n);
  t.same([table.of(key, MONTH), table.of(plain, MONTH), table.ofOwn(key, MONTH)], [106n, 106n, 15n]);
  table.settle(spend, 5n, true);
  t.same([table.of(key, MONTH), table.ofOwn(key, MONTH)], [106n, 15n], 'from pending to committed');
  t.same([...table.assumed()], [], 'nothing is to be read');

  table.settle(table.add(key, MONTH, 7n), 7n, false);
  table.settleSum('a', MONTH, 0n, 7n);
  t.same([table.of(key, MONTH), table.ofOwn(key, MONTH)], [113n, 22n]);
  t.same(
    [...table.assumed()].map((one) => one.id),
    [id],
    'sums do not tell of keys: it is read again',
  );
  table.set(id, MONTH, 22n);
  t.same([...table.assumed()], []);

  const doubt = (...changed: [id: string, month: string][]) =>
    table.doubtKeys(changed.map(([id, month]) => ({ id, month }))).map((one) => one.id);
  t.same(doubt(['b', MONTH], ['a', NEXT]), []);
  t.equal(table.ofOwn(key, MONTH), 22n);
  t.same(doubt(['a', MONTH]), [id], 'asked for since the last poll: read at once');
  t.equal(table.ofOwn(key, MONTH), 22n);
  t.same(doubt(), []);
  t.same(doubt(['a', MONTH]), [], 'not asked for');
  t.equal(table.ofOwn(key, MONTH), undefined, 'read when it is');
  t.equal(table.get(id, MONTH), 22n, 'and known should that fail');
  table.set(id, MONTH, 23n);
  t.equal(table.ofOwn(key, MONTH), 23n);
  t.same(
    table
      .unread(NEXT)
      .map((one) => `${one.id} ${one.month}`)
      .sort(),
    [`a ${NEXT}`, `${id} ${NEXT}`],
  );
  table.settle(table.add(plain, MONTH, 0n), 1n, true);
  table.prune(NEXT);
  t.equal(table.ofOwn(key, MONTH), undefined, 'forgotten with its month');
  t.same(doubt(['a', MONTH]), []);
});

t.test('of a record read back from the disk a key has no more pending than was counted for it', async (t) => {
  const table = new SpendTable();
  const key = table.key({ id: 'k', companyId: 'a', restriction: { budget: 1n } });
  const id = spendIdOf('a', 'k');
  table.settleOwn(id, MONTH, 3n); // it never had a budget
  t.equal(table.ofOwn(key, MONTH), undefined);
  const spend = table.add(key, MONTH, 5n);
  table.set(id, MONTH, 0n);
  table.settleOwn(id, MONTH, 8n); // 3 of them from before it had one
  t.equal(spend.pending, 0n);
  table.settle(spend, 5n, true);
  t.equal(spend.pending, 0n, 'and never less than nothing');
  table.set(id, MONTH, 8n);
  t.equal(table.ofOwn(key, MONTH), 8n);

  const again = table.add(key, MONTH, 2n);
  table.resetPending([
    { spend: again, companyId: 'a', month: MONTH, cost: 4n },
    { spend: null, companyId: 'a', month: MONTH, cost: 1n },
  ]);
  t.equal(table.ofOwn(key, MONTH), 12n);
  t.equal(spend.company?.pending, 5n);
});

t.test(
  'a call with a budget of the day counts on the day and in the month, of its key and of its company',
  async (t) => {
    const table = new SpendTable();
    const key = table.key({ id: 'k', companyId: 'a' });
    const other = table.key({ id: 'o', companyId: 'a' });
    const [DAY, AFTER] = [`${MONTH.slice(0, 8)}30`, `${MONTH.slice(0, 8)}31`];
    const onDay = (of: KeyMemory, day: string) => [table.onDay(of, day, 'company'), table.onDay(of, day, 'key')];
    for (const day of [DAY, AFTER]) for (const id of ['a//day', 'a/k/day', 'a/o/day']) table.set(id, day, 0n);
    table.set('a', MONTH, 10n);
    const first = table.add(key, MONTH, 5n, DAY);
    const second = table.add(other, MONTH, 2n, DAY);
    const third = table.add(key, MONTH, 1n, AFTER);
    t.same(
      [onDay(key, DAY), onDay(other, DAY), onDay(key, AFTER), table.of(key, MONTH)],
      [[7n, 5n], [7n, 2n], [1n, 1n], 18n],
    );
    table.settle(first, 5n, true);
    table.settle(third, 1n, true);
    t.same([onDay(key, DAY), onDay(key, AFTER), table.of(key, MONTH)], [[7n, 5n], [1n, 1n], 18n]);
    t.same(
      table.doubtKeys([{ id: 'a', month: MONTH }]).length,
      5,
      'what was asked for is read again, and the day of the other key when it is asked for',
    );
    table.prune(AFTER);
    t.equal(table.get('a//day', DAY), 7n, 'a record waits');
    table.settle(second, 2n, true);
    table.prune(AFTER);
    t.same([table.get('a//day', DAY), table.get('a//day', AFTER), table.of(key, MONTH)], [undefined, 1n, 18n]);
    t.same(
      table
        .unread(NEXT)
        .map(({ id }) => id)
        .sort(),
      ['a', 'a//day', 'a/k', 'a/k/day', 'a/o', 'a/o/day'],
      'months and days begin',
    );
  },
);
