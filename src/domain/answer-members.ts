import { Hidden } from '../json/hidden.ts';
import {
  CHOICES,
  CODED_ID,
  DELTA,
  ERROR,
  GROQ,
  MODEL,
  memberTable,
  NESTED,
  RESULT,
  TYPE,
  USAGE,
} from '../json/member-table.ts';
import { embeddingUsage, messagesUsage, responsesUsage } from '../json/usage.ts';
import { internalNames, type Model } from './model.ts';

/** Top-level members of answers and events that tell what stands behind the gateway: they are removed. */
export const LEAKING_MEMBERS: readonly string[] = [
  // the provider that OpenRouter and other resellers chose
  ...['provider', 'provider_specific_fields', 'provider_metadata', 'providerMetadata', 'openrouter_metadata'],
  ...['debug', '__verbose', 'upstream', 'upstream_model', 'router', 'backend'],
  // named for the provider: what LiteLLM adds of Gemini's, also where it is empty, and Bedrock in the last event
  ...['vertex_ai_grounding_metadata', 'vertex_ai_url_context_metadata', 'vertex_ai_safety_results'],
  ...['vertex_ai_citation_metadata', 'amazon-bedrock-invocationMetrics', 'amazon-bedrock-trace'],
  ...['amazon-bedrock-guardrailAction', 'amazon-bedrock-guardrailAssessment'],
  // what Bifrost, Portkey, Merge and Fireworks add: provider and model behind a name, guardrails, machines
  ...['extra_fields', 'hook_results', 'vendor', 'perf_metrics'],
  // LiteLLM: parameters, headers and times of its own call, and what it cost
  ...['_hidden_params', '_response_headers', '_response_ms', 'response_ms'],
  ...['litellm_params', 'litellm_metadata', 'litellm_call_id', 'model_id', 'model_info', 'model_group'],
  ...['response_cost', 'cost', 'cost_details', 'total_cost', 'estimated_cost'],
  // the internal name of a deployment
  ...['deployment', 'deployment_id', 'deployment_name'],
  // addresses, machines and places
  ...['api_base', 'base_url', 'region', 'server', 'host', 'hostname', 'kv_transfer_params', 'ec_transfer_params'],
];

/** Nested members whose string values are text that the model generated: tokens are estimated from it if the usage is missing. */
const GENERATED_MEMBERS: readonly string[] = [
  ...['content', 'text', 'refusal'],
  // reasoning, as DeepSeek and vLLM name it, and as OpenRouter does
  ...['reasoning_content', 'reasoning'],
  // the words of speech, whose sound is no text
  'transcript',
  // tool calls; of messages, `input` is an object
  ...['arguments', 'input'],
];

/** Members of a usage that tell what the operator pays: they are removed. One of them at least has "cost" in its name. */
export const PRICE_MEMBERS: readonly string[] = [
  ...['cost', 'cost_details', 'costs', 'total_cost', 'estimated_cost', 'input_cost', 'output_cost', 'market_cost'],
  ...['upstream_inference_cost', 'cost_in_usd_ticks', 'is_byok'],
  // LLM Gateway
  ...['cost_usd_total', 'cost_usd_input', 'cost_usd_output', 'cost_usd_cached_input', 'cost_usd_reasoning'],
  ...['cost_usd_request', 'cost_usd_web_search', 'cost_usd_image_input', 'cost_usd_image_output'],
  'cost_usd_data_storage',
];

/**
 * Members whose string values stay though they hold an internal name: words of the format, which a model may be
 * named like, and what the model or the caller wrote. Strings within an object or array under such a name do not.
 */
const UNTOUCHED_MEMBERS: ReadonlySet<string> = new Set([
  ...GENERATED_MEMBERS,
  // the format's words
  ...['object', 'role', 'type', 'finish_reason', 'native_finish_reason', 'stop_reason', 'service_tier', 'format'],
  // the caller's tools, tokens, thoughts, sounds, vectors
  ...['partial_json', 'token', 'delta', 'thinking', 'summary', 'signature', 'thought_signature'],
  ...['encrypted_content', 'data', 'embedding', 'b64_json', 'cited_text', 'title', 'obfuscation'],
]);

const LISTS = { leaking: LEAKING_MEMBERS, generated: GENERATED_MEMBERS, price: PRICE_MEMBERS };
/** Answers of messages repeat nothing of the caller's: a model that they name anywhere is one of the provider's. */
const MESSAGES_LISTS = {
  ...LISTS,
  generated: [...GENERATED_MEMBERS, 'partial_json', 'thinking'],
  inputs: ['input'],
  models: ['model', 'recommended_model'],
};

const CHAT = {
  ...LISTS,
  format: { model: MODEL, error: ERROR, errors: ERROR, usage: USAGE, x_groq: GROQ, choices: CHOICES },
};

/** An answer of POST /chat/completions, and each event of a stream. Groq has the usage in an object of its own, which is read and removed. */
export const CHAT_ANSWER = memberTable(CHAT);

/** An answer of POST /embeddings. */
export const EMBEDDING_ANSWER = memberTable({ ...CHAT, usage: embeddingUsage });

/** An answer of POST /responses. */
export const RESPONSES_ANSWER = memberTable({
  ...LISTS,
  format: { id: CODED_ID, model: MODEL, error: ERROR, usage: USAGE, output: RESULT },
  usage: responsesUsage,
});

/** An event of a response. The text of a `.done` event came before, in deltas. */
export const RESPONSES_EVENT = memberTable({
  leaking: LEAKING_MEMBERS,
  price: PRICE_MEMBERS,
  format: { type: TYPE, response: NESTED, delta: DELTA, model: MODEL, usage: USAGE, error: ERROR },
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
 * What no string of an answer may hold, generated text apart (contract section 4, "What stands
 * behind never shows").
 * @param secrets the upstream's host and key
 */
export function hiddenBehind(model: Model, secrets: readonly string[]): Hidden {
  return new Hidden(model.slug, internalNames(model.upstream), secrets, UNTOUCHED_MEMBERS);
}
