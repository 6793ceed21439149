import { boundChat } from '../../domain/budget.ts';
import { REFERENCE_ERRORS } from '../../domain/errors.ts';
import { CHAT_LIMITS, completionLimit } from '../../domain/members/completion-limit.ts';
import { isTextAlone } from '../../domain/members/text-alone.ts';
import { CHAT_ANSWER } from '../../domain/request/answer-members.ts';
import { type ChatRequest, checkChat } from '../../domain/request/request.ts';
import { ChatStream } from '../../sse/chat-stream.ts';
import { JsonRelay, renderEdited } from '../answer/json-relay.ts';
import { StreamRelay } from '../answer/stream-relay.ts';
import type { ValidBody } from '../request/body.ts';
import { modelEdit } from '../request/model-names.ts';
import type { Services } from '../request/services.ts';
import type { Call, Endpoint } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { usageEdit } from './include-usage.ts';
import { type BodyRules, validateBody } from './validate.ts';

/** POST /chat/completions (spec section 4.2): the caller's own bytes are sent on, with two members edited. */
export const chat: Endpoint = {
  name: 'chat.completions',
  scope: 'chat',
  kind: 'chat',
  upstreamPath: '/chat/completions',
  errors: REFERENCE_ERRORS,
  takesApiKeyHeader: false,
  read(services, body) {
    return chatCall(services, validateBody(body, RULES, services.steering));
  },
};

const RULES: BodyRules<ChatRequest> = {
  check: checkChat,
  limits: CHAT_LIMITS,
  governed: [
    'model',
    'messages',
    'stream',
    'stream_options',
    'max_tokens',
    'max_completion_tokens',
    'n',
  ],
};
function chatCall(services: Services, valid: ValidBody<ChatRequest>): Call {
  const { request, body } = valid;
  const streamed = request.stream === true;
  const wantsUsage = request.stream_options?.include_usage === true;
  const usage = streamed ? usageEdit(valid) : null; // before the gates: it may refuse the body
  return {
    slug: request.model,
    slugParam: 'model',
    members: valid.members,
    costCenter: costCenterOf(valid, services.settings.costCenterMember).name,
    limit: completionLimit(request, CHAT_LIMITS, body.length, valid.limiting),
    isTextAlone: () => isTextAlone(request),
    bound: (model) =>
      boundChat(request, body.length, model.prices, CHAT_LIMITS, body.files, model.maxOutputTokens),
    forward(upstream) {
      const model = modelEdit(valid.members, upstream);
      return body.edited(usage === null ? [model] : [model, usage]);
    },
    answer: (reply, meter) =>
      streamed
        ? new StreamRelay(
            reply,
            meter,
            (options) => new ChatStream(options, CHAT_ANSWER, wantsUsage),
          )
        : new JsonRelay(reply, meter, renderEdited),
  };
}
