import t from 'tap';
import { readEmail, readName, readPresentEmail, readPresentName } from '../../src/domain/field.ts';
import { unseenIn, unseenInEmail } from '../../src/domain/visible-text.ts';

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
    'format (Cf)': ['\u00ad', '\u061c', '\u200b', '\u200e', '\u2060', '\ufeff', '\u{e0041}', '\u{1d173}', '\u0600'],
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
      t.equal(unseenInEmail(`op${each}@x.example`), code, code);
      t.equal(unseenInEmail(`op@x${each}.example`), code, code);
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

t.test('an address has one spelling', async (t) => {
  for (const good of ['ada@example.com', 'jörg@müller.example', 'иван@пример.example', "o'neil+tag@x.example"])
    t.equal(unseenInEmail(good), null, good);
  t.equal(unseenInEmail('\u212aim@x.example'), 'U+212A', 'the sign of Kelvin');
  t.equal(unseenInEmail('\uff41da@x.example'), 'U+FF41', 'a wide letter');
  t.equal(unseenInEmail('\ufb01n@x.example'), 'U+FB01', 'two letters in one character');
  t.equal(unseenInEmail('می\u200cخ@x.example'), 'U+200C', 'no joiners at all');
  t.equal(unseenInEmail('jo\u0308rg@x.example'), 'an accent apart from its letter');
});

t.test('who gives a name or an address is told, who looks for a present one finds it', async (t) => {
  t.throws(() => readName('Acme\u200b'), {
    message: 'must not hold U+200B: it is invisible, or looks like another character',
  });
  t.throws(() => readEmail('op\u200b@x.example'), { name: 'FieldError', message: /must not hold U\+200B/ });
  t.equal(readPresentName('Acme\u200b'), 'Acme\u200b');
  t.equal(readPresentEmail('OP\u200b@x.example'), 'op\u200b@x.example');
  t.equal(readEmail('Jo\u0308rg@x.example'), 'j\u00f6rg@x.example', 'as some systems type it');
  t.equal(readName('\u00a0Acme '), 'Acme', 'blanks around it are no part of it');
});
