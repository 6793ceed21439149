import { MOST } from '../field.ts';

/**
 * JSON Schemas of the request bodies (spec sections 4.2 to 4.4 and 8; contract section 5). They check what the gateway
 * itself depends on; the rest is left to the upstream.
 * `make generate` compiles them with ajv into validators.generated.ts.
 */

const message = {
  type: 'object',
  required: ['role'],
  properties: {
    role: { type: 'string' },
    content: { type: ['string', 'array', 'null'] },
  },
  // an assistant's message may consist of tool calls alone
  if: { properties: { role: { const: 'assistant' } } },
  else: { required: ['content'] },
};

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
    messages: { type: 'array', minItems: 1, items: message },
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

const messagesMessage = {
  ...message,
  // a system message may set the effort alone
  if: { properties: { role: { const: 'system' } } },
};

export const messagesRequest = {
  $id: 'messagesRequest',
  type: 'object',
  required: ['model', 'messages', 'max_tokens'],
  properties: {
    model: { type: 'string' },
    messages: { type: 'array', minItems: 1, items: messagesMessage },
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
    messages: { type: 'array', minItems: 1, maxItems: 50, items: message },
    model_slug: { type: ['string', 'null'] },
    temperature: { type: ['number', 'null'], minimum: 0, maximum: 2 },
    max_tokens: { type: ['integer', 'null'], minimum: 1, maximum: MOST.maxTokens },
    stream: { enum: [false, null] },
    metadata: { type: ['object', 'null'] },
  },
  // a run has no tools and no streaming; unknown members are refused rather than ignored
  additionalProperties: false,
};
