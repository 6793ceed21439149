import { MOST } from '../field.ts';

/**
 * JSON Schemas of the request bodies (spec sections 4.2 to 4.4 and 8; contract section 5). They check what the gateway
 * itself depends on; the rest is left to the upstream.
 * `make generate` compiles them with ajv into validators.generated.ts.
 */

/** A message, which has content; that of one role may have none. With `if`, ajv makes an error object for each other role. */
const messageOf = (mayBeEmpty: string) => ({
  type: 'object',
  required: ['role'],
  properties: {
    role: { type: 'string' },
    content: { type: ['string', 'array', 'null'] },
  },
  anyOf: [{ required: ['content'] }, { properties: { role: { const: mayBeEmpty } } }],
});

const streaming = {
  stream: { type: ['boolean', 'null'] },
  stream_options: {
    type: ['object', 'null'],
    properties: { include_usage: { type: ['boolean', 'null'] } },
  },
};

export const chatRequest = {
  $id: 'chatRequest',
  type: 'object',
  required: ['model', 'messages'],
  properties: {
    model: { type: 'string' },
    messages: { type: 'array', minItems: 1, items: messageOf('assistant') }, // tool calls alone
    ...streaming,
  },
};

export const responsesRequest = {
  $id: 'responsesRequest',
  type: 'object',
  required: ['model', 'input'],
  properties: {
    model: { type: 'string' },
    input: { type: ['string', 'array'], items: { type: 'object' } },
    stream: { type: ['boolean', 'null'] },
    include: { type: ['array', 'null'], items: { type: 'string' } },
  },
};

export const messagesRequest = {
  $id: 'messagesRequest',
  type: 'object',
  required: ['model', 'messages', 'max_tokens'],
  properties: {
    model: { type: 'string' },
    messages: { type: 'array', minItems: 1, items: messageOf('system') }, // the effort alone
    max_tokens: { type: 'integer', minimum: 0 }, // with 0 the provider writes its cache and generates nothing
    stream: { type: ['boolean', 'null'] },
  },
};

export const countTokensRequest = {
  ...messagesRequest,
  $id: 'countTokensRequest',
  required: ['model', 'messages'],
};

const tokenIds = { type: 'array', items: { type: 'integer' } };

/** A text or token ids, or a list of either. */
const texts = {
  type: ['string', 'array'],
  minItems: 1,
  if: tokenIds,
  else: {
    if: { type: 'array', items: { ...tokenIds, minItems: 1 } },
    else: { items: { type: 'string' } },
  },
};

export const embeddingRequest = {
  $id: 'embeddingRequest',
  type: 'object',
  required: ['model', 'input'],
  properties: {
    model: { type: 'string' },
    input: texts,
    encoding_format: { enum: ['float', 'base64', null] },
  },
};

/** The most prompts of one request: providers take fewer, and so many are counted in a body of any size. */
const MOST_PROMPTS = 2048;

export const completionsRequest = {
  $id: 'completionsRequest',
  type: 'object',
  required: ['model', 'prompt'],
  properties: {
    model: { type: 'string' },
    prompt: { ...texts, else: { ...texts.else, maxItems: MOST_PROMPTS } },
    echo: { type: ['boolean', 'null'] },
    ...streaming,
  },
};

/** The most documents of a rerank request: Cohere and its followers take no more. */
const MOST_DOCUMENTS = 10_000;

export const rerankRequest = {
  $id: 'rerankRequest',
  type: 'object',
  required: ['model', 'query', 'documents'],
  properties: {
    model: { type: 'string' },
    query: { type: 'string' },
    documents: {
      type: 'array',
      minItems: 1,
      maxItems: MOST_DOCUMENTS,
      // a list in `content` has images, or whatever an address leads to
      items: { type: ['string', 'object'], properties: { content: { type: ['string', 'null'] } } },
    },
    top_n: { type: ['integer', 'null'], minimum: 1 }, // more than there are means all
  },
};

export const assistantRunRequest = {
  $id: 'assistantRunRequest',
  type: 'object',
  required: ['messages'],
  properties: {
    messages: { type: 'array', minItems: 1, maxItems: 50, items: messageOf('assistant') },
    model_slug: { type: ['string', 'null'] },
    temperature: { type: ['number', 'null'], minimum: 0, maximum: 2 },
    max_tokens: { type: ['integer', 'null'], minimum: 1, maximum: MOST.maxTokens },
    stream: { enum: [false, null] },
    metadata: { type: ['object', 'null'] },
  },
  // a run has no tools and no streaming; unknown members are refused rather than ignored
  additionalProperties: false,
};
