import t from 'tap';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { restrictionTexts } from '../../../src/domain/settings/limit-text.ts';

const NOTHING = {
  requests_per_minute: null,
  tokens_per_minute: null,
  max_concurrent: null,
  monthly_budget_eur: null,
  daily_budget_eur: null,
  allowed_model_slugs: null,
  allowed_cidrs: null,
};
const SHOWN = { count: String, eurText: (amount: string) => `€${amount}` };

t.test('a key that may do less than its company says by what', async (t) => {
  t.same(restrictionTexts(NOTHING, SHOWN), []);
  const row = { ...NOTHING, max_concurrent: 3, monthly_budget_eur: '9.5', daily_budget_eur: '2' };
  t.same(restrictionTexts(row, SHOWN), ['3 at once', '€9.5 a month', '€2 a day']);
  t.same(restrictionTexts(row, SHOWN, wordsOf('de').limitTexts).slice(1), [
    '€9.5 im Monat',
    '€2 am Tag',
  ]);
});
