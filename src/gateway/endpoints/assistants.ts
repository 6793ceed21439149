import { type Assistant, dateText } from '../../domain/assistant.ts';
import { boundChat } from '../../domain/budget.ts';
import { GatewayError, REFERENCE_ERRORS } from '../../domain/errors.ts';
import { CHAT_LIMITS } from '../../domain/members/completion-limit.ts';
import { isTextAlone } from '../../domain/members/text-alone.ts';
import {
  type AssistantRunRequest,
  checkAssistantRun,
  unsupportedInRun,
} from '../../domain/request/request.ts';
import { memberNamed } from '../../json/members.ts';
import type { TokenCounts } from '../../json/usage.ts';
import { JsonRelay, WholeAnswer } from '../answer/json-relay.ts';
import type { ValidBody } from '../request/body.ts';
import type { Services } from '../request/services.ts';
import type { Call, Endpoint } from './call.ts';
import { costCenterOf } from './cost-center.ts';
import { type BodyRules, validateBody } from './validate.ts';

/** POST /assistants/{id}/run (spec section 4.4): one shot, no streaming, no persistence, no tools. */
export const assistantRun: Endpoint = {
  name: 'assistants.run',
  scope: 'assistants',
  kind: 'chat',
  upstreamPath: '/chat/completions',
  errors: REFERENCE_ERRORS,
  takesApiKeyHeader: false,
  async read(services, body, companyId, id) {
    // the schema refuses unknown members, those that steer among them
    const valid = validateBody(body, RULES, null);
    const costCenter = runCostCenter(valid, services.settings.costCenterMember);
    const assistant = await services.directory.assistant(id, companyId);
    if (assistant === null) throw new GatewayError('not_found', 'No such assistant.');
    return runCall(services, valid, assistant, costCenter);
  },
};

const RULES: BodyRules<AssistantRunRequest> = {
  check: checkAssistantRun,
  governed: ['messages', 'model_slug', 'temperature', 'max_tokens', 'stream'],
};

const DATE_BYTES = 64; // more than the sentence with the date takes that is added to the system prompt

/** The cost centre: a run's `metadata` may have no other member, and none of it goes upstream. @throws GatewayError 400 */
function runCostCenter(valid: ValidBody<AssistantRunRequest>, member: string | null): string {
  const { metadata } = valid.request;
  if (metadata === undefined) return '';
  if (member === null) throw unsupportedInRun('metadata');
  for (const name in metadata) if (name !== member) throw unsupportedInRun(`metadata.${name}`);
  return costCenterOf(valid, member).name;
}

function runCall(
  services: Services,
  valid: ValidBody<AssistantRunRequest>,
  assistant: Assistant,
  costCenter: string,
): Call {
  const { request, body } = valid;
  const slug = request.model_slug ?? assistant.modelSlug;
  if (slug === null) throw new GatewayError('model_required');
  const limit = request.max_tokens ?? assistant.maxTokens;
  return {
    slug,
    slugParam: request.model_slug == null ? null : 'model_slug',
    members: valid.members,
    costCenter,
    limit,
    isTextAlone: () => isTextAlone(request),
    bound(model) {
      const limits = { max_tokens: limit, messages: request.messages };
      const promptBytes = assistant.prompt.reduce((sum, piece) => sum + piece.length, 0);
      return boundChat(
        limits,
        body.length + promptBytes + DATE_BYTES,
        model.prices,
        CHAT_LIMITS,
        body.files,
        model.maxOutputTokens,
      );
    },
    forward: (upstream) =>
      forwardRun(valid, assistant, upstream, services.calendar.date(services.clock())),
    answer: (reply, meter) =>
      new JsonRelay(reply, meter, (answer, scan) =>
        renderRun(answer, slug, meter.tokensOf(scan.usage, new WholeAnswer(answer, scan))),
      ),
  };
}

/** The system message, the caller's messages by their own bytes, then settings: the request's go before the assistant's. */
function forwardRun(
  { request, body, members }: ValidBody<AssistantRunRequest>,
  assistant: Assistant,
  upstream: Buffer,
  date: string,
): Buffer[] {
  const messages = memberNamed(members, 'messages') as { valueStart: number; valueEnd: number };
  const temperature = request.temperature ?? assistant.temperature;
  const maxTokens = request.max_tokens ?? assistant.maxTokens;
  const tail =
    (temperature === null ? '' : `,"temperature":${temperature}`) +
    (maxTokens === null ? '' : `,"max_tokens":${maxTokens}`);
  return [
    Buffer.from(`{"model":${upstream},"messages":[{"role":"system","content":`),
    ...assistant.prompt,
    Buffer.from(`${dateText(date)}},`),
    ...body.views(messages.valueStart + 1, messages.valueEnd), // without "[", with "]"; there is at least one message
    Buffer.from(`${tail}}`),
  ];
}

interface Completion {
  choices?: { message?: { content?: unknown; refusal?: unknown } }[];
}

/** The run result (spec section 2.5), with the tokens it is charged by; null when the upstream's answer holds no message. */
function renderRun(body: Buffer, slug: string, { prompt, completion }: TokenCounts): Buffer | null {
  const { choices } = JSON.parse(body.toString()) as Completion;
  const message = choices?.[0]?.message;
  if (message === undefined) return null;
  const text = textOf(message.content) || textOf(message.refusal);
  const usage = { prompt_tokens: prompt, completion_tokens: completion };
  return Buffer.from(JSON.stringify({ text, model: slug, usage }));
}

/** Content is a string, or parts of which the text ones count. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map((part: { text?: unknown }) => (typeof part.text === 'string' ? part.text : ''))
    .join('');
}
