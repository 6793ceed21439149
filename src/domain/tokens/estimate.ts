import type { Piece, TextSample } from '../../json/text-sample.ts';
import type { TokenCounts } from '../../json/usage.ts';
import { MAX_TOKENS } from '../../json/usage-counts.ts';
import type { Admission } from '../usage.ts';
import { countPrompt, type Prompt } from './prompt.ts';
import { countTokens, countWeighted } from './tokens.ts';

const FIRST_SAMPLES = 8; // of a company's calls of a model; later ones are SAMPLE_MS apart
const SAMPLE_MS = 5000;
const PAUSE_MS = 10; // between samples of whatever company: one takes 30 µs
const MIN_TOKENS = 16;
const MAX_COMPANIES = 10_000; // the one that began to learn first is forgotten
const MAX_MODELS = 100; // of a company; no more are learned
const DECAY = 0.9; // weight of all earlier samples against the last
const MAX_SPLIT = 0.02; // share of events with several words up to which an event is one token
const MAX_PER_EVENT = 1.5; // the same for the tokens of the mean event
/**
 * What calls teach changes a count of ours within these bounds: languages and vocabularies differ by no more. Tokens
 * beyond these bounds are no text that we saw. In an answer they are hidden reasoning, which is learned by itself.
 * Calls with files teach nothing of their prompts: what a model takes for a file says nothing of text.
 */
const LEAST_RATE = 0.5;
const MOST_RATE = 4;
/** Calls whose hidden tokens are remembered: their median counts, so that one figure that is false counts for nothing. */
const HIDDEN_SAMPLES = 9;

/** The part of an answer that the gateway saw. */
export interface Generated {
  /** Data events with generated text; 0 when the answer is not streamed. */
  readonly textEvents: number;
  /** Bytes of generated text, as written in JSON. */
  readonly generatedBytes: number;
  readonly sample: TextSample | null;
  /** How many of these bytes repeat the prompt. */
  readonly echoedBytes?: number;
}

/** An answer without generated text, or of which none was seen. */
export const NOTHING_SEEN: Generated = { textEvents: 0, generatedBytes: 0, sample: null };

/** What an answer repeats that heeds `echo`. */
export interface Echo {
  /** Bytes of the prompts in JSON, for each of their choices. */
  readonly bytes: number;
  /** What each prompt begins with; null: they are token ids, whose text nobody knows here. */
  readonly beginnings: readonly string[] | null;
}

/** How much of a prompt is compared with an answer, in characters. */
export const COMPARED = 32;

/** What was seen of an answer, with what it repeats: nothing where it does not begin with a prompt, so that the engine did not heed `echo`. */
export function withEcho(seen: Generated, { bytes, beginnings }: Echo): Generated {
  const { textEvents, generatedBytes, sample } = seen;
  const begun = sample?.beginning().trimStart() ?? '';
  const repeats =
    beginnings === null
      ? generatedBytes >= bytes
      : beginnings.some((prompt) => isBegun(prompt.trimStart(), begun));
  return { textEvents, generatedBytes, sample, echoedBytes: repeats ? bytes : 0 };
}

/** Whether a text that may have been cut begins with a prompt, as far as both are known. */
function isBegun(prompt: string, text: string): boolean {
  const length = Math.min(COMPARED, prompt.length, text.length);
  return text.slice(0, length) === prompt.slice(0, length);
}

/** The estimated counts of a call. */
export interface Estimate extends TokenCounts {
  /** The tokens of the generated text that was seen, by nothing that was told or learned. */
  readonly seen: number;
}

/**
 * Estimates token counts when the upstream reports none. Counts the text of an answer (tokens.ts) or its events, often
 * one token each: whichever predicted better where the usage is known, in calls of the same company and model. Tokens
 * that nobody sees are added where the model thinks before it answers. Calls of other companies teach nothing: what one
 * asks for must not change what another pays.
 */
export class Estimator {
  /** By company, then by internal model name. */
  readonly #companies = new Map<string, Map<string, Rates>>();
  #sampledAt = Number.NEGATIVE_INFINITY;

  /**
   * Calibrates with a call whose usage is known. Counting takes as long as the rest of a request, so
   * most calls cost one comparison of times.
   * @param reasoning how many of the completion tokens are reasoning; null: not told
   */
  learn(
    { payer, model, at }: Admission,
    prompt: Prompt,
    generated: Generated,
    tokens: TokenCounts,
    reasoning: number | null = null,
  ): void {
    if (Math.abs(at - this.#sampledAt) < PAUSE_MS) return;
    const rates = this.#ratesFor(payer.companyId, model.upstream);
    if (
      rates === null ||
      (rates.samples >= FIRST_SAMPLES && Math.abs(at - rates.sampledAt) < SAMPLE_MS)
    )
      return;
    rates.samples++;
    rates.sampledAt = at;
    this.#sampledAt = at;
    const { text, files } = countPrompt(prompt);
    // more is a page that was searched, or a false figure, and says nothing of text
    if (files === 0 && tokens.prompt <= MOST_RATE * text) rates.prompt.learn(text, tokens.prompt);
    if (tokens.completion >= MIN_TOKENS) rates.learn(generated, tokens.completion, reasoning); // a short answer is mostly framing
  }

  /** @param limit the most tokens that the call lets the model generate; null: no limit */
  estimate(
    { payer, model }: Admission,
    prompt: Prompt,
    generated: Generated,
    limit: number | null = null,
  ): Estimate {
    const rates = this.#companies.get(payer.companyId)?.get(model.upstream) ?? UNKNOWN_RATES;
    const { text, files } = countPrompt(prompt);
    const learned = Math.min(
      text * (rates.prompt.rate ?? 1),
      Math.max(text, prompt.bytes - prompt.files.bytes),
    );
    const seen = visible(generated, UNKNOWN_RATES);
    const whole = seen === 0 ? 0 : visible(generated, rates) + rates.hidden;
    return {
      prompt: Math.max(1, rounded(learned + files)),
      completion: rounded(Math.min(whole, limit ?? whole)),
      seen: rounded(seen),
    };
  }

  /** null: too many models of the company were learned. */
  #ratesFor(company: string, model: string): Rates | null {
    let models = this.#companies.get(company);
    const known = models?.get(model);
    if (known !== undefined) return known;
    if (models === undefined) {
      for (const first of this.#companies.keys()) {
        if (this.#companies.size < MAX_COMPANIES) break;
        this.#companies.delete(first);
      }
      models = new Map();
      this.#companies.set(company, models);
    }
    if (models.size >= MAX_MODELS) return null;
    const rates = new Rates();
    models.set(model, rates);
    return rates;
  }
}

function rounded(tokens: number): number {
  return Math.min(MAX_TOKENS, Math.round(tokens));
}

/** Tokens per unit of something: the weighted mean of the samples, and its recent error. */
class Rate {
  readonly #least: number;
  readonly #most: number;
  #tokens = 0;
  #amount = 0;
  /** Mean relative error of its predictions; 0 after the first sample. */
  error = Number.POSITIVE_INFINITY;

  constructor(least = 0, most = Number.POSITIVE_INFINITY) {
    this.#least = least;
    this.#most = most;
  }

  /** Within the bounds; undefined before the first sample. */
  get rate(): number | undefined {
    if (this.#amount === 0) return undefined;
    return Math.min(this.#most, Math.max(this.#least, this.#tokens / this.#amount));
  }

  learn(amount: number, tokens: number): void {
    if (amount <= 0) return;
    if (this.#amount === 0) this.error = 0;
    else if (tokens > 0) {
      const error = Math.abs((amount * this.#tokens) / this.#amount - tokens) / tokens;
      this.error = this.error * DECAY + error * (1 - DECAY);
    }
    this.#tokens = this.#tokens * DECAY + tokens;
    this.#amount = this.#amount * DECAY + amount;
  }
}

class Rates {
  readonly prompt = new Rate(LEAST_RATE, MOST_RATE);
  readonly perEvent = new Rate();
  readonly counted = new Rate(LEAST_RATE, MOST_RATE);
  samples = 0;
  sampledAt = 0;
  /** Tokens of the last answers that nobody saw, the newest last. */
  #hidden: readonly number[] = [];

  /** The tokens of an answer that nobody sees: the median; of an even number the lower one, so that of two both agree. */
  get hidden(): number {
    const sorted = this.#hidden.toSorted((a, b) => a - b);
    return sorted.length < 2 ? 0 : (sorted[(sorted.length - 1) >> 1] as number);
  }

  /** @param completion tokens of an answer @param reasoning how many of them are reasoning; null: not told */
  learn(
    { textEvents, generatedBytes, sample }: Generated,
    completion: number,
    reasoning: number | null,
  ): void {
    const text =
      sample === null || generatedBytes === 0 ? 0 : countWeighted(sample.read(generatedBytes));
    const hidden = hiddenOf(text * (this.counted.rate ?? 1), text, completion, reasoning);
    this.#hidden = [...this.#hidden.slice(1 - HIDDEN_SAMPLES), hidden];
    const visible = completion - hidden;
    if (visible <= 0) return;
    if (textEvents >= MIN_TOKENS) this.perEvent.learn(textEvents, visible);
    this.counted.learn(text, visible);
  }
}

/**
 * How many tokens of an answer are in no text that was sent. Reasoning that is told may be in the text, as DeepSeek and
 * vLLM send it, or not: whichever fits the text better.
 * @param expected tokens of the text, as the model's calls taught @param counted the same by our own count
 */
function hiddenOf(
  expected: number,
  counted: number,
  completion: number,
  reasoning: number | null,
): number {
  if (reasoning !== null && reasoning > 0) {
    const visible = completion - reasoning;
    if (
      Math.abs(visible - expected) < Math.abs(completion - expected) &&
      visible <= MOST_RATE * counted
    )
      return reasoning;
  }
  return completion <= MOST_RATE * counted ? 0 : Math.round(completion - expected);
}

const UNKNOWN_RATES = new Rates();

/** The tokens of the text that was seen: no more than events and text can be of each other. */
function visible(
  { textEvents, generatedBytes, sample, echoedBytes = 0 }: Generated,
  { perEvent, counted }: Rates,
): number {
  if (generatedBytes === 0 || sample === null) return 0;
  const pieces = sample.read(generatedBytes);
  const byText =
    echoedBytes === 0
      ? countWeighted(pieces)
      : countOwn(pieces, sample, generatedBytes, echoedBytes);
  const undecided = perEvent.error === counted.error; // fewer than two samples
  // events do not say which of them repeat the prompt
  const isByEvents =
    textEvents > 0 &&
    echoedBytes === 0 &&
    (undecided ? areSingleTokens(pieces) : perEvent.error < counted.error);
  if (!isByEvents) return byText * (counted.rate ?? 1);
  return Math.min(textEvents * (perEvent.rate ?? 1), Math.max(MOST_RATE * byText, textEvents));
}

/** The tokens of a text behind the prompt that it repeats, whose bytes are those of JSON without needless escapes. */
function countOwn(
  pieces: readonly Piece[],
  sample: TextSample,
  size: number,
  echoedBytes: number,
): number {
  const bytesOf = (some: readonly Piece[]) =>
    some.reduce((sum, { text, weight }) => sum + weight * writtenBytes(text), 0);
  const bytes = bytesOf(pieces);
  if (bytes <= echoedBytes) return 0;
  const behind = sample.read(size, (size * echoedBytes) / bytes);
  const counted = behind.length === 0 ? pieces : behind;
  return (countWeighted(counted) * (bytes - echoedBytes)) / bytesOf(counted);
}

/** Bytes of a text in JSON, without its quotes. */
export function writtenBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2;
}

/** Whether events bring one token each: then hardly any has several words or counts as several tokens. */
function areSingleTokens(pieces: readonly Piece[]): boolean {
  const split = pieces.filter(({ text }) => /\S\s+\S/.test(text));
  const tokens = pieces.reduce((sum, { text }) => sum + countTokens(text), 0);
  return split.length <= pieces.length * MAX_SPLIT && tokens <= pieces.length * MAX_PER_EVENT;
}
