import t from 'tap';
import { chatUsage, messagesUsage, readUsage, responsesUsage } from '../../src/json/usage.ts';

t.test('the usage of a chat completion is two whole numbers that are not negative', (t) => {
  const read = (json: string) => readUsage(json, chatUsage);
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
  // a bad number leaves the good one
  for (const json of [
    '{"prompt_tokens":1,"completion_tokens":2,"completion_tokens":-4}',
    '{"prompt_tokens":1,"completion_tokens":-2}',
    '{"prompt_tokens":1,"completion_tokens":"2"}',
    '{"prompt_tokens":1,"completion_tokens":1e999}',
  ]) {
    t.strictSame(read(json), { prompt: 1, completion: null }, json);
  }
  for (const json of [
    '{"completion_tokens":2}',
    '{"prompt_tokens":null,"completion_tokens":2}',
    '{"prompt_tokens":-1,"completion_tokens":2}',
    '{"prompt_tokens":1.5,"completion_tokens":2}',
    '{"prompt_tokens":"1","completion_tokens":2}',
    '{"prompt_tokens":9007199254740992,"completion_tokens":2}',
  ]) {
    t.strictSame(read(json), { prompt: null, completion: 2 }, json);
  }
  for (const json of [
    'null',
    '1',
    '"x"',
    '[]',
    '{}',
    '{"prompt_tokens":-1,"total_tokens":3}',
    '{"input_tokens":2}',
    '{',
  ]) {
    t.equal(read(json), null, json);
  }
  t.end();
});

t.test('the usage of a response', async (t) => {
  const read = (json: string) => readUsage(json, responsesUsage);
  t.strictSame(
    read('{"input_tokens":9,"input_tokens_details":{"cached_tokens":8},"output_tokens":4,"total_tokens":13}'),
    { prompt: 9, completion: 4 },
  );
  t.strictSame(read('{"input_tokens":9,"total_tokens":13}'), { prompt: 9, completion: 4 });
  t.strictSame(read('{"input_tokens":9}'), { prompt: 9, completion: null });
  t.strictSame(read('{"input_tokens":"9","output_tokens":4,"total_tokens":13}'), { prompt: null, completion: 4 });
  t.equal(read('{"prompt_tokens":9,"completion_tokens":4}'), null);
});

t.test('the usage of a message: tokens written to the cache and read from it are prompt tokens', async (t) => {
  const read = (json: string) => readUsage(json, messagesUsage);
  t.strictSame(read('{"input_tokens":9,"output_tokens":4}'), { prompt: 9, completion: 4 });
  t.strictSame(
    read('{"input_tokens":9,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":4}'),
    { prompt: 1109, completion: 4 },
  );
  t.strictSame(read('{"input_tokens":9,"cache_read_input_tokens":null,"output_tokens":4}'), {
    prompt: 9,
    completion: 4,
  });
  t.strictSame(read('{"input_tokens":9,"cache_read_input_tokens":-1,"output_tokens":4}'), {
    prompt: null,
    completion: 4,
  });
  t.strictSame(read('{"output_tokens":4}'), { prompt: null, completion: 4 });
  t.strictSame(
    read('{"input_tokens":9}'),
    { prompt: 9, completion: null },
    'an answer is not free for want of a number',
  );
});
