/** Members that one router or engine obeys, and what they would do. */
export interface SteeringGroup {
  /** Separated by blanks; `*` matches one or more characters. */
  readonly names: string;
  readonly obeyedBy: string;
  /** What a caller could do with them, as a phrase. */
  readonly effect: string;
}

/** Members of the reference format, separated by blanks. */
export const REFERENCE_MEMBERS = `model messages input stream stream_options temperature top_p max_tokens
  max_completion_tokens tools tool_choice parallel_tool_calls functions function_call response_format
  reasoning_effort verbosity encoding_format dimensions seed stop user n frequency_penalty presence_penalty
  logit_bias logprobs top_logprobs metadata modalities audio prediction store service_tier safety_identifier
  prompt_cache_key prompt_cache_retention web_search_options`;

/**
 * Request members with which routers and engines let a caller reach beyond the own call, as read in
 * their sources in November 2026. Every one is refused at the top level, and in `metadata` unless
 * its value is a string: the reference format allows only strings there, and they are labels.
 */
export const STEERING_TABLE: readonly SteeringGroup[] = [
  // other models, and adapters for one
  {
    names: 'models preset route',
    obeyedBy: 'OpenRouter',
    effect: 'choose other models, or settings that name one',
  },
  {
    names: 'model_* *_model *_models *_model_name',
    obeyedBy: 'LiteLLM, Portkey, SGLang',
    effect: 'name another model, or a list of deployments',
  },
  {
    names: `fallback* default_fallbacks disable_fallback* max_fallbacks enable_fallbacks request_fallbacks
      context_window_fallback* content_policy_fallback*`,
    obeyedBy: 'LiteLLM',
    effect: 'choose the models that run when one fails',
  },
  {
    names: 'engine deployment deployment_* specific_deployment tags',
    obeyedBy: 'LiteLLM, Azure',
    effect: 'choose a deployment',
  },
  {
    names: 'router* routing* *_router_config semantic_router fastest_response order weight',
    obeyedBy: 'LiteLLM',
    effect: 'change how deployments are chosen',
  },
  { names: 'compound_custom', obeyedBy: 'Groq', effect: 'choose the models of a compound system' },
  {
    names: 'adapter adapters adapter_id lora lora*',
    obeyedBy: 'TGI, vLLM, SGLang, llama.cpp',
    effect: 'choose an adapter, which makes it another model',
  },
  // other providers and hosts
  {
    names: 'provider providers provider_* llm_provider* plugins transforms',
    obeyedBy: 'OpenRouter',
    effect: 'choose the provider, or what is done to the prompt on the way',
  },
  {
    names: `custom_llm_provider api_base *_api_base api_type api_version base_url *_base_url *_api_url *_host
      *_endpoint *_endpoint_url endpoint backend use_litellm_proxy use_in_pass_through
      use_chat_completions_api no_proxy ssl_* shared_session`,
    obeyedBy: 'LiteLLM',
    effect: 'send the call to another host, or by another way',
  },
  {
    names: `azure azure* aws_* vertex_* sagemaker_* watsonx_* databricks_* oci_* region region_name organization project
      project_id space_id`,
    obeyedBy: 'LiteLLM',
    effect: "choose another account, project or place of the operator's cloud",
  },
  {
    names: 'agent_id',
    obeyedBy: 'Mistral',
    effect: 'run an agent, which has a model and a prompt of its own',
  },
  {
    names: 'bootstrap_* *_dp_rank data_parallel_rank',
    obeyedBy: 'SGLang',
    effect: 'choose the host or worker that runs the prefill',
  },
  {
    names: '*_transfer_params vllm_xargs',
    obeyedBy: 'vLLM',
    effect: 'fetch the cache of a prompt from another host',
  },
  {
    names: 'extra_headers extra_body extra_query headers proxy_server_request override_provider',
    obeyedBy: 'LiteLLM',
    effect: 'put headers, members or a provider into the call behind the router',
  },
  {
    names: `config override_params targets strategy custom_host virtual_key portkey_* forward_headers url_to_fetch
      *_request_hooks`,
    obeyedBy: 'Portkey',
    effect: 'replace the routing configuration',
  },
  { names: 'tensorzero::*', obeyedBy: 'TensorZero', effect: 'choose a variant or its credentials' },
  // other keys and identities
  {
    names: `api_key *_api_key user_api_key* user_config client use_client credential* tenant_id client_id
      client_secret secret_fields configurable_clientside_auth_params`,
    obeyedBy: 'LiteLLM',
    effect: 'call with other credentials',
  },
  { names: 'litellm_*', obeyedBy: 'LiteLLM', effect: 'set parameters of the router itself' },
  // deployments, and what others get of them
  {
    names:
      'timeout *_timeout cooldown_* allowed_fails allowed_fails_* num_retries max_retries retry retry_policy retry_strategy',
    obeyedBy: 'LiteLLM, Portkey',
    effect: 'make a healthy deployment fail, which takes it away from others, or ask it again and again',
  },
  {
    names: 'rpm tpm rpm_limit tpm_limit max_budget budget_duration max_parallel_requests',
    obeyedBy: 'LiteLLM',
    effect: 'change the limits of a deployment',
  },
  {
    names: `input_cost_per_* output_cost_per_* *_cost_per_query *_cost_per_token cost_per_* tiered_pricing
      store_model_in_db`,
    obeyedBy: 'LiteLLM',
    effect: 'change the prices or the list of models, for the whole process',
  },
  {
    names: 'priority request_id rid speculative.*',
    obeyedBy: 'vLLM, SGLang, llama.cpp',
    effect: 'go before others, take the identifier of their request, or change how batches are run',
  },
  {
    names: 'keep_alive options num_ctx num_gpu num_thread main_gpu',
    obeyedBy: 'Ollama',
    effect: 'unload the model or load it again with other settings, for everybody',
  },
  // caches, sessions and stores that companies share
  {
    names: 'cache caching no_cache no_store ttl s_maxage cache_key preset_cache_key caching_groups',
    obeyedBy: 'LiteLLM, Portkey',
    effect: 'put an answer into the cache for others, or take theirs',
  },
  {
    names: 'cache_salt extra_key id_slot slot_id',
    obeyedBy: 'vLLM, SGLang, llama.cpp',
    effect: "use or evict what is cached of others' prompts",
  },
  {
    names: 'session_id session_params previous_response_id conversation thread background',
    obeyedBy: 'SGLang, vLLM, OpenRouter, LiteLLM, Anthropic',
    effect: "continue another caller's session, or run without an answer that is metered",
  },
  {
    names: `vector_store_ids knowledge_bases data_sources search_tools search_tool_name skills mcp_servers container
      file_id file_ids *_file_id *_file_ids ngram_corpus_id`,
    obeyedBy: 'LiteLLM, Azure, SGLang',
    effect: 'read stores and files, or use servers, of the operator or of others',
  },
  {
    names: 'prompt_id prompt_version prompt_label prompt_variables prompt_spec dotprompt_* gitlab_* bitbucket_*',
    obeyedBy: 'LiteLLM',
    effect: "run a prompt of the operator's",
  },
  // guardrails, and prompts that go past them
  {
    names: `guardrail* *_guardrail *_guardrails _guardrail_* _pipeline_* policies applied_policies policy_sources
      pillar_* turn_off_message_logging standard_logging_object`,
    obeyedBy: 'LiteLLM, Portkey, Bedrock',
    effect: "switch off or choose the operator's guardrails and logs",
  },
  {
    names: 'drop_params additional_drop_params allowed_openai_params',
    obeyedBy: 'LiteLLM',
    effect: 'remove or add members of the call that was checked, such as the request for its usage',
  },
  {
    names: 'prompt_embeds *_embeds input_ids prompt_token_ids',
    obeyedBy: 'vLLM, SGLang',
    effect: 'run something other than the messages',
  },
  { names: 'n_predict n_cmpl best_of', obeyedBy: 'llama.cpp, vLLM', effect: 'generate more than n and max_tokens say' },
  // code, templates and the engine
  {
    names: 'logits_processors custom_logit_processor custom_params logger_fn',
    obeyedBy: 'vLLM, SGLang, LiteLLM',
    effect: 'run code in the engine or the router',
  },
  {
    names: 'chat_template chat_template_path template raw',
    obeyedBy: 'vLLM, TGI, Ollama',
    effect: 'run a template, or none',
  },
  {
    names: 'custom_prompt_dict roles bos_token eos_token initial_prompt_value final_prompt_value custom_tokenizer',
    obeyedBy: 'LiteLLM',
    effect: 'register a template or a tokenizer, for the whole process',
  },
  {
    names: 'mm_processor_kwargs media_io_kwargs guided_decoding_backend',
    obeyedBy: 'vLLM',
    effect: "change the engine's readers of media and grammars, whose memory all share",
  },
  {
    names: '_agentic_loop_* _code_interpreter_* max_agentic_loops',
    obeyedBy: 'LiteLLM',
    effect: 'make many calls of one, or run code in a sandbox',
  },
  // copies, and what stands behind
  {
    names: `callbacks *_callback *_callbacks langfuse_* langsmith_* gcs_* s3_* arize_* phoenix_* posthog_* wandb_*
      weave_* humanloop_* traffic_mirror`,
    obeyedBy: 'LiteLLM',
    effect: 'copy prompts and answers to another place',
  },
  {
    names: 'trace no_log custom_labels',
    obeyedBy: 'OpenRouter, LiteLLM, SGLang',
    effect: "write into the operator's traces and metrics, or not",
  },
  {
    names: 'debug verbose return_*',
    obeyedBy: 'OpenRouter, llama.cpp, vLLM, SGLang',
    effect: 'show the prompt as it was sent, settings and internal states',
  },
  { names: 'mock_*', obeyedBy: 'LiteLLM', effect: 'answer without a model' },
  {
    names: 'inference_geo speed anthropic_beta betas',
    obeyedBy: 'Anthropic, LiteLLM',
    effect: 'run in another region or at another price, or switch on features that reach stored data',
  },
];

/**
 * Members of `metadata` that are refused besides. With `[]` at the end: unless the value is a
 * string, which a label may well be. Without: whatever it is.
 */
export const STEERING_METADATA: readonly SteeringGroup[] = [
  {
    names: `model_group api_base base_url *_base_url *_host *_endpoint *_endpoint_url aws_* azure_* vertex_*
      specific_deployment previous_models[]`,
    obeyedBy: 'LiteLLM',
    effect: 'choose a deployment, or send the call to another host',
  },
  {
    names: 'api_key *_api_key user_api_key* user_config credential* litellm_* end_user_id[]',
    obeyedBy: 'LiteLLM',
    effect: 'call with other credentials, or in the name of another user',
  },
  {
    names: `disable_global_guardrail disable_global_guardrails opted_out_global_guardrails _guardrail_* _pipeline_*
      pillar_*`,
    obeyedBy: 'LiteLLM',
    effect: "switch off the operator's guardrails",
  },
  {
    names: 'langfuse_* langsmith_* cold_storage_object_key',
    obeyedBy: 'LiteLLM',
    effect: 'copy prompts and answers to another place, or read stored ones',
  },
  {
    names: 'spend_logs_metadata[] requester_metadata[] hidden_params[] queue_time_seconds[]',
    obeyedBy: 'LiteLLM',
    effect: "write into the operator's spend logs and metrics",
  },
  { names: 'mock_*', obeyedBy: 'LiteLLM', effect: 'answer without a model' },
];

/** Types of tools that the caller runs. Tools of other types run at the router or the provider. */
export const CALLERS_TOOLS: readonly string[] = ['function', 'custom'];
/** The same of Anthropic's, with their dates. */
export const CALLERS_DATED_TOOLS = /^(?:bash|computer|memory|text_editor)_\d{8}$/;

/** Members that pass, though a pattern above or a first look says otherwise, and why: they end with the own call. */
export const HARMLESS: Readonly<Record<string, string>> = {
  // what current clients send
  thinking: 'how much the model thinks',
  reasoning: 'the same',
  include_reasoning: 'the same',
  enable_thinking: 'the same',
  cache_control: "marks the caller's own messages for the provider's cache",
  cache_control_injection_points: 'the same',
  cache_prompt: "reuses what is cached of the own prompt; off, it spends the caller's time",
  chat_template_kwargs: 'variables of the template; a template among them is refused',
  usage: 'asks for the usage, whose price is removed',
  image_config: 'size and shape of generated images',
  // sampling
  top_k: 'sampling',
  top_a: 'sampling',
  min_p: 'sampling',
  typical_p: 'sampling',
  repetition_penalty: 'sampling',
  length_penalty: 'sampling',
  mirostat: 'sampling',
  use_beam_search: 'sampling; the beams are counted by n',
  stop_token_ids: 'ends the own answer',
  ignore_eos: 'lengthens the own answer, within max_tokens',
  min_tokens: 'the same',
  bad_words: 'forbids words in the own answer',
  allowed_token_ids: 'the same',
  // the form of the answer
  echo: "repeats the caller's last message",
  add_generation_prompt: "continues the caller's last message",
  continue_final_message: 'the same',
  documents: "texts of the caller's, for the template",
  grammar: 'the form of the own answer',
  json_schema: 'the same',
  regex: 'the same',
  ebnf: 'the same',
  guided_json: 'the same',
  guided_regex: 'the same',
  guided_choice: 'the same',
  guided_grammar: 'the same',
  structured_outputs: 'the same',
  skip_special_tokens: 'the same',
  truncate_prompt_tokens: 'shortens the own prompt',
  // searches and filters of the provider
  return_citations: 'Perplexity: what the answer shows of its search',
  return_images: 'the same',
  return_related_questions: 'the same',
  search_parameters: 'xAI: what the search looks at',
  search_domain_filter: 'Perplexity: the same',
  safe_prompt: 'Mistral: a stricter prompt',
  safety_settings: "Gemini: the provider's filter, for the own call",
};
