import {
  type ErrorFormat,
  GatewayError,
  MESSAGES_ERRORS,
  REFERENCE_ERRORS,
} from '../domain/errors.ts';

/** Endpoints of the formats that this gateway does not have, by the path below the version, and what to use instead. */
const MISSING: readonly (readonly [path: RegExp, what: string, instead: string])[] = [
  missing(
    'complete|edits|engines',
    'this',
    'Send the prompt to POST /completions, with the model in the body.',
  ),
  missing(
    'fim|infill',
    'filling in the middle',
    'Send the text around the gap by the template of the model, or as "prompt" and "suffix": POST /completions.',
  ),
  missing('images', 'images', 'Models that take or make images do so in POST /chat/completions.'),
  missing('audio', 'audio', 'Models that hear or speak do so in POST /chat/completions.'),
  missing('videos', 'videos', 'GET /models lists what there is.'),
  missing('moderations', 'moderation', 'Let a chat model rate the text: POST /chat/completions.'),
  missing(
    'files|uploads|containers',
    'files',
    'It stores nothing: send the content in the messages of POST /chat/completions.',
  ),
  missing('batches', 'batches', 'Send each request by itself, such as POST /chat/completions.'),
  missing(
    'assistants',
    'managing assistants',
    'Run one that the administration area has: POST /assistants/{id}/run.',
  ),
  missing(
    'threads|conversations',
    'stored conversations',
    'Send all messages with each POST /chat/completions.',
  ),
  missing(
    'fine_tuning|fine-tunes|fine-tuning',
    'fine-tuning',
    'GET /models lists the models there are.',
  ),
  missing(
    'vector_stores',
    'vector stores',
    'Make vectors with POST /embeddings and store them yourself.',
  ),
  missing(
    'realtime',
    'realtime sessions',
    'Stream with POST /chat/completions and "stream": true.',
  ),
  missing('score', 'scores', 'Rank documents with POST /rerank.'),
  missing(
    'responses/compact',
    'compacting a conversation',
    'Let the client do so: Codex does if the `name` of its model provider is not "OpenAI". Or let POST /responses, with ' +
      '"context_management": [{"type": "compaction", "compact_threshold": 100000}], where the model can.',
  ),
  missing(
    'tokenize|detokenize|responses/input_tokens',
    'tokens',
    'POST /messages/count_tokens counts those of a request.',
  ),
  missing(
    'organization',
    'usage and keys',
    'GET /usage shows what this key used; the administration area has the rest.',
  ),
  missing(
    'chat/completions/[^/]+/messages',
    'stored chat completions',
    'It stores nothing that models answer.',
  ),
];

/** Paths below endpoints of this gateway. Looked up after paths that end in an endpoint. */
const MISSING_BELOW: typeof MISSING = [
  missing(
    'responses',
    'stored responses',
    'Of the Responses API it has POST /responses alone: send the whole input.',
  ),
  missing(
    'messages',
    'this',
    'Of the Messages API it has POST /messages and /messages/count_tokens: send each request by itself.',
  ),
  missing('chat/completions', 'stored chat completions', 'It stores nothing that models answer.'),
];

function missing(paths: string, what: string, instead: string): (typeof MISSING)[number] {
  return [new RegExp(`^/(?:${paths})(?:/|$)`), what, instead];
}

/**
 * The 404 of a path that is no endpoint of this gateway: it says what to use instead, or which path the client meant.
 * @param endpoints paths of those without an identifier
 */
export function unknownPath(
  target: string,
  basePath: string,
  endpoints: readonly string[],
): GatewayError {
  const path = belowVersion(target, basePath);
  const among = (table: typeof MISSING): string | undefined => {
    const [, what, instead] = table.find(([pattern]) => pattern.test(path)) ?? [];
    return what && `This gateway has no endpoint for ${what}. ${instead}`;
  };
  const run = /\/assistants\/[^/]+\/run\/?$/.test(path) ? '/assistants/{id}/run' : undefined;
  const meant =
    run ?? endpoints.find((endpoint) => path.endsWith(endpoint) || path.endsWith(`${endpoint}/`));
  const text =
    (run === undefined ? among(MISSING) : undefined) ??
    (meant &&
      `No such route. The path of this endpoint is ${basePath}${meant}: check the client's base address.`) ??
    among(MISSING_BELOW) ??
    `No such route. Below ${basePath} there are ${endpoints.join(', ')} and /assistants/{id}/run.`;
  return new GatewayError('not_found', text);
}

/** How errors are written before a route is found: a client of the Messages API reads its own shape. */
export function errorsAt(target: string, basePath: string): ErrorFormat {
  return /^\/messages(?:\/|$)/.test(belowVersion(target, basePath))
    ? MESSAGES_ERRORS
    : REFERENCE_ERRORS;
}

/** The path without query, base path and what clients put before it by mistake, such as one more `/v1`. */
function belowVersion(target: string, basePath: string): string {
  const path = target.split('?', 1)[0] as string;
  const below = path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : path;
  return below.replace(/^(?:\/api|\/openai)?(?:\/+v\d+)*\/+/, '/');
}
