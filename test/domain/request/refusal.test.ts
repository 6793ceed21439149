import t from 'tap';
import { parsePrices } from '../../../src/domain/pricing/prices.ts';
import { statusFailure } from '../../../src/upstream/failure.ts';

const MODEL = {
  slug: 'fast',
  upstream: 'azure/gpt-4o-eu-prod',
  kind: 'chat',
  euHosted: true,
  acceptsTokens: false,
  prices: parsePrices('0', '0'),
  created: 0,
  next: null,
} as const;
const SECRETS = ['sk-master-1234', 'router.internal:4000', 'router.internal'];

const failure = (value: unknown, status = 400) =>
  statusFailure(status, Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)), {
    model: MODEL,
    secrets: SECRETS,
    ownBody: { member: () => null, nearest: (path: string) => path },
    retryAfter: undefined,
  });
const error = (message: string, more: object = {}) => ({
  error: { message, type: null, param: null, code: '400', ...more },
});

t.test('members of an error that are no text are none', async (t) => {
  for (const odd of [{ toString: 1 }, [{ toString: 1 }], 7, true]) {
    t.match(failure({ error: { message: 'too hot', code: odd, param: odd } }), {
      status: 400,
      message: 'too hot',
    });
    t.match(failure({ error: { message: odd }, message: 'too hot' }), {
      status: 400,
      message: 'too hot',
    });
  }
  const detail = [{ loc: ['body', { toString: 1 }, 'messages', 0], msg: 'too hot' }];
  t.equal(failure({ detail }).message, 'messages.0: too hot');
});

t.test(
  'a reason is looked for at the beginning of a long text, which may repeat the request',
  async (t) => {
    t.match(failure(error(`bad tool ${'x'.repeat(4000)} invalid model: a`)), { status: 400 });
    t.match(failure(error(`invalid model: a ${'x'.repeat(4000)}`)), { status: 502 });
  },
);

/** What routers and providers say of a request that the caller can mend, and what the caller reads. */
const REASONS: readonly (readonly [unknown, string])[] = [
  [
    error(
      `litellm.BadRequestError: AzureException BadRequestError - Error code: 400 - {'error': {'message': "Invalid 'tools[0].function.name': string does not match pattern.", 'type': 'invalid_request_error', 'param': 'tools[0].function.name', 'code': 'invalid_value'}}. Received Model Group=azure/gpt-4o-eu-prod\nAvailable Model Group Fallbacks=None`,
    ),
    "Invalid 'tools[0].function.name': string does not match pattern.",
  ],
  [
    error(
      `OpenAIException - Error code: 400 - {'error': {'message': 'temperature must be at most 2', 'code': None}}`,
    ),
    'temperature must be at most 2',
  ],
  [
    error(
      `litellm.BadRequestError: OpenAIException - {"error": {"message": "Unknown parameter: \\"foo\\"."}}`,
    ),
    'Unknown parameter: "foo".',
  ],
  [
    error(
      `litellm.BadRequestError: Hosted_vllmException - Error code: 400 - {'object': 'error', 'message': 'min_p must be in [0, 1], got 2.', 'type': 'BadRequestError', 'param': None, 'code': 400}`,
    ),
    'min_p must be in [0, 1], got 2.',
  ],
  [
    error(
      `litellm.BadRequestError: AnthropicException - b'{"type":"error","error":{"type":"invalid_request_error","message":"messages.0: all messages must have non-empty content"}}'`,
    ),
    'messages.0: all messages must have non-empty content',
  ],
  [error('openai error: Invalid image_url.', { provider: 'openai' }), 'Invalid image_url.'],
  [error('azure-openai error: Invalid image_url.'), 'Invalid image_url.'],
  [
    error("Unsupported value: 'temperature' does not support 0.2 with this model."),
    "Unsupported value: 'temperature' does not support 0.2 with this model.",
  ],
  [
    {
      object: 'error',
      message: 'top_k must be -1 or at least 1, got 0.',
      type: 'BadRequestError',
      param: null,
      code: 400,
    },
    'top_k must be -1 or at least 1, got 0.',
  ],
  [
    { detail: [{ loc: ['body', 'top_k'], msg: 'Input should be a valid integer', type: 'int' }] },
    'top_k: Input should be a valid integer',
  ],
  [error('azure/gpt-4o-eu-prod takes no images'), 'fast takes no images'],
];

/** Texts that name what stands behind in words, or are nobody's to mend. */
const NOT_SHOWN: readonly unknown[] = [
  error('The Azure OpenAI resource is misconfigured for this request'),
  error('litellm could not map parameter tool_choice'),
  error('Missing header x-ms-client-request-id'),
  error('gpt-4o-2024-08-06 refuses this'),
  error("{'loc': ['body'], 'ctx': {'host': 'a'}}"),
  error('moonshotai/kimi-k2-instruct does not support response_format'),
  error('`grok-4.6` has no parameter stop'),
  error('GLM-5 takes no images'),
  error('gemma3:27b does not support tools'),
  error('bifrost: the request was refused'),
  error('pydantic_core.ValidationError: 3 validation errors for VLLMRequest'),
  error('File "/app/litellm/main.py", line 3'),
  '<html>nginx</html>',
];

const UNKNOWN: readonly unknown[] = [
  error('The model `gpt-4o-eu-prod` does not exist or you do not have access to it.', {
    code: 'model_not_found',
  }),
  error(
    '/chat/completions: Invalid model name passed in model=azure/gpt-4o-eu-prod. Call `/v1/models` to view available models for your key.',
  ),
  error(
    'litellm.BadRequestError: LLM Provider NOT provided. Pass in the LLM provider you are trying to call.',
  ),
  error('azure/gpt-4o-eu-prod is not a valid model ID', { code: 400 }),
  { object: 'error', message: 'The model `x` does not exist.', type: 'NotFoundError', code: 404 },
  error('The API deployment for this resource does not exist.', { code: 'DeploymentNotFound' }),
  error('model "llama3" not found, try pulling it first'),
  error('models/gemini-9 is not found for API version v1beta'),
  error('Model Not Exist'),
  error('The model `x` has been decommissioned and is no longer supported.'),
  error('The provided model identifier is invalid.'),
  {
    detail:
      "Model acme-large is not supported. Supported models are ['voyage-4', 'voyage-4-lite', 'rerank-3'].",
  },
  error('Model acme-large is not supported.'),
  error('This parameter needs another model. Available models: voyage-4, voyage-4-lite'),
  error("temperature is not possible here; allowed models are 'sonar-9' and 'sonar-9-pro'"),
  error("model: must be one of 'sonar-9', 'sonar-9-pro'"),
  {
    detail: [
      {
        loc: ['body', 'model'],
        msg: "Input should be 'embed-v9' or 'embed-v9-small'",
        type: 'literal_error',
      },
    ],
  },
  error('Either x-portkey-config or x-portkey-provider header is required'),
];

/** What is said of the operator's own account with a status that blames the request. */
const ACCOUNT: readonly unknown[] = [
  error('Budget has been exceeded! Current cost: 28.0664, Max budget: 0.001', {
    type: 'budget_exceeded',
  }),
  error('ExceededTokenBudget: Current spend for token: 7.2e-05; Max Budget for Token: 2e-07'),
  error('ExceededBudget: User=default_user_id over budget. Spend=12.5, Budget=10'),
  error(
    'Your credit balance is too low to access the API. Please go to Plans & Billing to purchase credits.',
  ),
  error(
    'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
  ),
  error('This organization has been disabled.'),
  error('Billing hard limit has been reached', { code: 'billing_hard_limit_reached' }),
  error('API key not valid. Please pass a valid API key.', { code: 400 }),
  error('API Key not found. Please pass a valid API key.', { code: 400 }),
  error('API key expired. Please renew the API key.', { code: 400 }),
  {
    code: 'Client specified an invalid argument',
    error: 'Incorrect API key provided: ab***. You can obtain one.',
  },
  error('User location is not supported for the API use.', { code: 400 }),
  error('Access denied, please make sure your account is in good standing.', { code: 'Arrearage' }),
  error('Access to model denied. Please make sure you are eligible for using the model.'),
  { message: "You don't have access to the model with the specified model ID." },
  error('Payment required', { code: 'insufficient_quota' }),
];

t.test("what is said of the operator's account is our fault, not the request", async (t) => {
  for (const body of ACCOUNT) {
    for (const status of [400, 422]) {
      t.match(
        failure(body, status),
        { status: 502, message: 'The model failed to answer.' },
        JSON.stringify(body),
      );
    }
  }
  for (const text of [
    "Invalid schema for function 'billing': 'budget' is a required property",
    "Unknown parameter: 'account'.",
    "Invalid value: 'disabled'. Supported values are: 'enabled' and 'auto'.",
    'Your organization must be verified to stream this model.', // the caller can do without the stream
    'thinking.budget_tokens: must be less than max_tokens',
    "Invalid 'tools[0].function.name': 'get_api_key' is not valid here",
    'messages.1: tool_use ids were found without access to their tool_result',
  ]) {
    t.match(failure(error(text)), { status: 400, message: text });
  }
});

t.test('the reason that a caller can mend is taken out of what routers wrap it in', async (t) => {
  for (const [body, message] of REASONS) t.match(failure(body), { status: 400, message }, message);
  const long = "This model's maximum context length is 8192 tokens. However, you requested 9000.";
  const wrapped = `litellm.ContextWindowExceededError: litellm.BadRequestError: ContextWindowExceededError: OpenAIException - ${long}`;
  t.match(failure(error(wrapped)), { status: 400, name: 'context_length_exceeded', message: long });
});

t.test('what names products, headers or models is not shown', async (t) => {
  for (const body of NOT_SHOWN) {
    const { status, message } = failure(body);
    t.equal(status, 400);
    t.match(message, /^The model refused the request\. .*x-request-id/, JSON.stringify(body));
  }
  t.match(
    failure(
      error(
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
      ),
    ),
    {
      status: 400,
      message: /content filter refused/,
    },
  );
});

t.test('a model that the upstream does not know is our fault, not the request', async (t) => {
  for (const body of UNKNOWN) {
    for (const status of [400, 404, 422])
      t.match(failure(body, status), { status: 502, message: 'The model failed to answer.' });
  }
  t.match(failure(error("The tool 'model' does not exist in tools")), { status: 400 });
  t.match(failure(error("Function 'get_model' not found in messages")), { status: 400 });
});

t.test(
  'a 403 or 404 that speaks of the request is a bad request; of the key or the mapping it is our fault',
  async (t) => {
    for (const [status, body, message] of [
      [
        404,
        error('No endpoints found that support image input', { code: 404 }),
        'No endpoints found that support image input',
      ],
      [
        404,
        error('No tool output found.', { type: 'invalid_request_error', param: 'input' }),
        'No tool output found.',
      ],
      [
        403,
        error('The image is private.', { param: 'messages[0].content' }),
        'The image is private.',
      ],
      [
        403,
        {
          code: 'permission-denied',
          error: 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO',
        },
        /content filter/,
      ],
      [
        403,
        error('fast requires moderation. Your input was flagged for "violence"', { code: 403 }),
        /content filter/,
      ],
    ] as const) {
      t.match(failure(body, status), { status: 400, message }, JSON.stringify(body));
    }
    for (const [status, body] of [
      [404, error('The model `x` does not exist', { param: 'model' })],
      [404, error('Not Found')],
      [404, { detail: 'Not Found' }],
      [404, '<html>404</html>'],
      [403, error('You are not allowed to sample from this model', { param: null })],
      [403, error('Key limit exceeded', { param: 'api_key' })],
      [404, error('No endpoints found matching your data policy.', { code: 404 })],
      [401, error('Missing key', { param: 'input' })],
      [
        402,
        error(
          'This request requires more credits, or fewer max_tokens. You exceed the context limit.',
          {
            param: 'input',
          },
        ),
      ],
    ] as const) {
      t.match(
        failure(body, status),
        { status: 502, message: 'The model failed to answer.' },
        JSON.stringify(body),
      );
    }
  },
);

t.test('what engines tell with a 5xx is what it would be with its own status', async (t) => {
  const own = { code: '500' };
  for (const [status, body, expected] of [
    [503, { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } }, 503],
    [503, '', 503],
    [503, '<html><h1>503 Service Temporarily Unavailable</h1></html>', 503],
    [529, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 503],
    [500, error('The model is overloaded. Please try again later.', own), 503],
    [500, { error: 'server busy, please try again.  maximum pending requests exceeded' }, 503],
    [502, error('litellm.RateLimitError: OpenAIException - slow', { code: '429' }), 429],
    [
      500,
      {
        error: {
          code: 500,
          message: 'Only one completion choice is allowed',
          type: 'server_error',
        },
      },
      400,
    ],
    [
      500,
      error(
        'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj',
        own,
      ),
      400,
    ],
    [500, { error: 'this model is missing data required for image input' }, 400],
    [500, error('Unsupported param: suffix', own), 400],
    [500, error('Failed to load image or audio file', own), 400],
    [
      500,
      error('n must be 1 when using greedy sampling, got 2.', { type: 'InternalServerError' }),
      400,
    ],
    [500, error('bad', { type: 'BadRequestError', code: 400 }), 400],
    [500, error('cannot identify image file <_io.BytesIO object at 0x7f>', own), 400],
    [500, error('top_logprobs requires logprobs to be set to true', own), 400],
    [500, error('internal', { code: 500 }), 502],
    [500, error('CUDA out of memory', own), 502],
    [500, error('CUDA error: invalid argument', own), 502],
    [500, 'no healthy upstream', 503],
    [502, 'error: prompt is too long', 400],
    [500, 'image input is not supported', 502],
    [500, error('list index out of range', own), 502],
    [500, '<html>nginx</html>', 502],
    [502, error('Bad gateway: the connection must be closed', own), 502],
    [504, error('Loading model', own), 502],
  ] as const) {
    t.equal(failure(body, status).status, expected, `${status} ${JSON.stringify(body)}`);
  }
  t.equal(failure('', 503).retryAfter, '1');
  t.match(
    failure(error('Unsupported param: suffix', own), 500).message,
    'Unsupported param: suffix',
  );
});

t.test(
  'a router that gave up waiting for its provider tells of a timeout, which is not tried again',
  async (t) => {
    const late = failure(
      error('litellm.Timeout: APITimeoutError - Request timed out. Error_str: timed out'),
      408,
    );
    t.match(late, {
      status: 504,
      code: 'upstream_timeout',
      retry: false,
      message: 'The model took too long to answer.',
    });
  },
);

t.test('llama.cpp and LiteLLM, as they answer', async (t) => {
  const type =
    "Field 'temperature': [json.exception.type_error.302] type must be number, but is string";
  const shown = "Field 'temperature': type must be number, but is string";
  t.match(failure(error(type)), { name: 'invalid_request', message: shown });
  const wrapped = `litellm.BadRequestError: OpenAIException - ${type}. Received Model Group=tiny\nAvailable Model Group Fallbacks=None`;
  t.match(failure(error(wrapped)), { name: 'invalid_request', message: shown });
  // a wrong master key, where LiteLLM has no database to look a key up in
  t.match(failure(error('No connected db.', { type: 'no_db_connection' })), {
    name: 'upstream_error',
    status: 502,
  });
});
