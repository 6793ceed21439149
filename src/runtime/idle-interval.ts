/** Ticks in a row with nothing to do, after which the interval stops. */
const QUIET_TICKS = 10;

/**
 * An interval that stops while there is nothing to do, and never keeps the process alive. In a
 * process at rest a tick costs some 100 µs, most of it for waking up with cold caches.
 */
export class IdleInterval {
  readonly #everyMs: number;
  readonly #tick: () => boolean;
  readonly #onRest: () => void;
  #timer: NodeJS.Timeout | null = null;
  #quiet = 0;

  /**
   * @param tick returns whether there is something going on
   * @param onRest called whenever the interval stops
   */
  constructor(everyMs: number, tick: () => boolean, onRest = () => {}) {
    this.#everyMs = everyMs;
    this.#tick = tick;
    this.#onRest = onRest;
  }

  get resting(): boolean {
    return this.#timer === null;
  }

  /** There is something to do from now on. The first tick of an interval that rested is a whole interval away. */
  wake(): void {
    if (this.#timer !== null) return;
    this.#quiet = 0;
    this.#timer = setInterval(() => this.#run(), this.#everyMs).unref();
  }

  rest(): void {
    if (this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#onRest();
  }

  #run(): void {
    this.#quiet = this.#tick() ? 0 : this.#quiet + 1;
    if (this.#quiet >= QUIET_TICKS) this.rest();
  }
}
