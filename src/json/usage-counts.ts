/** The most tokens that a row of the ledger holds; a larger count is not one. */
export const MAX_TOKENS = 1_000_000_000_000;

/** The members of a usage. */
export type Members = Readonly<Record<string, unknown>>;

/** What the members of a usage count; null: nothing that was told, NaN: told, and no count. */
export interface Counts {
  prompt: number | null;
  completion: number | null;
  /** Of the dialects of responses and messages. */
  input: number | null;
  output: number | null;
  total: number | null;
  /** Prompt tokens read from the upstream's cache, and those written to it, for five minutes and for an hour. */
  cached: number | null;
  cacheWrite: number | null;
  cacheWriteMinutes: number | null;
  cacheWriteHour: number | null;
  audioPrompt: number | null;
  imagePrompt: number | null;
  reasoning: number | null;
  audioCompletion: number | null;
  imageCompletion: number | null;
  /** Of a rerank. */
  searchUnits: number | null;
  /** Whether a part of a count was told. */
  hasParts: boolean;
  /** Tokens of the cache that are told beside the counts, and not in the details of one. */
  cacheBeside: number;
  /** Members with tokens that nobody reads; null: none. */
  unread: string[] | null;
}

/**
 * What the counts consist of, and what the call cost the upstream: as told, perhaps more than the count has that it is part
 * of (`partsWithin`). A number that is not whole becomes null.
 */
export interface UsageDetails {
  /** Prompt tokens read from the upstream's cache, and those written to it. */
  readonly cached: number | null;
  readonly cacheWrite: number | null;
  readonly audioPrompt: number | null;
  /** Completion tokens that are reasoning, and those that are audio. */
  readonly reasoning: number | null;
  readonly audioCompletion: number | null;
  /** Of the tokens written to the cache, those that are kept for an hour. */
  readonly cacheWriteHour: number | null;
  readonly imagePrompt: number | null;
  readonly imageCompletion: number | null;
  /** Search units of a rerank. */
  readonly searchUnits: number | null;
  /** The upstream's own cost in its own currency, as JSON writes a number. */
  readonly cost: string | null;
}

/** What the counts consist of. */
export type PartName = Exclude<keyof UsageDetails, 'cost'>;
/** Parts that a router may tell beside the prompt, and beside the completion; an hour's writes are within the written ones. */
export const PROMPT_PARTS: readonly PartName[] = [
  'cached',
  'cacheWrite',
  'audioPrompt',
  'imagePrompt',
];
export const COMPLETION_PARTS: readonly PartName[] = [
  'reasoning',
  'audioCompletion',
  'imageCompletion',
];

/** What an upstream tells that tells nothing. */
export const NO_DETAILS: UsageDetails = {
  cached: null,
  cacheWrite: null,
  audioPrompt: null,
  reasoning: null,
  audioCompletion: null,
  cacheWriteHour: null,
  imagePrompt: null,
  imageCompletion: null,
  searchUnits: null,
  cost: null,
};

/** The same of the completion alone. */
export const NO_PARTS_OF_COMPLETION: Partial<UsageDetails> = Object.fromEntries(
  COMPLETION_PARTS.map((part) => [part, null]),
);

type Count = Exclude<keyof Counts, 'hasParts' | 'cacheBeside' | 'unread'>;

/**
 * The one list of the names that providers and routers have for counts, read in every dialect, in details or beside them,
 * in the singular too. A row: the names, what they count, and in details of the completion if that is something else. Null:
 * the tokens are within a count that another member tells, and cost no other price.
 */
const ROWS: readonly (readonly [names: string, Count | null, ofCompletion?: Count | null])[] = [
  ['prompt_tokens', 'prompt'],
  ['completion_tokens', 'completion'],
  ['input_tokens', 'input'],
  ['output_tokens', 'output'],
  ['total_tokens', 'total'],
  [
    `cached_tokens num_cached_tokens cached_input_tokens cached_prompt_tokens cached_read_tokens cache_read_tokens
    cache_read_input_tokens cache_hit_tokens prompt_cache_hit_tokens prompt_cache_read_tokens prompt_cached_tokens
    input_cached_tokens read_cached_tokens`,
    'cached',
  ],
  [
    `cache_write_tokens cache_write_input_tokens cache_creation_tokens cache_creation_input_tokens cached_write_tokens
    cached_creation_tokens write_cached_tokens caching_tokens prompt_cache_write_tokens prompt_cache_creation_tokens`,
    'cacheWrite',
  ],
  ['ephemeral_5m_input_tokens claude_cache_creation_5_m_tokens', 'cacheWriteMinutes'],
  ['ephemeral_1h_input_tokens claude_cache_creation_1_h_tokens', 'cacheWriteHour'],
  ['audio_tokens', 'audioPrompt', 'audioCompletion'],
  ['input_audio_tokens prompt_audio_tokens audio_input_tokens', 'audioPrompt'],
  ['output_audio_tokens completion_audio_tokens audio_output_tokens', 'audioCompletion'],
  ['reasoning_tokens thinking_tokens thoughts_tokens', 'reasoning'],
  ['image_tokens', 'imagePrompt', 'imageCompletion'],
  ['input_image_tokens prompt_image_tokens image_input_tokens', 'imagePrompt'],
  ['output_image_tokens completion_image_tokens image_output_tokens', 'imageCompletion'],
  ['search_units', 'searchUnits'],
  ['text_tokens video_tokens document_tokens', null],
  ['accepted_prediction_tokens rejected_prediction_tokens', null],
  ['cache_miss_tokens prompt_cache_miss_tokens', null],
];

const OF_PROMPT = 1;
const OF_COMPLETION = 2;
/** Details of details: they are within what is read. */
const WITHIN = 3;
const BESIDE = 4;
/** Objects whose members are read. */
const OBJECTS: readonly (readonly [names: string, kind: number])[] = [
  ['prompt_tokens_details input_tokens_details', OF_PROMPT],
  ['completion_tokens_details output_tokens_details', OF_COMPLETION],
  ['cached_tokens_details', WITHIN],
  ['cache_creation cache_creation_tokens_details', BESIDE], // LiteLLM's own name has the singular
  ['iterations tokens billed_units', WITHIN], // each of which is read by itself
];

/** What the members of a usage are told in; all else are parts of them. */
const WHOLE: readonly (Count | null)[] = ['prompt', 'completion', 'input', 'output', 'total'];

const NAMES = new Map<string, readonly [Count | null, Count | null, isPart: boolean]>();
for (const [names, count, ofCompletion = count] of ROWS)
  for (const name of inBothNumbers(names))
    NAMES.set(name, [count, ofCompletion, !WHOLE.includes(count)]);
const KINDS = new Map<string, number>();
for (const [names, kind] of OBJECTS) for (const name of inBothNumbers(names)) KINDS.set(name, kind);

/** Names whose members count nothing by themselves. */
export const PARTS_ALONE: readonly string[] = [...NAMES]
  .filter(([, [count, ofCompletion]]) => count === null && ofCompletion === null)
  .map(([name]) => name);

function inBothNumbers(names: string): string[] {
  return names.split(/\s+/).flatMap((name) => [name, name.replace(/tokens/, 'token')]);
}

/** Members that tell tokens, in a name that is not in the list. */
const OF_TOKENS = /token|cach/i;
/** And those that tell none, though such a word is in their names: what tokens cost, how fast they came. */
const NO_TOKENS =
  /(?:^|_)(?:costs?|prices?|rates?|ratio|percent\w*|per|seconds?|time|ms|discount|ttl)(?:_|$)/i;
/** How many of them are noted, and how deep members are read. */
export const MOST_UNREAD = 8;
export const MOST_LEVELS = 4;

/** Reads the members of a usage. Where two tell the same, the larger counts. */
export function countsIn(usage: Members): Counts {
  const counts: Counts = {
    prompt: null,
    completion: null,
    input: null,
    output: null,
    total: null,
    cached: null,
    cacheWrite: null,
    cacheWriteMinutes: null,
    cacheWriteHour: null,
    audioPrompt: null,
    imagePrompt: null,
    reasoning: null,
    audioCompletion: null,
    imageCompletion: null,
    searchUnits: null,
    hasParts: false,
    cacheBeside: 0,
    unread: null,
  };
  let hasDetails = false;
  for (const name in usage) {
    const value = usage[name];
    if (value == null) continue;
    const kind = typeof value === 'object' ? KINDS.get(name) : BESIDE;
    if (kind === OF_PROMPT || kind === OF_COMPLETION) hasDetails = true;
    else readMember(counts, name, value, OF_PROMPT, 0);
  }
  joinWritten(counts);
  counts.cacheBeside = (counts.cached ?? 0) + (counts.cacheWrite ?? 0);
  if (!hasDetails) return counts;
  for (const name in usage) {
    const value = usage[name];
    const kind = typeof value === 'object' ? KINDS.get(name) : undefined;
    if (value !== null && (kind === OF_PROMPT || kind === OF_COMPLETION))
      readMembers(counts, value as Members, kind, 1);
  }
  joinWritten(counts);
  return counts;
}

function readMembers(counts: Counts, members: Members, side: number, level: number): void {
  for (const name in members) {
    const value = members[name];
    if (value != null) readMember(counts, name, value, side, level);
  }
}

function readMember(
  counts: Counts,
  name: string,
  value: unknown,
  side: number,
  level: number,
): void {
  if (typeof value === 'object') {
    const kind = KINDS.get(name);
    if (kind === WITHIN || level > MOST_LEVELS) return;
    if (kind !== undefined) readMembers(counts, value as Members, side, level + 1);
    else noteUnread(counts, value as Members, name, level + 1);
    return;
  }
  const entry = NAMES.get(name);
  if (entry === undefined) return noteIfUnread(counts, name, value, name);
  const count = entry[side === OF_COMPLETION ? 1 : 0];
  if (count === null) return;
  if (entry[2]) counts.hasParts = true;
  const before = counts[count];
  if (!isCount(value)) counts[count] ??= Number.NaN;
  else if (!(before !== null && before >= value)) counts[count] = value;
}

/** What was written to the cache: its count, or those by how long they are kept, where these are more. */
function joinWritten(counts: Counts): void {
  const { cacheWrite, cacheWriteMinutes: minutes, cacheWriteHour: hour } = counts;
  if (minutes === null && hour === null) return;
  const byDuration = (minutes || 0) + (hour || 0);
  if (!(cacheWrite !== null && cacheWrite >= byDuration)) counts.cacheWrite = byDuration;
}

/** Notes members of an object that is not in the list. */
function noteUnread(counts: Counts, members: Members, within: string, level: number): void {
  for (const name in members) {
    if (counts.unread?.length === MOST_UNREAD) return; // a list may have a million members
    const value = members[name];
    if (typeof value !== 'object') noteIfUnread(counts, name, value, `${within}.${name}`);
    else if (value !== null && level <= MOST_LEVELS)
      noteUnread(
        counts,
        value as Members,
        Array.isArray(members) ? within : `${within}.${name}`,
        level + 1,
      );
  }
}

function noteIfUnread(counts: Counts, name: string, value: unknown, path: string): void {
  if (typeof value !== 'number' || value <= 0) return;
  if (!OF_TOKENS.test(path) || NO_TOKENS.test(name)) return;
  counts.unread ??= [];
  if (counts.unread.length < MOST_UNREAD && !counts.unread.includes(path)) counts.unread.push(path);
}

/** Whether it is a whole number that a row of the ledger holds. */
export function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MAX_TOKENS;
}

/** Notes a part that is told elsewhere than in the members of a usage. */
export function setPart(counts: Counts, part: Count, value: number | null): void {
  counts[part] = value;
  counts.hasParts = true;
}

/** The parts of the counts that can be. @param prompt null: its parts are parts of nothing; the completion likewise */
export function detailsIn(
  counts: Counts,
  prompt: number | null,
  completion: number | null,
  cost: string | null,
): UsageDetails | null {
  return toldOrNull({
    cached: prompt === null ? null : countOrNull(counts.cached),
    cacheWrite: prompt === null ? null : countOrNull(counts.cacheWrite),
    cacheWriteHour: prompt === null ? null : countOrNull(counts.cacheWriteHour),
    audioPrompt: prompt === null ? null : countOrNull(counts.audioPrompt),
    imagePrompt: prompt === null ? null : countOrNull(counts.imagePrompt),
    reasoning: completion === null ? null : countOrNull(counts.reasoning),
    audioCompletion: completion === null ? null : countOrNull(counts.audioCompletion),
    imageCompletion: completion === null ? null : countOrNull(counts.imageCompletion),
    searchUnits: countOrNull(counts.searchUnits),
    cost,
  });
}

/** Whether each part is at most its whole. By their names: a loop over the parts takes a tenth of a microsecond more. */
export function areWithin(
  parts: { readonly [part in PartName]?: number | null },
  prompt: number | null,
  completion: number | null,
): boolean {
  const { cached, cacheWrite, cacheWriteHour, audioPrompt, imagePrompt } = parts;
  const { reasoning, audioCompletion, imageCompletion } = parts;
  const [most, mostCompleted] = [prompt ?? MAX_TOKENS, completion ?? MAX_TOKENS];
  return (
    (cached ?? 0) <= most &&
    (cacheWrite ?? 0) <= most &&
    (cacheWriteHour ?? 0) <= most &&
    (audioPrompt ?? 0) <= most &&
    (imagePrompt ?? 0) <= most &&
    (reasoning ?? 0) <= mostCompleted &&
    (audioCompletion ?? 0) <= mostCompleted &&
    (imageCompletion ?? 0) <= mostCompleted
  );
}

/** Whether a part was told that few calls have. */
export function hasRareParts(details: UsageDetails): boolean {
  const { cacheWriteHour, imagePrompt, imageCompletion, searchUnits } = details;
  return (
    cacheWriteHour !== null ||
    imagePrompt !== null ||
    imageCompletion !== null ||
    searchUnits !== null
  );
}

/** Null where nothing was told. */
export function toldOrNull(details: UsageDetails): UsageDetails | null {
  const { cached, cacheWrite, audioPrompt, reasoning, audioCompletion, cost } = details;
  if (cached !== null || cacheWrite !== null || audioPrompt !== null) return details;
  if (reasoning !== null || audioCompletion !== null || cost !== null) return details;
  return hasRareParts(details) ? details : null;
}

export function countOrNull(value: unknown): number | null {
  return isCount(value) ? value : null;
}
