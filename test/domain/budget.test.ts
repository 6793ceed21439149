import t from 'tap';
import { tokens } from '../../src/demo/answer.ts';
import { boundChat, boundPrompt } from '../../src/domain/budget.ts';
import { parseEur } from '../../src/domain/pricing/money.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';

const PRICES = parsePrices('1', '10'); // EUR per 1000 tokens: 0.001 and 0.01 each
const messages = [{ role: 'user', content: 'Hello' }];
const amount = (eur: string, completion: number | null) => ({
  amount: parseEur(eur),
  prompt: 100,
  searchUnits: 0,
  bounded: completion !== null,
  completion,
});

t.test('a limit on the answer bounds the call: bytes of the prompt, and all choices', async (t) => {
  t.same(boundChat({ messages, max_tokens: 5 }, 100, PRICES), amount('0.15', 5));
  t.same(boundChat({ messages, max_completion_tokens: 5 }, 100, PRICES), amount('0.15', 5));
  t.same(
    boundChat({ messages, max_tokens: 5, max_completion_tokens: 7 }, 100, PRICES),
    amount('0.17', 7),
    'the larger one',
  );
  t.same(boundChat({ messages, max_tokens: 5, n: 3 }, 100, PRICES), amount('0.25', 15));
  t.same(
    boundChat({ messages, max_tokens: 5, n: null, best_of: 2 }, 100, PRICES),
    amount('0.2', 10),
  );
});

t.test('without a limit that can be read there is no bound', async (t) => {
  const unbounded = amount('0.1', null);
  t.same(boundChat({ messages }, 100, PRICES), unbounded);
  t.same(boundChat({ messages, max_tokens: null }, 100, PRICES), unbounded);
  for (const max_tokens of ['5', 0, -1, 1.5, 1e15, {}]) {
    t.equal(
      boundChat({ messages, max_tokens }, 100, PRICES).bounded,
      false,
      JSON.stringify(max_tokens),
    );
  }
  t.equal(boundChat({ messages, max_tokens: 5, n: '2' }, 100, PRICES).bounded, false);
});

t.test('parts that are no text say nothing of their tokens', async (t) => {
  const parts = (content: unknown) =>
    boundChat({ messages: [{ role: 'user', content }], max_tokens: 5 }, 100, PRICES).bounded;
  t.equal(parts([{ type: 'text', text: 'Hello' }]), true);
  t.equal(parts([{ type: 'image_url', image_url: { url: 'https://a/b.png' } }]), false);
  t.equal(parts([null]), false);
  t.equal(boundChat({ messages: 'x', max_tokens: 5 }, 100, PRICES).bounded, false);
});

t.test(
  'the calls of tools and their results are text, unless a result holds an image',
  async (t) => {
    const parts = (...content: unknown[]) =>
      boundChat({ messages: [{ role: 'user', content }], max_tokens: 5 }, 100, PRICES).bounded;
    t.equal(parts({ type: 'tool_use', id: 't', name: 'f', input: { a: 1 } }), true);
    t.equal(
      parts(
        { type: 'thinking', thinking: 'Hm', signature: 'abc' },
        { type: 'text', text: 'Hello' },
      ),
      true,
    );
    t.equal(parts({ type: 'tool_result', tool_use_id: 't', content: 'x' }), true);
    t.equal(parts({ type: 'tool_result', content: [{ type: 'text', text: 'x' }] }), true);
    t.equal(parts({ type: 'tool_result', content: [{ type: 'image', source: {} }] }), false);
    t.equal(
      boundChat({ messages, max_tokens: 5, web_search_options: {} }, 100, PRICES).bounded,
      false,
      'brings pages',
    );
  },
);

t.test('items of a response are bounded if all they hold is text', async (t) => {
  const items = (...messages: unknown[]) =>
    boundChat({ messages, max_tokens: 5 }, 100, PRICES).bounded;
  t.equal(items({ role: 'user', content: [{ type: 'input_text', text: 'Hello' }] }), true);
  t.equal(
    items({
      type: 'message',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'Hello' }],
    }),
    true,
  );
  t.equal(
    items(
      { type: 'function_call', arguments: '{}' },
      { type: 'function_call_output', output: 'x' },
    ),
    true,
  );
  const image = { type: 'input_image', image_url: 'https://a/b.png' };
  t.equal(items({ type: 'function_call_output', output: [image] }), false);
  t.equal(
    items({ type: 'computer_call_output', output: { ...image, type: 'computer_screenshot' } }),
    false,
  );
  t.equal(items(image), false);
});

t.test('what generates nothing is bounded by its bytes, where they are text', async (t) => {
  t.same(boundPrompt(100, PRICES, true), amount('0.1', 0));
  t.equal(boundPrompt(100, PRICES, false).bounded, false);
});

t.test('a body never has fewer bytes than its prompt has tokens', async (t) => {
  for (const text of [
    '',
    'a b c d',
    '!?!?!?',
    '你好，世界',
    '👩‍👩‍👧‍👦',
    '\u0000\n\t',
    'x'.repeat(1000),
  ]) {
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: text }] });
    t.ok(Buffer.byteLength(body) >= tokens(text).length + 7, JSON.stringify(text));
  }
});
