import t from 'tap';
import type { Payer } from '../../src/domain/key.ts';
import { Spend } from '../../src/ledger/spend.ts';

const MONTH = '2026-11-01';
const NEXT = '2026-12-01';

function payerOf(companyId: string): Payer {
  return { id: `key of ${companyId}`, companyId, account: null, usedAt: 0 };
}

t.test('what a key remembers is what a look-up finds, for each of its keys and months', async (t) => {
  const spend = new Spend();
  const [first, second] = [payerOf('a'), payerOf('a')];
  t.equal(spend.of(first, MONTH), undefined, 'not read yet');
  spend.add(second, MONTH, 3n);
  t.equal(spend.of(first, MONTH), undefined, 'what is pending alone is no figure');
  spend.set('a', MONTH, 10n);
  for (const payer of [first, second]) t.equal(spend.of(payer, MONTH), 13n);
  t.equal(spend.of(first, NEXT), undefined);
  spend.set('a', NEXT, 0n);
  t.equal(spend.of(first, NEXT), 0n);
  spend.add(first, MONTH, 1n); // admitted before the month turned, booked after it
  t.equal(spend.of(first, NEXT), 0n);
  for (const payer of [first, second]) t.equal(spend.of(payer, MONTH), 14n);
  t.equal(spend.get('a', MONTH), 14n);
});

t.test('a forgotten account counts for nobody, though keys remember it', async (t) => {
  const spend = new Spend(1);
  const payer = payerOf('a');
  spend.set('a', MONTH, 10n);
  spend.set('b', MONTH, 20n);
  t.equal(spend.of(payer, MONTH), 10n);
  const { account } = payer;
  spend.prune(MONTH);
  t.equal(spend.get('a', MONTH), undefined, 'forgotten');
  t.equal(spend.of(payer, MONTH), undefined, 'by the key too');

  payer.account = account; // as another key of the company would still have it
  spend.add(payer, MONTH, 5n);
  spend.set('a', MONTH, 30n);
  t.equal(spend.of(payer, MONTH), 35n);
  t.equal(spend.get('a', MONTH), 35n, 'booked where the next look-up finds it');

  spend.prune(MONTH);
  t.equal(spend.get('a', MONTH), 35n, 'something is pending: not forgotten');
  t.equal(spend.get('b', MONTH), undefined);
  spend.prune(NEXT);
  t.equal(spend.of(payer, MONTH), 35n);
});

t.test('a record counts once, from its booking on, however it is settled', async (t) => {
  const spend = new Spend();
  const payer = payerOf('a');
  spend.set('a', MONTH, 100n);
  const account = spend.add(payer, MONTH, 7n);
  spend.add(payer, MONTH, 2n);
  t.equal(spend.of(payer, MONTH), 109n);
  spend.settle(account, 7n, true);
  t.equal(spend.of(payer, MONTH), 109n, 'from pending to committed');
  t.equal(account.pending, 2n);
  spend.refresh('a', MONTH, 107n);
  t.equal(spend.of(payer, MONTH), 109n, 'what the database says now');
  spend.refresh('a', MONTH, 150n);
  t.equal(spend.of(payer, MONTH), 152n, 'and with what others spent');
  spend.settle(account, 2n, false);
  t.equal(spend.of(payer, MONTH), 150n, 'it was there before');
  spend.settleSum('a', MONTH, 0n, 4n);
  t.equal(spend.of(payer, MONTH), 154n, 'some of it was not');

  spend.add(payer, MONTH, 6n);
  spend.resetPending([{ companyId: 'a', month: MONTH, cost: 1n }]);
  t.equal(spend.of(payer, MONTH), 155n);
  t.equal(account.pending, 1n);
  spend.settleSum('a', MONTH, 1n, 0n);
  t.equal(spend.of(payer, MONTH), 154n);
});

t.test('before the figure is read, what is booked and settled leaves no trace in it', async (t) => {
  const spend = new Spend();
  const payer = payerOf('a');
  const account = spend.add(payer, MONTH, 7n);
  spend.add(payer, MONTH, 1n);
  spend.settle(account, 7n, true); // the database has it now: it will be in the figure
  spend.set('a', MONTH, 7n);
  t.equal(spend.of(payer, MONTH), 8n);

  spend.assume('b', MONTH);
  t.equal(spend.of(payerOf('b'), MONTH), 0n);
  t.same([...spend.assumed()].length, 1);
  spend.refresh('b', MONTH, 3n);
  t.same([...spend.assumed()], []);
  t.equal(spend.of(payerOf('b'), MONTH), 3n);
});
