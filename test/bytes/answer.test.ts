import t from 'tap';
import { type AnswerScan, renderAnswer, scanAnswer } from '../../src/bytes/answer.ts';

const SLUG = 'acme/large';

/** What the client gets, or null. */
function rendered(json: string): string | null {
  const body = Buffer.from(json);
  const scan = scanAnswer(body, SLUG);
  return scan === null ? null : renderAnswer(body, scan).toString();
}

function scanned(json: string): AnswerScan {
  return scanAnswer(Buffer.from(json), SLUG) as AnswerScan;
}

t.test('spec 2.2: the upstream model name becomes the slug, other bytes stay', (t) => {
  t.equal(
    rendered('{\n  "id": "chatcmpl-1",\r\n  "model": "internal-7b",\n  "n": 1.50, "model":null\n}\n'),
    `{\n  "id": "chatcmpl-1",\r\n  "model": "${SLUG}",\n  "n": 1.50, "model":"${SLUG}"\n}\n`,
  );
  t.equal(rendered(' {"id":"x"}'), ` {"model":"${SLUG}","id":"x"}`);
  t.equal(rendered('{ }'), `{"model":"${SLUG}" }`);
  t.equal(rendered('{"a":{"model":"x"},"\\u006dodel":"x"}'), `{"a":{"model":"x"},"\\u006dodel":"${SLUG}"}`);
  t.end();
});

t.test('members that name what stands behind are taken out', (t) => {
  t.equal(
    rendered('{"provider":"x","model":"m","_hidden_params":{"a":[1]},"id":1,"provider_specific_fields":null}'),
    `{"model":"${SLUG}","id":1}`,
  );
  t.end();
});

t.test('usage of an answer', (t) => {
  t.strictSame(scanned('{"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}').usage, {
    prompt: 8,
    completion: 3,
  });
  t.strictSame(scanned('{"usage":{"prompt_tokens":8,"total_tokens":8}}').usage, { prompt: 8, completion: 0 });
  t.strictSame(scanned('{"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}').usage, {
    prompt: 1,
    completion: 2,
  });
  for (const none of ['{}', '{"usage":null}', '{"usage":{}}', '{"usage":{"prompt_tokens":x}}', '{"x_groq":{"id":1}}']) {
    t.equal(scanned(none).usage, null, none);
  }
  t.end();
});

t.test('an error, a finish_reason and generated text are noticed', (t) => {
  t.equal(scanned('{"error":{"message":"x"}}').error, true);
  t.equal(scanned('{"error":null,"a":{"error":1}}').error, false);
  const answer = scanned(
    '{"choices": [\n {"index":0,"message":{"role":"assistant","content":"Hi \\"you\\""},"finish_reason": "stop"}]}',
  );
  t.equal(answer.finished, true);
  t.equal(answer.generatedBytes, 10);
  t.equal(scanned('{"choices":[{"finish_reason":null}]}').finished, false);
  t.end();
});

t.test('what is not one whole object is no answer', (t) => {
  const none = [
    '',
    ' ',
    '[]',
    'null',
    '"x"',
    '<html>',
    '{',
    '{"a":1',
    '{"a":[1}',
    '{"a":"b',
    '{"a":1}x',
    '{}{}',
    '\ufeff{}',
  ];
  for (const text of none) t.equal(rendered(text), null, text);
  t.end();
});

t.test('a truncated answer is never taken for a whole one', (t) => {
  const answer = Buffer.from('{"id":"x","model":"m","choices":[{"message":{"content":"a{\\"b\\"}"}}],"usage":{"a":1}}');
  for (let end = 0; end < answer.length; end++) {
    if (scanAnswer(answer.subarray(0, end), SLUG) !== null) t.fail(`taken at ${end}`);
  }
  t.ok(scanAnswer(answer, SLUG));
  t.end();
});
