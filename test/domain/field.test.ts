import t from 'tap';
import {
  oneOf,
  orNone,
  type Read,
  readBoolean,
  readBudget,
  readEmail,
  readInstant,
  readMaxTokens,
  readMonth,
  readName,
  readPrice,
  readScope,
  readSlug,
  readTemperature,
  readText,
  readUuid,
} from '../../src/domain/field.ts';

const ID = '5f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21';

/** Each reader with texts it takes, the value they give, and texts it refuses. */
const CASES: [string, Read<unknown>, [string, unknown][], string[]][] = [
  [
    'an id',
    readUuid,
    [
      [ID, ID],
      [ID.toUpperCase(), ID],
    ],
    ['', 'acme', ID.slice(1), `${ID} `, `{${ID}}`, ID.replace('5', 'g')],
  ],
  [
    'a name',
    readName,
    [
      ['Acme', 'Acme'],
      ['  Ümlaut & Co ', 'Ümlaut & Co'],
    ],
    ['', '   ', 'two\nlines', '\u001b[31mred', 'x'.repeat(201)],
  ],
  [
    'any text',
    readText,
    [
      ['', ''],
      ['- be\nkind', '- be\nkind'],
    ],
    ['nul\0'],
  ],
  ['a slug', readSlug, [['acme/chat-1.5:eu', 'acme/chat-1.5:eu']], ['', '-x', 'a b', 'ä', 'x'.repeat(129)]],
  [
    'a switch',
    readBoolean,
    [
      ['true', true],
      ['false', false],
    ],
    ['', 'TRUE', 'yes', '1'],
  ],
  [
    'a budget',
    readBudget,
    [
      ['0', '0'],
      ['99.50', '99.50'],
      ['0.000000000000001', '0.000000000000001'],
      ['999999999999', '999999999999'],
    ],
    [
      '',
      '-1',
      '+1',
      '1e3',
      '.5',
      '5.',
      '1,5',
      '1 000',
      'NaN',
      'Infinity',
      '0x10',
      '1000000000000',
      '0.0000000000000001',
      '١',
    ],
  ],
  [
    'a price',
    readPrice,
    [
      ['0', '0'],
      ['0.0025', '0.0025'],
      ['0.000000000001', '0.000000000001'],
    ],
    ['', '-0.1', '1e-3', '1000000', '0.0000000000001', 'free'],
  ],
  [
    'a temperature',
    readTemperature,
    [
      ['0', 0],
      ['0.7', 0.7],
      ['2', 2],
      ['2.0', 2],
    ],
    ['', '-0.1', '2.1', '1e0', 'hot'],
  ],
  [
    'a token limit',
    readMaxTokens,
    [
      ['1', 1],
      ['32000', 32_000],
    ],
    ['', '0', '32001', '1.5', '-1', '1e3'],
  ],
  [
    'a scope',
    readScope,
    [
      ['chat', 'chat'],
      ['embeddings', 'embeddings'],
      ['assistants', 'assistants'],
    ],
    ['', 'Chat', 'admin', 'toString'],
  ],
  [
    'an address',
    readEmail,
    [['Ada@Example.com', 'ada@example.com']],
    ['', 'ada', 'ada@', '@example.com', 'a b@example.com', 'a@b@c', '"a"@b'],
  ],
  [
    'an instant',
    readInstant,
    [
      ['2027-01-31', new Date('2027-01-31T00:00:00Z')],
      ['2027-01-31T18:00+02:00', new Date('2027-01-31T16:00:00Z')],
      ['2028-02-29T23:59:59.999Z', new Date('2028-02-29T23:59:59.999Z')],
    ],
    [
      '',
      'tomorrow',
      '2027-02-29',
      '2027-02-30T00:00:00Z',
      '2027-13-01',
      '2027-01-31T18:00:00',
      '2027-01-31T25:00:00Z',
      '31.01.2027',
      '0000-01-01',
      '1767225600',
    ],
  ],
  [
    'a month',
    readMonth,
    [['2026-11', '2026-11-01']],
    ['', '2026', '2026-13', '2026-00', '2026-1', '2026-11-01', '0000-01'],
  ],
  ['one of some words', oneOf('chat', 'embedding'), [['chat', 'chat']], ['', 'Chat', 'chat ']],
  [
    'a value or none',
    orNone(readBudget),
    [
      ['none', null],
      ['5', '5'],
    ],
    ['', 'null', 'None'],
  ],
];

for (const [what, read, taken, refused] of CASES) {
  t.test(`${what} is read`, async (t) => {
    for (const [text, value] of taken) t.same(read(text), value, JSON.stringify(text));
    for (const text of refused) t.throws(() => read(text), { name: 'FieldError' }, JSON.stringify(text));
  });
}

t.test('a refusal says what the text must be and repeats it, shortened', async (t) => {
  t.throws(() => readBoolean('yes'), { message: 'must be true or false, not "yes"' });
  t.throws(() => oneOf('a', 'b', 'c')('d'), { message: 'must be a, b or c, not "d"' });
  const error = t.throws(() => readUuid('x'.repeat(10_000)));
  t.ok((error as Error).message.length < 200);
});
