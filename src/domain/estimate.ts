import type { Piece, TextSample } from '../json/text-sample.ts';
import { type Prompt, promptTokens } from './prompt.ts';
import { countTokens, countWeighted } from './tokens.ts';
import type { Tokens } from './usage.ts';

/** What was seen of an answer. */
export interface Generated {
  /** Data events that brought generated text; 0 where the answer is not streamed. */
  readonly textEvents: number;
  /** Generated text, as written in JSON. */
  readonly generatedBytes: number;
  readonly sample: TextSample | null;
}

/** Nothing was generated, or nothing of it was seen. */
export const NOTHING_SEEN: Generated = { textEvents: 0, generatedBytes: 0, sample: null };

/**
 * Token counts where the upstream told none: a client left before the usage chunk, or the
 * upstream never sends one.
 *
 * The texts themselves tell most: prompt and answer are counted as tokenizers of today cut
 * text (tokens.ts), as far as they were kept. Most upstreams stream one token per event,
 * and then the events are the count, exactly. How a model's own count differs from both,
 * calls whose usage is known teach: the first eight of each model, and then one every five
 * seconds, since counting takes longer than all the rest of a request. Of the two ways to
 * count an answer the one that would have predicted those calls better is then used.
 */
export class Estimator {
  readonly #models = new Map<string, Rates>();

  /**
   * Takes a call whose usage is known; most of them cost one look at a clock.
   * @param model internal model name
   * @param at milliseconds since the epoch
   */
  learn(model: string, at: number, prompt: Prompt, generated: Generated, tokens: Tokens): void {
    const rates = this.#ratesOf(model);
    if (rates.lessons >= FIRST_LESSONS && Math.abs(at - rates.learnedAt) < LESSON_MS) return;
    rates.lessons++;
    rates.learnedAt = at;
    rates.prompt.learn(promptTokens(prompt), tokens.prompt);
    if (tokens.completion < LEAST) return; // what frames an answer outweighs a short one
    const { textEvents, generatedBytes, sample } = generated;
    if (textEvents >= LEAST) rates.perEvent.learn(textEvents, tokens.completion);
    if (sample !== null) rates.counted.learn(countWeighted(sample.read(generatedBytes)), tokens.completion);
  }

  estimate(model: string, prompt: Prompt, generated: Generated): Tokens {
    const rates = this.#models.get(model) ?? UNTAUGHT;
    return {
      prompt: Math.max(1, Math.round(promptTokens(prompt) * (rates.prompt.rate ?? 1))),
      completion: Math.round(completion(generated, rates)),
    };
  }

  #ratesOf(model: string): Rates {
    let rates = this.#models.get(model);
    if (rates === undefined) {
      if (this.#models.size >= MOST_MODELS) this.#models.clear();
      rates = untaught();
      this.#models.set(model, rates);
    }
    return rates;
  }
}

const FIRST_LESSONS = 8;
const LESSON_MS = 5000;
const LEAST = 16;
const MOST_MODELS = 10_000;
const MEMORY = 0.9; // weight of all lessons before the last
/** The share of events of several words, and the tokens in the mean event, beyond which it is several tokens an event. */
const MOST_SPLIT = 0.02;
const MOST_PER_EVENT = 1.5;

interface Rates {
  readonly prompt: Rate;
  readonly perEvent: Rate;
  readonly counted: Rate;
  lessons: number;
  learnedAt: number;
}

/** Tokens per something: the weighted mean of the lessons so far, and how far off it was of late. */
class Rate {
  #tokens = 0;
  #amount = 0;
  /** Mean relative error of what it would have predicted. */
  error = 0;

  /** undefined before anything was learned. */
  get rate(): number | undefined {
    return this.#amount === 0 ? undefined : this.#tokens / this.#amount;
  }

  learn(amount: number, tokens: number): void {
    if (amount <= 0) return;
    if (this.#amount > 0 && tokens > 0) {
      const missed = Math.abs((amount * this.#tokens) / this.#amount - tokens) / tokens;
      this.error = this.error * MEMORY + missed * (1 - MEMORY);
    }
    this.#tokens = this.#tokens * MEMORY + tokens;
    this.#amount = this.#amount * MEMORY + amount;
  }
}

function untaught(): Rates {
  return { prompt: new Rate(), perEvent: new Rate(), counted: new Rate(), lessons: 0, learnedAt: 0 };
}

const UNTAUGHT = untaught();

function completion({ textEvents, generatedBytes, sample }: Generated, { perEvent, counted }: Rates): number {
  if (generatedBytes === 0 || sample === null) return 0;
  if (textEvents > 0 && perEvent.error < counted.error) return textEvents * (perEvent.rate ?? 1);
  const pieces = sample.read(generatedBytes);
  const undecided = perEvent.error === counted.error; // there were not two lessons yet
  if (textEvents > 0 && undecided && isTokenEach(pieces)) return textEvents * (perEvent.rate ?? 1);
  return countWeighted(pieces) * (counted.rate ?? 1);
}

/** Whether events bring a token each: then hardly one has a space between its letters, or looks like two. */
function isTokenEach(pieces: readonly Piece[]): boolean {
  const split = pieces.filter(({ text }) => /\S\s+\S/.test(text));
  const tokens = pieces.reduce((sum, { text }) => sum + countTokens(text), 0);
  return split.length <= pieces.length * MOST_SPLIT && tokens <= pieces.length * MOST_PER_EVENT;
}
