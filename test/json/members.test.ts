import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { ambiguous, folded as fold, MAX_DEPTH, type Members } from '../../src/json/members.ts';
import { parseObject } from '../../src/json/parser.ts';
import { fuzz } from '../sse/fuzz.ts';
import { character } from '../support/character.ts';

function membersOf(bytes: Buffer): Members | null {
  const object = parseObject(bytes);
  return typeof object === 'string' ? null : object.members;
}

/** Names and values as texts. */
function texts(json: string): [string, string][] | null {
  const bytes = Buffer.from(json);
  return (
    membersOf(bytes)?.map(({ name, valueStart, valueEnd }) => [
      name,
      bytes.toString('utf8', valueStart, valueEnd),
    ]) ?? null
  );
}

t.test('members are found with the exact spans of their values', (t) => {
  t.strictSame(texts('{}'), []);
  t.strictSame(texts(' {\n} '), []);
  t.strictSame(texts('{"a":1}'), [['a', '1']]);
  t.strictSame(texts(' { "a" : [1, {"b": "]}"}] ,\n"c":"x\\"}" , "d":-1.5e+3,"e":null } '), [
    ['a', '[1, {"b": "]}"}]'],
    ['c', '"x\\"}"'],
    ['d', '-1.5e+3'],
    ['e', 'null'],
  ]);
  t.strictSame(texts('{"\\u006dodel":"\\\\","gr\\u00f6ße":{},"größe":[]}'), [
    ['model', '"\\\\"'],
    ['größe', '{}'],
    ['größe', '[]'],
  ]);
  t.end();
});

t.test('what is not one balanced object has no members', (t) => {
  const none = [
    '',
    ' ',
    '[]',
    '1',
    '{',
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '{"a":1,}',
    '{"a":}',
    '{"a":,"b":1}',
  ];
  const more = [
    '{}x',
    '{"a":1}}',
    '{"a" 1}',
    '{"a":1 2}',
    '{a:1}',
    '{"a',
    '{"a":"b',
    '{"a":[1',
    '{"a":["]',
    '{"\\x":1}',
  ];
  for (const json of [...none, ...more]) t.equal(texts(json), null, json);
  t.end();
});

t.test('nesting is limited', (t) => {
  const nested = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  t.equal(texts(nested(MAX_DEPTH))?.length, 1);
  t.equal(texts(nested(MAX_DEPTH + 1)), null);
  t.end();
});

t.test('members found say what JSON.parse says', (t) => {
  const value = fc.jsonValue({ stringUnit: character, maxDepth: 5 });
  fuzz(
    t,
    fc.property(
      fc.array(fc.tuple(fc.string({ unit: character }), value)),
      fc.constantFrom(0, 1, '\t'),
      (entries, indent) => {
        const json = `{${entries.map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v, null, indent)}`).join(',')}}`;
        const bytes = Buffer.from(json);
        const members = membersOf(bytes);
        const found = members?.map((m) => [
          m.name,
          JSON.parse(bytes.toString('utf8', m.valueStart, m.valueEnd)),
        ]);
        assert.deepEqual(
          found,
          entries.map(([k, v]) => [JSON.parse(JSON.stringify(k)), JSON.parse(JSON.stringify(v))]),
        );
      },
    ),
  );
  t.end();
});

t.test('a governed member that could be read in two ways is named', (t) => {
  const governed = ['model', 'messages', 'stream', 'user_key'];
  const doubt = (json: string) => ambiguous(membersOf(Buffer.from(json)) as Members, governed);
  t.equal(doubt('{"model":1,"messages":2,"other":3,"other":4,"Other":5}'), null);
  t.equal(doubt('{"\\u006dodel":1}'), null, 'one escaped spelling is that name');
  t.equal(doubt('{"model":1,"\\u006dodel":1}'), 'model');
  t.equal(doubt('{"model":1,"a":1,"model":1}'), 'model');
  t.equal(doubt('{"Model":1}'), 'model');
  t.equal(doubt('{"model":1,"MODEL":1}'), 'model');
  t.equal(doubt('{"\\u004dodel":1}'), 'model');
  t.equal(doubt('{"me\u017f\u017fages":1}'), 'messages', 'ſ folds to s');
  t.equal(doubt('{"\\u017ftream":1}'), 'stream');
  t.equal(doubt('{"user_\u212aey":1}'), 'user_key', 'the Kelvin sign folds to k');
  t.equal(doubt('{"stream\\u0000x":1}'), 'stream', 'a NUL ends the name for some');
  t.equal(doubt('{"model ":1,"models":1,"mode":1,"m\u00f6del":1,"m\u043edel":1}'), null);
  t.equal(doubt('{}'), null);
  t.end();
});

t.test('folding covers what readers take for ASCII letters, and no other letter', (t) => {
  const folded: string[] = [];
  for (let c = 0x80; c <= 0xffff; c++) if (fold(c) < 0x80) folded.push(c.toString(16));
  t.strictSame(folded, ['130', '131', '17f', '212a']);
  t.equal(String.fromCharCode(...[...Buffer.from('Stream_Options')].map(fold)), 'stream_options');
  t.end();
});
