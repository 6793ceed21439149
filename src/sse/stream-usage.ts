import { usageAt } from '../json/plain-usage.ts';
import { addUsage, readUsageMembers, type ToldUsage, type UsageReader } from '../json/usage.ts';
import { isCount, type Members } from '../json/usage-counts.ts';

const NONE = Buffer.alloc(0);

/**
 * The usage of a stream: all that its events tell, by member. Some upstreams tell it with each piece of text. One in an
 * event of the same pattern as the last one has the same members, and is copied, to be read at the end: 0.1 µs instead
 * of 1 to 5.
 */
export class StreamUsage {
  readonly #reader: UsageReader;
  readonly #members: Record<string, unknown> = Object.create(null);
  /** The pattern of the last event with a usage; null: it had none. */
  #pattern: object | null = null;
  /** The completion tokens that it told, or one before it of the same pattern. */
  #completion: number | null = null;
  /** The usage in it, where that is not among the members yet. */
  #last: Buffer = NONE;
  #length = 0;

  constructor(reader: UsageReader) {
    this.#reader = reader;
  }

  /** All that was told so far; null: no count. */
  get told(): ToldUsage | null {
    this.#read();
    return readUsageMembers(this.#members, this.#reader);
  }

  /**
   * Adds the usage [start, end) of an event.
   * @param pattern that matched the event, in which no number is 0; null: none did
   * @returns whether it tells a completion: null: no; 0: of no tokens
   */
  add(b: Buffer, start: number, end: number, pattern: object | null): number | null {
    if (pattern !== null && pattern === this.#pattern) {
      this.#length = end - start;
      if (this.#length > this.#last.length) this.#last = Buffer.allocUnsafeSlow(this.#length + 32);
      b.copy(this.#last, 0, start, end);
      return this.#completion;
    }
    this.#read();
    this.#pattern = pattern;
    const members = usageAt(b, start, end);
    if (members !== null) addUsage(this.#members, members);
    this.#completion = members === null ? null : this.#completionOf(members);
    return this.#completion;
  }

  /** A count above 0 is one of the completion whatever else is told: then the rest need not be read with each event. */
  #completionOf(members: Members): number | null {
    const completion = members.completion_tokens || members.output_tokens;
    return isCount(completion) && completion > 0 ? completion : this.#reader(members).completion;
  }

  #read(): void {
    if (this.#length === 0) return;
    addUsage(this.#members, usageAt(this.#last, 0, this.#length) ?? {});
    this.#length = 0;
  }
}
