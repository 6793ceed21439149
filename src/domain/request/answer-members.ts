import { Hidden } from '../../json/hidden.ts';
import {
  CALLERS,
  CHOICES,
  CODED_ID,
  DELTA,
  ERROR,
  GROQ,
  META,
  MODEL,
  memberTable,
  NESTED,
  RESULT,
  TIER,
  TYPE,
  USAGE,
} from '../../json/member-table.ts';
import { inputUsage, messagesUsage, responsesUsage } from '../../json/usage.ts';
import { isOrdinaryWord } from '../members/ordinary-words.ts';
import { internalNames, type Model } from '../model.ts';

/**
 * Members that tell what stands behind the gateway: they are removed, however deep they are, unless they are generated
 * or the caller's. `*` stands for the rest of a name, before or behind.
 */
// biome-ignore format: a table
export const LEAKING_MEMBERS: readonly string[] = [
  // the provider that OpenRouter and other resellers chose
  'provider', 'provider_*', 'providerMetadata', 'openrouter_metadata',
  'debug', '__verbose', 'upstream', 'upstream_*', 'router', 'backend',
  // named for the provider: LiteLLM adds Gemini's even where they are empty, Bedrock adds its own to the last event
  'vertex_ai_*', 'amazon-bedrock-*',
  // what Bifrost, Portkey, Merge and Fireworks add: provider and model behind a name, guardrails, machines
  'extra_fields', 'hook_results', 'vendor', 'perf_metrics',
  // LiteLLM: parameters, headers and times of its own call, and what it cost
  '_hidden_params', 'hidden_params', '_response_headers', '_response_ms', 'response_ms',
  'litellm_*', 'model_id', 'model_info', 'model_group', 'custom_llm_provider',
  // headers of the answer that the router got, together or each by its name
  'headers', 'response_headers', 'additional_headers', 'x-*', 'X-*', 'openai-*', 'llm_provider-*',
  // the internal name of a deployment
  'deployment', 'deployment_*',
  // addresses, machines and places
  'api_base', 'base_url', 'region', 'server', 'host', 'hostname', 'kv_transfer_params', 'ec_transfer_params',
];

/** A word in the usual cases. */
const cased = (word: string): readonly string[] => [
  word,
  word.toUpperCase(),
  word.charAt(0).toUpperCase() + word.slice(1),
];

/** Words for what the operator pays: a member of a usage is removed that has one anywhere in its name. */
export const PRICE_WORDS: readonly string[] = ['cost', 'pric'].flatMap(cased);

/**
 * Members that tell what the operator pays: they are removed like those above, wherever they are. They begin or end with
 * a word for it: cost_details, TotalCost, prompt_price, PRICING.
 */
export const PRICE_MEMBERS: readonly string[] = [
  ...cased('cost'),
  ...PRICE_WORDS.map((word) => `${word}*`),
  ...['cost', 'costs', 'price', 'prices', 'pricing', 'price_unit', '_usd', 'Usd', '_eur', 'Eur']
    .flatMap(cased)
    .map((word) => `*${word}`),
  'is_byok',
];

/** Nested members whose string values are text that the model generated: tokens are estimated from it if the usage is missing. */
// biome-ignore format: a table
const GENERATED_MEMBERS: readonly string[] = [
  'content', 'text', 'refusal',
  // reasoning, as DeepSeek and vLLM name it, and as OpenRouter does
  'reasoning_content', 'reasoning',
  // the words of speech, whose sound is no text
  'transcript',
  // tool calls; of messages, `input` is an object
  'arguments', 'input',
];

/**
 * Members whose string values stay whatever they hold: what the model or the caller wrote, and data that is no text.
 * Strings within an object or array under such a name do not.
 */
// biome-ignore format: a table
const GENERATED_VALUES: ReadonlySet<string> = new Set([
  ...GENERATED_MEMBERS,
  // the caller's tools, tokens, thoughts, sounds, vectors
  'partial_json', 'token', 'delta', 'thinking', 'summary', 'signature', 'thought_signature',
  'encrypted_content', 'data', 'embedding', 'b64_json', 'cited_text', 'title', 'obfuscation',
]);

/** Members whose string values are words of the format, which a model may be named like: only secrets go from them. */
// biome-ignore format: a table
const FORMAT_WORDS: ReadonlySet<string> = new Set([
  'object', 'role', 'type', 'finish_reason', 'native_finish_reason', 'stop_reason', 'service_tier', 'format',
]);

const LISTS = {
  leaking: [...LEAKING_MEMBERS, ...PRICE_MEMBERS],
  leakingInUsage: PRICE_WORDS,
  generated: GENERATED_MEMBERS,
  inputs: ['arguments', 'input', 'parsed'],
};
/** Answers of messages repeat nothing of the caller's: a model that they name anywhere is one of the provider's. */
const MESSAGES_LISTS = {
  ...LISTS,
  generated: [...GENERATED_MEMBERS, 'partial_json', 'thinking'],
  models: ['model', 'recommended_model'],
  tiers: ['service_tier'],
};
/** Items of a response have more that a model generates than arguments, and a response repeats much of its request. */
const RESPONSES_LISTS = {
  ...LISTS,
  inputs: [...LISTS.inputs, 'action', 'actions', 'operation'],
  callers: ['tools'],
};
const REPEATED = {
  instructions: CALLERS,
  metadata: CALLERS,
  text: CALLERS,
  tool_choice: CALLERS,
  tools: CALLERS,
};

const CHAT = {
  ...LISTS,
  format: {
    model: MODEL,
    error: ERROR,
    errors: ERROR,
    usage: USAGE,
    x_groq: GROQ,
    service_tier: TIER,
    choices: CHOICES,
  },
};

/** An answer of POST /chat/completions, and each event of a stream. Groq has the usage in an object of its own, which is read and removed. */
export const CHAT_ANSWER = memberTable(CHAT);

/** An answer of POST /completions, and each event of a stream: `logprobs` has tokens as items and as names of members. */
export const COMPLETIONS_ANSWER = memberTable({
  ...CHAT,
  probs: [['logprobs'], ['tokens', 'top_logprobs']],
});

/** An answer of POST /embeddings. */
export const EMBEDDING_ANSWER = memberTable({
  ...CHAT,
  format: { ...CHAT.format, meta: META },
  usage: inputUsage,
});

/** An answer of POST /rerank. The document of a result is the caller's own. */
export const RERANK_ANSWER = memberTable({
  leaking: LISTS.leaking,
  leakingInUsage: LISTS.leakingInUsage,
  ofResult: ['document'],
  counts: false,
  addsModel: false, // Cohere's own answers have no `model`
  format: {
    model: MODEL,
    error: ERROR,
    errors: ERROR,
    usage: USAGE,
    meta: META,
    results: RESULT,
    data: RESULT,
  },
  usage: inputUsage,
});

/** An answer of POST /responses. */
export const RESPONSES_ANSWER = memberTable({
  ...RESPONSES_LISTS,
  format: {
    id: CODED_ID,
    model: MODEL,
    error: ERROR,
    usage: USAGE,
    output: RESULT,
    service_tier: TIER,
    ...REPEATED,
  },
  usage: responsesUsage,
});

/** An event of a response. The text of a `.done` event came before, in deltas. */
export const RESPONSES_EVENT = memberTable({
  ...RESPONSES_LISTS,
  format: { type: TYPE, response: NESTED, delta: DELTA, model: MODEL, usage: USAGE, error: ERROR },
  counts: false,
  nested: RESPONSES_ANSWER,
  usage: responsesUsage,
});

/** An answer of POST /messages, and of /messages/count_tokens. */
export const MESSAGES_ANSWER = memberTable({
  ...MESSAGES_LISTS,
  format: { model: MODEL, error: ERROR, usage: USAGE, content: RESULT },
  usage: messagesUsage,
});

/** An event of a message. */
export const MESSAGES_EVENT = memberTable({
  ...MESSAGES_LISTS,
  format: { type: TYPE, message: NESTED, model: MODEL, usage: USAGE, error: ERROR },
  nested: MESSAGES_ANSWER,
  usage: messagesUsage,
});

/**
 * Texts that no string of an answer may hold, except generated text (contract section 4, "What stands behind never
 * shows").
 * @param secrets the upstream's host and key
 */
export function hiddenBehind(model: Model, secrets: readonly string[]): Hidden {
  return new Hidden(model.slug, {
    names: internalNames(model.upstream),
    secrets,
    isWord: isOrdinaryWord,
    generated: GENERATED_VALUES,
    formatWords: FORMAT_WORDS,
  });
}
