import { foldCase } from '../bytes/json.ts';

/**
 * Request members by which routers and gateways let a caller choose another model, host,
 * key or canned answer. None may pass: the model that passed the gate is the model that
 * runs. Compared without regard to case; a name ending in "*" stands for every name that
 * begins so. Members of the reference format are not among them.
 */
export const STEERING: readonly string[] = [
  // other models
  'models',
  'fallbacks',
  'fallback_*',
  'context_window_fallback*',
  'content_policy_fallbacks',
  'default_fallbacks',
  'disable_fallbacks',
  'model_list',
  'model_info',
  'model_id',
  'model_group*',
  'engine',
  'deployment',
  'deployment_id',
  'preset',
  'route',
  'tags',
  'prompt_id',
  'prompt_version',
  'prompt_label',
  'prompt_variables',
  'router*',
  'specific_deployment',
  // other providers and hosts
  'provider',
  'providers',
  'provider_*',
  'custom_llm_provider',
  'api_base',
  'base_url',
  'api_type',
  'api_version',
  'azure_*',
  'aws_*',
  'vertex_*',
  'region_name',
  'organization',
  'extra_headers',
  'extra_body',
  'extra_query',
  'headers',
  'proxy_server_request',
  'config',
  'targets',
  'strategy',
  'plugins',
  'transforms',
  // other keys and identities
  'api_key',
  'user_api_key*',
  'user_config',
  'client',
  'credential*',
  'litellm_*',
  'portkey_*',
  'virtual_key',
  'secret_fields',
  // canned or doubled answers, prices
  'mock_*',
  'input_cost_per_*',
  'output_cost_per_*',
  'num_retries',
  'max_retries',
  'retry_policy',
  'cache',
  'caching',
  'no-log',
  'guardrails',
];

/** Members nearly every request has: known to be harmless without a search (saves about 0.3 µs each). */
const ORDINARY = new Set([
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
  'response_format',
  'encoding_format',
  'dimensions',
  'seed',
  'stop',
  'user',
  'n',
]);

/** A predicate over member names for a list in the form of STEERING. */
export function nameFilter(names: readonly string[]): (name: string) => boolean {
  const exact = new Set(names.filter((name) => !name.endsWith('*')));
  const stems = names.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
  return (name) => {
    if (ORDINARY.has(name)) return false;
    const folded = foldCase(name);
    return exact.has(folded) || stems.some((stem) => folded.startsWith(stem));
  };
}
