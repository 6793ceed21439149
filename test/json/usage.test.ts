import t from 'tap';
import { readUsageText } from '../../src/json/usage.ts';

t.test('usage is two whole numbers that are not negative', (t) => {
  const read = readUsageText;
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2}'), { prompt: 1, completion: 2 });
  t.strictSame(read('{"prompt_tokens":1.0,"completion_tokens":2e3}'), { prompt: 1, completion: 2000 });
  t.strictSame(read('{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}'), { prompt: 0, completion: 0 });
  t.strictSame(read('{"prompt_tokens":5}'), { prompt: 5, completion: 0 });
  t.strictSame(read('{"prompt_tokens":5,"completion_tokens":null,"total_tokens":7}'), { prompt: 5, completion: 2 });
  t.strictSame(read('{"prompt_tokens":5,"total_tokens":3}'), { prompt: 5, completion: 0 });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"total_tokens":9,"d":{"x":0}}'), {
    prompt: 1,
    completion: 2,
  });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2.0}'), { prompt: 1, completion: 2 });
  // of two members of a name the last one counts, however it is spelt; what lies deeper does not
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens":3}'), { prompt: 3, completion: 2 });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"completion_tokens":4}'), { prompt: 1, completion: 4 });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"prompt_token\\u0073":3}'), { prompt: 3, completion: 2 });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"d":{"prompt_tokens":9}}'), { prompt: 1, completion: 2 });
  for (const json of [
    '{"prompt_tokens":1,"completion_tokens":2,"completion_tokens":-4}',
    'null',
    '1',
    '"x"',
    '[]',
    '{}',
    '{"completion_tokens":2}',
    '{"prompt_tokens":null,"completion_tokens":2}',
    '{"prompt_tokens":-1,"completion_tokens":2}',
    '{"prompt_tokens":1,"completion_tokens":-2}',
    '{"prompt_tokens":1.5,"completion_tokens":2}',
    '{"prompt_tokens":"1","completion_tokens":2}',
    '{"prompt_tokens":1,"completion_tokens":"2"}',
    '{"prompt_tokens":9007199254740992,"completion_tokens":2}',
    '{"prompt_tokens":1,"completion_tokens":1e999}',
  ]) {
    t.equal(read(json), null, json);
  }
  t.end();
});
