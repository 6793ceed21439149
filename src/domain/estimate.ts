import type { Tokens } from './usage.ts';

/** What the gateway saw of a call whose usage it may never be told. */
export interface Seen {
  /** Size of the request body. */
  readonly promptBytes: number;
  /** Data events of the stream so far; 0 where the answer is not streamed. */
  readonly events: number;
  /** Generated text so far, as written in JSON. */
  readonly generatedBytes: number;
}

/**
 * Token counts where the upstream told none: a client left before the usage chunk, or the
 * upstream never sends one.
 *
 * Most upstreams stream one token per event, some several, and each model cuts text in its
 * own way. So every call whose usage is known teaches the model's rates (tokens per byte of
 * prompt, per event, per byte of answer), newer calls more than older; and of the two rates
 * for answers the one that would have predicted the last calls better is used. Before there
 * was any such call, common tokenizers on English prose are taken: 4 bytes per token, and an
 * event of that order of size is one token.
 */
export class Estimator {
  readonly #models = new Map<string, Rates>();

  /** @param model internal model name */
  learn(model: string, seen: Seen, tokens: Tokens): void {
    const rates = this.#ratesOf(model);
    rates.prompt.learn(textBytes(seen), tokens.prompt);
    if (tokens.completion < LEAST) return; // what frames an answer outweighs a short one
    if (seen.events >= LEAST) rates.perEvent.learn(seen.events - FRAMING_EVENTS, tokens.completion);
    if (seen.generatedBytes >= LEAST) rates.perByte.learn(seen.generatedBytes, tokens.completion);
  }

  estimate(model: string, seen: Seen): Tokens {
    const { prompt, perEvent, perByte } = this.#models.get(model) ?? UNTAUGHT;
    return {
      prompt: Math.ceil(textBytes(seen) * (prompt.rate ?? 1 / BYTES_PER_TOKEN)),
      completion: Math.round(completion(seen, perEvent, perByte)),
    };
  }

  #ratesOf(model: string): Rates {
    let rates = this.#models.get(model);
    if (rates === undefined) {
      if (this.#models.size >= MOST_MODELS) this.#models.clear();
      rates = { prompt: new Rate(), perEvent: new Rate(), perByte: new Rate() };
      this.#models.set(model, rates);
    }
    return rates;
  }
}

const BYTES_PER_TOKEN = 4;
/** Bytes of a request body around its text: names of members, the model. */
const FRAMING_BYTES = 60;
/** An event with more text than this holds several tokens. */
const MOST_BYTES_PER_TOKEN = 12;
/** Events of a whole stream without text: the role, the finish_reason, the usage. */
const FRAMING_EVENTS = 3;
const LEAST = 16;
const MOST_MODELS = 10_000;
const MEMORY = 0.95; // weight of all calls before the last

interface Rates {
  readonly prompt: Rate;
  readonly perEvent: Rate;
  readonly perByte: Rate;
}

/** Tokens per something: the weighted mean of the calls so far, and how far off it was of late. */
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

const UNTAUGHT: Rates = { prompt: new Rate(), perEvent: new Rate(), perByte: new Rate() };

function textBytes({ promptBytes }: Seen): number {
  return Math.max(BYTES_PER_TOKEN, promptBytes - FRAMING_BYTES);
}

function completion({ events, generatedBytes }: Seen, perEvent: Rate, perByte: Rate): number {
  if (generatedBytes === 0) return 0;
  const textEvents = Math.max(1, events - 1); // the first event of a stream carries the role
  const byBytes = generatedBytes * (perByte.rate ?? 1 / BYTES_PER_TOKEN);
  if (events === 0) return byBytes;
  if (perEvent.rate !== undefined && (perByte.rate === undefined || perEvent.error <= perByte.error)) {
    return textEvents * perEvent.rate;
  }
  if (perByte.rate !== undefined) return byBytes;
  return generatedBytes / textEvents <= MOST_BYTES_PER_TOKEN ? textEvents : byBytes;
}
