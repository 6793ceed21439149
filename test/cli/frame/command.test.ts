import t from 'tap';
import {
  command,
  flag,
  optional,
  parseCommand,
  repeated,
  required,
  someChange,
} from '../../../src/cli/frame/command.ts';
import { readBoolean, readName, readSlug, readUuid } from '../../../src/domain/field.ts';

const ID = '5f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21';
const OTHER = '6f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21';
const probe = command({
  name: 'probe',
  summary: 'a command with every kind of option',
  operand: { shown: 'ID', meaning: 'something', read: readUuid },
  options: {
    name: required('--name NAME', readName, 'a name'),
    open: optional('--open true|false', readBoolean, 'a boolean'),
    slug: repeated('--slug SLUG', readSlug, 'slugs'),
    loud: flag('--loud', 'a switch'),
  },
  run: async () => ({ json: null, text: '' }),
});
const parse = (...args: string[]) => parseCommand(probe, args);

t.test(
  'options and operand come in any order, and what is absent is undefined, empty or false',
  async (t) => {
    const expected = { help: false, json: false, operand: ID, names: [] };
    t.same(parse(ID, '--name', 'x'), {
      ...expected,
      values: { name: 'x', open: undefined, slug: [], loud: false },
    });
    t.same(
      parse('--slug=a', '--loud', '--name=x y', ID, '--open', 'false', '--slug', 'b', '--json'),
      {
        ...expected,
        json: true,
        values: { name: 'x y', open: false, slug: ['a', 'b'], loud: true },
      },
    );
    t.equal(parse('--name', 'x', '--', ID).operand, ID);
  },
);

t.test(
  'a value may begin with a dash if it follows an equals sign, or is a negative number',
  async (t) => {
    t.equal(parse(ID, '--name=- be kind').values.name, '- be kind');
    t.throws(() => parse(ID, '--name', '--json'), {
      name: 'UsageError',
      message: '--name needs a value: --name=NAME',
    });
    t.throws(() => parse(ID, '--name'), { name: 'UsageError' });
    t.throws(() => parse(ID, '--name=n', '--open', '-1'), {
      message: '--open must be true or false, not "-1"',
    });
  },
);

t.test('--help and -h work without required options, but not with unknown ones', async (t) => {
  t.equal(parse('--help').help, true);
  t.equal(parse('-h').help, true);
  t.throws(() => parse('--help', '--nope'), { name: 'UsageError' });
});

const MISTAKES: [string, string[], RegExp][] = [
  ['everything required is missing', [], /^missing ID, --name$/],
  ['an option is unknown', [ID, '--nmae', 'x'], /^unknown option --nmae; did you mean "--name"\?$/],
  ['a short option is unknown', [ID, '-n', 'x'], /^unknown option -n$/],
  [
    'an option is a name of every object',
    [ID, '--constructor', 'x'],
    /^unknown option --constructor$/,
  ],
  ['an option is given twice', [ID, '--name', 'x', '--name', 'y'], /^--name is given twice/],
  ['a switch gets a value', [ID, '--name', 'x', '--loud=false'], /^--loud is a switch/],
  [
    'a boolean is none',
    [ID, '--name', 'x', '--open', 'yes'],
    /^--open must be true or false, not "yes"$/,
  ],
  ['an empty value', [ID, '--name='], /^--name must be one line/],
  ['the operand is malformed', ['acme', '--name', 'x'], /^ID must be an id/],
  ['there is one argument too many', [ID, 'more', '--name', 'x'], /^unexpected "more"/],
];
for (const [what, args, message] of MISTAKES) {
  t.test(`${what}: the error says what to do`, async (t) => {
    t.throws(() => parse(...args), { name: 'UsageError', message });
  });
}

t.test('a thing that has a name can be named by it, and its id is asked for', async (t) => {
  const { run } = probe;
  const rotate = command({
    ...{ name: 'key rotate', summary: 'a command about a key', run },
    operand: { shown: 'KEY_ID', meaning: 'the key', read: readUuid },
    options: {
      company: required('--company ID', readUuid, 'its company'),
      request: optional('--request ID', readUuid, 'a thing without a name'),
    },
  });
  const args = ['back end', '--company', 'Acme'];
  const parsed = parseCommand(rotate, args);
  t.same(parsed.names, [
    { argument: '--company', noun: 'company', name: 'Acme' },
    { argument: 'KEY_ID', noun: 'key', name: 'back end' },
  ]);
  const ids = parseCommand(rotate, args, ({ name }) => (name === 'Acme' ? OTHER : ID));
  t.match(ids, { operand: ID, values: { company: OTHER } });
  const byId = parseCommand(rotate, [ID.toUpperCase(), '--company', OTHER]);
  t.match(byId, { names: [], operand: ID, values: { company: OTHER } }, 'an id is no name');
  for (const wrong of ['', ' ', 'two\nlines'])
    t.throws(() => parseCommand(rotate, [ID, `--company=${wrong}`]), { message: /must be an id/ });
  t.throws(() => parseCommand(rotate, [ID, '--company', 'Acme', '--request', 'x']), {
    message: /^--request must be an id/,
  });
});

t.test('a set without a setting is refused', async (t) => {
  t.throws(() => someChange({ a: undefined, b: [] }), {
    name: 'UsageError',
    message: /^nothing to change/,
  });
  for (const changes of [{ a: null }, { a: false }, { a: 0 }, { a: '' }, { a: ['x'] }])
    t.equal(someChange(changes), changes);
});
