import t from 'tap';
import { type KeyMemory, SpendTable } from '../../src/ledger/spend.ts';

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
  table.resetPending([{ companyId: 'a', month: MONTH, cost: 1n }]);
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
