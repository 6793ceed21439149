import t from 'tap';
import {
  CostCenters,
  costCenterName,
  mayHaveBudget,
  OTHERS,
  readBudgetedCostCenter,
  readCostCenter,
} from '../../../src/domain/request/cost-center.ts';

const MOST = 10_000;
const OCTOBER = '2026-10-01';

t.test(
  'a company has so many cost centres in a month; what it named before stays its own',
  async (t) => {
    const told: string[] = [];
    const centers = new CostCenters((company) => told.push(company));
    const names = Array.from({ length: MOST }, (_, n) => `call ${n}`);
    t.same(
      names.map((name) => centers.of('a', OCTOBER, name)),
      names,
    );
    t.same(told, []);
    for (const name of ['one more', 'and one', 'one more', OTHERS])
      t.equal(centers.of('a', OCTOBER, name), OTHERS);
    t.same(told, ['a'], 'once');
    t.equal(centers.of('a', OCTOBER, 'call 7'), 'call 7');
    t.equal(centers.of('a', OCTOBER, ''), '', 'none is none');
    t.equal(centers.of('b', OCTOBER, 'one more'), 'one more', 'others are not concerned');
    t.equal(centers.of('a', '2026-11-01', 'one more'), 'one more', 'the next month begins anew');
  },
);

t.test(
  'a company keeps its bound however many others name; all together have one, which few names never meet',
  async (t) => {
    const told = new Set<string>();
    const centers = new CostCenters((company) => told.add(company));
    const booked = (company: string, from: number, to: number) => {
      const names = new Set<string>();
      for (let n = from; n < to; n++) names.add(centers.of(company, OCTOBER, `${n}`));
      return names.delete(OTHERS) ? names.size + 0.5 : names.size;
    };
    t.equal(booked('small', 0, 100), 100);
    for (let company = 0; company < 50; company++) booked(`company ${company}`, 0, MOST);
    t.equal(booked('company 0', MOST, 2 * MOST), 0.5, 'it named as many as it may');
    t.equal(told.has('small'), false);
    t.equal(booked('small', 0, 5000), 5000, 'less than an equal part');
    t.equal(booked('new', 0, 5000), 5000);
    t.equal(booked('small', 0, MOST), Math.ceil(500_000 / 52) + 0.5, 'an equal part');
    t.ok(told.has('small'), 'this is told too');
  },
);

t.test('a cost centre is the same however its accents and blanks are written', async (t) => {
  const read = (name: string) => readCostCenter(JSON.stringify(name), 'metadata.cost_center');
  for (const name of [
    'Büro Köln',
    'Bu\u0308ro Ko\u0308ln',
    'Büro\u00a0Köln',
    '\u3000Büro  Köln\u00a0',
  ]) {
    t.equal(read(name), 'Büro Köln', JSON.stringify(name));
  }
  const long = 'e\u0323\u0302'.repeat(64); // letters of Vietnamese with both their accents
  t.equal(read(long), 'ệ'.repeat(64));
  for (const refused of [`${long}x`, 'x'.repeat(10_000), 'a\nb', '=1', '\u00a0=1'])
    t.throws(() => read(refused), { message: /at most 64 printable characters/ });
  t.equal(read('≠'.normalize('NFD')), '≠');
});

t.test('a budget is for the name that calls book, in whatever spelling it is given', async (t) => {
  const names = [
    'Büro Köln',
    'Bu\u0308ro\u00a0\u00a0Ko\u0308ln ',
    '.',
    '..',
    'a/b?c#d%',
    '4711',
    'x'.repeat(64),
  ];
  for (const name of names) {
    const booked = readCostCenter(JSON.stringify(name), 'metadata.cost_center');
    t.equal(readBudgetedCostCenter(name), booked, name);
    t.equal(costCenterName(name), booked);
    t.ok(mayHaveBudget(booked));
  }
  t.notOk(mayHaveBudget('Bu\u0308ro'), 'not in the spelling of the ledger');
  for (const refused of [
    '',
    ' ',
    OTHERS,
    'x'.repeat(65),
    '=1',
    '-1',
    'a\nb',
    'a\u200bb',
    'x'.repeat(10_000),
  ])
    t.throws(() => readBudgetedCostCenter(refused), { name: 'FieldError' }, refused.slice(0, 70));
});
