import fc from 'fast-check';
import t from 'tap';
import { readModels } from '../../../src/domain/settings/model-csv.ts';
import { character } from '../../support/character.ts';
import { fuzzRuns } from '../../support/fuzz.ts';

const HEADING = 'slug,upstream_model,kind,eu_hosted,input_per_1k,output_per_1k';
const told = (text: string) =>
  readModels(text).mistakes.map(({ line, column, message }) => `${line} ${column} ${message}`);

t.test(
  'a file is read whatever the order of its columns, its line ends and its quotes',
  async (t) => {
    const { models, mistakes } = readModels(
      '\ufeffOutput_per_1M, kind ,slug,upstream_model,eu_hosted,input_per_1k,company,valid_from,cost_input_per_1m,cost_output_per_1k,token_input\r\n' +
        '2.50,chat,fast,"azure/gpt, ""EU""",true,0.0010,,,,,\r\n' +
        '\r\n' +
        '0,embedding,vec,v,false,1,Acme GmbH,2027-01-31,20,0,accept\r\n',
    );
    t.same(mistakes, []);
    t.same(models, [
      {
        line: 2,
        slug: 'fast',
        company: null,
        settings: {
          upstream_model: 'azure/gpt, "EU"',
          kind: 'chat',
          eu_hosted: true,
          token_input: null,
        },
        prices: { input: '0.001', output: '0.0025' },
        valid_from: null,
        cost: null,
      },
      {
        line: 4,
        slug: 'vec',
        company: 'Acme GmbH',
        settings: {
          upstream_model: 'v',
          kind: 'embedding',
          eu_hosted: false,
          token_input: 'accept',
        },
        prices: { input: '1', output: '0' },
        valid_from: { day: '2027-01-31' },
        cost: { input: '0.02', output: '0' },
      },
    ]);
  },
);

t.test('what Excel makes of a file is read, exact, in English and in German', async (t) => {
  const read = (text: string) => {
    const { models, mistakes } = readModels(text);
    return mistakes.length > 0
      ? mistakes.map(({ line, column, message }) => `${line} ${column} ${message}`)
      : models.map(
          ({ slug, settings: { eu_hosted }, prices: { input, output }, valid_from, cost }) => [
            slug,
            eu_hosted,
            input,
            output,
            valid_from,
            cost,
          ],
        );
  };
  const cost = { input: '0.00001', output: '0.000015' };
  const english = `\ufeff${HEADING},valid_from,cost_input_per_1k,cost_output_per_1k,,\r
a,x,chat,TRUE,.001,1E-05,,1.0E-05,1.5e-5,,\r
b,x,chat,FALSE,1.,2.5E+1,2027-01-31,,\r
c,x,chat,True,1.234,100,,,,,,,\r
d,x,chat,true,0.000000000001,123456.000000000001\r
`;
  const expected = [
    ['a', true, '0.001', '0.00001', null, cost],
    ['b', false, '1', '25', { day: '2027-01-31' }, null],
    ['c', true, '1.234', '100', null, null],
    ['d', true, '0.000000000001', '123456.000000000001', null, null],
  ];
  t.same(read(english), expected);
  const german = english
    .replaceAll(/(\d|,)\.(\d|,)/g, (all) => all.replaceAll(',', '%').replace('.', '#'))
    .replaceAll(',', ';')
    .replaceAll('%', ';')
    .replaceAll('#', ',')
    .replace('TRUE', 'WAHR')
    .replace('FALSE', 'FALSCH')
    .replace('2027-01-31', '31.01.2027');
  t.match(german, /;WAHR;,001;1E-05;;1,0E-05;1,5e-5;;/);
  t.same(read(german), expected);
  t.same(read(german.replaceAll(';', '\t').replaceAll('1,234', '1,2340')), expected, 'with tabs');
  const cells = (separator: string, input: string) =>
    read(`${HEADING}\na,x,chat,true,0,0`.replaceAll(',', separator).replace(/0$/, input));
  t.same(
    cells(';', '0.25'),
    [['a', true, '0', '0.25', null, null]],
    'a point that separates no thousands',
  );
  for (const [separator, ambiguous] of [
    [';', '1.234'],
    ['\t', '1.234'],
    ['\t', '1,234'],
  ] as const)
    t.match(
      cells(separator, ambiguous),
      [/^2 output_per_1k may be of thousands or have decimals/],
      ambiguous,
    );
  for (const wrong of [
    '1,2,3',
    '1.2.3',
    '1.234,5',
    '-1',
    '.',
    ',',
    'E5',
    '1E',
    '1E-99',
    '1E99',
    '0x1',
    '١',
    '1 000',
    '1e-13',
  ])
    t.match(cells(';', wrong), [/^2 output_per_1k must be/], wrong);
  t.match(cells(',', '"0,5"'), [/^2 output_per_1k must be/], 'where commas separate values');
});

t.test('a heading says what is wrong with it', async (t) => {
  t.match(told(''), [/1 null is missing: the first line/]);
  t.match(told(HEADING), [/2 null is missing: there are no models/]);
  t.match(told('slug,slug,kind,eu_hosted,input_per_1k,input_per_1m,price\na'), [
    /1 slug stands twice/,
    /1 input_per_1m gives the input price a second time/,
    /1 price is not known; the columns are slug/,
    /1 upstream_model is missing/,
    /1 output is missing: output_per_1k, or output_per_1m/,
  ]);
  t.match(told(`${HEADING},cost_input_per_1k\na,b,chat,true,1,1,1`), [
    /cost_input and cost_output go together/,
  ]);
});

t.test('all mistakes are told at once, by line and column', async (t) => {
  t.match(
    told(`${HEADING},valid_from,cost_input_per_1k,cost_output_per_1k
a b,x,talk,1,"0,5",-1,soon,1,
good,x,chat,true,1,1,,,
good,y,chat,true,1,1,,,
good,y,chat,true,1,1,2027-01-01,,
short,x
,,,,,,,,
timed,x,chat,true,1,1,2027-01-01T00:00:00Z,1,1`),
    [
      /^2 slug must begin with/,
      /^2 kind must be/,
      /^2 eu_hosted must be/,
      /^2 input_per_1k must be/,
      /^2 output_per_1k must be/,
      /^2 valid_from must be/,
      /^4 slug is the model of line 3/,
      /^5 upstream_model differs from line 3/,
      /^6 null has 2 values, and the heading 9/,
      /^7 slug is missing/,
      /^7 upstream_model is missing/,
      /^7 kind is missing/,
      /^7 eu_hosted is missing/,
      /^7 input_per_1k is missing/,
      /^7 output_per_1k is missing/,
      /^8 valid_from must be a date where there are cost prices/,
    ],
  );
  t.match(told(`${HEADING}\n"a,b`), [/is not CSV: a quote is not closed/]);
  t.match(told(`${HEADING}\n"a"b,x,chat,true,1,1`), [
    /2 null is not CSV: text follows a closing quote/,
  ]);
  t.match(told(`${HEADING}\n${'m,x,chat,true,1,1\n'.repeat(1001)}`), [/1002 null is one too many/]);
});

t.test('whatever a file holds, it is read or refused with lines, and never half', async () => {
  const cell = fc.oneof(
    fc.constantFrom('a', 'chat', 'true', '1', '0.5', '', '"', '2027-01-31', '1e9', 'é'),
    fc.string({ maxLength: 6 }),
  );
  const line = fc.array(cell, { minLength: 1, maxLength: 8 }).map((cells) => cells.join(','));
  const file = fc.tuple(
    fc.oneof(fc.constant(HEADING), line),
    fc.array(line, { maxLength: 5 }),
    fc.constantFrom('\n', '\r\n', '\r'),
  );
  const text = file.map(([heading, lines, end]) => [heading, ...lines].join(end));
  fc.assert(
    fc.property(fc.oneof(text, fc.string({ unit: character, maxLength: 200 })), (made) => {
      const { models, mistakes } = readModels(made);
      const isSound = mistakes.every(
        ({ line: at, message }) => Number.isInteger(at) && at >= 1 && message !== '',
      );
      const isWhole = models.every(({ prices: { input, output }, slug }) =>
        [input, output, slug].every((value) => typeof value === 'string' && value !== ''),
      );
      return isSound && isWhole && (models.length > 0 || mistakes.length > 0);
    }),
    { numRuns: fuzzRuns(1000) },
  );
});
