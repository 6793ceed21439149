import t from 'tap';
import {
  CHAT_ANSWER,
  COMPLETIONS_ANSWER,
  EMBEDDING_ANSWER,
  MESSAGES_ANSWER,
  RERANK_ANSWER,
  RESPONSES_ANSWER,
} from '../../src/domain/request/answer-members.ts';
import { openMessage } from '../../src/gateway/endpoints/messages.ts';
import { openResponse } from '../../src/gateway/endpoints/responses.ts';
import { scanAnswer } from '../../src/json/answer.ts';
import type { MemberTable } from '../../src/json/member-table.ts';
import type { ToldUsage } from '../../src/json/usage.ts';
import { ChatStream } from '../../src/sse/chat-stream.ts';
import type { DialectStream, StreamOptions } from '../../src/sse/dialect-stream.ts';
import { fuzzRuns } from '../support/fuzz.ts';

/**
 * Nothing told is lost: what is read of a usage adds up to its total, or says what was left, and each numeric member is
 * read, or tells no tokens, or is named. Calls of which all is known are told as providers and routers do, at random.
 * FUZZ_RUNS sets how many, FUZZ_SEED which.
 */
const SEED = Number(process.env.FUZZ_SEED ?? Date.now() & 0x7fffffff);
const RUNS = fuzzRuns(16_000);

// Not the list of the program: a name that it loses is missed here.
const READ =
  `cached_tokens cached_read_tokens cache_read_tokens cache_read_input_tokens num_cached_tokens
  prompt_cache_hit_tokens cached_token`.split(/\s+/);
const WRITTEN =
  `cache_write_tokens cached_write_tokens cached_creation_tokens write_cached_tokens caching_tokens
  cache_creation_tokens cache_creation_input_tokens prompt_cache_write_tokens ephemeral`.split(
    /\s+/,
  );
const OF_PROMPT = ['prompt_tokens_details', 'input_tokens_details', 'prompt_token_details'];
const OF_COMPLETION = ['completion_tokens_details', 'output_tokens_details'];
const UNKNOWN = ['recached_tokens', 'cache_used', 'tool_tokens', 'cachedContentTokenCount'];
const NO_TOKENS = {
  total_time: 0.25,
  search_units: 3,
  cost: 0.5,
  tokens_per_second: 88,
  num_search_queries: 2,
  rejected_prediction_tokens: 4,
};

interface Dialect {
  readonly table: MemberTable;
  /** Names of the counts; no completion: none is generated. */
  readonly names: readonly [prompt: string, completion: string | null];
  readonly answer: object;
  /** null: it is not streamed. */
  readonly open: ((options: StreamOptions) => DialectStream) | null;
  /** The events around those of usages. */
  readonly events: (usages: readonly object[]) => readonly (object | string)[];
}

const text = { choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }] };
const stop = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
const ofChat = (usages: readonly object[]) => [
  ...usages.slice(0, -1).map((usage) => ({ ...text, usage })),
  text,
  stop,
  { choices: [], usage: usages.at(-1) },
  '[DONE]',
];
const block = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' } };
const CHAT: Dialect = {
  table: CHAT_ANSWER,
  names: ['prompt_tokens', 'completion_tokens'],
  answer: { choices: [{ index: 0, message: { role: 'assistant', content: 'a' } }] },
  open: (options) => new ChatStream(options, CHAT_ANSWER, true),
  events: ofChat,
};
const DIALECTS: readonly Dialect[] = [
  CHAT,
  {
    ...CHAT,
    table: COMPLETIONS_ANSWER,
    answer: { choices: [{ index: 0, text: 'a' }] },
    open: (options) => new ChatStream(options, COMPLETIONS_ANSWER, true),
  },
  {
    table: RESPONSES_ANSWER,
    names: ['input_tokens', 'output_tokens'],
    answer: { output: [{ type: 'message', content: [{ type: 'output_text', text: 'a' }] }] },
    open: openResponse,
    events: (usages) => [
      ...usages.slice(0, -1).map((usage) => ({ type: 'response.created', response: { usage } })),
      { type: 'response.output_text.delta', delta: 'a' },
      { type: 'response.completed', response: { output: [], usage: usages.at(-1) } },
    ],
  },
  {
    table: MESSAGES_ANSWER,
    names: ['input_tokens', 'output_tokens'],
    answer: { content: [{ type: 'text', text: 'a' }] },
    open: openMessage,
    events: (usages) => [
      ...usages.slice(0, -1).map((usage) => ({ type: 'message_start', message: { usage } })),
      block,
      { type: 'message_delta', delta: {}, usage: usages.at(-1) },
      { type: 'message_stop' },
    ],
  },
  {
    table: EMBEDDING_ANSWER,
    names: ['prompt_tokens', null],
    answer: { data: [{ index: 0, embedding: [0.5] }] },
    open: null,
    events: () => [],
  },
  {
    table: RERANK_ANSWER,
    names: ['prompt_tokens', null],
    answer: { results: [{ index: 0, relevance_score: 0.5 }] },
    open: null,
    events: () => [],
  },
];

let state = SEED;
function random(): number {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return state / 2_147_483_648;
}
const upTo = (most: number): number => 1 + Math.floor(random() * most);
const maybe = (share = 0.5): boolean => random() < share;
const oneOf = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;

interface Told {
  readonly usage: Record<string, unknown>;
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
  readonly written: number;
  readonly unread: string | null;
}

/** A call, and its usage as somebody tells it. */
function told({ table, names: [promptName, completionName] }: Dialect): Told {
  const isMessage = table === MESSAGES_ANSWER;
  const [cached, written] = [maybe() ? upTo(90_000) : 0, maybe(0.3) ? upTo(9000) : 0];
  const sound = !isMessage && completionName !== null && maybe(0.2) ? upTo(5000) : 0;
  const fresh = upTo(40_000);
  const [visible, thought] = [upTo(3000), completionName !== null && maybe() ? upTo(20_000) : 0];
  const prompt = fresh + cached + written + sound;
  const completion = completionName === null ? 0 : visible + thought;
  const total = prompt + completion;
  const usage: Record<string, unknown> = {};
  const put = (within: string | null, name: string, value: number): void => {
    if (within !== null && usage[within] === undefined) usage[within] = {};
    const of = within === null ? usage : (usage[within] as Record<string, unknown>);
    if (name === 'ephemeral') of.cache_creation = { ephemeral_5m_input_tokens: value };
    else of[name] = value;
  };
  let [ofPrompt, ofCompletion] = [prompt, completion];
  const hasTotal = maybe(0.7);
  // of messages what is told of the cache beside the input is no part of it, else only by the total
  const areBeside = (cached > 0 || written > 0) && (isMessage || (hasTotal && maybe(0.3)));
  const details = isMessage || maybe(0.4) ? null : oneOf(OF_PROMPT);
  if (areBeside) ofPrompt -= cached + written;
  if (cached > 0) put(details, oneOf(READ), cached);
  if (written > 0) put(details, oneOf(WRITTEN), written);
  if (sound > 0) {
    put(details, 'audio_tokens', sound);
    if (hasTotal && maybe()) ofPrompt -= sound;
  }
  if (thought > 0) {
    const isTotalAlone = hasTotal && !areBeside && ofPrompt === prompt && maybe(0.4);
    if (isTotalAlone) ofCompletion -= thought;
    else {
      put(maybe(0.3) ? null : oneOf(OF_COMPLETION), 'reasoning_tokens', thought);
      if (hasTotal && !isMessage && maybe(0.3)) ofCompletion -= thought;
    }
  }
  if (completionName === null && hasTotal && maybe()) ofPrompt = upTo(ofPrompt); // as some rerankers do
  usage[promptName] = ofPrompt;
  if (completionName !== null) usage[completionName] = ofCompletion;
  if (hasTotal) usage.total_tokens = total;
  const unread = maybe(0.2) ? oneOf(UNKNOWN) : null;
  if (unread !== null) put(maybe() ? null : oneOf(OF_PROMPT), unread, upTo(99));
  if (maybe(0.3)) Object.assign(usage, NO_TOKENS);
  const shuffled = Object.entries(usage)
    .map((entry) => [random(), entry] as const)
    .sort(([a], [b]) => a - b);
  return {
    usage: Object.fromEntries(shuffled.map(([, entry]) => entry)),
    prompt,
    completion,
    cached,
    written,
    unread,
  };
}

function whole({ table, answer }: Dialect, { usage, ...told }: Told): ToldUsage | null {
  const isOfMeta = table === RERANK_ANSWER && told.cached + told.written === 0;
  const where = isOfMeta && maybe() ? { meta: { tokens: usage } } : { usage };
  const body = Buffer.from(JSON.stringify({ model: 'm', ...answer, ...where }));
  return scanAnswer(body, Buffer.from('"m"'), table)?.usage ?? null;
}

/** The usage at the end of a stream, which began with less of it. */
function streamed(
  { table, names: [promptName, completionName], open, events }: Dialect,
  told: Told,
): ToldUsage | null {
  const sink = { bytes() {} };
  const stream = (open as NonNullable<typeof open>)({
    slug: Buffer.from('"m"'),
    sink,
    maxEventBytes: 1e6,
    hidden: null,
  });
  let { usage } = told;
  const isMessage = table === MESSAGES_ANSWER;
  // the start tells all as input, before it is known what the cache had
  const begun = isMessage
    ? { [promptName]: told.prompt, [completionName as string]: 1 }
    : {
        [promptName]: upTo(told.prompt),
        [completionName as string]: 1,
        total_tokens: told.prompt + 1,
      };
  if (isMessage && told.cached + told.written > 0 && maybe()) {
    // no input but what the cache had
    usage = { ...usage, [promptName]: 0 };
    begun[promptName] = told.cached + told.written;
  }
  for (const event of events(maybe() || usage[promptName] === 0 ? [begun, usage] : [usage]))
    stream.push(
      Buffer.from(`data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`),
    );
  stream.end();
  return stream.state === 'done' ? stream.usage() : null;
}

t.test('nothing that a usage tells is lost', async (t) => {
  t.comment(`FUZZ_SEED=${SEED} FUZZ_RUNS=${RUNS}`);
  const failures = new Map<string, string>();
  for (let run = 0; run < RUNS; run++) {
    const dialect = oneOf(DIALECTS);
    const call = told(dialect);
    const isStream = dialect.open !== null && maybe();
    const read = isStream ? streamed(dialect, call) : whole(dialect, call);
    const { usage, cached, written, unread } = call;
    const { total_tokens: total } = usage;
    const [prompt, completion] = [read?.prompt ?? 0, read?.completion ?? 0];
    const isZero = isStream && dialect.table === MESSAGES_ANSWER && prompt === cached + written;
    const failed = (rule: string): void => {
      const said = `${rule}: ${isStream ? 'streamed' : 'whole'} ${JSON.stringify(usage)} is ${JSON.stringify(read)}`;
      if (!failures.has(rule)) failures.set(rule, `run ${run}, ${said}`);
    };
    if (!isZero) {
      if (typeof total === 'number' && prompt + completion !== total && !((read?.rest ?? 0) < 0))
        failed('the sum is the total, or what is left is said');
      const isAlone = dialect.names[1] === null && typeof total !== 'number';
      if (prompt !== (isAlone ? usage[dialect.names[0]] : call.prompt)) failed('the prompt');
      if (completion !== call.completion) failed('the completion');
    }
    if (total === undefined && read?.rest !== undefined) failed('nothing is left of no total');
    if ((read?.details?.cached ?? 0) !== cached) failed('tokens read from the cache');
    if ((read?.details?.cacheWrite ?? 0) !== written) failed('tokens written to the cache');
    const isOfMeta = dialect.table === RERANK_ANSWER;
    if (unread !== null && !isOfMeta && !read?.unread?.includes(unread))
      failed('a member that is not read is named');
    if (unread === null && read?.unread !== undefined) failed('no other member is named');
  }
  t.same([...failures.values()], []);
});
