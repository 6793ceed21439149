import { boundChat } from '../../domain/budget.ts';
import { RESPONSES_ERRORS } from '../../domain/errors.ts';
import { completionLimit, RESPONSES_LIMITS } from '../../domain/members/completion-limit.ts';
import { isTextAlone } from '../../domain/members/text-alone.ts';
import { RESPONSES_ANSWER, RESPONSES_EVENT } from '../../domain/request/answer-members.ts';
import { checkResponses, type ResponsesRequest } from '../../domain/request/request.ts';
import { requireStateless, STORED_MEMBERS } from '../../domain/request/stateless.ts';
import { memberNamed } from '../../json/members.ts';
import type { Edit } from '../../json/splice.ts';
import { type EventTypes, TypedStream } from '../../sse/typed-stream.ts';
import { JsonRelay, renderEdited } from '../answer/json-relay.ts';
import { type OpenStream, StreamRelay } from '../answer/stream-relay.ts';
import type { ValidBody } from '../request/body.ts';
import { modelEdit } from '../request/model-names.ts';
import type { Call, Endpoint } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { validateItemTools } from './tools.ts';
import { type BodyRules, validateBody } from './validate.ts';

/** POST /responses (contract section 5): the caller's own bytes are sent on, with `model` and `store` edited. */
export const responses: Endpoint = {
  name: 'responses',
  scope: 'chat',
  kind: 'chat',
  upstreamPath: '/responses',
  errors: RESPONSES_ERRORS,
  takesApiKeyHeader: false,
  read(services, body): Call {
    const valid = validateBody(body, RULES, services.steering);
    const { request } = valid;
    requireStateless(request);
    validateItemTools(valid, services.steering);
    return {
      slug: request.model,
      slugParam: 'model',
      members: valid.members,
      costCenter: costCenterOf(valid, services.settings.costCenterMember).name,
      limit: completionLimit(request, RESPONSES_LIMITS, body.length, valid.limiting),
      isTextAlone: () => isTextAlone(request),
      bound: (model) =>
        boundChat(
          request,
          body.length,
          model.prices,
          RESPONSES_LIMITS,
          body.files,
          model.maxOutputTokens,
        ),
      forward: (upstream) => body.edited([modelEdit(valid.members, upstream), storeEdit(valid)]),
      answer: (reply, meter) =>
        request.stream === true
          ? new StreamRelay(reply, meter, openResponse)
          : new JsonRelay(reply, meter, renderEdited, RESPONSES_ANSWER),
    };
  },
};

const RULES: BodyRules<ResponsesRequest> = {
  check: checkResponses,
  limits: RESPONSES_LIMITS,
  governed: [
    'model',
    'input',
    'stream',
    'store',
    'include',
    'max_output_tokens',
    'n',
    ...STORED_MEMBERS,
  ],
  own: STORED_MEMBERS,
};

/** What the types of a response's events mean. */
const TYPES: EventTypes = {
  last: new Set(['response.completed', 'response.incomplete']),
  failed: new Set(['response.failed', 'error']),
  usage: new Set(['response.completed', 'response.incomplete', 'response.failed']),
  // what happens to a part of the response has three words and more, so that `response.metadata` is none of them
  known:
    /^response\.(?:created|queued|in_progress|completed|incomplete|failed|cancelled|[a-z]\w*\.[a-z]\w*(?:\.[a-z]\w*)*)$/,
};

export const openResponse: OpenStream = (options) =>
  new TypedStream(options, RESPONSES_EVENT, TYPES);

const FALSE = Buffer.from('false');
const STORE_FALSE = Buffer.from(',"store":false');

/** Sets `store` to false, whatever the caller asked for. */
function storeEdit({ members }: ValidBody<ResponsesRequest>): Edit {
  const store = memberNamed(members, 'store');
  if (store !== undefined) return { start: store.valueStart, end: store.valueEnd, bytes: FALSE };
  const end = memberNamed(members, 'model')?.valueEnd as number;
  return { start: end, end, bytes: STORE_FALSE };
}
