import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { LONG_STRING } from '../../src/json/bytes.ts';
import {
  type JsonFault,
  MAX_DEPTH,
  MAX_MEMBERS,
  MAX_NAMES,
  MAX_VALUES,
  type ParsedObject,
  REDUCED_DEEP_ITEMS,
  REDUCED_DEPTH,
  REDUCED_ITEMS,
  REDUCED_NUMBER,
  SHORT_STRING,
} from '../../src/json/members.ts';
import { letterSet, pairSet, type WatchedNames } from '../../src/json/name-watcher.ts';
import { parseObject } from '../../src/json/parser.ts';
import { ObjectStreamParser } from '../../src/json/stream-parser.ts';
import { cutAt, fuzz, places } from '../sse/fuzz.ts';
import { character } from '../support/character.ts';

function scan(chunks: readonly Buffer[]): ParsedObject | JsonFault {
  const scanner = new ObjectStreamParser();
  for (const chunk of chunks) scanner.push(chunk);
  return scanner.end();
}

/** Fails unless scanner and parser say the same of a body, however it is cut. */
function agree(body: Buffer, cuts: readonly number[]): void {
  const parsed = parseObject(body);
  const scanned = scan(cutAt(body, cuts));
  if (typeof parsed === 'string' || typeof scanned === 'string') {
    // a body refused for several reasons is refused for what is met first, or for the gravest
    if (parsed !== scanned)
      assert(
        REASONS.indexOf(parsed as JsonFault) < REASONS.indexOf(scanned as JsonFault),
        `${parsed} ${scanned}`,
      );
    return;
  }
  assert.deepEqual(scanned, parsed);
  isReduced(parsed.value, JSON.parse(body.toString()), 1);
}

/** The gravest first; an accepted body has none of them. */
const REASONS: readonly JsonFault[] = ['invalid_json', 'too_deep', 'too_many_members'];

/** Fails unless value is the whole value, reduced as ParsedObject promises. */
function isReduced(value: unknown, whole: unknown, depth: number): void {
  if (typeof whole === 'string' && value !== whole) {
    const nested = depth > 2;
    assert(typeof value === 'string' && value.endsWith('...') && value.length < 100);
    assert(nested ? value === '...' : value.length > 3 && whole.startsWith(value.slice(0, -3)));
    assert(whole.length > (nested ? SHORT_STRING : LONG_STRING) / 6); // it may be written \u0041
  } else if (typeof whole !== 'object' || whole === null) {
    assert.deepEqual(value, whole);
  } else if (depth > REDUCED_DEPTH) {
    assert.deepEqual(value, Array.isArray(whole) ? [] : {});
  } else {
    assert.equal(Object.getPrototypeOf(value), Object.getPrototypeOf(whole));
    assert.deepEqual(Reflect.ownKeys(value as object), Reflect.ownKeys(whole));
    for (const key of Reflect.ownKeys(whole)) {
      isReduced(Reflect.get(value as object, key), Reflect.get(whole, key), depth + 1);
    }
  }
}

const nested = (levels: number, inner = '1') =>
  `{"a":${'['.repeat(levels - 1)}${inner}${']'.repeat(levels - 1)}}`;
const members = (count: number, first = 0) =>
  Array.from({ length: count }, (_, n) => `"${n + first}":${n}`).join();
const plain = (length: number) => 'abcdefghij'.repeat(Math.ceil(length / 10)).slice(0, length);

const shown = (text: string) => JSON.stringify(text.slice(0, 60)).replace(/[^ -~]/g, '?');

const ACCEPTED = [
  '{}',
  ' \t\r\n{ } \n',
  '{"":0}',
  '{"a":1e999,"b":-1e999,"c":-0,"d":0,"e":0.5e-7,"f":12E+3,"g":1e-400,"h":0e0}',
  '{"a":9007199254740993,"b":123456789012345678901234567890,"c":0.1,"d":-12,"e":999999999,"f":1234567890,"g":[0,1,20,-3 ,4]}',
  '{"a":true,"b":false,"c":null,"d":[],"e":{},"f":[[],{}],"g":[true ,false\n,null]}',
  '{"a":"\\u0041\\u00e9\\ud83d\\ude00 \\" \\\\ \\/ \\b \\f \\n \\r \\t"}',
  '{"a":"\\ud83d","b":"\\ude00\\ud83d","c":"\\uD8ff!"}',
  '{"a":"é漢😀\u007f\u2028"}',
  '{"__proto__":{"polluted":1},"constructor":1,"a":{"__proto__":null,"toString":2}}',
  '{"a":1,"a":2,"\\u0061":3}',
  '{"2":"b","1":"a","x":[{"1":1,"0":0}]}',
  `{"a":"${plain(LONG_STRING)}","b":"${plain(LONG_STRING + 1)}","c":["${plain(LONG_STRING + 1)}",{"d":"${plain(LONG_STRING + 1)}"}]}`,
  `{"a":"${'é'.repeat(256)}","b":"${'é'.repeat(257)}","c":"x${'é'.repeat(256)}","d":"${'漢'.repeat(171)}","e":"${'😀'.repeat(129)}"}`,
  `{"a":"${'\\u0041'.repeat(85)}","b":"${'\\u0041'.repeat(86)}","c":"${'\\n'.repeat(256)}","d":"${'\\n'.repeat(257)}"}`,
  `{"a":"${'\\ud83d\\ude00'.repeat(42)}","b":"${'\\ud83d\\ude00'.repeat(43)}","c":"${'\\ud83d'.repeat(86)}"}`,
  `{"a":"${plain(63)}\\u00e9${plain(500)}","b":"${plain(63)}é${plain(500)}","c":"${plain(62)}\\n${plain(500)}"}`,
  `{"a":{"b":["${plain(600)}" , "${plain(600)}"\n],"c" : "${plain(700)}" },"d":"${plain(800)}"}`,
  '{"a":{"b":[{"c":[{"d":1}],"e":"x"}]}}',
  '{"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url"}]}]}',
  nested(MAX_DEPTH),
  `{${members(MAX_MEMBERS)}}`,
  `{"a":{${members(MAX_MEMBERS + 1)}}}`,
];

const REFUSED = [
  '',
  ' ',
  '\ufeff{}',
  '{',
  '{"a"',
  '{"a":',
  '{"a":1',
  '{"a":1,',
  '{"a":1,}',
  '{,"a":1}',
  '{"a" 1}',
  '{"a":1 "b":2}',
  '{a:1}',
  "{'a':1}",
  '{"a":1}}',
  '{"a":1}{}',
  '{"a":1} x',
  '{"a":[1,]}',
  '{"a":[,1]}',
  '{"a":[1}',
  '{"a":[1}]',
  '{"a":{"b":1]}',
  '{"a":}',
  '{1:1}',
  '{"a":01}',
  '{"a":-}',
  '{"a":+1}',
  '{"a":1.}',
  '{"a":.5}',
  '{"a":1e}',
  '{"a":1e+}',
  '{"a":0x1}',
  '{"a":1.5.5}',
  '{"a":1-1}',
  '{"a":-01}',
  '{"a":NaN}',
  '{"a":Infinity}',
  '{"a":tru}',
  '{"a":truE}',
  '{"a":nulll}',
  '{"a":undefined}',
  '{"a":"\\x"}',
  '{"a":"\\u12g4"}',
  '{"a":"\\u123"}',
  '{"a":"\\U0041"}',
  '{"a":"line\nbreak"}',
  `{"a":"${plain(100)}\t"}`,
  `{"a":"${plain(100)}\u0000${plain(100)}"}`,
  '{"a":"unfinished}',
  '{"a":"\\"}',
  '{"a":1}\u00a0',
  '\u00a0{}',
  '{"a":1/*c*/}',
  '\v{}',
  '[]',
  '"text"',
  '12',
  '-1',
  'true',
  'null',
  'nothing',
  '[1,',
  'ÿ',
  nested(MAX_DEPTH + 1),
  `${nested(MAX_DEPTH + 1)}x`,
  `{${members(MAX_MEMBERS + 1)}}`,
  `{${'"a":1,'.repeat(MAX_MEMBERS)}"a":1}`,
  `{${members(MAX_MEMBERS + 1)}`,
  `{${members(MAX_MEMBERS)},}`,
  `{${members(MAX_MEMBERS)},"a"}`,
  `{${members(MAX_MEMBERS)},"a":${nested(MAX_DEPTH)}}`,
  `{${members(MAX_MEMBERS)},"a":01}`,
];

t.test('small and large path agree on accepted bodies, fed whole and byte by byte', (t) => {
  for (const text of ACCEPTED) {
    const body = Buffer.from(text);
    t.type(parseObject(body), 'object', shown(text));
    agree(body, []);
    agree(body, [...body.keys()]);
    for (let cut = 1; cut < Math.min(body.length, 400); cut++) agree(body, [cut]);
  }
  t.end();
});

t.test('small and large path refuse the same bodies, fed whole and byte by byte', (t) => {
  for (const text of REFUSED) {
    const body = Buffer.from(text);
    t.type(parseObject(body), 'string', shown(text));
    agree(body, []);
    agree(body, [...body.keys()]);
  }
  t.end();
});

t.test('invalid UTF-8 is refused wherever a chunk ends', (t) => {
  const bad = [
    'ff',
    'c0af',
    'e08080',
    'eda080',
    'f4908080',
    'f8888080',
    '80',
    'c3',
    'e2ac',
    'f09f98',
    'c328',
    'e228a1',
  ];
  for (const hex of bad) {
    for (const [head, tail] of [
      ['{"a":"', '"}'],
      ['{"a":"x', 'é"}'],
      [`{"a":"${plain(80)}`, `${plain(80)}"}`],
      ['{"', '":1}'],
      ['{} ', ''],
    ] as const) {
      const body = Buffer.concat([Buffer.from(head), Buffer.from(hex, 'hex'), Buffer.from(tail)]);
      t.equal(parseObject(body), 'invalid_json', `${hex} in ${head}`);
      for (let cut = 0; cut <= body.length; cut++)
        assert.equal(scan(cutAt(body, [cut])), 'invalid_json');
      assert.equal(scan(cutAt(body, [...body.keys()])), 'invalid_json');
    }
  }
  t.end();
});

t.test('reasons for a refusal', (t) => {
  const both = (text: string) => [parseObject(Buffer.from(text)), scan([Buffer.from(text)])];
  t.strictSame(both('[{}]'), ['not_an_object', 'not_an_object']);
  t.strictSame(both(nested(MAX_DEPTH + 1)), ['too_deep', 'too_deep']);
  t.strictSame(both('{"a":1'), ['invalid_json', 'invalid_json']);
  t.strictSame(both(`{${members(MAX_MEMBERS + 1)}}`), ['too_many_members', 'too_many_members']);
  t.end();
});

t.test('reading on is pointless once a body is refused', (t) => {
  const scanner = new ObjectStreamParser();
  t.equal(scanner.push(Buffer.from('{"a":')), true);
  t.equal(scanner.push(Buffer.alloc(0)), true);
  t.equal(scanner.push(Buffer.from('x')), false);
  t.equal(scanner.push(Buffer.from('1}')), false);
  t.equal(scanner.end(), 'invalid_json');
  t.end();
});

t.test('a long key is shortened, in the value and in its member', (t) => {
  const scanned = scan(cutAt(Buffer.from(`{"${plain(3000)}":1}`), [700])) as ParsedObject;
  const name = `${plain(64)}...`;
  t.strictSame(scanned.value, { [name]: 1 });
  t.match(scanned.members, [{ name, valueStart: 3004, valueEnd: 3005 }]);
  t.end();
});

t.test('a long number is NaN, wherever it is cut', (t) => {
  for (const [head, digit] of [
    ['', '1'],
    ['-', '1'],
    ['0.', '0'],
    ['1e', '1'],
  ] as const) {
    const number = (length: number) => head + digit.repeat(length - head.length);
    for (const length of [
      REDUCED_NUMBER - 1,
      REDUCED_NUMBER,
      REDUCED_NUMBER + 1,
      3 * REDUCED_NUMBER,
    ]) {
      const body = Buffer.from(`{"a":${number(length)}}`);
      const expected = { a: length > REDUCED_NUMBER ? Number.NaN : Number(number(length)) };
      const cuts = [
        [],
        [6],
        [5 + REDUCED_NUMBER],
        [6 + REDUCED_NUMBER],
        [7, 500, 1500],
        [...body.keys()],
      ];
      for (const cut of cuts)
        assert.deepEqual((scan(cutAt(body, cut)) as ParsedObject).value, expected);
    }
  }
  t.pass('agreed');
  t.end();
});

t.test('so many values and no more, wherever they stand; what is left out does not count', (t) => {
  const filled = (count: number, item: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => item(n)).join();
  const most = MAX_VALUES - 1; // the container is one
  const bodies: Record<string, (more: number) => string> = {
    objects: (more) => `{"a":[${filled(most + more, () => '{}')}]}`,
    'the same member': (more) => `{"a":{${filled(most + more, () => '"a":0')}}}`,
    'values of two kinds': (more) =>
      `{"a":[${filled(most + more, (n) => (n % 2 === 0 ? '1' : '""'))}]}`,
    messages: (more) =>
      `{"a":[${filled(most / 3, () => '{"role":"user","content":""}')}${',{}'.repeat(more)}]}`,
    'in the fourth level': (more) => `{"a":[[${filled(most - 1 + more, () => '{}')}]]}`,
  };
  for (const [name, body] of Object.entries(bodies)) {
    for (const cuts of [[], [70_000, 90_000], Array.from({ length: 40 }, (_, n) => n * 5003)]) {
      t.type(scan(cutAt(Buffer.from(body(0)), cuts)), 'object', name);
      t.equal(scan(cutAt(Buffer.from(body(1)), cuts)), 'too_many_values', name);
    }
  }
  for (const item of ['1', '"x"', 'null', '[]']) {
    t.type(scan([Buffer.from(`{"a":[${filled(MAX_VALUES * 2, () => item)}]}`)]), 'object', item);
  }
  t.type(
    scan([Buffer.from(`{"a":[[[[${filled(MAX_VALUES * 2, () => '{}')}]]]]}`)]),
    'object',
    'in the fifth level',
  );
  t.end();
});

t.test('a name counts once, however often it occurs and however it is written', (t) => {
  for (const item of [
    '{"call_id":1,"file_id":2}',
    '{"größe":1}',
    `{"${'long '.repeat(9)}":1}`,
    '{"\\u0061":1}',
  ]) {
    const body = Buffer.from(`{"a":[${Array(MAX_NAMES + 300).fill(item)}]}`);
    t.strictSame(scan([body]), parseObject(body), item);
    t.type(parseObject(body), 'object', item);
  }
  t.end();
});

t.test('so many names below the top level and no more', (t) => {
  const names = (count: number) => Array.from({ length: count }, (_, n) => `"name ${n}":0`).join();
  for (const body of [
    (list: string) => `{"a":{${list}}}`,
    (list: string) => `{"a":[{"b":{${list}}},1]}`,
  ]) {
    const most = body(names(MAX_NAMES - 1));
    const over = body(names(MAX_NAMES + 1));
    t.type(scan(cutAt(Buffer.from(most), [5000, 9001])), 'object');
    t.equal(scan(cutAt(Buffer.from(over), [5000, 9001])), 'too_many_names');
    t.type(parseObject(Buffer.from(most)), 'object');
    // it forgets some of the names it knows from other bodies
    t.equal(parseObject(Buffer.from(body(names(MAX_NAMES + 300)))), 'too_many_names');
  }
  t.type(
    scan([
      Buffer.from(
        `{"a":[${Array.from({ length: 9999 }, () => '{"role":"x","content":""}').join()}]}`,
      ),
    ]),
    'object',
  );
  t.type(scan([Buffer.from(`{"a":[[[{${names(9999)}}]]]}`)]), 'object', 'in the fifth level');
  t.end();
});

t.test(
  'a watched name is found from the third level on, with a string that counts, however it is written',
  (t) => {
    const watch: WatchedNames = {
      first: letterSet('fu'),
      ends: pairSet('id', 'rl'),
      counts: (key) => (key.toLowerCase() === 'file_id' ? /^/ : key === 'url' ? /^x:/ : null),
      notBelow: { item: ['tool_calls'], part: ['input'] },
    };
    const keyOf = (text: string) => /FILE_ID|url/.exec(text)?.[0] ?? 'file_id';
    const cases: readonly (readonly [body: string, watched: readonly number[]])[] = [
      ['{"x":1,"a":[{"file_id":"f"}]}', [1]],
      ['{"a":[{"b":[{"file_id" : "f"}]}]}', [0]],
      ['{"a":[{"b":[{"c":{"file_id":"f"}}]}]}', [0]],
      ['{"a":[{"b":[{"c":[{"d":{"e":{"file_id":""}}}]}]}]}', [0]],
      ['{"a":[{"b":[{"fil\\u0065_id":"f"}]}]}', [0]],
      ['{"a":[{"file_id":"f"},{"file_id":"g"}],"b":{"c":{"file_id":"h"}}}', [0, 1]],
      ['{"a":[{"b":[{"input":{"x":1},"c":{"file_id":"f"}}]}]}', [0]],
      ['{"a":[{"b":[{"input":{"x":1},"file_id":"f"}]}]}', [0]],
      ['{"a":[{"input":[{"c":{"file_id":"f"}}]}]}', [0]],
      ['{"a":[{"b":[{"url":"x:y"}]}]}', [0]],
      ['{"a":[{"b":[{"url":"https:"},{"c":{"d":{"url":"\\u0078:y"}}}]}]}', [0]],
      [`{"a":[{"b":[{"url":"x:${'y'.repeat(2000)}"}]}]}`, [0]],
      // not these
      ['{"a":[{"b":[{"url":"https:"},{"url":1},{"url":"y","x":"x:"},"x:"]}]}', []],
      ['{"file_id":"f","a":{"file_id":"f"}}', []],
      [
        '{"a":[{"b":[{"file_id":{"type":"string"}},{"file_id":7},{"file_id":null},{"file_id":["f"]}]}]}',
        [],
      ],
      ['{"a":[{"b":[{"input":{"file_id":"f","x":{"file_id":"g"}}}]}]}', []],
      ['{"a":[{"tool_calls":[{"x":{"y":{"file_id":"f"}}}]}]}', []],
      ['{"a":[{"tool_call\\u0073":[{"x":{"input":{"file_id":"f"}}}],"y":"z"}]}', []],
      ['{"a":[{"tool_calls":[{"x":{"file_id":"f"}}],"b":{"file_id":"f"}}]}', [0]],
      ['{"a":[{"tool_calls":[{"x":{}}]},{"b":[{"file_id":"f"}]}]}', [0]],
      ['{"a":[{"b":[{"tool_calls":[{"file_id":"f"}]}]}]}', [0]],
      ['{"a":[{"file_id":12,"x":"y"},"z",{"b":{"file_id":7}},"z"],"b":"f"}', []],
      ['{"a":[{"b":["file_id","f",{"file_ids":"f","file_i":"f"}]}]}', []],
      ['{"a":[{"b":["f",{"FILE_ID":"f"}]}]}', [0]],
      ['{"a":[{"b":[{"input":{"file_id":1}},[{"file_id":"f"}]]}]}', [0]],
      [String.raw`{"a":[{"content":"{\"file_id\":\"f\"}"}]}`, []],
    ];
    for (const [text, indices] of cases) {
      const watched = indices.map((member) => ({ member, key: keyOf(text) }));
      const body = Buffer.from(text);
      t.match(parseObject(body, watch), { watched }, text);
      for (const cuts of [
        [],
        ...Array.from({ length: Math.min(body.length, 100) }, (_, n) => [n]),
        [...body.keys()],
      ]) {
        const scanner = new ObjectStreamParser(watch);
        for (const piece of cutAt(body, cuts)) scanner.push(piece);
        assert.deepEqual(
          (scanner.end() as ParsedObject).watched,
          watched,
          `${text}, cut at ${cuts}`,
        );
      }
    }
    t.strictSame(
      (parseObject(Buffer.from('{"a":[{"file_id":"f"}]}')) as ParsedObject).watched,
      [],
      'nobody asked',
    );
    t.end();
  },
);

t.test(
  'of a long key the watched name may be the beginning, wherever an escape or a character is cut',
  (t) => {
    const counts = (key: string) => (key.startsWith('file_id\0') ? /^/ : null);
    const watch: WatchedNames = {
      first: letterSet('f'),
      ends: pairSet('id'),
      counts,
      notBelow: { item: ['tool_calls'], part: ['input'] },
    };
    for (const filler of ['\\u00e9', '\\n', '\u00e9', '\u20ac', '\u{1f600}', 'x']) {
      for (let pad = 0; pad < 7; pad++) {
        const key = `file_id\\u0000${'y'.repeat(pad)}${filler.repeat(300)}`;
        const body = Buffer.from(`{"a":[{"${key}":"f"}]}`);
        t.match(parseObject(body, watch), { watched: [{ member: 0 }] }, key.slice(0, 30));
        for (const cut of [20, 100, 300, 520, 521, 522, 530]) {
          const scanner = new ObjectStreamParser(watch);
          scanner.push(body.subarray(0, cut));
          scanner.push(body.subarray(cut));
          t.match(scanner.end(), { watched: [{ member: 0 }] }, `cut at ${cut}`);
        }
      }
    }
    t.end();
  },
);

t.test('long content is passed over at any alignment and stopped in where it must be', (t) => {
  const ends = [
    '"',
    '\\n"',
    '\\u0041"',
    '\\q"',
    '\u001f"',
    '\n"',
    'é"',
    '\u007f"',
    ' "',
    '!"',
    '#"',
    '[]"',
  ];
  for (let shift = 0; shift < 8; shift++) {
    for (let length = 8; length < 48; length++) {
      for (const end of ends) {
        const text = Buffer.from(`{"a":"${plain(length)}${end}}`);
        const body = Buffer.concat([Buffer.alloc(shift), text]).subarray(shift);
        agree(body, []);
      }
    }
  }
  t.pass('agreed');
  t.end();
});

t.test(
  'an escape has four hexadecimal digits, alone and behind others, wherever a chunk ends',
  (t) => {
    const isValid = (text: string): boolean => {
      try {
        return typeof JSON.parse(text) === 'object';
      } catch {
        return false;
      }
    };
    for (let place = 0; place < 4; place++) {
      for (let c = 0; c < 0x100; c++) {
        const digits = `${'0aF9'.slice(0, place)}${String.fromCharCode(c)}${'0aF9'.slice(place + 1)}`;
        for (const text of [
          `{"a":"${plain(20)}\\u${digits}"}`,
          `{"\\u00e9\\u${digits}\\n":"\\ud83d\\ude00\\u${digits}"}`,
        ]) {
          const body = Buffer.from(text);
          assert.equal(typeof parseObject(body) === 'object', isValid(text), shown(text));
          agree(body, []);
          if (c % 5 === 0) for (let cut = 1; cut < body.length; cut++) agree(body, [cut]);
        }
      }
    }
    t.pass('agreed');
    t.end();
  },
);

t.test('names and texts mix escapes with characters of all lengths', (t) => {
  const parts = [
    'é',
    '漢',
    '😀',
    '\\u00e9',
    '\\u6f22',
    '\\uD83D\\uDE00',
    '\\ud83d',
    '\\/',
    '\\b',
    '\\f',
    '\\r',
    '\\t',
    '\\"',
    '\u007f',
  ];
  for (const one of parts) {
    for (const other of parts) {
      for (const times of [1, 7, 20]) {
        const name = `${one}${other}x`.repeat(times);
        agree(Buffer.from(`{"a":"${name}","${name}":[{"${name}":"${one}${other}"}]}`), [20]);
      }
    }
  }
  t.pass('agreed');
  t.end();
});

const body = fc.oneof(
  // valid, written with random whitespace
  fc
    .tuple(
      fc.json({ maxDepth: 7, stringUnit: character }),
      fc.json({ maxDepth: 5, stringUnit: character }),
    )
    .map(([a, b]) => `{"model":${a}, "b" :${b}}`),
  fc
    .dictionary(
      fc.string({ unit: 'grapheme' }),
      fc.jsonValue({ stringUnit: 'grapheme', maxDepth: 6 }),
    )
    .map((value) => JSON.stringify(value, null, 1)),
  // with long strings, written plainly or all in escapes
  fc
    .tuple(
      fc.array(fc.tuple(fc.string({ unit: 'grapheme', maxLength: 20 }), fc.nat(90)), {
        minLength: 1,
        maxLength: 5,
      }),
      fc.boolean(),
    )
    .map(([texts, escapes]) => {
      const [first, ...rest] = texts.map(([text, times]) => text.repeat(times));
      const json = JSON.stringify({ a: first, b: [rest, { c: rest.at(-1) ?? 1, d: [first] }] });
      return escapes
        ? json.replace(/[^ -~]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
        : json;
    }),
  // made of tokens, mostly invalid
  fc
    .array(
      fc.constantFrom(
        ...'{ } [ ] , : 0 1 -1 1.5 1e5 01 true false null nul "" "a" "\\u0041" "\\ud800" "__proto__" "é" " \\ \u0001 é'.split(
          ' ',
        ),
        '\n',
      ),
      { maxLength: 30 },
    )
    .map((tokens) => `{${tokens.join('')}}`),
);

t.test('small and large path agree on whatever fuzzing makes', (t) => {
  fuzz(
    t,
    fc.property(
      body,
      places,
      fc.option(fc.tuple(fc.nat(), fc.nat(255)), { freq: 3 }),
      (text, cuts, damage) => {
        const bytes = Buffer.from(text);
        if (damage !== null) bytes[damage[0] % bytes.length] = damage[1];
        agree(bytes, cuts);
      },
    ),
  );
  t.end();
});

t.test('a long array lacks only what is like the item kept before it', (t) => {
  const value = (items: string) => {
    const scanner = new ObjectStreamParser();
    scanner.push(Buffer.from(`{"a":[${items}]}`));
    return ((scanner.end() as ParsedObject).value as { a: unknown[] }).a;
  };
  const many = (item: string, times = REDUCED_ITEMS) =>
    Array.from({ length: times }, () => item).join();
  t.equal(value(many('1')).length, REDUCED_ITEMS);
  t.equal(value(`${many('1')},2,3`).length, REDUCED_ITEMS);
  t.same(value(`${many('1')},2,"x","y",null,null,true,[],[1],{},{},4`).slice(REDUCED_ITEMS), [
    'x',
    null,
    true,
    [],
    {},
    {},
    4,
  ]);
  t.equal(
    value(many('{}', REDUCED_ITEMS + 9)).length,
    REDUCED_ITEMS + 9,
    'objects are all looked at',
  );
  t.equal(
    (value(`[${many('123', 9000)}]`)[0] as unknown[]).length,
    REDUCED_DEEP_ITEMS,
    'lists of tokens are short',
  );
  t.equal(value(many(`[${many('123', 900)}]`, 2048)).length, 2048);
  t.end();
});
