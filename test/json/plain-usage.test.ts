import t from 'tap';
import { plainUsage } from '../../src/json/plain-usage.ts';
import { chatUsage, inputUsage, readUsageMembers } from '../../src/json/usage.ts';
import { readUsage } from '../support/told-usage.ts';

const TEXTS = [
  '{}',
  '{"prompt_tokens":231,"completion_tokens":154,"total_tokens":385}',
  '{"prompt_tokens":231,"completion_tokens":154,"total_tokens":385,"prompt_tokens_details":{"cached_tokens":0}}',
  '{ "prompt_tokens" : 1 , "completion_tokens" : 0 , "total_tokens" : 9 , "completion_tokens_details" : { "reasoning_tokens" : 8 , "accepted_prediction_tokens" : 3 } }',
  '{"prompt_tokens":1,"prompt_tokens":2,"completion_tokens":null,"total_tokens":7,"prompt_tokens_details":null}',
  '{"total_tokens":7,"prompt_tokens":5,"completion_tokens_details":{},"prompt_tokens_details":{"audio_tokens":2,"cache_write_tokens":1,"cached_tokens":null}}',
  '{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_creation_tokens":5,"cached_read_tokens":1}}',
  '{"prompt_tokens":7,"completion_tokens":1,"completion_tokens_details":{"text_tokens":1,"tool_tokens":3}}',
  '{"prompt_tokens":01,"completion_tokens":2}',
  '{"prompt_tokens":12.0,"completion_tokens":2}',
  '{"prompt_tokens":-1,"completion_tokens":2e3}',
  '{"prompt_tokens":999999999999999,"completion_tokens":1234567890123456}',
  '{"prompt_tokens":"7","completion_tokens":{"a":1},"total_tokens":[1]}',
  '{"prompt\\u005ftokens":7,"completion_tokens":1}',
  '{"prompt_tokens":7,"completion_tokens":1,"cost":0.5}',
  '{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":{"cached_tokens":1}}}',
  '{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":5}',
  '{"prompt_tokens":7,"completion_tokens":nul1}',
  '{"prompt_tokens":7,"completion_tokens":1,}',
  '{"prompt_tokens":7 "completion_tokens":1}',
  '{"prompt_tokens":7}}',
];

t.test(
  'a usage read from its bytes is the one that JSON.parse gives, or it is left to that',
  async (t) => {
    const check = (text: string): void => {
      const bytes = Buffer.from(`x${text}y`);
      const plain = plainUsage(bytes, 1, bytes.length - 1);
      if (plain === null) return;
      for (const reader of [chatUsage, inputUsage]) {
        const [one, other] = [readUsageMembers(plain, reader), readUsage(text, reader)];
        if (JSON.stringify(one) !== JSON.stringify(other)) t.same(one, other, text);
      }
      try {
        JSON.parse(text);
      } catch {
        t.fail(`took what is no JSON: ${text}`);
      }
    };
    let state = 42;
    const random = (): number => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return state / 2_147_483_648;
    };
    for (const text of TEXTS) {
      check(text);
      for (let n = 0; n < 2000; n++) {
        const at = Math.floor(random() * text.length);
        const to = at + Math.floor(random() * 3);
        const other = TEXTS[Math.floor(random() * TEXTS.length)] as string;
        const from = Math.floor(random() * other.length);
        check(
          text.slice(0, at) + other.slice(from, from + Math.floor(random() * 12)) + text.slice(to),
        );
      }
    }
    t.not(
      plainUsage(Buffer.from(TEXTS[2] as string), 0, (TEXTS[2] as string).length),
      null,
      'the usual one is read',
    );
    t.not(
      plainUsage(Buffer.from(TEXTS[3] as string), 0, (TEXTS[3] as string).length),
      null,
      'so is one with blanks',
    );
  },
);
