import { foldCase } from '../json/members.ts';

/**
 * Request members with which routers and gateways let a caller choose another model, host, key or
 * canned answer. They are refused, so that the model that was admitted is the model that runs. The
 * members of the reference format are not in this list. REFUSED_PARAMETERS replaces or adjusts it.
 *
 * `*` matches one or more characters. `apiBase`, `API_BASE` and `api-base` count as `api_base`, as
 * some parsers have it. `metadata.x` is the member x of `metadata`; `metadata.x[]` is the same if
 * its value is not a string: the reference format allows only strings there.
 */
export const STEERING: readonly string[] = [
  // other models, and adapters for one
  'models',
  'model_*',
  '*_model',
  '*_models',
  '*_model_name',
  'fallback*',
  'default_fallbacks',
  'disable_fallback*',
  'max_fallbacks',
  'context_window_fallback*',
  'content_policy_fallback*',
  'engine',
  'deployment',
  'deployment_*',
  'specific_deployment',
  'preset',
  'route',
  'router*',
  'routing*',
  'tags',
  'prompt_id',
  'prompt_version',
  'prompt_label',
  'prompt_variables',
  'compound_custom',
  'adapter_id',
  'lora*',
  'agent_id',
  // other providers and hosts
  'provider',
  'providers',
  'provider_*',
  'llm_provider*',
  'custom_llm_provider',
  'custom_host',
  'backend',
  'api_base',
  '*_api_base',
  'api_type',
  'api_version',
  'base_url',
  '*_base_url',
  '*_api_url',
  '*_host',
  '*_endpoint',
  '*_endpoint_url',
  'endpoint',
  'azure*',
  'aws_*',
  'vertex_*',
  'sagemaker_*',
  'watsonx_*',
  'databricks_*',
  'region',
  'region_name',
  'organization',
  'data_sources', // Azure: the caller's choice of a search service and an embedding deployment
  'bootstrap_*', // SGLang: the host that runs the prefill
  'kv_transfer_params', // vLLM: the same
  'vllm_xargs', // may carry kv_transfer_params
  'extra_headers',
  'extra_body',
  'extra_query',
  'headers',
  'proxy_server_request',
  'config',
  'override_params',
  'targets',
  'strategy',
  'plugins',
  'transforms',
  'tensorzero::*',
  // other keys and identities
  'api_key',
  '*_api_key',
  'user_api_key*',
  'user_config',
  'client',
  'use_client',
  'credential*',
  'litellm_*',
  'portkey_*',
  'virtual_key',
  'secret_fields',
  'configurable_clientside_auth_params',
  // destinations of copies of the prompts
  'callbacks',
  '*_callback',
  '*_callbacks',
  'langfuse_*',
  'langsmith_*',
  'gcs_*',
  's3_*',
  // canned or repeated answers, prices, code, hidden usage
  'mock_*',
  'input_cost_per_*',
  'output_cost_per_*',
  'num_retries',
  'max_retries',
  'retry',
  'retry_policy',
  'retry_strategy',
  'cache',
  'caching',
  'no_log',
  'guardrails',
  'custom_logit_processor',
  'additional_drop_params',
  // the same in `metadata`, which LiteLLM reads too
  'metadata.tags[]',
  'metadata.model_*[]',
  'metadata.fallback*[]',
  'metadata.guardrails[]',
  'metadata.headers[]',
  'metadata.previous_models[]',
  'metadata.model_group',
  'metadata.specific_deployment',
  'metadata.api_base',
  'metadata.base_url',
  'metadata.*_base_url',
  'metadata.*_host',
  'metadata.*_endpoint',
  'metadata.*_endpoint_url',
  'metadata.api_key',
  'metadata.*_api_key',
  'metadata.user_api_key*',
  'metadata.user_config',
  'metadata.credential*',
  'metadata.litellm_*',
  'metadata.langfuse_*',
  'metadata.langsmith_*',
  'metadata.aws_*',
  'metadata.azure_*',
  'metadata.vertex_*',
  'metadata.mock_*',
];

/** Members of the reference format: allowed without comparing them with the list, which saves 0.5 µs each, 5 to 10 % of a request. */
export const REFERENCE: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'input',
  'stream',
  'stream_options',
  'temperature',
  'top_p',
  'max_tokens',
  'max_completion_tokens',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'functions',
  'function_call',
  'response_format',
  'reasoning_effort',
  'verbosity',
  'encoding_format',
  'dimensions',
  'seed',
  'stop',
  'user',
  'n',
  'frequency_penalty',
  'presence_penalty',
  'logit_bias',
  'logprobs',
  'top_logprobs',
  'metadata',
  'modalities',
  'audio',
  'prediction',
  'store',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
  'web_search_options',
]);

/** Members that the gateway decides by and that have several words: other spellings are refused. */
const GOVERNED = ['stream_options', 'encoding_format', 'max_tokens', 'max_completion_tokens'];

/** Whether a member is refused by a list in the form of STEERING. Names of members in `metadata` begin with `metadata.`. */
export function nameFilter(names: readonly string[]): (name: string) => boolean {
  const exact = new Set(names.filter((name) => !name.includes('*')));
  const patterns = names.filter((name) => name.includes('*')).map((name) => name.split('*') as [string, string]);
  const harmless = new Set(REFERENCE);
  for (const name of names) harmless.delete(name);
  return (name) => {
    if (harmless.has(name)) return false;
    const plain = plainName(name);
    if (exact.has(plain) || (plain !== name && GOVERNED.includes(plain))) return true;
    return patterns.some(
      ([before, after]) =>
        plain.length > before.length + after.length && plain.startsWith(before) && plain.endsWith(after),
    );
  };
}

/**
 * The list that REFUSED_PARAMETERS asks for. Names with + or - add to the standard list or remove
 * from it; names without replace it. The configuration refuses a mixture.
 */
export function refusedNames(setting: string): readonly string[] {
  const items = setting.split(/[\s,]+/).filter((item) => item !== '');
  const adjusting = items.filter((item) => /^[+-]/.test(item));
  if (adjusting.length === 0) return items.length === 0 ? STEERING : items;
  const removed = new Set(items.filter((item) => item.startsWith('-')).map((item) => item.slice(1)));
  const added = items.filter((item) => item.startsWith('+')).map((item) => item.slice(1));
  return [...STEERING.filter((name) => !removed.has(name)), ...added];
}

/** `apiBase`, `API_BASE` and `api-base` become `api_base`. */
function plainName(name: string): string {
  return foldCase(name.replace(/([a-z0-9])([A-Z])/g, '$1_$2')).replaceAll('-', '_');
}
