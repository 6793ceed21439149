import t from 'tap';
import { formatFor } from '../../../src/admin/page/format.ts';
import { pageLocale } from '../../../src/admin/page/locale.ts';
import { numeric, writeNumber } from '../../../src/admin/page/number-text.ts';
import { readBudget, readPrice, readTemperature, wholeNumber } from '../../../src/domain/field.ts';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { LANGUAGES } from '../languages.ts';

const readLimit = wholeNumber(1e12);

/** Numbers that people type, in the way of the page, of their own language, or plain. */

const budget = (language: string, text: string) => numeric(language, readBudget)(text);
const plain = (text: string) => formatEur(parseEur(text));

t.test('a German reader writes as in German, as the page does, or plainly', async (t) => {
  for (const [text, amount] of [
    ['1.500,00', '1500.00'],
    ['1500', '1500'],
    ['12,50', '12.50'],
    ['12.50', '12.50'],
    ['1.234.567,5', '1234567.5'],
    ['0.125', '0.125'],
    ['0,125', '0.125'],
    ['1.5000', '1.5000'],
    ['1 500,25', '1500.25'],
    ['1\u202f500,25', '1500.25'],
    ["1'500.25", '1500.25'],
    ['1’500,25', '1500.25'],
    [' 250 ', '250'],
  ] as const) {
    t.equal(budget('de-DE', text), amount, text);
  }
});

t.test('what could be two amounts is refused, with both and how to write them', async (t) => {
  t.throws(() => budget('de-DE', '1.500'), {
    message: 'must be clear: “1.500” can mean 1.500,00 or 1,50. Write 1500 or 1,50',
  });
  t.throws(
    () => budget('de-CH', '1,500'),
    /must be an amount/,
    'no group of this reader, nor decimals',
  );
  t.throws(
    () => numeric('de', readPrice)('12.375'),
    /can mean 12\.375,00 or 12,375\. Write 12375 or 12,3750/,
  );
  t.equal(numeric('de', readPrice)('12,3750'), '12.3750', 'the second of them is clear');
  t.equal(budget('en-US', '1.500'), '1.500', 'an English reader means one and a half');
  t.equal(budget('en-US', '1,500'), '1500');
  t.equal(budget('hi', '12,34,567.5'), '1234567.5', 'groups of two');
});

t.test('a meaning that the field does not take is none', async (t) => {
  for (const text of ['1.500', '1 500', '1500'])
    t.equal(numeric('de', readLimit)(text), 1500, text);
  t.throws(() => numeric('de', readLimit)('1,500'), /must be a whole number/);
  t.equal(numeric('de', readTemperature)('1.500'), 1.5);
});

t.test('everything else is refused in words', async (t) => {
  for (const text of [
    '1.50,00',
    '1,2,3',
    '12.34.567',
    '1.500.00',
    '-1',
    '+1',
    '1e3',
    '1_000',
    '5,',
    ',5',
    'ten',
    '1  500',
    '0.000,5',
  ]) {
    t.throws(() => budget('de-DE', text), /must be an amount in EUR/, text);
  }
  t.throws(() => budget('de-DE', '9'.repeat(5000)), /must be an amount in EUR/);
  for (const text of ['٣', '१२', '１２', '1٫5'].slice(0, 3))
    t.throws(() => budget('ar-EG', text), /digits 0 to 9/, text);
  t.throws(() => budget('ar-EG', '1٫5'), /must be an amount in EUR/);
});

t.test(
  'in every language an unchanged field keeps its value, and what a page shows is read as it is meant',
  async (t) => {
    const amounts = [
      '0',
      '7',
      '250',
      '1000',
      '1500',
      '999999999999',
      '9.5',
      '99.50',
      '0.125',
      '1.125',
      '12.375',
      '1234.5',
      '1234.567',
    ];
    const more = [
      '123456.789',
      '1234567.891',
      '0.000000000000001',
      '999999999999.999999999999999',
      '100.1',
      '1.000000000001',
    ];
    for (const language of LANGUAGES) {
      const format = formatFor(language, 'UTC');
      const wrong = [];
      for (const amount of [...amounts, ...more]) {
        const filled = writeNumber(amount, language);
        if (plain(budget(language, filled)) !== plain(amount)) wrong.push(filled);
        const shown = format.eurText(amount).replace(/[^\d]*€[^\d]*|[^\d]*EUR[^\d]*/, '');
        if (meantBy(language, shown, amount) !== plain(amount)) wrong.push(shown);
        const whole = amount.split('.')[0] as string;
        const counted = new Intl.NumberFormat(pageLocale(language)).format(BigInt(whole));
        if (BigInt(whole) > 0n && numeric(language, readLimit)(counted) !== Number(whole))
          wrong.push(counted);
      }
      t.same(wrong, [], language);
    }
  },
);

/** What a text is read as; the amount itself when the reader is asked and it is one of the answers. */
function meantBy(language: string, text: string, amount: string): string {
  try {
    return plain(budget(language, text));
  } catch (error) {
    const { message } = error as Error;
    return /can mean/.test(message) && message.includes(text.replace(/[.,]00$/, ''))
      ? plain(amount)
      : message;
  }
}
