import t from 'tap';
import { formatFor } from '../../../src/admin/page/format.ts';
import { languageOf } from '../../../src/admin/page/locale.ts';
import { LANGUAGES } from '../languages.ts';

/** Numbers and times in English, as it is written in the reader's region, to the last digit. */

const german = formatFor('de-DE', 'UTC');
const plain = (text: string) => text.replaceAll(/[\u00a0\u202f]/g, ' ');

t.test('an amount keeps every digit, however many', async (t) => {
  t.equal(
    plain(german.eurText('12345678901234.123456789012345')),
    '€12.345.678.901.234,123456789012345',
  );
  t.equal(plain(german.eurText('0.1')), '€0,10');
  t.equal(plain(german.eurText('0')), '€0,00');
  t.equal(plain(german.eurText('-0.000000000000001')), '-€0,000000000000001');
  t.equal(
    plain(german.eurText('0.30000000000000004')),
    '€0,30000000000000004',
    'in-app chat, as a binary fraction adds up',
  );
  t.equal(plain(german.price('0.000000000001')), '€0,000000000001');
});

t.test(
  'an amount is shown with two decimals, and its exact text where digits are left out',
  async (t) => {
    const amount = (eur: string) => plain(String(german.amount(eur)));
    const rounded = (text: string, exact: string) =>
      `<span class="eur" title="${exact}"><span aria-hidden="true">${text}</span><span class="sr">${exact}</span></span>`;
    t.equal(amount('1234.5'), '<span class="eur">€1.234,50</span>');
    t.equal(amount('0'), '<span class="eur">€0,00</span>');
    for (const [eur, text, exact] of [
      ['111.0667', '€111,07', '€111,0667'],
      ['104.10571002', '€104,11', '€104,10571002'],
      ['132.17027352', '€132,17', '€132,17027352'],
      ['0.99999', '€1,00', '€0,99999'],
      ['0.005', '€0,01', '€0,005'],
      ['0.00499', '&lt; €0,01', '€0,00499'],
      ['0.000000000000001', '&lt; €0,01', '€0,000000000000001'],
      ['-0.00001', '-€0,01', '-€0,00001'],
      ['-12.345', '-€12,35', '-€12,345'],
    ] as const) {
      t.equal(amount(eur), rounded(text, exact));
      t.equal(
        plain(german.eurFixed(eur)),
        text.replace('&lt;', '<').replace('&gt;', '>'),
        'the same as plain text',
      );
    }
    t.equal(
      plain(String(german.otherSum('1.0571002', 'USD'))),
      rounded('1,06 USD', '1,0571002 USD'),
    );
    t.equal(
      plain(String(german.otherSum('0.0001', 'USD'))),
      rounded('&lt; 0,01 USD', '0,0001 USD'),
    );
    t.equal(german.duration(0.4), '0 ms');
    t.equal(german.duration(999.4), '999 ms');
    t.equal(german.duration(1449), '1,4 s');
    t.equal(german.duration(61_000), '61 s');
  },
);

t.test('the exact amounts of a column have as many decimals each, and no digit less', async (t) => {
  const column = (...amounts: string[]) => amounts.map(german.eurColumn(amounts)).map(plain);
  t.same(column('19.370232', '-26.36754', '3'), ['€19,370232', '-€26,367540', '€3,000000']);
  t.same(column('3', '4.5'), ['€3,00', '€4,50']);
  t.same(column(), []);
});

t.test('the cost of a single call is exact; digits after the cents are smaller', async (t) => {
  t.equal(
    plain(String(german.eur('1234.56789'))),
    '<span class="eur">€1.234,56<small>789</small></span>',
  );
  t.equal(plain(String(german.eur('1234.5'))), '<span class="eur">€1.234,50</span>');
});

t.test('the reader’s region decides, if Intl has English for it', async (t) => {
  const eur = (header: string | undefined) =>
    plain(formatFor(languageOf(header), 'UTC').eurText('1234.5'));
  t.equal(eur('de'), '€1.234,50');
  t.equal(eur('de-AT'), '€ 1.234,50');
  t.equal(eur('xx-XX, fr;q=0.5'), '€1 234,50');
  t.equal(eur('ar-EG'), '€1,234.50');
  t.equal(eur(undefined), '€1,234.50');
  for (const odd of ['', '*', 'zz', '-', 'de-u-nu-thai', ';;;', 'x'.repeat(5000)])
    t.equal(eur(odd), '€1,234.50', odd);
});

t.test('all that a page shows is English, and separates decimals in one way', async (t) => {
  const at = new Date('2026-03-01T12:00:00Z');
  for (const language of LANGUAGES) {
    const format = formatFor(language, 'UTC');
    const shown = [
      format.month('2026-03-01'),
      format.day('2026-03-01'),
      String(format.instant(at)),
      String(formatFor(language, 'UTC', () => at.getTime() + 120_000).ago(at)),
    ].join();
    t.match(shown, /^March 2026,.*March.*2 minutes ago/, language);
    const decimals = [format.eurText('0.5'), format.price('0.5'), format.percent(0.5)].map(
      (text) => /0(.)5/.exec(text)?.[1],
    );
    t.equal(new Set(decimals).size, 1, `${language}: ${decimals}`);
  }
});

t.test('a percentage beyond a million is told as that, however long it is', async (t) => {
  const { percent } = formatFor('en-GB', 'UTC');
  t.equal(percent(1_000_000), '1,000,000%');
  for (const value of [1_000_000.1, 1.6e28, Number.POSITIVE_INFINITY])
    t.equal(percent(value), 'over 1,000,000%');
});

t.test('times are those of the billing time zone', async (t) => {
  const now = Date.parse('2026-11-30T12:00:00Z');
  const format = formatFor('en-GB', 'Pacific/Auckland', () => now);
  t.match(
    String(format.instant(new Date('2026-11-30T12:00:00Z'))),
    /datetime="2026-11-30T12:00:00.000Z" title="Pacific\/Auckland">1 Dec 2026, 01:00</,
  );
  t.equal(format.month('2026-12-01'), 'December 2026');
  for (const [seconds, text] of [
    [-5, 'now'],
    [0, 'now'],
    [59, '59 seconds ago'],
    [60, '1 minute ago'],
    [7199, '1 hour ago'],
    [86_400, 'yesterday'],
    [20 * 86_400, '20 days ago'],
  ] as const) {
    t.match(String(format.ago(new Date(now - seconds * 1000))), `>${text}<`);
  }
  t.match(String(format.ago(new Date(now))), 'title="1 Dec 2026, 01:00, Pacific/Auckland"');
});
