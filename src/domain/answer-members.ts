import { memberTable } from '../json/member-table.ts';

/** Top-level members of answers and events that tell what stands behind the gateway: they are removed. */
export const LEAKING_MEMBERS: readonly string[] = [
  // the provider that OpenRouter and other resellers chose
  'provider',
  'provider_specific_fields',
  'upstream',
  'upstream_model',
  'router',
  'backend',
  // LiteLLM: parameters, headers and times of its own call, and what it cost
  '_hidden_params',
  '_response_headers',
  '_response_ms',
  'response_ms',
  'response_cost',
  'litellm_params',
  'litellm_metadata',
  'litellm_call_id',
  'model_id',
  'model_info',
  'model_group',
  // the internal name of a deployment
  'deployment',
  'deployment_id',
  'deployment_name',
  // addresses, machines and places
  'api_base',
  'base_url',
  'region',
  'server',
  'host',
  'hostname',
];

/** Nested members whose string values are text that the model generated: tokens are estimated from it if the usage is missing. */
export const GENERATED_MEMBERS: readonly string[] = [
  'content',
  'text',
  'refusal',
  // reasoning, as DeepSeek and vLLM name it, and as OpenRouter does
  'reasoning_content',
  'reasoning',
  // tool calls
  'arguments',
];

/** Both lists, prepared for the readers of answers and streams. */
export const ANSWER_MEMBERS = memberTable(LEAKING_MEMBERS, GENERATED_MEMBERS);
