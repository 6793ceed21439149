import t from 'tap';
import { readUsage } from '../../src/bytes/usage.ts';

t.test('usage is two whole numbers that are not negative', (t) => {
  const read = (json: string) => readUsage(JSON.parse(json));
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2}'), { prompt: 1, completion: 2 });
  t.strictSame(read('{"prompt_tokens":1.0,"completion_tokens":2e3}'), { prompt: 1, completion: 2000 });
  t.strictSame(read('{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}'), { prompt: 0, completion: 0 });
  t.strictSame(read('{"prompt_tokens":5}'), { prompt: 5, completion: 0 });
  t.strictSame(read('{"prompt_tokens":5,"completion_tokens":null,"total_tokens":7}'), { prompt: 5, completion: 2 });
  t.strictSame(read('{"prompt_tokens":5,"total_tokens":3}'), { prompt: 5, completion: 0 });
  for (const json of [
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
