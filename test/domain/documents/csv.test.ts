import t from 'tap';
import { csvFile, decimal, PLAIN_CSV, SPREADSHEETS } from '../../../src/domain/documents/csv.ts';
import { beginsFormula, readAs } from '../../support/spreadsheet.ts';

const COLUMNS = {
  name: ({ name }: { name: string | null }) => name,
  cost_eur: () => decimal('-1234.5600000000000001'),
  percent: () => 61.5,
  requests: () => 7,
  none: () => null,
};

t.test(
  'a program gets commas and points, a spreadsheet a byte order mark, and what its language takes',
  async (t) => {
    const rows = [{ name: 'Müller, "Söhne"; Łódź' }, { name: null }];
    const own = '"Müller, ""Söhne""; Łódź"';
    const lines = `name,cost_eur,percent,requests,none\n${own},-1234.5600000000000001,61.5,7,\n,-1234.5600000000000001,61.5,7,\n`;
    t.equal(csvFile(COLUMNS, rows, PLAIN_CSV), lines);
    t.equal(csvFile(COLUMNS, rows, SPREADSHEETS.comma), `\ufeff${lines}`);
    t.equal(
      csvFile(COLUMNS, rows, SPREADSHEETS.semicolon),
      `\ufeffname;cost_eur;percent;requests;none\n${own};-1234,5600000000000001;61,5;7;\n;-1234,5600000000000001;61,5;7;\n`,
    );
  },
);

/** Texts that contain a formula, for one way or another to separate cells and lines. */
const SEPARATED = [
  '',
  'a;',
  'a,',
  'a\t',
  'a\n',
  'a\r\n',
  'a;;',
  'a"; ',
  ';\n\u00a0',
  'a;b,',
  '"',
  '""',
  ' ',
  'a;"',
];
const SIGNS = [
  '=1+1',
  '+1+1',
  '-1+1',
  '@SUM(1)',
  '=HYPERLINK("http://x","y")',
  '＝1',
  '＋1',
  '－1',
  '＠x',
];

t.test(
  'no cell begins a formula, whatever a spreadsheet separates cells by, and each name stays one cell',
  async (t) => {
    const names = [
      ...SEPARATED.flatMap((before) => SIGNS.map((sign) => before + sign)),
      '\tx',
      '\rx',
      '=1;=2,=3\t=4\n=5',
    ];
    for (const form of [PLAIN_CSV, SPREADSHEETS.comma, SPREADSHEETS.semicolon]) {
      for (const name of names) {
        const text = csvFile(COLUMNS, [{ name }, { name: `x${name}` }], form);
        for (const separator of [',', ';', '\t']) {
          const cells = readAs(text, separator).flat();
          t.same(cells.filter(beginsFormula), [], JSON.stringify([name, separator]));
        }
        const rows = readAs(text, form.separator);
        t.same(
          rows.map(({ length }) => length),
          [5, 5, 5],
          JSON.stringify(name),
        );
        t.equal(rows[1]?.[0]?.replaceAll("'", ''), name, 'nothing is lost');
      }
    }
  },
);

t.test('other texts stay as they are', async (t) => {
  for (const name of [
    'Müller & Söhne',
    'a-b',
    'a = b',
    'a; b',
    'x@y.example',
    '2 + 2',
    "O'Neil",
    'a, b (c)',
    '- 5'.slice(2),
  ])
    t.equal(readAs(csvFile(COLUMNS, [{ name }], PLAIN_CSV), ',')[1]?.[0], name);
});
