/**
 * What engines, providers and routers answer to an input that is too long: status and body, as their sources have it
 * or as clients reported it.
 */
export interface Overflow {
  readonly source: string;
  readonly status: number;
  readonly body: unknown;
}

const error = (message: string, more: object = {}) => ({ error: { message, ...more } });
const invalid = (message: string, code: unknown = null) =>
  error(message, { type: 'invalid_request_error', code });
const row = (source: string, status: number, body: unknown): Overflow => ({ source, status, body });

export const OVERFLOWS: readonly Overflow[] = [
  row(
    'OpenAI, chat',
    400,
    invalid(
      "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.",
      'context_length_exceeded',
    ),
  ),
  row(
    'OpenAI, responses',
    400,
    invalid(
      'Your input exceeds the context window of this model. Please adjust your input and try again.',
    ),
  ),
  row(
    'OpenAI, gpt-5',
    400,
    invalid(
      'Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.',
    ),
  ),
  row('Anthropic', 400, {
    type: 'error',
    error: {
      type: 'invalid_request_error',
      message: 'prompt is too long: 213462 tokens > 200000 maximum',
    },
  }),
  row('Anthropic, with the answer', 400, {
    type: 'error',
    error: {
      type: 'invalid_request_error',
      message:
        'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again',
    },
  }),
  row('vLLM', 400, {
    object: 'error',
    message:
      "This model's maximum context length is 4096 tokens. However, you requested 5048 tokens (3000 in the messages, 2048 in the completion). Please reduce the length of the messages or completion.",
    type: 'BadRequestError',
    param: null,
    code: 400,
  }),
  row(
    'vLLM, decoder prompt',
    400,
    error(
      'The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.',
      { type: 'BadRequestError', param: null, code: 400 },
    ),
  ),
  row('SGLang', 400, {
    object: 'error',
    message: "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    type: 'BadRequestError',
    param: null,
    code: 400,
  }),
  row('SGLang, total', 400, {
    object: 'error',
    message:
      "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 3000 tokens from the input messages and 2000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
    type: 'BadRequestError',
    param: null,
    code: 400,
  }),
  row('SGLang, truncation', 400, {
    object: 'error',
    message:
      'Input length (5000 tokens) exceeds the maximum allowed length (4090 tokens). Use a shorter input or enable --allow-auto-truncate.',
    type: 'BadRequest',
    code: 400,
  }),
  row('llama.cpp', 400, {
    error: {
      code: 400,
      message:
        'request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it',
      type: 'exceed_context_size_error',
      n_prompt_tokens: 9412,
      n_ctx: 8192,
    },
  }),
  row('llama.cpp, earlier', 500, {
    error: {
      code: 500,
      message: 'the request exceeds the available context size, try increasing it',
      type: 'server_error',
    },
  }),
  row('llama.cpp, while it generates', 500, {
    error: { code: 500, message: 'Context size has been exceeded.', type: 'server_error' },
  }),
  row('llama.cpp, embeddings', 500, {
    error: {
      code: 500,
      message:
        'input (5000 tokens) is too large to process. increase the physical batch size (current batch size: 512)',
      type: 'server_error',
    },
  }),
  row('LM Studio', 400, {
    error:
      'Trying to keep the first 6269 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input',
  }),
  row('LM Studio, later', 400, {
    error:
      'The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input',
  }),
  row('Bedrock', 400, { message: 'Input is too long for requested model.' }),
  row(
    'Bedrock by LiteLLM',
    400,
    error(
      'litellm.BadRequestError: BedrockException - {"message":"Input is too long for requested model."}',
      {
        type: null,
        param: null,
        code: '400',
      },
    ),
  ),
  row('Bedrock, Titan', 400, {
    message:
      '400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9279 ',
  }),
  row('Gemini', 400, {
    error: {
      code: 400,
      message:
        'The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).',
      status: 'INVALID_ARGUMENT',
    },
  }),
  row('Gemini, as OpenAI', 400, [
    {
      error: {
        code: 400,
        message: 'The input token count exceeds the maximum number of tokens allowed 1048576.',
        status: 'INVALID_ARGUMENT',
      },
    },
  ]),
  row('Vertex', 400, {
    error: {
      code: 400,
      message:
        'Unable to submit request because the input token count is 33000 but model only supports up to 32768. Reduce the input token count and try again.',
      status: 'INVALID_ARGUMENT',
    },
  }),
  row('xAI', 400, {
    code: 'Client specified an invalid argument',
    error: "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
  }),
  row('Mistral', 400, {
    object: 'error',
    message:
      'Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    type: 'invalid_request_prompt',
    code: '3051',
  }),
  row(
    'Moonshot',
    400,
    invalid('Invalid request: Your request exceeded model token limit: 8192 (requested: 9001)'),
  ),
  row('Moonshot, in bytes', 400, invalid('total message size 2306631 exceeds limit 2097152')),
  row('Z.ai', 400, { error: { code: '1261', message: 'Prompt exceeds max length' } }),
  row('DashScope', 400, {
    error: {
      message:
        '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]',
      type: 'invalid_request_error',
      code: 'invalid_parameter_error',
    },
  }),
  row('MiniMax', 400, {
    type: 'error',
    error: {
      type: 'bad_request_error',
      message: 'invalid params, context window exceeds limit (2013)',
    },
  }),
  row('Cohere', 400, {
    message:
      'too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292. Try using a shorter prompt, or enabling prompt truncating. See https://docs.cohere.com/reference/generate for more details.',
  }),
  row('Cohere, size', 400, {
    message:
      'too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs.',
  }),
  row('TGI', 422, {
    error:
      'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 30 `inputs` tokens and 4060 `max_new_tokens`',
    error_type: 'validation',
  }),
  row('TGI, input', 422, {
    error: 'Input validation error: `inputs` must have less than 1024 tokens. Given: 1592',
    error_type: 'validation',
  }),
  row('TEI', 413, {
    message: 'Input validation error: `inputs` must have less than 512 tokens. Given: 904',
    type: 'Validation',
  }),
  row('Ollama', 400, { error: 'prompt too long; exceeded max context length by 100918 tokens' }),
  row(
    'Ollama, embeddings',
    400,
    error('the input length exceeds the context length', { type: 'api_error' }),
  ),
  row(
    'Ollama, 500',
    500,
    error('prompt too long; exceeded context length by 4 tokens', {
      type: 'api_error',
      param: null,
      code: null,
    }),
  ),
  row(
    'Groq',
    400,
    invalid('Please reduce the length of the messages or completion.', 'context_length_exceeded'),
  ),
  row(
    'Groq, 413',
    413,
    error(
      'Request too large for model `internal-fast` in organization `org_01kjfnd1zaev798a19ptgmjty3` service tier `on_demand` on tokens per minute (TPM): Limit 8000, Requested 78478, please reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing',
      { type: 'tokens', code: 'rate_limit_exceeded' },
    ),
  ),
  row('Cerebras', 400, {
    message:
      'Please reduce the length of the messages or completion. Current length is 9001 while limit is 8192',
    type: 'invalid_request_error',
    param: 'messages',
    code: 'context_length_exceeded',
  }),
  row(
    'Together',
    400,
    invalid("The input (516368 tokens) is longer than the model's context length (262144 tokens)."),
  ),
  row(
    'Fireworks',
    400,
    invalid('The prompt is too long: 9001, model maximum context length: 8191'),
  ),
  row(
    'OpenRouter',
    400,
    error(
      'This endpoint\'s maximum context length is 8192 tokens. However, you requested about 9001 tokens (8001 of text input, 1000 in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.',
      { code: 400, metadata: { provider_name: null } },
    ),
  ),
  row(
    'OpenRouter, of a provider',
    400,
    error('Provider returned error', {
      code: 400,
      metadata: {
        raw: '{"error":{"message":"Input length 131393 exceeds the maximum allowed input length of 131040 tokens.","type":"invalid_request_error"}}',
        provider_name: 'Internal',
      },
    }),
  ),
  row(
    'GitHub Copilot',
    400,
    error('prompt token count of 200000 exceeds the limit of 128000', {
      code: 'model_max_prompt_tokens_exceeded',
    }),
  ),
  row(
    'Cloudflare',
    413,
    error(
      'The estimated number of input and maximum output tokens (9001) exceeded this model context window limit (8192).',
    ),
  ),
  row(
    'LiteLLM',
    400,
    error(
      'litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - Your prompt does not fit. Received Model Group=internal-fast\nAvailable Model Group Fallbacks=None',
      { type: null, param: null, code: '400' },
    ),
  ),
  row(
    'LiteLLM, 500',
    500,
    error(
      'litellm.APIConnectionError: Ollama_chatException - {"error":"prompt too long; exceeded max context length by 9 tokens"}',
      {
        type: null,
        param: null,
        code: '500',
      },
    ),
  ),
  row('TabbyAPI', 422, { detail: 'Prompt length 9001 is greater than max_seq_len 8192' }),
  row('TensorRT-LLM', 400, {
    object: 'error',
    message:
      'The sum of prompt length (9001.0), query length (0) should not exceed max_num_tokens (8192)',
    type: 'BadRequestError',
    code: 400,
  }),
  row('llama-cpp-python', 400, invalid('Requested tokens (1817) exceed context window of 1024')),
  row(
    'vLLM, engine',
    400,
    invalid('The engine prompt length 1601 exceeds the max_model_len 1024. Please reduce prompt.'),
  ),
  row(
    'vLLM, total',
    400,
    invalid(
      'The prompt (total length 5000) is too long to fit into the model (context length 4096).',
    ),
  ),
  row('watsonx', 400, {
    errors: [
      {
        code: 'invalid_input_argument',
        message:
          'the number of input tokens 9001 cannot exceed the total tokens limit 4096 for this model',
      },
    ],
  }),
  row(
    'DashScope, messages',
    400,
    invalid('Total message token length exceed model limit (10240 tokens).'),
  ),
  row('SiliconFlow', 400, {
    code: 20015,
    message: 'length of prompt_tokens (9001) must be less than max_seq_len (8192).',
    data: null,
  }),
  row(
    'SambaNova',
    400,
    error(
      'Requested generation length 100 is not possible! The provided prompt is 9001 tokens long, so generating 100 tokens requires a sequence length of 9101, but the maximum supported sequence length is just 8192!',
    ),
  ),
  row('Snowflake', 400, { message: 'max tokens of 8192 exceeded' }),
  row(
    'Volcengine',
    400,
    error('Input length 200000 exceeds the maximum length 131072.', {
      code: 'InvalidParameter',
      type: 'BadRequest',
    }),
  ),
  row(
    'OpenAI, embeddings',
    400,
    invalid('Requested 400000 tokens, max 300000 tokens per request', 'max_tokens_per_request'),
  ),
  row(
    'one that is not known',
    400,
    invalid('Your prompt has 9001 tokens, which exceeds the limit of this model.'),
  ),
  ...[
    'total number of tokens 9000 exceeds limit 8192',
    'The limit of 8192 is exceeded: 9000 tokens',
    'Limit exceeded (8192): the input has 9000 tokens',
    'tokens: 9000 > 8192',
    'Got 9,000 tokens. That is not possible: 9,000 tokens are more than the 8,192 allowed.',
    'A limit of 8192 was surpassed by 9000 tokens',
    '9000 is above the limit of 8192 tokens',
    'Number of tokens (9000) is larger than what the model takes (8192)',
  ].map((text, n) => row(`any order of words, ${n + 1}`, 400, invalid(text))),
  row(
    'another',
    400,
    invalid('The conversation is too long. Context window of 8192 tokens exceeded.'),
  ),
];

/** What is no overflow, though it speaks of tokens, lengths and limits: a text, and the status that it comes with. */
export const OTHERS: readonly (readonly [text: string, status: number])[] = [
  [
    'Rate limit reached for model in organization on tokens per minute (TPM): Limit 6000, Used 5000, Requested 2000. Please try again in 11.054s.',
    429,
  ],
  [
    'Request too large for fast in organization on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.',
    429,
  ],
  [
    'This request would exceed the rate limit of your organization of 40,000 input tokens per minute.',
    429,
  ],
  ['ThrottlingException: Too many tokens, please wait before trying again.', 429],
  [
    'max_tokens is too large: 50000. This model supports at most 4096 completion tokens, whereas you provided 50000.',
    400,
  ],
  ['Invalid max_tokens value, the valid range of max_tokens is [1, 8192]', 400],
  [
    "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
    400,
  ],
  [
    "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64.",
    400,
  ],
  ['max_tokens: Input should be less than or equal to 4096', 400],
  ['`max_tokens` must be greater than `thinking.budget_tokens`.', 400],
  ['too many tokens: max tokens must be less than or equal to 4096', 400],
  ['Too many tools: the request has 200, the maximum is 128.', 400],
  [
    'messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes',
    400,
  ],
  ["Unsupported value: 'messages[0].role' does not support 'system' with this model.", 400],
  ["Invalid 'stop': array too long. Expected an array with maximum length 4.", 400],
  ["Invalid type for 'context_management[0].compact_threshold': expected an integer.", 400],
  ["Invalid 'metadata.a': string too long. Expected a string with maximum length 512.", 400],
  ['The request contains too many images: the limit is 20.', 400],
  ['Requested output exceeds the maximum of 4096 completion tokens.', 400],
  ['max_tokens 50000 exceeds the limit of 4096 tokens', 400],
  ['max tokens (50000) exceeds the limit 4096', 400],
  ['logit_bias has 400 tokens, which exceeds the limit of 300', 400],
  ['the thinking budget of 9000 tokens exceeds 8192', 400],
  ['stream_options.include_usage needs stream: true', 400],
];
