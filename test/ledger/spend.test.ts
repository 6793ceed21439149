import t from 'tap';
import type { EndUser } from '../../src/domain/key.ts';
import { formatEur } from '../../src/domain/pricing/money.ts';
import { type KeyMemory, personIdOf, SpendTable, spendIdOf } from '../../src/ledger/spend.ts';

const MONTH = '2026-11-01';
const NEXT = '2026-12-01';

/** Tells a table that a company spent so much. @returns the ids of what is to be read again */
function poll(table: SpendTable, ...sums: [id: string, month: string, spent: bigint][]): string[] {
  return table
    .changed(sums.map(([id, month, spent]) => ({ id, month, eur: formatEur(spent) })))
    .map(({ id }) => id);
}

/** As the directory has them: one object for each. */
const people = new Map<string, EndUser>();
function person(id: string): EndUser {
  const known = people.get(id) ?? { id, budget: null };
  people.set(id, known);
  return known;
}

function keyOf(companyId: string): KeyMemory {
  return new SpendTable().key({ id: `key of ${companyId}`, companyId });
}

t.test(
  'what a key remembers is what a look-up finds, for each of its keys and months',
  async (t) => {
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
  },
);

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
  t.equal(spend.company.pending, 2n);
  poll(table, ['a', MONTH, 107n]);
  t.equal(table.of(key, MONTH), 109n, 'what the database says now');
  poll(table, ['a', MONTH, 150n]);
  t.equal(table.of(key, MONTH), 152n, 'and with what others spent');
  table.settle(spend, 2n, false);
  t.equal(table.of(key, MONTH), 150n, 'it was there before');
  table.settleSum('a', MONTH, 0n, 4n);
  t.equal(table.of(key, MONTH), 154n, 'some of it was not');

  table.add(key, MONTH, 6n);
  table.resetPending([{ figures: null, companyId: 'a', month: MONTH, cost: 1n }]);
  t.equal(table.of(key, MONTH), 155n);
  t.equal(spend.company.pending, 1n);
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
  poll(table, ['b', MONTH, 3n]);
  t.same([...table.assumed()], []);
  t.equal(table.of(keyOf('b'), MONTH), 3n);
});

t.test(
  'what a budgeted key spends counts for its company too; other keys cost no entry',
  async (t) => {
    const table = new SpendTable();
    const plain = table.key({ id: 'p', companyId: 'a', restriction: null });
    const key = table.key({ id: 'k', companyId: 'a', restriction: { budget: 1n } });
    const id = spendIdOf('a', 'k');
    table.set('a', MONTH, 100n);
    table.set(id, MONTH, 10n);
    table.add(plain, MONTH, 1n);
    t.equal(table.ofOwn(key, MONTH), 10n);
    const spend = table.add(key, MONTH, 5n);
    t.same(
      [table.of(key, MONTH), table.of(plain, MONTH), table.ofOwn(key, MONTH)],
      [106n, 106n, 15n],
    );
    table.settle(spend, 5n, true);
    t.same(
      [table.of(key, MONTH), table.ofOwn(key, MONTH)],
      [106n, 15n],
      'from pending to committed',
    );
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
      poll(table, ...changed.map(([id, month]) => [id, month, 100n] as [string, string, bigint]));
    t.same(doubt(['b', MONTH], ['a', NEXT]), []);
    t.equal(table.ofOwn(key, MONTH), 22n);
    t.same(doubt(['a', MONTH]), [id], 'asked for since the last poll: read at once');
    t.equal(table.ofOwn(key, MONTH), 22n, 'and serves until it is');
    t.same(doubt(), []);
    t.equal(table.ofOwn(key, MONTH), 22n);
    t.same(doubt(['b', MONTH]), []);
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
  },
);

t.test(
  'of a record read back from the disk a key has no more pending than was counted for it',
  async (t) => {
    const table = new SpendTable();
    const key = table.key({ id: 'k', companyId: 'a', restriction: { budget: 1n } });
    const id = spendIdOf('a', 'k');
    table.settleOwn(id, MONTH, 3n); // it never had a budget
    t.equal(table.ofOwn(key, MONTH), undefined);
    const spend = table.add(key, MONTH, 5n);
    table.set(id, MONTH, 0n);
    table.settleOwn(id, MONTH, 8n); // 3 of them from before it had one
    const own = spend.others[0];
    t.equal(own?.pending, 0n);
    table.settle(spend, 5n, true);
    t.equal(own?.pending, 0n, 'and never less than nothing');
    table.set(id, MONTH, 8n);
    t.equal(table.ofOwn(key, MONTH), 8n);

    const again = table.add(key, MONTH, 2n);
    table.resetPending([
      { figures: again, companyId: 'a', month: MONTH, cost: 4n },
      { figures: null, companyId: 'a', month: MONTH, cost: 1n },
    ]);
    t.equal(table.ofOwn(key, MONTH), 12n);
    t.equal(spend.company.pending, 5n);
  },
);

t.test(
  'a call with a budget of the day counts on the day and in the month, of its key and of its company',
  async (t) => {
    const table = new SpendTable();
    const key = table.key({ id: 'k', companyId: 'a' });
    const other = table.key({ id: 'o', companyId: 'a' });
    const [DAY, AFTER] = [`${MONTH.slice(0, 8)}30`, `${MONTH.slice(0, 8)}31`];
    const onDay = (of: KeyMemory, day: string) => [
      table.onDay(of, day, 'company'),
      table.onDay(of, day, 'key'),
    ];
    for (const day of [DAY, AFTER])
      for (const id of ['a//day', 'a/k/day', 'a/o/day']) table.set(id, day, 0n);
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
      poll(table, ['a', MONTH, 16n]).length,
      5,
      'what was asked for is read again, and the day of the other key when it is asked for',
    );
    table.prune(AFTER);
    t.equal(table.get('a//day', DAY), 7n, 'a record waits');
    table.settle(second, 2n, true);
    table.prune(AFTER);
    t.same(
      [table.get('a//day', DAY), table.get('a//day', AFTER), table.of(key, MONTH)],
      [undefined, 1n, 18n],
    );
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

t.test('an end user with an allowance counts beside key, day and company', async (t) => {
  const table = new SpendTable();
  const restriction = { budget: 1n, endUserBudget: 1n };
  const plain = table.key({
    id: 'k',
    companyId: 'a',
    restriction: { budget: null, endUserBudget: 1n },
  });
  const key = table.key({ id: 'k', companyId: 'a', restriction });
  const off = table.key({ id: 'k', companyId: 'a', restriction: { budget: null } });
  const DAY = `${MONTH.slice(0, 8)}30`;
  const AFTER = `${MONTH.slice(0, 8)}31`;
  const [ann, bob] = [personIdOf(key, 'ann'), personIdOf(key, 'bob')];
  for (const id of ['a', 'a/k', ann, bob]) table.set(id, MONTH, 0n);
  for (const day of [DAY, AFTER]) for (const id of ['a//day', 'a/k/day']) table.set(id, day, 0n);
  const figures = () => [
    table.of(key, MONTH),
    table.ofOwn(key, MONTH),
    table.onDay(key, DAY, 'company'),
    table.onDay(key, DAY, 'key'),
    table.onDay(key, AFTER, 'key'),
    table.ofEndUser(key, MONTH, person('ann')),
    table.ofEndUser(key, MONTH, person('bob')),
  ];
  const booked = [
    [table.add(key, MONTH, 1n, DAY, person('ann')), 1n],
    [table.add(key, MONTH, 2n, AFTER, person('ann')), 2n],
    [table.add(key, MONTH, 4n, DAY, person('bob')), 4n],
    [table.add(key, MONTH, 8n, DAY), 8n],
    [table.add(key, MONTH, 16n, '', person('ann')), 16n],
    [table.add(plain, MONTH, 32n, '', person('ann')), 32n],
    [table.add(off, MONTH, 64n, '', person('ann')), 64n],
  ] as const;
  const all = [127n, 31n, 13n, 13n, 2n, 51n, 4n];
  t.same(figures(), all);
  for (const [figures, cost] of booked) table.settle(figures, cost, true);
  t.same(figures(), all, 'from pending to committed');
  for (const { company, others } of booked.map(([figures]) => figures))
    t.same(
      [company, ...others].filter(({ pending }) => pending !== 0n),
      [],
    );

  table.settle(table.add(plain, MONTH, 5n, '', person('ann')), 5n, false);
  table.settleSum('a', MONTH, 0n, 5n);
  t.same([table.of(key, MONTH), table.ofEndUser(key, MONTH, person('ann'))], [132n, 56n]);
  t.same(
    [...table.assumed()].map(({ id }) => id),
    [ann],
    'sums do not tell of end users: it is read again',
  );
});

t.test(
  'one end user has as many allowances as keys and months, whoever found them last',
  async (t) => {
    const table = new SpendTable();
    const restriction = { budget: null, endUserBudget: 1n };
    const [first, second] = ['k', 'o'].map((id) =>
      table.key({ id, companyId: 'a', restriction }),
    ) as [KeyMemory, KeyMemory];
    for (const [key, month, spent] of [
      [first, MONTH, 1n],
      [second, MONTH, 2n],
      [first, NEXT, 3n],
    ] as const)
      table.set(personIdOf(key, 'ann'), month, spent);
    const told = (ann: EndUser) =>
      [first, second].flatMap((key) =>
        [MONTH, NEXT].map((month) => table.ofEndUser(key, month, ann)),
      );
    t.same(told(person('ann')), [1n, 3n, 2n, undefined]);
    t.same(
      told({ id: 'ann', budget: null }),
      [1n, 3n, 2n, undefined],
      'also as the directory has read her again',
    );
    table.add(second, NEXT, 4n, '', person('ann'));
    table.set(personIdOf(second, 'ann'), NEXT, 0n);
    t.same(told(person('ann')), [1n, 3n, 2n, 4n]);
  },
);

t.test(
  'a change of a company costs nothing for its end users until they are asked for',
  async (t) => {
    const table = new SpendTable();
    const key = table.key({
      id: 'k',
      companyId: 'a',
      restriction: { budget: null, endUserBudget: 1n },
    });
    for (const name of ['ann', 'bob', 'cy']) table.set(personIdOf(key, name), MONTH, 1n);
    t.equal(table.ofEndUser(key, MONTH, person('ann')), 1n);
    t.same(
      poll(table, ['a', MONTH, 9n]),
      [personIdOf(key, 'ann')],
      'who was asked for is read again',
    );
    t.equal(table.ofEndUser(key, MONTH, person('ann')), 1n, 'and serves until then');
    t.equal(
      table.ofEndUser(key, MONTH, person('bob')),
      undefined,
      'the others are read when they are asked for',
    );
    t.equal(table.get(personIdOf(key, 'bob'), MONTH), 1n, 'and known should that fail');
    table.set(personIdOf(key, 'bob'), MONTH, 2n);
    t.equal(table.ofEndUser(key, MONTH, person('bob')), 2n);
    t.same(poll(table, ['b', MONTH, 1n], ['a', NEXT, 1n]), [], 'another company, another month');
    t.equal(table.ofEndUser(key, MONTH, person('bob')), 2n);
    t.equal(table.ofEndUser(key, NEXT, person('bob')), undefined);
    t.same(
      table.unread(NEXT).map(({ id }) => id),
      ['a'],
      'a new month reads no end users',
    );
    t.ok(table.knows(personIdOf(key, 'bob')));
  },
);

t.test(
  'of many end users those are forgotten that were not asked for lately, and no company for them',
  async (t) => {
    const table = new SpendTable(1, 3);
    const key = table.key({
      id: 'k',
      companyId: 'a',
      restriction: { budget: null, endUserBudget: 1n },
    });
    const known = () =>
      ['1', '2', '3', '4', '5', '6'].filter((name) => table.knows(personIdOf(key, name)));
    table.set('a', MONTH, 1n);
    for (const name of ['1', '2', '3', '4']) table.set(personIdOf(key, name), MONTH, 1n);
    table.prune(MONTH);
    t.same(known(), ['2', '3', '4']);
    table.ofEndUser(key, MONTH, person('2'));
    const pending = table.add(key, MONTH, 1n, '', person('3'));
    for (const name of ['5', '6']) table.set(personIdOf(key, name), MONTH, 1n);
    table.prune(MONTH);
    t.same(known(), ['2', '3', '6'], 'nor one whose record waits');
    table.settle(pending, 1n, true);
    t.equal(table.ofEndUser(key, MONTH, person('3')), 2n);
    t.equal(table.of(key, MONTH), 2n);
    table.prune(NEXT);
    t.same(known(), [], 'the month is over');
  },
);
