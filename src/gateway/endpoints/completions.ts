import { boundChat } from '../../domain/budget.ts';
import { REFERENCE_ERRORS, unsupportedParameter } from '../../domain/errors.ts';
import { admitTokenIds } from '../../domain/gate.ts';
import { COMPLETIONS_LIMITS, completionLimit } from '../../domain/members/completion-limit.ts';
import { isTextAlone } from '../../domain/members/text-alone.ts';
import { COMPLETIONS_ANSWER } from '../../domain/request/answer-members.ts';
import {
  areTokenIds,
  type CompletionsRequest,
  checkCompletions,
} from '../../domain/request/request.ts';
import { COMPARED, type Echo, writtenBytes } from '../../domain/tokens/estimate.ts';
import { BYTES_PER_TOKEN } from '../../domain/tokens/prompt.ts';
import { type Member, memberNamed } from '../../json/members.ts';
import { ChatStream, EMPTY_TEXT } from '../../sse/chat-stream.ts';
import { JsonRelay, renderEdited } from '../answer/json-relay.ts';
import { StreamRelay } from '../answer/stream-relay.ts';
import type { ValidBody } from '../request/body.ts';
import { modelEdit } from '../request/model-names.ts';
import type { Call, Endpoint } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { usageEdit } from './include-usage.ts';
import { type BodyRules, validateBody } from './validate.ts';

/** POST /completions (contract section 5): text completions, which editors ask for. Sent on as chat completions are. */
export const completions: Endpoint = {
  name: 'completions',
  scope: 'chat',
  kind: 'chat',
  upstreamPath: '/completions',
  errors: REFERENCE_ERRORS,
  takesApiKeyHeader: false,
  read(services, body): Call {
    const valid = validateBody(body, RULES, services.steering);
    const { request, members } = valid;
    if (request.echo === true && request.logprobs != null && services.steering.refuses('echo')) {
      throw unsupportedParameter('echo', ALL_LOGPROBS);
    }
    const { name, removal } = costCenterOf(valid, services.settings.costCenterMember);
    const usage = request.stream === true ? [usageEdit(valid)] : [];
    const wantsUsage = request.stream_options?.include_usage === true;
    return {
      slug: request.model,
      slugParam: 'model',
      members,
      costCenter: name,
      ...(areTokenIds(request.prompt) ? { check: (model) => admitTokenIds(model, 'prompt') } : {}),
      limit: completionLimit(request, COMPLETIONS_LIMITS, body.length, valid.limiting),
      ...(request.echo === true ? { echo: echoOf(valid) } : {}),
      isTextAlone: () => isTextAlone(request),
      bound: (model) =>
        boundChat(
          request,
          body.length,
          model.prices,
          COMPLETIONS_LIMITS,
          body.files,
          model.maxOutputTokens,
        ),
      // the format has no metadata: providers refuse it
      forward: (upstream) => body.edited([modelEdit(members, upstream), ...usage, ...removal]),
      answer: (reply, meter) =>
        request.stream === true
          ? new StreamRelay(
              reply,
              meter,
              (options) => new ChatStream(options, COMPLETIONS_ANSWER, wantsUsage, EMPTY_TEXT),
            )
          : new JsonRelay(reply, meter, renderEdited, COMPLETIONS_ANSWER),
    };
  },
};

/** `echo` is of the format, and refused beside `logprobs` alone. */
const RULES: BodyRules<CompletionsRequest> = {
  check: checkCompletions,
  limits: COMPLETIONS_LIMITS,
  governed: ['model', 'prompt', 'stream', 'stream_options', 'max_tokens', 'n', 'echo', 'logprobs'],
  own: ['echo'],
};

const ALL_LOGPROBS =
  " With 'logprobs' it has engines compute those of the whole prompt, in memory that others need.";

/** Prompts of more bytes are not read once more: they are taken to be as long in the answer as in the request. */
const MOST_READ = 65_536;

/** What an answer repeats that shows each prompt before its choices; token ids are about as many bytes as their text has. */
function echoOf({ request, body, members }: ValidBody<CompletionsRequest>): Echo {
  const { valueStart, valueEnd } = memberNamed(members, 'prompt') as Member;
  const choices = Number.isSafeInteger(request.n) ? Math.max(1, request.n as number) : 1;
  if (valueEnd - valueStart > MOST_READ)
    return { bytes: choices * (valueEnd - valueStart), beginnings: null };
  const prompts = [JSON.parse(body.slice(valueStart, valueEnd).toString())].flat(2) as (
    | string
    | number
  )[];
  const texts = prompts.filter((each) => typeof each === 'string');
  const bytes = prompts.map((each) =>
    typeof each === 'string' ? writtenBytes(each) : BYTES_PER_TOKEN,
  );
  return {
    bytes: choices * bytes.reduce((sum, each) => sum + each, 0),
    beginnings: texts.length === 0 ? null : texts.map((text) => text.slice(0, COMPARED)),
  };
}
