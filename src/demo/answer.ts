import type { Question, Tool, Turn } from './question.ts';
import { sample } from './sample.ts';

/**
 * The answers of the demo upstream: text, JSON and tool calls. They follow from the question
 * alone, without clock and randomness: the same request has the same answer and token counts.
 */

/** Characters of the request that an answer repeats at most. */
const ECHO = 200;
/** Characters at the end of a tool's name in which its last word is looked for. */
const NAME_END = 64;

/** An answer, before a dialect makes JSON or events of it. */
export interface Answer {
  /** One text, or one or several tool calls. */
  readonly parts: readonly Part[];
  /** `stop`: before one of the texts that end an answer. */
  readonly finish: 'end' | 'stop' | 'length' | 'tools';
  /** The text before which it ended. */
  readonly stop: string | null;
  /** How many times it is given. */
  readonly choices: number;
  readonly promptTokens: number;
  /** Prompt tokens that come from the cache. */
  readonly cachedTokens: number;
  /** Prompt tokens of all turns but the last, which a cache of prefixes would know. */
  readonly repeatedTokens: number;
}

export interface Part {
  /** The text, or the input of the tool, cut into tokens: one streamed event each. */
  readonly pieces: readonly string[];
  /** null: a text. */
  readonly tool: Tool | null;
  /** Identifier of the call, without the prefix of a dialect; '' for a text. */
  readonly callId: string;
}

export function answerTo(question: Question): Answer {
  const { turns, choices, stops, limit } = question;
  const last = lastSaid(turns);
  const said = withoutBlocks((turns.findLast(({ role }) => role === 'user') ?? last).text);
  const cached = turns.slice(0, turns.findLastIndex((turn) => turn.cached) + 1);
  const counts = {
    choices,
    promptTokens: 3 + tokensOf(turns),
    cachedTokens: tokensOf(cached),
    repeatedTokens: tokensOf(turns.slice(0, -1)),
  };

  const called = toolsFor(question, said);
  if (limit === 0) return { ...counts, parts: [], finish: 'length', stop: null };
  if (called.length > 0) {
    const parts = called.map((tool) => ({
      tool,
      callId: `demo_${tool.name}_${turns.length}`,
      pieces: tokens(inputOf(tool, said)),
    }));
    return { ...counts, parts, finish: 'tools', stop: null };
  }

  const { text, stop } = upTo(stops, jsonFor(question, said) ?? friendlyText(last, said));
  const pieces = tokens(text);
  const isCut = limit !== null && pieces.length > limit;
  const parts = [{ tool: null, callId: '', pieces: isCut ? pieces.slice(0, limit) : pieces }];
  if (isCut) return { ...counts, parts, finish: 'length', stop: null };
  return { ...counts, parts, finish: stop === null ? 'end' : 'stop', stop };
}

/** Cuts text into words, parts of words of up to five letters, and single signs, each with the space before it. */
export function tokens(text: string): string[] {
  return text.match(/\s*(?:[\p{L}\p{N}]{1,5}|[^\s\p{L}\p{N}])|\s+/gu) ?? [];
}

function tokensOf(turns: readonly Turn[]): number {
  return turns.reduce((sum, { text }) => sum + 4 + tokens(text).length, 0);
}

/** The last turn of the conversation. Agents add instructions after it. */
function lastSaid(turns: readonly Turn[]): Turn {
  return (turns.findLast(({ role }) => role !== 'system' && role !== 'developer') ??
    turns.at(-1)) as Turn;
}

/** The words without blocks such as `<environment>…</environment>`, which agents put around a question. */
function withoutBlocks(text: string): string {
  const pieces = text.split(/(<\/?[\w-]+>)/);
  const ends = new Set(pieces.filter((piece) => piece.startsWith('</')));
  let end = '';
  const outside = pieces.filter((piece) => {
    const isInside = end !== '';
    if (piece === end) end = '';
    else if (!isInside && ends.has(`</${piece.slice(1)}`)) end = `</${piece.slice(1)}`;
    return !isInside && end === '';
  });
  return outside.join('').trim() || text;
}

function friendlyText(last: Turn, said: string): string {
  const about =
    last.role === 'tool' ? `The tool returned: ${clip(last.text)}` : `You wrote: ${clip(said)}`;
  return `Hello from the Tollgate demo upstream. No language model is connected here.\n${about}\nTo get real answers, set UPSTREAM_URL.`;
}

function clip(text: string): string {
  return text.length <= ECHO ? text : `${text.slice(0, ECHO).toWellFormed()}…`;
}

/** The tools to call: the one that the request names, or those that the user mentions, or the first if one must be called. */
function toolsFor({ tools, choice, parallel, turns }: Question, said: string): Tool[] {
  if (choice === 'none' || tools.length === 0) return [];
  if (typeof choice === 'object')
    return tools.filter(({ name }) => name === choice.name).slice(0, 1);
  const words = new Set<string>(said.toLowerCase().match(/[\p{L}\p{N}]+/gu));
  const mentioned =
    lastSaid(turns).role === 'user' ? tools.filter(({ name }) => words.has(lastWord(name))) : [];
  if (mentioned.length === 0) return choice === 'any' ? tools.slice(0, 1) : [];
  return parallel ? mentioned : mentioned.slice(0, 1);
}

/** The last word of a name such as `get_weather` or `getWeather`, in small letters; '' where it has none. */
function lastWord(name: string): string {
  const found = /(\p{Lu}?\p{Ll}+|\p{Lu}+|\p{N}+)[^\p{L}\p{N}]*$/u.exec(name.slice(-NAME_END));
  return found?.[1]?.toLowerCase() ?? '';
}

function inputOf({ schema }: Tool, said: string): string {
  return schema === null ? wordsFor(said) : JSON.stringify(sample(schema, wordsFor(said)));
}

/** The words for strings of JSON: the user's words in backticks, or all of the user's words. */
function wordsFor(said: string): string {
  return clip(/`([^`]+)`/.exec(said)?.[1] ?? said);
}

/** The JSON that the request asks for; null when it asks for text. */
function jsonFor({ format: { type, schema } }: Question, said: string): string | null {
  if (type === 'json_schema') return JSON.stringify(sample(schema, wordsFor(said)));
  return type === 'json_object' ? JSON.stringify({ demo: true, echo: clip(said) }) : null;
}

/** The text up to the first of the stops in it. */
function upTo(stops: readonly string[], text: string): { text: string; stop: string | null } {
  const found = stops.filter((stop) => stop !== '' && text.includes(stop));
  const [stop] = found.sort((a, b) => text.indexOf(a) - text.indexOf(b));
  return stop === undefined
    ? { text, stop: null }
    : { text: text.slice(0, text.indexOf(stop)), stop };
}
