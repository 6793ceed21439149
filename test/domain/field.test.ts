import t from 'tap';
import {
  lines,
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
  wholeNumber,
} from '../../src/domain/field.ts';
import { readCidr } from '../../src/domain/request/cidr.ts';

const ID = '5f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21';

const NO_LIMITS = [
  '',
  '0',
  '-1',
  '1e30',
  'NaN',
  'Infinity',
  '1.5',
  'ten',
  ' 1',
  '1 000',
  '٣',
  '9'.repeat(400),
];

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
  [
    'a slug',
    readSlug,
    [['acme/chat-1.5:eu', 'acme/chat-1.5:eu']],
    ['', '-x', 'a b', 'ä', 'x'.repeat(129)],
  ],
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
    [
      '',
      'ada',
      'ada@',
      '@example.com',
      'a b@example.com',
      'a@b@c',
      '"a"@b',
      'a\0b@example.com',
      'a@exa\u0007mple.com',
    ],
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
      '1000-01-01T00:00:00+23:59',
      '2999-12-31T23:59:59-23:59',
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
  [
    'a limit',
    wholeNumber(1_000_000),
    [
      ['1', 1],
      ['1000000', 1e6],
    ],
    [...NO_LIMITS, '1000001'],
  ],
  [
    'a network',
    readCidr,
    [
      ['10.0.0.0/8', '10.0.0.0/8'],
      [' 0.0.0.0/0 ', '0.0.0.0/0'],
      ['203.0.113.7', '203.0.113.7/32'],
      ['255.255.255.255/32', '255.255.255.255/32'],
      ['2001:DB8:0:0::/32', '2001:db8::/32'],
      ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1/128'],
      ['1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:8/128'],
      ['::/0', '::/0'],
      ['::', '::/128'],
      ['64:ff9b::192.0.2.0/120', '64:ff9b::c000:200/120'],
      ['ffff:ffff:ffff:ffff:8000::/65', 'ffff:ffff:ffff:ffff:8000::/65'],
    ],
    // biome-ignore format: a table
    [
      '', 'none', 'localhost', '/8', '10', '10.0.0', '10.0.0.0.0', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/-1',
      '10.0.0.0/8.0', '10.0.0.0/255.0.0.0', '010.0.0.0/8', '0x0a.0.0.0/8', '256.0.0.0/8', '10.0.0.0/8/8',
      '10.0.0.1/8', '10.0.0.1/33', '255.255.255.255/31', '2001:db8::1/127', '2001:db9::/31', '::1/0',
      ':', ':::', '1::2::3', '12345::', '1:2:3:4:5:6:7', '::/129', '::1%eth0', '[::1]', '::1]/x', '::@[::1',
      '::ffff:10.0.0.0/104', '::ffff:10.0.0.1', '::ffff:0:0/96', '١0.0.0.0/8',
    ],
  ],
  [
    'one value a line',
    lines(readCidr),
    [
      ['', []],
      [' \n\n', []],
      ['10.0.0.0/8\n\n ::1 \n', ['10.0.0.0/8', '::1/128']],
    ],
    ['10.0.0.0/8 ::1', '10.0.0.0/8, ::1', 'x\n::1', '::1\n'.repeat(1001)],
  ],
];

for (const [what, read, taken, refused] of CASES) {
  t.test(`${what} is read`, async (t) => {
    for (const [text, value] of taken) t.same(read(text), value, JSON.stringify(text));
    for (const text of refused)
      t.throws(() => read(text), { name: 'FieldError' }, JSON.stringify(text));
  });
}

t.test('a refusal says what the text must be and repeats it, shortened', async (t) => {
  t.throws(() => readBoolean('yes'), { message: 'must be true or false, not "yes"' });
  t.throws(() => oneOf('a', 'b', 'c')('d'), { message: 'must be a, b or c, not "d"' });
  const error = t.throws(() => readUuid('x'.repeat(10_000)));
  t.ok((error as Error).message.length < 200);
});

t.test('a network with bits after its prefix is refused with the one that was meant', async (t) => {
  for (const [text, meant] of [
    ['10.0.0.1/8', 'the network 10.0.0.0/8 or the address 10.0.0.1/32'],
    ['192.0.2.130/25', 'the network 192.0.2.128/25 or the address 192.0.2.130/32'],
    ['2001:DB8::1/32', 'the network 2001:db8::/32 or the address 2001:db8::1/128'],
    ['::ffff:10.0.0.0/104', 'written as IPv4, 10.0.0.0/8'],
    ['::ffff:10.0.0.1', 'written as IPv4, 10.0.0.1/32'],
    ['::FFFF:a00:1/24', 'written as IPv4, 10.0.0.0/24'],
  ] as const) {
    t.throws(() => readCidr(text), { message: `must be ${meant}, not "${text}"` });
  }
});
