import assert from 'node:assert/strict';
import t from 'tap';
import { LONG_STRING } from '../../src/json/bytes.ts';
import {
  MAX_DEPTH,
  type ParsedObject,
  REDUCED_DEPTH,
  SHORT_STRING,
} from '../../src/json/members.ts';
import { parseObject } from '../../src/json/parser.ts';

// compared with JSON.parse and ObjectStreamParser in stream-parser.test.ts

const read = (json: string) => (parseObject(Buffer.from(json)) as ParsedObject).value;

t.test('a small body is read strictly, as an object', (t) => {
  const parsed = parseObject(Buffer.from('{"a":[1e999,"\\ud800"]}'));
  t.match(parsed, { value: { a: [Number.POSITIVE_INFINITY, '\ud800'] }, members: [{ name: 'a' }] });
  t.equal(parseObject(Buffer.from('[1]')), 'not_an_object');
  t.equal(parseObject(Buffer.from('\ufeff{}')), 'invalid_json');
  t.equal(parseObject(Buffer.from('{"a":"\xff"}', 'latin1')), 'invalid_json');
  t.equal(parseObject(Buffer.from('{"a":"x"}', 'utf16le')), 'invalid_json');
  t.equal(
    parseObject(Buffer.from(`{"a":${'['.repeat(MAX_DEPTH)}${']'.repeat(MAX_DEPTH)}}`)),
    'too_deep',
  );
  t.end();
});

t.test('the value is what validators look at, and no more', (t) => {
  const long = 'x'.repeat(LONG_STRING + 1);
  t.strictSame(read(`{"a":"${'x'.repeat(LONG_STRING)}","b":"${long}"}`), {
    a: 'x'.repeat(LONG_STRING),
    b: `${'x'.repeat(64)}...`,
  });
  t.strictSame(read(`{"a":["${'x'.repeat(SHORT_STRING)}","${'x'.repeat(SHORT_STRING + 1)}"]}`), {
    a: ['x'.repeat(SHORT_STRING), '...'],
  });
  t.equal(REDUCED_DEPTH, 4);
  t.strictSame(read('{"a":{"b":{"c":{"d":{"e":1},"f":2}}}}'), { a: { b: { c: { d: {}, f: 2 } } } });
  t.end();
});

t.test('a key is its own, though another was read in its place', (t) => {
  // more keys than places, of every length, again and again
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 2000; n++) {
      const key = `${n}`.padStart(1 + (n % 40), 'k');
      assert.deepEqual(Object.keys(read(`{"a":{"${key}":1}}`).a as object), [key]);
    }
  }
  t.strictSame(read('{"a":{"\\u0061b":1,"ab":2,"äb":3,"":4}}'), { a: { ab: 2, äb: 3, '': 4 } });
  t.end();
});
