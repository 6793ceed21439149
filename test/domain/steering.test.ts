import t from 'tap';
import { REFERENCE, STEERING, SteeringFilter } from '../../src/domain/steering.ts';
import { HARMLESS, STEERING_METADATA, STEERING_TABLE, STEERING_WITHIN } from '../../src/domain/steering-table.ts';

const filter = new SteeringFilter(STEERING);

/** A name that the entry stands for. */
const example = (entry: string) => entry.replace('*', 'some_thing').replace('[]', '');

/** The name as callers might write it for a reader that does not mind. */
const SPELLINGS: readonly ((name: string) => string)[] = [
  (name) => name,
  (name) => name.toUpperCase(),
  (name) => name.replace(/^./, (c) => c.toUpperCase()),
  (name) => name.replaceAll('_', '-'),
  (name) => name.replace(/([a-z0-9])_([a-z])/g, (_, a: string, b: string) => a + b.toUpperCase()),
  (name) => name.replaceAll('s', '\u017f').replaceAll('k', '\u212a'),
  (name) => name.replaceAll('i', '\u0131'),
  (name) => `${name}\0`,
  (name) => `${name}\0${'x'.repeat(300)}`,
];

/** Read in the sources of routers and engines, apart from our list; the text says where. */
const OBEYED: Readonly<Record<string, string>> = {
  LiteLLM: `disable_global_guardrail disable_global_guardrails guardrail_config policies opted_out_global_guardrails
    vector_store_ids use_litellm_proxy use_in_pass_through use_chat_completions_api timeout request_timeout
    stream_timeout force_timeout cooldown_time allowed_fails ssl_verify ssl_certificate tenant_id client_id
    client_secret max_budget budget_duration rpm tpm weight order no_proxy logger_fn verbose custom_prompt_dict roles
    ttl no-cache turn_off_message_logging project shared_session max_parallel_requests mcp_servers search_tools skills
    enable_fallbacks request_fallbacks complexity_router_config auto_router_config semantic_router prompt_spec
    dotprompt_content gitlab_config bitbucket_config store_model_in_db cost_per_query override_provider
    fastest_response traffic_mirror container file_ids input_file_id custom_tokenizer allowed_openai_params drop_params
    search_context_cost_per_query citation_cost_per_token max_agentic_loops _agentic_loop_depth hf_model_name
    _guardrail_pipelines _pipeline_managed_guardrails applied_guardrails pillar_response_headers secret_fields
    service_callback posthog_api_url weave_project_id arize_space_id deployment_url s3_endpoint_url`,
  'LiteLLM, for Gemini and Bedrock': 'cached_content performance_config',
  Bedrock: 'amazon-bedrock-guardrailConfig',
  xAI: 'deferred',
  OpenAI: 'moderation access_programs',
  Anthropic: 'workspace_id user_profile_id billing_policy inference_geo speed fallbacks fallback_credit_token',
  OpenRouter: 'models provider route preset plugins transforms debug trace session_id',
  'vLLM, SGLang': `adapter adapters chat_template chat_template_path request_id rid priority cache_salt
    logits_processors mm_processor_kwargs media_io_kwargs guided_decoding_backend prompt_embeds return_hidden_states
    return_token_ids return_prompt_text return_meta_info data_parallel_rank routed_dp_rank disagg_prefill_dp_rank
    session_params extra_key lora_path custom_logit_processor custom_params input_ids bootstrap_room
    kv_transfer_params ec_transfer_params ngram_corpus_id best_of`,
  'llama.cpp, Ollama':
    'speculative.n_max id_slot slot_id keep_alive options raw template lora n_predict n_cmpl num_ctx',
  Portkey: `strategy targets override_params virtual_key custom_host retry before_request_hooks input_guardrails
    default_output_guardrails forward_headers url_to_fetch azure_model_name`,
};
const OBEYED_IN_METADATA = `disable_global_guardrails guardrails policies vector_store_ids spend_logs_metadata
  requester_metadata headers hidden_params deployment queue_time_seconds end_user_id cold_storage_object_key
  mcp_servers cache no-log timeout fallbacks tags model_info mock_response`;

/** What clients send and what only samples: never refused. */
const PASSES = `store metadata prompt_cache_key safety_identifier service_tier reasoning_effort parallel_tool_calls
  cache_control verbosity prediction thinking top_k temperature top_p seed stop logit_bias user n tools tool_choice
  web_search_options modalities audio reasoning include_reasoning usage image_config echo min_tokens ignore_eos
  grammar guided_json structured_outputs chat_template_kwargs min_p repetition_penalty cache_prompt use_beam_search
  stop_token_ids documents return_citations some_future_parameter cache_control_injection_points
  context_management compaction diagnostics output_config output_format prompt_cache_options prompt_cache_retention
  image truncation top_logprobs max_tool_calls include instructions text stop_sequences system`;

const words = (text: string) => text.trim().split(/\s+/);

t.test('every entry has who obeys it and what it would do', async (t) => {
  for (const [names, obeyedBy, effect] of [...STEERING_TABLE, ...STEERING_WITHIN, ...STEERING_METADATA]) {
    t.ok(obeyedBy.length > 2 && effect.length > 8, names);
  }
  t.equal(new Set(STEERING).size, STEERING.length, 'no entry twice');
});

t.test('every entry is refused, at the top and in metadata, however it is spelled', async (t) => {
  for (const entry of STEERING_TABLE.flatMap(([names]) => words(names))) {
    for (const spell of SPELLINGS) {
      const name = spell(example(entry));
      if (!filter.refuses(name)) t.fail(`${entry} as ${JSON.stringify(name)}`);
      if (!filter.refusesInMetadata(name, false)) t.fail(`metadata.${entry} as ${JSON.stringify(name)}`);
    }
  }
  for (const entry of STEERING_METADATA.flatMap(([names]) => words(names))) {
    for (const spell of SPELLINGS) {
      const name = spell(example(entry));
      if (!filter.refusesInMetadata(name, !entry.endsWith('[]')))
        t.fail(`metadata.${entry} as ${JSON.stringify(name)}`);
    }
  }
  for (const entry of STEERING_WITHIN.flatMap(([names]) => words(names))) {
    const [parent, name] = entry.split('.') as [string, string];
    for (const spell of SPELLINGS) t.ok(filter.refusesWithin(parent, spell(name)), entry);
    t.notOk(filter.refuses(parent), `${parent} itself`);
  }
  t.pass(`${STEERING.length} entries`);
});

t.test('what routers and engines obey is refused', async (t) => {
  for (const [who, names] of Object.entries(OBEYED)) {
    for (const name of words(names)) t.ok(filter.refuses(name), `${who}: ${name}`);
  }
  for (const name of words(OBEYED_IN_METADATA)) t.ok(filter.refusesInMetadata(name, false), `metadata.${name}`);
});

t.test('what is harmless passes', async (t) => {
  for (const name of [...words(PASSES), ...REFERENCE, ...HARMLESS.flatMap(([names]) => words(names))])
    t.notOk(filter.refuses(name), name);
  for (const [names, why] of HARMLESS) t.ok(why.length > 3, names);
  for (const label of ['priority', 'deployment', 'tags', 'project', 'session_id', 'model', 'end_user_id', 'trace']) {
    t.notOk(filter.refusesInMetadata(label, true), `metadata.${label} as a label`);
  }
  for (const name of ['enable_thinking', 'thinking']) t.notOk(filter.refusesWithin('chat_template_kwargs', name));
});

t.test('a star stands for one character or more', async (t) => {
  const own = new SteeringFilter(['a_*', '*_z', 'b*y', '*']);
  t.ok(own.refuses('anything'));
  const few = new SteeringFilter(['a_*', '*_z', 'b*y']);
  for (const name of ['a_b', 'aB', 'x_z', 'xZ', 'bxy', 'b-y']) t.ok(few.refuses(name), name);
  for (const name of ['a_', 'a', '_z', 'z', 'by', 'b', '', 'ab']) t.notOk(few.refuses(name), name);
});
