/**
 * What routers, engines and providers read of a request body beside the members of the reference format, gathered from
 * their sources in November 2026 (of providers, from their documents), apart from our list. Each is judged: refused, or
 * passed because it ends with the own call. Members that set the most tokens are judged elsewhere.
 */
export interface ReadMembers {
  readonly refused: string;
  readonly passed?: string;
}

const SAMPLING = `top_k min_p typical_p repeat_penalty repetition_penalty temperature_last smoothing_factor
  smoothing_curve xtc_probability xtc_threshold dry_multiplier dry_base dry_allowed_length dry_penalty_last_n
  dry_sequence_breakers dynatemp_range dynatemp_exponent mirostat mirostat_tau mirostat_eta top_n_sigma
  adaptive_target adaptive_decay`;

export const READ_MEMBERS: Readonly<Record<string, ReadMembers>> = {
  LiteLLM: {
    refused: `disable_global_guardrail disable_global_guardrails guardrail_config guardrails policies
      opted_out_global_guardrails vector_store_ids use_litellm_proxy use_in_pass_through use_chat_completions_api timeout
      request_timeout stream_timeout force_timeout cooldown_time allowed_fails ssl_verify ssl_certificate tenant_id
      client_id client_secret max_budget budget_duration rpm tpm weight order no_proxy logger_fn verbose
      custom_prompt_dict roles ttl no-cache no-log turn_off_message_logging project shared_session
      max_parallel_requests mcp_servers search_tools skills enable_fallbacks request_fallbacks
      complexity_router_config auto_router_config semantic_router prompt_spec dotprompt_content gitlab_config
      bitbucket_config store_model_in_db cost_per_query override_provider fastest_response traffic_mirror container
      file_ids input_file_id custom_tokenizer allowed_openai_params drop_params search_context_cost_per_query
      citation_cost_per_token max_agentic_loops _agentic_loop_depth hf_model_name _guardrail_pipelines
      _pipeline_managed_guardrails applied_guardrails pillar_response_headers secret_fields service_callback
      posthog_api_url weave_project_id arize_space_id deployment_url s3_endpoint_url model_list model_info api_base
      base_url api_key headers extra_body user_config mock_response mock_timeout caching cache num_retries
      max_retries retry_policy fallbacks prompt_id prompt_variables bos_token eos_token final_prompt_value azure
      azure_ad_token_provider region_name proxy_server_request preset_cache_key caching_groups litellm_metadata
      custom_llm_provider input_cost_per_token web_search_options cached_content performance_config
      provider_specific_header allowed_model_region configurable_clientside_auth_params`,
    passed: `cache_control_injection_points cache_control thinking reasoning_effort enable_json_schema_validation
      merge_reasoning_content_in_choices ensure_alternating_roles user_continue_message supports_system_message`,
  },
  Portkey: {
    refused: `strategy targets override_params virtual_key custom_host retry before_request_hooks input_guardrails
      default_output_guardrails forward_headers url_to_fetch azure_model_name config provider parameters anthropic_beta`,
    passed: 'safety_settings context examples',
  },
  Bifrost: {
    refused: `provider fallbacks mcp_servers container speed inference_geo web_search_options
      include_server_side_tool_invocations`,
    passed: 'reasoning task_budget context_management prompt_cache_options cache_control top_k',
  },
  'Envoy AI Gateway': {
    refused: 'generationConfig guided_regex web_search_options',
    passed: 'guided_choice guided_json thinking safetySettings',
  },
  TensorZero: {
    refused: 'tensorzero::variant_name tensorzero::extra_body tensorzero::cache_options',
  },
  'one-api, new-api': {
    refused: 'num_ctx extra_body search_parameters web_search_options web_search',
    passed: 'vl_high_resolution_images enable_thinking think usage reasoning',
  },
  'llama.cpp': {
    refused: `verbose return_tokens return_progress n_keep n_discard n_cmpl n_cache_reuse lora grammar grammar_lazy
      grammar_triggers grammar_type chat_format chat_parser generation_prompt preserved_tokens ignore_eos id_slot echo
      speculative.n_max speculative.n_min speculative.p_min speculative.type`,
    passed: `${SAMPLING} timings_per_token cache_prompt sse_ping_interval n_indent t_max_predict_ms response_fields
      repeat_last_n n_probs min_keep backend_sampling post_sampling_probs json_schema reasoning_format
      parse_tool_calls continue_final_message reasoning_control reasoning_budget_tokens reasoning_budget_message
      samplers logit_bias stop add_generation_prompt chat_template_kwargs`,
  },
  'ik_llama.cpp': {
    refused: `system_prompt banned_strings banned_regex banned_regex_case_insensitive banned_bias banned_n
      banbuffer_size rewind_count_max saturate_predict expiring_logit_bias allowlist_piece_array
      allowlist_keyword_delay n_keep n_discard ignore_eos grammar grammar_triggers chat_parser id_slot
      chat_template_tool_use speculative.stages`,
    passed: `${SAMPLING} tfs_z penalize_nl adaptive_updt_w_cur thinking_budget_tokens`,
  },
  KoboldCpp: {
    refused: `adapter grammar grammar_retain_state genkey ban_eos_token bypass_eos use_default_badwordsids
      banned_strings banned_tokens custom_token_bans max_context_length negative_prompt guidance_scale`,
    passed: `${SAMPLING} memory top_a tfs nsigma rep_pen rep_pen_range rep_pen_slope sampler_order sampler_seed
      stop_sequence trim_stop render_special replace_instruct_placeholders images audio`,
  },
  'llamafile, llama-cpp-python': {
    refused: 'system_prompt grammar min_tokens image_data slot_id',
    passed: 'repeat_penalty mirostat_mode logit_bias_type response_format',
  },
  LocalAI: {
    refused: `files ref_images grammar grammar_json_functions backend model_base_name ignore_eos n_keep negative_prompt
      rope_freq_base rope_freq_scale tokenizer`,
    passed: 'tfz typical_p pooling language',
  },
  Ollama: {
    refused: `_debug_render_only keep_alive options raw template shift num_ctx num_gpu num_thread num_batch num_keep
      main_gpu use_mmap draft_num_predict`,
    passed: 'think format truncate reasoning',
  },
  'vLLM, Aphrodite': {
    refused: `chat_template mm_processor_kwargs media_io_kwargs priority request_id session_id
      return_tokens_as_token_ids return_token_ids return_token_offsets return_prompt_text return_mm_kwargs cache_salt
      kv_transfer_params ec_transfer_params vllm_xargs aphrodite_xargs ignore_eos min_tokens allowed_token_ids
      bad_words prompt_logprobs echo previous_input_messages previous_response enable_response_messages
      guided_regex guided_grammar guided_decoding_backend guided_whitespace_pattern logits_processors prompt_embeds
      structured_outputs.regex structured_outputs.grammar structured_outputs.structural_tag
      structured_outputs.whitespace_pattern chat_template_kwargs.chat_template best_of lora_request`,
    passed: `${SAMPLING} thinking_token_budget include_reasoning use_beam_search length_penalty stop_token_ids
      include_stop_str_in_output skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens
      truncation_side logprob_token_ids add_generation_prompt continue_final_message add_special_tokens documents
      structured_outputs guided_json guided_choice repetition_detection stream_interval watermarking
      routed_experts_prompt_start use_activation embed_dtype endianness padding eta_cutoff epsilon_cutoff
      no_repeat_ngram_size`,
  },
  SGLang: {
    refused: `return_hidden_states return_routed_experts return_cached_tokens_details return_prompt_token_ids
      return_meta_info min_tokens regex ebnf stop_regex ignore_eos lora_path session_id session_params
      custom_logit_processor custom_params input_ids rid extra_key cache_salt ngram_corpus_id priority bootstrap_host
      bootstrap_port bootstrap_room routed_dp_rank disagg_prefill_dp_rank data_parallel_rank embed_overrides
      embed_override_token_id chat_template_kwargs.tokenizer_kwargs chat_template_kwargs.padding
      chat_template_kwargs.max_length chat_template_kwargs.return_dict chat_template_path`,
    passed: `no_stop_trim separate_reasoning stream_reasoning max_dynamic_patch min_dynamic_patch use_audio_in_video
      images_config task routed_experts_start_len`,
  },
  'TensorRT-LLM, Dynamo': {
    refused: `prompt_token_ids prompt_token_ids_b64 lora_request disaggregated_params conversation_params
      agent_hierarchy return_context_logits nvext`,
    passed:
      'top_p_min early_stopping prompt_ignore_length detokenize injected_chat_template_kwargs',
  },
  'TGI, LMDeploy': {
    refused: `adapter_id image_data input_ids min_new_tokens return_logprob session_id ignore_eos migration_request
      with_cache preserve_cache`,
    passed: 'tool_prompt do_preprocess repetition_ngram_size repetition_ngram_threshold',
  },
  TabbyAPI: {
    refused: `min_tokens min_length banned_strings banned_tokens allowed_tokens ban_eos_token regex_pattern
      grammar_string prompt_template`,
    passed: `${SAMPLING} token_healing skew penalty_range repetition_decay add_bos_token json_schema loop_detect_window
      template_vars response_prefix reasoning_budget_message`,
  },
  'mistral.rs': {
    refused: `adapter web_search_options agent_permission code_execution_permission enable_shell
      shell_skill_references session_id files grammar max_tool_rounds ignore_eos`,
    passed: 'truncate_sequence enable_thinking',
  },
  'MLX, Xinference': {
    refused: 'draft_model num_draft_tokens adapters adapter_path tenant_id lora_name request_id',
    passed:
      'repetition_context_size role_mapping thinking_start_token max_denoising_steps stream_interval',
  },
  'text-generation-webui': {
    refused: `preset ban_eos_token custom_token_bans negative_prompt guidance_scale grammar_string instruction_template
      instruction_template_str chat_template_str character auto_max_new_tokens max_tokens_second`,
    passed:
      'penalty_alpha do_sample epsilon_cutoff mode greeting user_bio truncation_length prompt_lookup_num_tokens static_cache',
  },
  OpenRouter: {
    refused:
      'models provider route preset plugins transforms debug trace session_id fallbacks web_search_options',
    passed: 'usage image_config reasoning stop_server_tools_when modalities',
  },
  'xAI, OpenAI': {
    refused: 'search_parameters deferred moderation access_programs web_search_options',
    passed: `store prompt_cache_key safety_identifier service_tier verbosity prediction modalities audio
      prompt_cache_options`,
  },
  Anthropic: {
    refused:
      'workspace_id user_profile_id billing_policy inference_geo speed fallbacks fallback_credit_token mcp_servers',
    passed: 'context_management output_config output_format diagnostics compaction',
  },
  Perplexity: {
    refused: `search_mode search_domain_filter search_recency_filter search_after_date_filter
      search_before_date_filter last_updated_after_filter return_images return_related_questions media_response
      enable_search_classifier num_search_results web_search_options`,
    passed: 'disable_search return_citations',
  },
  'Qwen, Hunyuan, Qianfan, Groq, Cohere': {
    refused: `enable_search search_options enable_code_interpreter web_search enable_enhancement
      force_search_enhancement search_info enable_speed_search enable_deep_search enable_multimedia
      enable_recommended_questions enable_deep_read search_settings include_domains exclude_domains compound_custom
      connectors live_search`,
    passed:
      'thinking_budget citation_options disable_tool_validation documents translation_options',
  },
  'Venice, Bedrock, Mistral': {
    refused:
      'venice_parameters amazon-bedrock-guardrailConfig additionalModelRequestFields agent_id',
    passed: 'safe_prompt prompt_mode',
  },
};

/** What routers and engines read of `metadata`, unless it is a text. */
export const READ_OF_METADATA = `disable_global_guardrails guardrails policies vector_store_ids spend_logs_metadata
  requester_metadata headers hidden_params deployment queue_time_seconds end_user_id cold_storage_object_key
  mcp_servers cache no-log timeout fallbacks tags model_info mock_response`;
/** The same, as a text too. */
export const READ_TEXTS_OF_METADATA =
  'mcp_servers mcp_prompt mcp_prompt_args mcp_resources localai_assistant api_base';

/** What current clients send: never refused. */
export const SENT_BY_CLIENTS = `store metadata prompt_cache_key safety_identifier service_tier reasoning_effort
  parallel_tool_calls cache_control verbosity prediction thinking top_k temperature top_p seed stop logit_bias user n
  tool_choice modalities audio reasoning include_reasoning usage image_config enable_thinking stream_options`;
