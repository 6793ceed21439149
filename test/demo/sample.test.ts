import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { sample } from '../../src/demo/sample.ts';

const ajv = new Ajv2020({ strict: false, validateFormats: false });

/** An object with required members, as SDKs make them for strict structured outputs. */
const strict = (properties: object, more: object = {}) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
});

const SCHEMAS: Readonly<Record<string, object>> = {
  texts: strict({
    short: { type: 'string', maxLength: 3 },
    long: { type: 'string', minLength: 40 },
  }),
  numbers: strict({
    count: { type: 'integer', minimum: -9_007_199_254_740_991, maximum: 9_007_199_254_740_991 },
    many: { type: 'integer', exclusiveMinimum: 5, maximum: 9 },
    few: { type: 'integer', maximum: -3 },
    share: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 1 },
    even: { type: 'integer', minimum: 7, multipleOf: 4 },
  }),
  choices: strict({
    fixed: { const: null },
    unit: { enum: ['C', 'F'] },
    nullable: { type: ['null', 'string'] },
    either: { anyOf: [strict({ kind: { const: 'a' } }), strict({ kind: { const: 'b' } })] },
    one: { oneOf: [{ type: 'boolean' }, { type: 'null' }] },
    nothing: { type: 'null' },
  }),
  lists: strict({
    several: { type: 'array', items: { type: 'number' }, minItems: 3 },
    pair: {
      type: 'array',
      prefixItems: [{ type: 'string' }, { type: 'boolean' }],
      minItems: 2,
      maxItems: 2,
    },
    table: { type: 'array', items: { type: 'array', items: strict({ cell: { type: 'string' } }) } },
  }),
  references: strict(
    { first: { $ref: '#/$defs/a~1b' }, second: { $ref: '#/definitions/Part' } },
    {
      $defs: { 'a/b': { type: 'boolean' } },
      definitions: { Part: strict({ name: { type: 'string' } }) },
    },
  ),
  'all of': {
    allOf: [
      { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] },
      { type: 'object', properties: { b: { type: 'integer' } }, required: ['b'] },
    ],
    properties: { c: { type: 'boolean' } },
    required: ['c'],
  },
  'a list that ends': strict({
    value: { type: 'string' },
    next: { anyOf: [{ $ref: '#' }, { type: 'null' }] },
  }),
  'a tree that ends': strict({ children: { type: 'array', items: { $ref: '#' } } }),
  'optional members that recur': {
    type: 'object',
    properties: { next: { $ref: '#' } },
    additionalProperties: false,
  },
  anything: {},
};

for (const [name, schema] of Object.entries(SCHEMAS)) {
  t.test(`a sample follows its schema: ${name}`, async (t) => {
    const validate = ajv.compile(schema);
    const value = sample(schema, 'Which city is it?');
    t.ok(validate(value), `${JSON.stringify(value)}: ${ajv.errorsText(validate.errors)}`);
  });
}

t.test('strings of a format look like it', async (t) => {
  t.match(sample({ type: 'string', format: 'date-time' }, 'x'), /^\d{4}-\d\d-\d\dT/);
  t.match(sample({ type: 'string', format: 'email' }, 'x'), '@');
  t.equal(sample({ type: 'string', format: 'unheard of' }, 'x'), 'x');
});

t.test('a schema that can have no sample ends all the same', async (t) => {
  t.ok(sample(strict({ next: { $ref: '#' } }), 'x'));
  t.ok(sample({ $ref: '#' }, 'x'));
  t.ok(
    sample(
      strict(Object.fromEntries(Array.from('abcdefgh', (name) => [name, { $ref: '#' }]))),
      'x',
    ),
  );
  t.ok(sample({ type: 'array', minItems: 1e12, items: { type: 'string', minLength: 1e12 } }, 'x'));
  t.ok(sample({ $ref: '#/nowhere' }, 'x'));
});

t.test('a sample of long texts ends all the same', async (t) => {
  const long = 'x'.repeat(10_000);
  for (const items of [
    { type: 'string', minLength: 10_000 },
    { const: long },
    { enum: [long] },
    { required: [long] },
  ]) {
    const { length } = JSON.stringify(sample({ type: 'array', minItems: 1000, items }, 'x'));
    t.ok(length > 100_000 && length < 1_000_000, `${length} characters of ${Object.keys(items)}`);
  }
});
