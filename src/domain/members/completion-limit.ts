import { MAX_TOKENS } from '../../json/usage-counts.ts';
import { NameSet } from './name-set.ts';
import { HARMLESS, REFERENCE_MEMBERS } from './steering-table.ts';

/**
 * Members that some engine or provider takes as the most tokens of an answer, in any spelling, as read in the sources of
 * vLLM, SGLang, llama.cpp, Ollama, TGI, LMDeploy, TabbyAPI, KoboldCpp, LocalAI and MLX in November 2026. LiteLLM passes
 * members that it does not know to the provider behind it, so those of Bedrock, Gemini, Replicate and Triton count too.
 */
// biome-ignore format: a table
const LIMITS = new NameSet([
  'max_tokens', 'max_*_tokens', 'max_tokens_*', '*_max_tokens', 'max_token', 'max_token_*', 'max_*_token',
  'max_length', 'max_*_length', 'max_len', 'max_*_len', 'max_gen', 'max_generated', 'max_generation', 'max_predict',
  'n_predict', 'num_predict', 'n_tokens', 'num_tokens', 'n_tokens_predict', 'tokens_to_generate',
  'output_length', 'output_len', 'output_tokens', 'request_output_len', 'response_length',
]);
/** Members that some engine takes as the number of answers, each with as many tokens. */
// biome-ignore format: a table
const CHOICES = new NameSet([
  'n', 'best_of', 'n_cmpl', 'n_best', 'n_completions', 'candidate_count', 'beam_width',
  'num_return_sequences', 'num_beams', 'num_choices', 'num_completions', 'num_generations', 'num_outputs',
  'num_results', 'num_samples',
]);
const REFERENCE_LIMITS = ['max_tokens', 'max_completion_tokens', 'n', 'prediction'];
/** Members that neither limit an answer nor hold others that do: most of a request. */
const OTHERS: ReadonlySet<string> = new Set(
  [REFERENCE_MEMBERS, ...HARMLESS.map(([names]) => names)]
    .flatMap((names) => names.split(/\s+/))
    .filter((name) => !REFERENCE_LIMITS.includes(name)),
);
/** Objects in which limits are looked for, as in `generation_config`, and in those within them; 1 is the request. */
const MOST_DEPTH = 3;

/** How a format limits an answer. */
export interface LimitFormat {
  /** Its members: where there is none of them, other spellings promise nothing, because an engine may not know them. */
  readonly own: readonly string[];
  /** The least limit that a provider obeys. */
  readonly least: number;
  /** Whether each prompt of a list is answered by itself, as often as the request asks for. */
  readonly perPrompt?: boolean;
}

/** Engines take 0 for "no limit", or refuse it. */
export const CHAT_LIMITS: LimitFormat = { own: ['max_tokens', 'max_completion_tokens'], least: 1 };
export const RESPONSES_LIMITS: LimitFormat = { own: ['max_output_tokens'], least: 1 };
export const COMPLETIONS_LIMITS: LimitFormat = { own: ['max_tokens'], least: 1, perPrompt: true };
/** With 0 the provider writes its cache and generates nothing. */
export const MESSAGES_LIMITS: LimitFormat = { own: ['max_tokens'], least: 0 };

/** The members of a body, parsed as JSON. Nobody has checked their types. */
export type RequestMembers = Readonly<Record<string, unknown>>;

/** Whether a member may have a part in how long the answer can get: of most requests one or two. */
export function mayLimit(name: string): boolean {
  return !OTHERS.has(name);
}

/** Whether some engine takes a member of this name as the most tokens, or as the number of answers. */
export function isLimit(name: string): boolean {
  return LIMITS.has(name) || CHOICES.has(name);
}

/**
 * The most tokens that a request lets the model generate: the largest limit in any spelling, for all choices.
 * @param bytes of the body: the provider charges the rejected part of a predicted answer
 * @param names of the members to look at, all that may limit among them
 * @param most tokens that the model generates, where the request sets no limit; null: not known
 * @returns null where it sets no limit, or one that readers may take for another
 */
export function completionLimit(
  request: RequestMembers,
  format: LimitFormat,
  bytes: number,
  names: readonly string[] = Object.keys(request),
  most: number | null = null,
): number | null {
  const found = limitsOf(request, format, names);
  const each = found.isLimited ? found.limit : most;
  if (each === null || found.unclear !== null || mayRunAgain(request)) return null;
  const predicted = request.prediction == null ? 0 : bytes;
  const answers = format.perPrompt === true ? found.choices * promptsIn(request) : found.choices;
  const limit = (each + predicted) * answers;
  return limit <= MAX_TOKENS ? limit : null;
}

/** How many prompts a request has. A list of token ids is one. */
function promptsIn({ prompt }: RequestMembers): number {
  return Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1;
}

/**
 * The member that makes the limit of a request unclear, as one that says "none" where another says 10; null: none.
 * A request that sets no limit is clear, and so is one whose only limit nobody can read: the upstream judges it.
 */
export function unclearLimit(
  request: RequestMembers,
  format: LimitFormat,
  names: readonly string[],
): string | null {
  const { isLimited, unclear } = limitsOf(request, format, names);
  return isLimited ? unclear : null;
}

interface Found {
  limit: number;
  choices: number;
  /** Whether the format's own limit is set. */
  isLimited: boolean;
  /** A member that readers may take for no limit, or for another one. */
  unclear: string | null;
}

function limitsOf(
  request: RequestMembers,
  { own, least }: LimitFormat,
  names: readonly string[],
): Found {
  const found: Found = { limit: -1, choices: 1, isLimited: false, unclear: null };
  for (const name of names) {
    const value = request[name];
    if (value === undefined || value === null || !mayLimit(name)) continue;
    if (!own.includes(name)) note(found, name, value, name, 1);
    else if (isCount(value, least)) {
      found.isLimited = true;
      found.limit = Math.max(found.limit, value);
    } else found.unclear = name;
  }
  return found;
}

function note(found: Found, name: string, value: unknown, path: string, depth: number): void {
  if (LIMITS.has(name)) {
    if (isCount(value, 1)) found.limit = Math.max(found.limit, value);
    else found.unclear = path;
  } else if (CHOICES.has(name)) {
    if (isCount(value, 1)) found.choices = Math.max(found.choices, value);
    else found.unclear = path;
  } else if (depth < MOST_DEPTH && typeof value === 'object' && !Array.isArray(value)) {
    for (const [inner, part] of Object.entries(value as RequestMembers)) {
      if (part !== undefined && part !== null)
        note(found, inner, part, `${path}.${inner}`, depth + 1);
    }
  }
}

/** Whether the provider may run the model once more to shorten the history, which is charged too. Others only leave out. */
export function mayRunAgain({ context_management: management }: RequestMembers): boolean {
  if (management === undefined || management === null) return false;
  const edits = Array.isArray(management) ? management : (management as RequestMembers).edits;
  if (edits === undefined || edits === null) return false;
  return (
    !Array.isArray(edits) ||
    edits.some((edit) => !/^clear_/.test(String((edit as RequestMembers | null)?.type)))
  );
}

function isCount(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= least;
}
