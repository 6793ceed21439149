/** How many ticks in a row find nothing to do before it rests. */
const CALM_TICKS = 10;

/**
 * An interval that rests while there is nothing to do, and never keeps the process alive: at
 * rest a tick costs some 100 µs, most of it for waking up and for caches gone cold, which a
 * busy process has paid already.
 */
export class IdleInterval {
  readonly #everyMs: number;
  readonly #tick: () => boolean;
  readonly #onRest: () => void;
  #timer: NodeJS.Timeout | null = null;
  #calm = 0;

  /**
   * @param tick says whether there is something going on
   * @param onRest called whenever it begins to rest
   */
  constructor(everyMs: number, tick: () => boolean, onRest = () => {}) {
    this.#everyMs = everyMs;
    this.#tick = tick;
    this.#onRest = onRest;
  }

  get resting(): boolean {
    return this.#timer === null;
  }

  /** There is something to do from now on; the first tick is a whole interval away if it rested. */
  wake(): void {
    if (this.#timer !== null) return;
    this.#calm = 0;
    this.#timer = setInterval(() => this.#look(), this.#everyMs).unref();
  }

  rest(): void {
    if (this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#onRest();
  }

  #look(): void {
    this.#calm = this.#tick() ? 0 : this.#calm + 1;
    if (this.#calm >= CALM_TICKS) this.rest();
  }
}
