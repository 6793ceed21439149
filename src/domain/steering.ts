import { foldCase } from '../json/members.ts';

/**
 * Request members by which routers and gateways let a caller choose another model, host,
 * key or canned answer. None may pass: the model that passed the gate is the model that
 * runs. Members of the reference format are not among them.
 *
 * A `*` stands for anything; `apiBase`, `API_BASE` and `api-base` are `api_base`, because some
 * readers take them so. `metadata.x` is a member x of `metadata`, and `metadata.x[]` one
 * whose value is no string: the reference format has only strings there.
 * REFUSED_PARAMETERS replaces or adjusts the list.
 */
export const STEERING: readonly string[] = [
  // other models, and adapters put on top of one
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
  'data_sources', // Azure: a search service, and an embedding deployment, of the caller's choice
  'bootstrap_*', // SGLang: where prefill runs
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
  // where prompts are copied to
  'callbacks',
  '*_callback',
  '*_callbacks',
  'langfuse_*',
  'langsmith_*',
  'gcs_*',
  's3_*',
  // canned or doubled answers, prices, code, hidden usage
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
  // the same inside `metadata`, where LiteLLM reads them too
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

/** Members of the reference format: known to be harmless without a search (saves about 0.5 µs each). */
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

/** Members the gateway decides by, of several words: in another spelling some reader might take them. */
const GOVERNED = ['stream_options', 'encoding_format', 'max_tokens', 'max_completion_tokens'];

/** A predicate over member names, dotted for those in `metadata`, for a list in the form of STEERING. */
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
 * The list after REFUSED_PARAMETERS: names that begin with + or - add to the standard list
 * and take from it, names without either replace it. Readers of the environment refuse a mixture.
 */
export function refusedNames(setting: string): readonly string[] {
  const items = setting.split(/[\s,]+/).filter((item) => item !== '');
  const adjusting = items.filter((item) => /^[+-]/.test(item));
  if (adjusting.length === 0) return items.length === 0 ? STEERING : items;
  const taken = new Set(items.filter((item) => item.startsWith('-')).map((item) => item.slice(1)));
  const added = items.filter((item) => item.startsWith('+')).map((item) => item.slice(1));
  return [...STEERING.filter((name) => !taken.has(name)), ...added];
}

/** `apiBase`, `API_BASE` and `api-base` become `api_base`. */
function plainName(name: string): string {
  return foldCase(name.replace(/([a-z0-9])([A-Z])/g, '$1_$2')).replaceAll('-', '_');
}
