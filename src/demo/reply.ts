import { DEMO_MODELS } from '../domain/wording/demo.ts';
import { type Answer, answerTo } from './answer.ts';
import { chat, chatError } from './chat.ts';
import { completions } from './completions.ts';
import type { DemoEvent, Dialect } from './dialect.ts';
import { answerEmbeddings } from './embeddings.ts';
import { messages, messagesError } from './messages.ts';
import { type DemoCall, DemoError, type Json, type ModelRequest, readRequest } from './request.ts';
import { answerRerank } from './rerank.ts';
import { responses } from './responses.ts';

/** What a call is answered with: JSON, or the events of a stream with status 200. */
export type DemoReply =
  | { readonly status: number; readonly body: Json }
  | { readonly events: Iterable<DemoEvent> };

/** The dialects of conversations by their paths. */
export const DIALECTS: Readonly<Record<string, Dialect>> = {
  '/v1/chat/completions': chat,
  '/v1/completions': completions,
  '/v1/responses': responses,
  '/v1/messages': messages,
};

const ROUTES: Readonly<Record<string, (call: DemoCall) => DemoReply>> = {
  'GET /v1/models': listModels,
  'POST /v1/messages/count_tokens': countTokens,
  'POST /v1/embeddings': embed,
  'POST /v1/rerank': ({ body }) => ({ status: 200, body: answerRerank(readRequest(body)) }),
  ...Object.fromEntries(
    Object.entries(DIALECTS).map(([path, dialect]) => [`POST ${path}`, converse(dialect)]),
  ),
};

/** @param apiKey what the caller must have; undefined: nothing */
export function replyTo(call: DemoCall, apiKey?: string): DemoReply {
  try {
    if (apiKey !== undefined && call.headers.authorization !== `Bearer ${apiKey}`) {
      throw new DemoError(401, 'Incorrect API key provided.', 'invalid_api_key');
    }
    const route = ROUTES[`${call.method} ${call.path}`];
    if (route === undefined)
      throw new DemoError(404, `No such address: ${call.method} ${call.path}`);
    return route(call);
  } catch (error) {
    if (!(error instanceof DemoError)) throw error;
    return refused(call, error);
  }
}

/** A refusal in the shape of the dialect that was called. */
export function refused(
  { path }: Pick<DemoCall, 'path'>,
  error: DemoError,
): { status: number; body: Json } {
  const bodyOf = path.startsWith('/v1/messages') ? messagesError : chatError;
  return { status: error.status, body: bodyOf(error) };
}

/** An answer as the request wants it: streamed or whole. */
export function told(dialect: Dialect, answer: Answer, request: ModelRequest): DemoReply {
  if (request.stream === true) return { events: dialect.events(answer, request) };
  return { status: 200, body: dialect.whole(answer, request) };
}

function converse(dialect: Dialect): (call: DemoCall) => DemoReply {
  return ({ body }) => {
    const request = readRequest(body);
    return told(dialect, answerTo(dialect.read(request)), request);
  };
}

function listModels(): DemoReply {
  const entry = (id: string) => ({ id, object: 'model', created: 1_767_225_600, owned_by: 'demo' });
  // it answers under any other name too
  const data = Object.values(DEMO_MODELS).flatMap(([name, , isInEu]) =>
    isInEu ? entry(name) : [],
  );
  return { status: 200, body: { object: 'list', data } };
}

function countTokens({ body }: DemoCall): DemoReply {
  const { promptTokens } = answerTo(messages.read(readRequest(body)));
  return { status: 200, body: { input_tokens: promptTokens } };
}

function embed({ body }: DemoCall): DemoReply {
  const request = readRequest(body);
  const { vectors, promptTokens } = answerEmbeddings(request);
  const isBase64 = request.encoding_format === 'base64';
  const data = vectors.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: isBase64 ? Buffer.from(vector.buffer).toString('base64') : Array.from(vector),
  }));
  const usage = { prompt_tokens: promptTokens, total_tokens: promptTokens };
  return { status: 200, body: { object: 'list', data, model: request.model, usage } };
}
