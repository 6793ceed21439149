import t from 'tap';
import {
  alarm,
  card,
  fitted,
  instant,
  listing,
  minute,
  nowAndThen,
  plainly,
  sections,
  table,
  terminalOf,
} from '../../../src/cli/frame/text.ts';

t.test('a table is aligned, numbers to the right, without blanks at line ends', async (t) => {
  const text = table(
    ['NAME', 'EUR', 'STATE'],
    [
      ['Ü', '12.5', 'active'],
      ['long name', '0.001', '-'],
    ],
    ['EUR'],
  );
  t.same(fitted(text).split('\n'), [
    'NAME         EUR  STATE',
    'Ü           12.5  active',
    'long name  0.001  -',
  ]);
});

t.test(
  'a column can be called as its member is, and an instant has the zone in its heading',
  async (t) => {
    const rows = [
      { id: 7, cost_eur: '0.5', expires_at: new Date('2027-01-31T18:00:00Z') },
      { id: 8, cost_eur: '12', expires_at: null },
    ];
    const text = fitted(listing(rows, plainly('id', 'cost_eur', 'expires_at'), '', ['COST EUR']));
    const lines = [
      'ID  COST EUR  EXPIRES (UTC)',
      ' 7       0.5  2027-01-31 18:00',
      ' 8        12  -',
    ];
    t.same(text.split('\n'), lines);
  },
);

t.test(
  'columns are those of a terminal: two for an East Asian letter or an emoji, none for a mark',
  async (t) => {
    const columns = {
      plain: 5,
      東京: 4,
      한국: 4,
      ｶﾅ: 2,
      '、（': 4,
      'e\u0301te\u0301': 3,
      שלום: 4,
      '€·…→': 4,
    };
    const emoji = {
      '🦄': 2,
      '👍🏽': 2,
      '❤️': 2,
      '☎': 1,
      '1️⃣': 2,
      '🇩🇪': 2,
      '👩‍👩‍👧‍👦': 2,
      'a\u200bb': 2,
    };
    for (const [text, width] of Object.entries({ ...columns, ...emoji })) {
      const [, drawn = ''] = fitted(
        table(
          ['N', 'M'],
          [
            [text, 'end'],
            ['x'.repeat(9), 'end'],
          ],
        ),
      ).split('\n');
      t.equal(drawn, `${text}${' '.repeat(9 - width)}  end`);
    }
    t.same(
      fitted(table(['N', 'M'], [['東京', 'end']]), 8)
        .split('\n')
        .slice(1),
      ['東京', '    end'],
    );
  },
);

t.test('a table that is wider than the terminal goes on below each line, indented', async (t) => {
  const text = table(
    ['ID', 'NAME', 'EUR', 'LIMITS'],
    [
      ['a', 'Ümläut', '12.5', '60 requests a minute'],
      ['b', 'B', '7', '-'],
    ],
    ['EUR'],
  );
  const folded = [
    'ID  NAME     EUR  LIMITS',
    'a   Ümläut  12.5',
    '    60 requests a minute',
    'b   B          7  -',
  ];
  t.same(fitted(text, 37).split('\n'), folded);
  t.same(fitted(text, 10).split('\n').slice(0, 4), [
    'ID  NAME',
    '     EUR',
    '    LIMITS',
    'a   Ümläut',
  ]);
  t.notMatch(fitted(text, 38), /\n {4}/, 'it fits');
  t.equal(
    fitted('Two  spaces stay,\n  and lines of 30 characters', 5),
    'Two  spaces stay,\n  and lines of 30 characters',
  );
});

t.test('a folded table is folded at the same columns in each line, heading included', async (t) => {
  const rows = [
    ['a', 'A', 'never'],
    ['b', 'A company of a long name', '2026'],
  ];
  t.same(fitted(table(['ID', 'COMPANY', 'SEEN'], rows), 20).split('\n'), [
    'ID',
    '    COMPANY',
    '    SEEN',
    'a',
    '    A',
    '    never',
    'b',
    '    A company of a long name',
    '    2026',
  ]);
  const text = table(
    ['ID', 'ROLE', 'COMPANY', 'SEEN'],
    rows.map(([id, ...more]) => [id, 'administrator', ...more]),
  );
  t.same(fitted(text, 36).split('\n').slice(0, 4), [
    'ID  ROLE',
    '    COMPANY                   SEEN',
    'a   administrator',
    '    A                         never',
  ]);
});

t.test('columns of numbers and nothing else are aligned to the right, amounts too', async (t) => {
  const rows = [
    ['one', '7', '0.5', '1'],
    ['two', null, '12', 'unlimited'],
  ];
  t.same(fitted(table(['NAME', 'CALLS', 'EUR', 'MOST'], rows)).split('\n'), [
    'NAME  CALLS  EUR  MOST',
    'one       7  0.5  1',
    'two       -   12  unlimited',
  ]);
});

t.test('a terminal has colours, a pipe has none, and neither has who asks for none', async (t) => {
  const text = sections(alarm('- It is broken.\n- It is slow.'), table(['A', 'B'], [['x', 'y']]));
  const drawn = (stream: object, env = {}) => {
    const { columns, paint } = terminalOf(stream, env);
    return fitted(text, columns, paint);
  };
  const plain = '- It is broken.\n- It is slow.\n\nA  B\nx  y';
  const red = (line: string) => `\u001b[31m${line}\u001b[0m`;
  t.equal(
    drawn({ isTTY: true, columns: 80 }),
    `${red('- It is broken.')}\n${red('- It is slow.')}\n\n\u001b[1mA  B\u001b[0m\nx  y`,
  );
  t.equal(drawn({}), plain);
  t.equal(drawn({ isTTY: true }, { NO_COLOR: '1' }), plain);
  t.equal(drawn({ isTTY: true }, { TERM: 'dumb' }), plain);
  t.match(
    drawn({ isTTY: true }, { NO_COLOR: '' }),
    '\u001b[1m',
    'an empty NO_COLOR asks for nothing',
  );
  t.equal(
    drawn({ isTTY: true, columns: 3 }).split('\n').slice(-4).join('|'),
    '\u001b[1mA\u001b[0m|\u001b[1m    B\u001b[0m|x|    y',
    'each line of a folded heading',
  );
});

t.test('a list may have more rows than a function takes arguments', async (t) => {
  const rows = Array.from({ length: 130_000 }, () => ['x']);
  t.equal(table(['N'], rows).split('\n').length, rows.length + 1);
});

t.test('an empty list is a sentence', async (t) => {
  t.equal(listing([], { NAME: String }, 'There is nothing.'), 'There is nothing.');
  t.equal(fitted(listing(['x'], { NAME: String }, 'There is nothing.')), 'NAME\nx');
});

t.test('a card has a sentence and aligned members', async (t) => {
  t.equal(card('Made.', { id: '1', 'long name': 'x' }), 'Made.\n\n  id         1\n  long name  x');
});

t.test('control characters in names do not reach the terminal', async (t) => {
  const nasty = 'a\u001b[2Jb\nc\u009b';
  t.notMatch(fitted(table(['N'], [[nasty, 'b\u001fc']])).split('\n')[1], /\p{Cc}/u);
  t.notMatch(card('Made.', { name: nasty }).split('\n').at(-1), /\p{Cc}/u);
  t.equal(
    card('Usage of a\u001b[2Jb\nin two lines', {}).trimEnd(),
    'Usage of a\ufffd[2Jb\nin two lines',
  );
  t.equal(
    card('Made.', { name: 'a\u202eb\u2066c' }).split('\n').at(-1),
    '  name  a\ufffdb\ufffdc',
    'nor those that turn the line',
  );
});

t.test(
  'a command that lasts says every five seconds how far it is, and one that does not says nothing',
  async (t) => {
    let now = 0;
    const said: string[] = [];
    const tell = nowAndThen(
      (line) => said.push(line),
      () => now,
    );
    for (now of [0, 4999, 5000, 9999, 10_000]) tell(`at ${now}`);
    t.same(said, ['at 5000', 'at 10000']);
  },
);

t.test('times are in UTC and name the zone', async (t) => {
  const at = new Date('2026-11-21T09:41:59.999+01:00');
  t.equal(instant(at), '2026-11-21 08:41 UTC');
  t.equal(minute(at), '2026-11-21 08:41');
  t.equal(minute(null), '-');
});
