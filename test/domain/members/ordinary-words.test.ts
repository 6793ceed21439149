import { readFileSync } from 'node:fs';
import t from 'tap';
import { isOrdinaryWord } from '../../../src/domain/members/ordinary-words.ts';
import { redact } from '../../../src/domain/request/redact.ts';

const TYPES = [
  'openai/resources/responses/responses.d.ts',
  'openai/resources/chat/completions/completions.d.ts',
  'openai/resources/shared.d.ts',
  '@anthropic-ai/sdk/resources/messages/messages.d.ts',
  '@anthropic-ai/sdk/resources/beta/messages/messages.d.ts',
];
/** Voices, and names of models and companies: a model called so is hidden. */
const NAMES = 'alloy anthropic ash ballad cedar coral lark marin opus sage'.split(' ');

t.test(
  'every word of the formats is an ordinary one, as the types of the SDKs list them',
  async (t) => {
    const words = TYPES.flatMap((path) => {
      const types = readFileSync(new URL(`../../../node_modules/${path}`, import.meta.url), 'utf8');
      return [...types.replace(/\/\*[\s\S]*?\*\//g, '').matchAll(/'([a-z]+)'/g)].map(
        ([, word]) => word as string,
      );
    });
    t.ok(words.length > 500);
    t.same([...new Set(words)].filter((word) => !isOrdinaryWord(word)).sort(), NAMES);
  },
);

t.test('no name of a family of models or of a provider is an ordinary word', async (t) => {
  const families = `gpt claude gemini gemma llama mistral mixtral qwen grok sonnet opus haiku deepseek phi nova titan palm
    falcon kimi glm command sonar sora jamba yi azure openai google bedrock vertex openrouter litellm groq cohere`;
  t.same(families.split(/\s+/).filter(isOrdinaryWord), []);
});

t.test('an error keeps the ordinary word that its model is named like', async (t) => {
  const model = { slug: 'acme', upstream: 'openrouter/auto' } as Parameters<typeof redact>[1];
  t.equal(
    redact('tool_choice: "auto" is not automatic for openrouter/auto', model, ['router/none']),
    'tool_choice: "auto" is not automatic for acme',
  );
});
