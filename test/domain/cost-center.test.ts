import t from 'tap';
import { CostCenters, OTHERS } from '../../src/domain/cost-center.ts';

const MOST = 10_000;
const OCTOBER = '2026-10-01';

t.test('a company has so many cost centres in a month; what it named before stays its own', async (t) => {
  const told: string[] = [];
  const centers = new CostCenters((company) => told.push(company));
  const names = Array.from({ length: MOST }, (_, n) => `call ${n}`);
  t.same(
    names.map((name) => centers.of('a', OCTOBER, name)),
    names,
  );
  t.same(told, []);
  for (const name of ['one more', 'and one', 'one more', OTHERS]) t.equal(centers.of('a', OCTOBER, name), OTHERS);
  t.same(told, ['a'], 'once');
  t.equal(centers.of('a', OCTOBER, 'call 7'), 'call 7');
  t.equal(centers.of('a', OCTOBER, ''), '', 'none is none');
  t.equal(centers.of('b', OCTOBER, 'one more'), 'one more', 'others are not concerned');
  t.equal(centers.of('a', '2026-11-01', 'one more'), 'one more', 'the next month begins anew');
});

t.test('the memory of all companies together has a bound: beyond it counting begins anew', async (t) => {
  const centers = new CostCenters(() => t.fail('no company reaches its own bound'));
  const name = (company: number, n: number) => centers.of(`company ${company}`, OCTOBER, `${n}`);
  for (let company = 0; company < 21; company++) for (let n = 0; n < MOST - 1; n++) name(company, n);
  t.equal(name(0, MOST), `${MOST}`);
  t.equal(name(0, MOST + 1), `${MOST + 1}`, 'it was forgotten what this company had named');
});
