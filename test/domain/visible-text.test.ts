import t from 'tap';
import { readEmail, readName, readPresentEmail, readPresentName } from '../../src/domain/field.ts';
import { unseenIn } from '../../src/domain/visible-text.ts';

t.test('names of all scripts, and pictures', async (t) => {
  for (const name of [
    'Acme',
    'Ümlaut & Sons (2026) – “best”',
    'Московский завод',
    '東京の会社',
    'مؤسسة',
    'می\u200cخواهم',
    'क्\u200dष',
    'ක්\u200dෂ',
    'র\u200d্যাম',
    'ನಾ\u200cಯಿ'.replace('\u200c', ''),
    'Team 🚀',
    'Team ❤\ufe0f',
    'Team 👩\u200d💻',
    'Team 👩🏽\u200d🚀',
    'Team 🏳\ufe0f\u200d🌈',
    'e\u0301',
  ])
    t.equal(unseenIn(name), null, name);
});

t.test('each class of characters that nobody sees', async (t) => {
  const classes = {
    'control (Cc)': ['\0', '\t', '\x7f', '\x85'],
    'format (Cf)': [
      '\u00ad',
      '\u061c',
      '\u200b',
      '\u200e',
      '\u2060',
      '\ufeff',
      '\u{e0041}',
      '\u{1d173}',
      '\u0600',
    ],
    'bidirectional controls': ['\u200f', '\u202a', '\u202e', '\u2066', '\u2069'],
    'private use (Co)': ['\ue000', '\u{f0000}'],
    'unassigned (Cn)': ['\u0378', '\uffff', '\u{e0fff}'],
    'half a character (Cs)': ['\ud800'],
    'ignorable (Default_Ignorable_Code_Point)': [
      '\u034f',
      '\u115f',
      '\u17b4',
      '\u180b',
      '\u3164',
      '\ufe0f',
      '\uffa0',
      '\u{e0100}',
    ],
    'blanks but the usual one (Zs)': ['\u00a0', '\u1680', '\u2003', '\u202f', '\u205f', '\u3000'],
    'separators of lines and paragraphs (Zl, Zp)': ['\u2028', '\u2029'],
    'a blank symbol': ['\u2800'],
  };
  for (const [name, characters] of Object.entries(classes)) {
    for (const each of characters) {
      const code = `U+${(each.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}`;
      for (const text of [`Ac${each}me`, `${each}Acme`, `Acme${each}`, `東${each}京`])
        t.equal(unseenIn(text), code, `${name}: ${code}`);
      for (const email of [`op${each}@x.example`, `op@x${each}.example`])
        t.throws(() => readEmail(email), { name: 'FieldError' }, code);
    }
  }
});

t.test('a joiner where it changes nothing', async (t) => {
  for (const text of [
    'Ac\u200dme',
    'Ac\u200cme',
    'Acme\u200d',
    '\u200cAcme',
    'دا\u200cد',
    'م\u200dی',
    'می\u200c',
    '\u200cمی',
    'می\u200c\u200cخ',
    'क\u200dष',
    'क्\u200d\u200dष',
    'क्\u200d',
    '🚀\u200d',
    '🚀\u200dx',
    '1\ufe0f',
    'a\ufe0f',
    '❤\ufe0f\ufe0f',
  ])
    t.type(unseenIn(text), 'string', JSON.stringify(text));
});

t.test(
  'an address has one spelling, which browsers send and every mail server takes',
  async (t) => {
    for (const [typed, kept] of [
      [' Ada@Example.COM ', 'ada@example.com'],
      ["o'neil+tag@x.example", "o'neil+tag@x.example"],
      ['info@Müller.example', 'info@xn--mller-kva.example'],
      ['info@mu\u0308ller.example', 'info@xn--mller-kva.example'],
      ['info@пример.example', 'info@xn--e1afmkfd.example'],
      ['root@localhost', 'root@localhost'],
    ] as const) {
      t.equal(readEmail(typed), kept, typed);
      t.equal(readPresentEmail(typed), kept, `${typed}, looked for`);
    }
    for (const wrong of [
      'ä@ö',
      'jörg@x.example',
      'иван@пример.example',
      '\uff41da@x.example',
      'jo\u0308rg@x.example',
      `${'a'.repeat(65)}@x.example`,
      `a@${'b'.repeat(64)}.example`,
      'a@b..example',
      'a@-b.example',
      'a@b_c.example',
      'a@[127.0.0.1]',
      'a@ö/x',
      'a@b.example,c@d.example',
    ])
      t.throws(
        () => readEmail(wrong),
        { message: /^must be an address such as ada@example\.com/ },
        wrong,
      );
  },
);

t.test(
  'who gives a name or an address is told, who looks for a present one finds it',
  async (t) => {
    t.throws(() => readName('Acme\u200b'), {
      message: 'must not hold U+200B: it is invisible, or looks like another character',
    });
    t.throws(() => readEmail('op\u200b@x.example'), {
      name: 'FieldError',
      message: /must not hold U\+200B/,
    });
    t.equal(readPresentName('Acme\u200b'), 'Acme\u200b');
    t.equal(readPresentEmail('OP\u200b@x.example'), 'op\u200b@x.example');
    t.equal(readName('\u00a0Acme '), 'Acme', 'blanks around it are no part of it');
  },
);
