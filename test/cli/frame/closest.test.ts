import t from 'tap';
import { closest } from '../../../src/cli/frame/closest.ts';

const KNOWN = [
  'company',
  'completion',
  'cost-center',
  'key',
  'user',
  'usage',
  '--budget',
  '--name',
];

t.test('a word with a slip is the nearest one that is known', async (t) => {
  const cases = {
    compnay: 'company',
    companies: 'company',
    Company: 'company',
    kye: 'key',
    '--nmae': '--name',
    '--bugdet': '--budget',
    comp: undefined, // two begin so
    compl: 'completion',
    cost: 'cost-center',
    xyz: undefined,
    k: undefined,
    '': undefined,
  };
  for (const [word, found] of Object.entries(cases)) t.equal(closest(word, KNOWN), found, word);
});

t.test('a short word is near nothing that shares no letter with it', async (t) => {
  t.equal(closest('7', ['A', 'B']), undefined);
  t.equal(closest('Acme', ['ACME', 'Acne']), 'ACME');
});
