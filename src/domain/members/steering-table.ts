/**
 * Members that one router or engine obeys, and what they would do.
 * Names are separated by blanks; `*` matches one or more characters. The effect is what a caller could do, as a phrase.
 * `ADDS`: what stands elsewhere becomes a part of the prompt, or the prompt is repeated: its bytes bound no tokens.
 */
export type SteeringGroup = readonly [
  names: string,
  obeyedBy: string,
  effect: string,
  adds?: typeof ADDS,
];
const ADDS = 'adds';

/** Members of the reference format, separated by blanks; without `web_search_options`, by which the provider searches. */
export const REFERENCE_MEMBERS = `model messages input stream stream_options temperature top_p max_tokens
  max_completion_tokens tools tool_choice parallel_tool_calls functions function_call response_format
  reasoning_effort verbosity encoding_format dimensions seed stop user n frequency_penalty presence_penalty
  logit_bias logprobs top_logprobs metadata modalities audio prediction store service_tier safety_identifier
  prompt_cache_key prompt_cache_retention`;

/**
 * Request members with which routers and engines let a caller reach beyond the own call. They were gathered in
 * November 2026 from what the sources read of a body, which is more than their documents name: LiteLLM, Portkey,
 * Bifrost, TensorZero, Envoy AI Gateway, one-api, new-api; llama.cpp, ik_llama.cpp, KoboldCpp, llamafile,
 * llama-cpp-python, LocalAI, Ollama, Lemonade, vLLM, Aphrodite, SGLang, TensorRT-LLM, Dynamo, TGI, LMDeploy, TabbyAPI,
 * mistral.rs, MLX, Xinference, text-generation-webui; of providers, whose sources are not public, the documents.
 * Every one is refused at the top level, and in `metadata` unless its value is a string: the reference format
 * allows only strings there, and they are labels.
 */
export const STEERING_TABLE: readonly SteeringGroup[] = [
  // other models, and adapters for one
  ['models preset route', 'OpenRouter', 'choose other models, or settings that name one', ADDS],
  [
    'model_* *_model *_models *_model_name',
    'LiteLLM, Portkey, SGLang',
    'name another model, or a list of deployments',
  ],
  [
    `fallback* default_fallbacks disable_fallback* max_fallbacks enable_fallbacks request_fallbacks
      context_window_fallback* content_policy_fallback*`,
    'LiteLLM',
    'choose the models that run when one fails',
  ],
  [
    'engine deployment deployment_* specific_deployment tags',
    'LiteLLM, Azure',
    'choose a deployment',
  ],
  [
    'router* routing* *_router_config semantic_router fastest_response order weight',
    'LiteLLM',
    'change how deployments are chosen',
  ],
  ['compound_custom', 'Groq', 'choose the models of a compound system'],
  ['moderation', 'OpenAI', 'run another model beside the own one'],
  [
    'adapter adapters adapter_* lora lora*',
    'TGI, vLLM, SGLang, llama.cpp, KoboldCpp, MLX',
    'choose an adapter, which makes it another model',
  ],
  // other providers and hosts
  [
    'provider providers provider_* llm_provider* plugins transforms',
    'OpenRouter',
    'choose the provider, or what is done to the prompt on the way',
    ADDS,
  ],
  [
    `custom_llm_provider api_base *_api_base api_type api_version base_url *_base_url *_api_url *_host
      *_endpoint *_endpoint_url endpoint backend use_litellm_proxy use_in_pass_through
      use_chat_completions_api no_proxy ssl_* shared_session`,
    'LiteLLM',
    'send the call to another host, or by another way',
  ],
  [
    `azure azure* aws_* vertex_* sagemaker_* watsonx_* databricks_* oci_* region region_name allowed_model_region organization project
      project_id space_id`,
    'LiteLLM',
    "choose another account, project or place of the operator's cloud",
  ],
  [
    'workspace_id user_profile_id billing_policy access_programs',
    'Anthropic, OpenAI',
    "choose a part of the operator's account, who pays the provider, or what the account was admitted to",
  ],
  ['agent_id', 'Mistral', 'run an agent, which has a model and a prompt of its own', ADDS],
  [
    'bootstrap_* *_dp_rank data_parallel_rank disaggregated_params conversation_params nvext',
    'SGLang, TensorRT-LLM, Dynamo',
    'choose the host or worker that runs the prefill',
  ],
  [
    '*_transfer_params *_xargs migration_request',
    'vLLM, Aphrodite, LMDeploy',
    'fetch the cache of a prompt from another host',
  ],
  [
    'extra_headers extra_body extra_query headers proxy_server_request override_provider',
    'LiteLLM',
    'put headers, members or a provider into the call behind the router',
    ADDS,
  ],
  [
    'generation_config sampling_params parameters venice_parameters additional_model_request_fields',
    'Envoy AI Gateway, SGLang, Portkey, Venice, Bedrock',
    'set in an object of its own what was not checked, such as another number of answers',
  ],
  [
    `config override_params targets strategy custom_host virtual_key portkey_* forward_headers url_to_fetch
      *_request_hooks`,
    'Portkey',
    'replace the routing configuration',
  ],
  ['tensorzero::*', 'TensorZero', 'choose a variant or its credentials'],
  // other keys and identities
  [
    `api_key *_api_key user_api_key* user_config client use_client credential* tenant_id client_id
      client_secret secret_fields configurable_clientside_auth_params`,
    'LiteLLM',
    'call with other credentials',
  ],
  ['litellm_*', 'LiteLLM', 'set parameters of the router itself'],
  // deployments, and what others get of them
  [
    'timeout *_timeout cooldown_* allowed_fails allowed_fails_* num_retries max_retries retry retry_policy retry_strategy',
    'LiteLLM, Portkey',
    'make a healthy deployment fail, which takes it away from others, or ask it again and again',
  ],
  [
    'rpm tpm rpm_limit tpm_limit max_budget budget_duration max_parallel_requests',
    'LiteLLM',
    'change the limits of a deployment',
  ],
  [
    `input_cost_per_* output_cost_per_* *_cost_per_query *_cost_per_token cost_per_* tiered_pricing
      store_model_in_db`,
    'LiteLLM',
    'change the prices or the list of models, for the whole process',
  ],
  [
    `priority request_id rid genkey agent_hierarchy speculative.* draft_* num_draft_tokens max_tokens_second`,
    'vLLM, SGLang, TensorRT-LLM, llama.cpp, KoboldCpp, MLX, text-generation-webui',
    'go before others, take the identifier of their request, make them wait, or change how batches are run',
  ],
  // the engine, for everybody
  [
    'system_prompt',
    'ik_llama.cpp, llamafile',
    'set the system prompt of the whole server: the answers of others change, and their streams stop',
  ],
  [
    `keep_alive options num_ctx ctx_size num_gpu num_thread num_batch num_keep use_mmap main_gpu max_context_length
      rope_freq_* tokenizer`,
    'Ollama, KoboldCpp, LocalAI, Lemonade',
    'unload the model or load it again with other settings, for everybody',
  ],
  [
    'n_keep n_discard n_cache_reuse',
    'llama.cpp, ik_llama.cpp, LocalAI',
    'end the process by an impossible number, or make the context end in an error',
  ],
  [
    'prompt_logprob* echo',
    'vLLM, Aphrodite',
    'have the logits of a whole prompt computed, for which the memory of all others does not suffice',
  ],
  // caches, sessions and stores that companies share
  [
    'cache caching no_cache no_store ttl s_maxage cache_key preset_cache_key caching_groups',
    'LiteLLM, Portkey',
    'put an answer into the cache for others, or take theirs',
  ],
  [
    'cache_salt extra_key id_slot slot_id with_cache preserve_cache',
    'vLLM, SGLang, llama.cpp, LMDeploy',
    "use or evict what is cached of others' prompts, or keep cache that others need",
  ],
  [
    `session_id session_params previous_response_id previous_response previous_input_messages conversation thread
      background deferred`,
    'SGLang, vLLM, OpenRouter, LiteLLM, Anthropic, xAI',
    "continue another caller's session, or run without an answer that is metered",
    ADDS,
  ],
  [
    `vector_store_ids knowledge_bases data_sources skills mcp_* localai_* container file_id file_ids *_file_id
      *_file_ids files ref_images image_data audio_data video_data cached_content ngram_corpus_id`,
    'LiteLLM, Azure, SGLang, LocalAI, LMDeploy, mistral.rs',
    'read stores and files, or use servers, of the operator or of others',
    ADDS,
  ],
  [
    `prompt_id prompt_version prompt_label prompt_variables prompt_spec dotprompt_* gitlab_* bitbucket_* character
      character_*`,
    'LiteLLM, text-generation-webui',
    "run a prompt of the operator's",
    ADDS,
  ],
  // guardrails, and prompts that go past them
  [
    `guardrail* *_guardrail *_guardrails _guardrail_* _pipeline_* policies applied_policies policy_sources
      pillar_* turn_off_message_logging standard_logging_object amazon_bedrock_*`,
    'LiteLLM, Portkey, Bedrock',
    "switch off or choose the operator's guardrails and logs",
  ],
  [
    'drop_params additional_drop_params allowed_openai_params',
    'LiteLLM',
    'remove or add members of the call that was checked, such as the request for its usage',
  ],
  [
    'prompt_embeds *_embeds embed_override* input_ids prompt_token_ids prompt_token_ids_*',
    'vLLM, SGLang, TensorRT-LLM, LMDeploy',
    'run something other than the messages',
  ],
  [
    'n_predict n_cmpl best_of auto_max_new_tokens',
    'llama.cpp, vLLM, text-generation-webui',
    'generate more than n and max_tokens say',
  ],
  // failures behind delivered text, and work that no token counts
  [
    `ignore_eos min_tokens min_new_tokens min_length min_completion_tokens min_output_tokens ban_eos_token bypass_eos
      use_default_badwordsids eos_token_id eos_token_ids suppress_tokens bad_words bad_words_ids allowed_token_ids allowed_tokens allowlist_*
      custom_token_bans expiring_logit_bias shift context_shift`,
    'vLLM, SGLang, TensorRT-LLM, llama.cpp, ik_llama.cpp, KoboldCpp, TabbyAPI, LMDeploy, LocalAI, mistral.rs',
    'keep the answer from ending before the context does, which some engines call an error: the call would be free',
  ],
  [
    'banned_* rewind_* banbuffer_size saturate_predict',
    'ik_llama.cpp, KoboldCpp, TabbyAPI',
    'have tokens generated and taken back, again and again, that nobody counts; regexes among them stop the engine',
  ],
  [
    'num_beams num_return_sequences negative_prompt negative_prompt_* guidance_scale cfg_scale',
    'KoboldCpp, LocalAI, text-generation-webui',
    'run more beside the answer than its tokens tell',
  ],
  [
    `web_search_* search_* *_search enable_search_* *_search_results *_search_enhancement enable_web_* websearch
      enable_enhancement enable_deep_read enable_multimedia enable_recommended_questions media_response
      include_domains exclude_domains last_updated_* connectors grounding grounding_* research browsing url_context`,
    'OpenAI, xAI, Perplexity, Groq, Qwen, Hunyuan, Qianfan, Cohere, LiteLLM, mistral.rs, new-api',
    'have the provider search, which no token counts',
    ADDS,
  ],
  [
    `enable_code_* code_execution code_execution_* enable_shell shell_* agent_permission max_tool_rounds file_parser
      pdf_engine
      include_server_side_tool_invocations`,
    'Qwen, mistral.rs, Bifrost, OpenRouter',
    'have tools of the provider or the engine run, which no token counts',
    ADDS,
  ],
  // programs, templates and the engine
  [
    `grammar grammar_* regex regex_* *_regex ebnf guided_grammar guided_decoding guided_decoding_* *_pattern structural_tag lark gbnf
      chat_parser chat_format generation_prompt preserved_tokens`,
    'vLLM, SGLang, llama.cpp, ik_llama.cpp, KoboldCpp, TabbyAPI, LocalAI, mistral.rs, llama-cpp-python',
    'run a pattern or a program in the engine, which can stop it for everybody; a schema in response_format passes',
  ],
  [
    'logits_processors custom_logit_processor custom_params logger_fn',
    'vLLM, SGLang, LiteLLM',
    'run code in the engine or the router',
  ],
  [
    `chat_template chat_template_path chat_template_str chat_template_tool_use template prompt_template
      instruction_template instruction_template_str raw`,
    'vLLM, TGI, Ollama, TabbyAPI, text-generation-webui',
    'run a template, or none',
    ADDS,
  ],
  [
    'custom_prompt_dict roles bos_token eos_token initial_prompt_value final_prompt_value custom_tokenizer',
    'LiteLLM',
    'register a template or a tokenizer, for the whole process',
  ],
  [
    'mm_processor_kwargs media_io_kwargs',
    'vLLM, TensorRT-LLM, LMDeploy',
    "change the engine's readers of media, whose memory all share",
  ],
  [
    '_agentic_loop_* _code_interpreter_* max_agentic_loops',
    'LiteLLM',
    'make many calls of one, or run code in a sandbox',
    ADDS,
  ],
  // copies, and what stands behind
  [
    `callbacks *_callback *_callbacks langfuse_* langsmith_* gcs_* s3_* arize_* phoenix_* posthog_* wandb_*
      weave_* humanloop_* traffic_mirror`,
    'LiteLLM',
    'copy prompts and answers to another place',
  ],
  [
    'trace no_log custom_labels',
    'OpenRouter, LiteLLM, SGLang',
    "write into the operator's traces and metrics, or not",
  ],
  [
    'debug debug_* _debug_* verbose return_* enable_response_messages',
    'OpenRouter, Ollama, llama.cpp, vLLM, SGLang, Perplexity',
    'show the prompt as it was sent, settings and internal states',
  ],
  ['mock_*', 'LiteLLM', 'answer without a model'],
  [
    'inference_geo speed performance_config anthropic_beta betas',
    'Anthropic, Bedrock, LiteLLM',
    'run in another region or at another price, or switch on features that reach stored data',
  ],
];

/**
 * Members that are refused where they are null or an empty list, too: then they take away what the operator set for a
 * key or an account, or the end of an answer. Others ask for nothing then, and SDKs send null for what is not set.
 */
export const EMPTY_COUNTS = `guardrail* *_guardrail *_guardrails policies callbacks *_callback *_callbacks tags plugins
  transforms eos_token_id eos_token_ids`;

/** Members that are refused within another one. */
export const STEERING_WITHIN: readonly SteeringGroup[] = [
  ['chat_template_kwargs.chat_template', 'vLLM, SGLang', 'run a template in the engine'],
  [
    `chat_template_kwargs.tokenize chat_template_kwargs.padding chat_template_kwargs.truncation
      chat_template_kwargs.max_length chat_template_kwargs.return_* chat_template_kwargs.*_kwargs`,
    'SGLang, mlx-lm',
    'give the tokenizer arguments instead of the template variables, such as a length of padding',
  ],
  [
    `structured_outputs.regex structured_outputs.grammar structured_outputs.structural_tag
      structured_outputs.*_pattern`,
    'vLLM, Aphrodite',
    'run a pattern or a program in the engine; json and choice pass',
  ],
  [
    'diagnostics.previous_message_id prompt_cache_options.comparison_response_id',
    'Anthropic, OpenAI',
    "learn how the own prompt differs from that of a call which may be another company's",
  ],
];

/**
 * Members of `metadata` that are refused besides. With `[]` at the end: unless the value is a
 * string, which a label may well be. Without: whatever it is.
 */
export const STEERING_METADATA: readonly SteeringGroup[] = [
  [
    `model_group api_base base_url *_base_url *_host *_endpoint *_endpoint_url aws_* azure_* vertex_*
      specific_deployment previous_models[]`,
    'LiteLLM',
    'choose a deployment, or send the call to another host',
  ],
  [
    'api_key *_api_key user_api_key* user_config credential* litellm_* end_user_id[]',
    'LiteLLM',
    'call with other credentials, or in the name of another user',
  ],
  [
    `disable_global_guardrail disable_global_guardrails opted_out_global_guardrails _guardrail_* _pipeline_*
      pillar_*`,
    'LiteLLM',
    "switch off the operator's guardrails",
  ],
  [
    'langfuse_* langsmith_* cold_storage_object_key',
    'LiteLLM',
    'copy prompts and answers to another place, or read stored ones',
  ],
  [
    'spend_logs_metadata[] requester_metadata[] hidden_params[] queue_time_seconds[]',
    'LiteLLM',
    "write into the operator's spend logs and metrics",
  ],
  ['mcp_* localai_*', 'LocalAI', 'use servers and prompts of the operator, named by texts'],
  ['mock_*', 'LiteLLM', 'answer without a model'],
];

/**
 * Types of the form of an answer that are no programs. Others are patterns and grammars, such as `regex` and `ebnf` of
 * TensorRT-LLM, `structural_tag` of vLLM and SGLang, `regex_schema` of LMDeploy, `grammar` of Fireworks.
 */
export const PLAIN_FORMATS: readonly string[] = ['text', 'json', 'json_object', 'json_schema'];

/** Types of tools that the caller runs. Tools of other types run at the router or the provider. */
export const CALLERS_TOOLS: readonly string[] = ['function', 'custom'];
/** The same of Anthropic's, with their dates. */
export const CALLERS_DATED_TOOLS = /^(?:bash|computer|memory|text_editor)_\d{8}$/;
/** The caller's tools that have no name: their type, the `execution` that they need, and all members that they may have. */
export const CALLERS_UNNAMED_TOOLS: readonly (readonly [
  type: RegExp,
  execution: unknown,
  members: string,
])[] = [
  // sent by Codex, which searches tools of MCP servers itself; without `execution` the provider searches
  [/^tool_search$/, 'client', 'type execution description parameters'],
  [/^(?:browser|computer)_toolset_\d{8}$/, undefined, 'type cache_control configs'],
];

/** Members that pass, though a pattern above or a first look says otherwise, and why: they end with the own call. */
export const HARMLESS: readonly (readonly [names: string, why: string])[] = [
  // what current clients send
  ['thinking reasoning include_reasoning enable_thinking', 'how much the model thinks'],
  [
    'cache_control cache_control_injection_points',
    "marks the caller's own messages for the provider's cache",
  ],
  ['cache_prompt', "reuses what is cached of the own prompt; off, it spends the caller's time"],
  ['chat_template_kwargs', 'variables of the template; a template among them is refused'],
  ['usage', 'asks for the usage, whose price is removed'],
  ['modalities audio image_config', 'sound and images are generated as tokens, which are counted'],
  [
    'logit_bias',
    'the reference has it, so it passes, though it can forbid the end of an answer too',
  ],
  // sampling
  ['top_k top_a min_p typical_p repetition_penalty length_penalty mirostat', 'sampling'],
  ['use_beam_search', 'sampling; the beams are counted by n'],
  ['stop_token_ids', 'ends the own answer'],
  [
    't_max_predict_ms max_time repetition_detection loop_detect_window',
    'ends the own answer early, as its regular end',
  ],
  // the form of the answer
  ['add_generation_prompt continue_final_message', "continues the caller's last message"],
  ['documents', "texts of the caller's, for the template"],
  [
    'response_format text output_config output_format',
    'the form of the answer; types that are programs are refused',
  ],
  ['json_schema guided_json guided_choice', 'the form of the own answer, as a schema or a list'],
  ['structured_outputs', 'the same; patterns and programs in it are refused'],
  ['skip_special_tokens', 'the form of the own answer'],
  ['truncate_prompt_tokens', 'shortens the own prompt'],
  // of providers
  ['return_citations disable_search', 'Perplexity: what the answer shows of a search, or none'],
  ['vl_high_resolution_images', 'Qwen: more tokens of the own images, which are counted'],
  ['safe_prompt', 'Mistral: a stricter prompt'],
  ['safety_settings', "Gemini: the provider's filter, for the own call"],
];
