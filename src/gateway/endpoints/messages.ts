import { boundChat } from '../../domain/budget.ts';
import { MESSAGES_ERRORS } from '../../domain/errors.ts';
import { allowedBetas } from '../../domain/members/betas.ts';
import { completionLimit, MESSAGES_LIMITS } from '../../domain/members/completion-limit.ts';
import { isTextAlone } from '../../domain/members/text-alone.ts';
import { MESSAGES_ANSWER, MESSAGES_EVENT } from '../../domain/request/answer-members.ts';
import {
  checkCountTokens,
  checkMessages,
  type MessagesRequest,
} from '../../domain/request/request.ts';
import { requireStateless, STORED_MEMBERS } from '../../domain/request/stateless.ts';
import type { RequestHead } from '../../http/request-head.ts';
import type { AnswerScan } from '../../json/answer.ts';
import { splice } from '../../json/splice.ts';
import { type EventTypes, TypedStream } from '../../sse/typed-stream.ts';
import { JsonRelay, renderEdited } from '../answer/json-relay.ts';
import { type OpenStream, StreamRelay } from '../answer/stream-relay.ts';
import type { RequestBody } from '../request/body.ts';
import { modelEdit } from '../request/model-names.ts';
import type { Services } from '../request/services.ts';
import type { Endpoint } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { type BodyRules, validateBody } from './validate.ts';

const DIALECT = {
  scope: 'chat',
  kind: 'chat',
  errors: MESSAGES_ERRORS,
  takesApiKeyHeader: true,
} as const;
const RULES: BodyRules<MessagesRequest> = {
  check: checkMessages,
  limits: MESSAGES_LIMITS,
  governed: ['model', 'messages', 'stream', 'max_tokens', ...STORED_MEMBERS],
  own: STORED_MEMBERS,
  untypedTool: 'custom',
};
const COUNT_RULES: BodyRules<MessagesRequest> = { ...RULES, check: checkCountTokens };

/** What the types of a message's events mean. */
const TYPES: EventTypes = {
  last: new Set(['message_stop']),
  failed: new Set(['error']),
  usage: new Set(['message_delta']),
  known: /^(?:ping|(?:message|content_block)_\w+)$/,
  keepalive: Buffer.from('event: ping\ndata: {"type":"ping"}\n\n'),
};

export const openMessage: OpenStream = (options) => new TypedStream(options, MESSAGES_EVENT, TYPES);

/** POST /messages (contract section 5): the caller's own bytes are sent on, with `model` edited. */
export const messages: Endpoint = {
  ...DIALECT,
  name: 'messages',
  upstreamPath: '/messages',
  read(services, body, _companyId, _id, head) {
    const { request, ...call } = messagesCall(services, body, head, RULES);
    return {
      ...call,
      bound: (model) =>
        boundChat(
          request,
          body.length,
          model.prices,
          MESSAGES_LIMITS,
          body.files,
          model.maxOutputTokens,
        ),
      answer: (reply, meter) =>
        request.stream === true
          ? new StreamRelay(reply, meter, openMessage)
          : new JsonRelay(reply, meter, renderEdited, MESSAGES_ANSWER),
    };
  },
};

/** POST /messages/count_tokens: the gates of a call, but it is free. */
export const countTokens: Endpoint = {
  ...DIALECT,
  name: 'messages.count_tokens',
  upstreamPath: '/messages/count_tokens',
  read: (services, body, _companyId, _id, head) => ({
    ...messagesCall(services, body, head, COUNT_RULES),
    bound: () => ({ amount: 0n, bounded: true, prompt: 0, completion: 0, searchUnits: 0 }),
    answer: (reply, meter) => new JsonRelay(reply, meter, renderCount, MESSAGES_ANSWER),
  }),
};

/** What both endpoints have in common. */
function messagesCall(
  services: Services,
  body: RequestBody,
  head: RequestHead,
  rules: BodyRules<MessagesRequest>,
) {
  const valid = validateBody(body, rules, services.steering);
  const { request, members, limiting } = valid;
  requireStateless(request);
  const { name, removal } = costCenterOf(valid, services.settings.costCenterMember);
  return {
    request,
    slug: request.model,
    slugParam: 'model' as const,
    members,
    costCenter: name,
    limit: completionLimit(request, MESSAGES_LIMITS, body.length, limiting),
    isTextAlone: () => isTextAlone(request),
    headers: headersOf(head),
    // the format has no metadata but a user's id, and providers refuse other members
    forward: (upstream: Buffer) => body.edited([modelEdit(members, upstream), ...removal]),
  };
}

/** The count, and how many tokens there were before the context was managed; nothing else that a router may add. */
function renderCount(body: Buffer, { edits }: AnswerScan): Buffer | null {
  const { input_tokens, context_management } = JSON.parse(splice(body, edits).toString()) as Record<
    string,
    unknown
  >;
  if (!Number.isSafeInteger(input_tokens)) return null;
  return Buffer.from(
    JSON.stringify({ input_tokens, context_management: context_management ?? undefined }),
  );
}

const VERSION = /^\d{4}-\d\d-\d\d$/;
const FIRST_VERSION = '2023-06-01';

/** The version of the dialect, and those features of it that may be switched on. */
function headersOf({ apiVersion = '', apiBeta = '' }: RequestHead): readonly string[] {
  const headers = ['anthropic-version', VERSION.test(apiVersion) ? apiVersion : FIRST_VERSION];
  const betas = allowedBetas(apiBeta);
  return betas === '' ? headers : [...headers, 'anthropic-beta', betas];
}
