import type { Hidden } from '../json/hidden.ts';
import type { MemberTable } from '../json/member-table.ts';
import { ObjectWalk, REMOVE, REPLACE } from '../json/object-walk.ts';
import { TextSample } from '../json/text-sample.ts';
import { readUsageText, type TokenCounts } from '../json/usage.ts';
import { EventPattern } from './event-pattern.ts';
import { blankLineEnd, dataStart, quoted, skipBlank, startsWith } from './fields.ts';
import { EventScanner, type SpanSink } from './scanner.ts';

const DONE = Buffer.from('[DONE]');
const DONE_EVENT = Buffer.from('data: [DONE]\n\n');
const MODEL_KEY = Buffer.from('"model":');
const COMMA = Buffer.from(',');

/**
 * The event stream of a chat completion (spec section 4.2, "Streaming"). Events are relayed byte for
 * byte, but their `model` becomes the slug and leaking members are removed. An `error` breaks the
 * stream. `[DONE]` leaves as "data: [DONE]\n\n" and ends it.
 */
export class ChatStream extends EventScanner {
  /** Data events relayed. */
  events = 0;
  /** The events with generated text, and its bytes as written in JSON. */
  textEvents = 0;
  generatedBytes = 0;
  /** A choice has a finish_reason. */
  finished = false;
  /** Parts of the generated text, to estimate its tokens if the usage is missing. */
  readonly sample = new TextSample();

  readonly #slug: Buffer;
  readonly #walk: ObjectWalk;
  readonly #pattern: EventPattern;
  /** The last usage object, as text. */
  #usage = '';

  /**
   * @param slug as a JSON string with its quotes
   * @param maxEventBytes a larger event breaks the stream
   * @param table the leaking members and those of generated text
   * @param hidden what no string may hold, generated text apart
   */
  constructor(slug: Buffer, sink: SpanSink, maxEventBytes: number, table: MemberTable, hidden: Hidden | null = null) {
    super(sink, maxEventBytes);
    this.#slug = slug;
    this.#walk = new ObjectWalk(table, hidden);
    this.#pattern = new EventPattern(this.#walk);
  }

  /** The last usage of the upstream; null if there was none or it cannot be read. */
  usage(): TokenCounts | null {
    return this.#usage === '' ? null : readUsageText(this.#usage);
  }

  protected override readWhole(chunk: Buffer, i: number, room: number): number {
    if (this.events === 0) return 0; // the first event may need a model
    let next = this.#pattern.match(chunk, i);
    if (next === 0 || next - i > room) {
      const { length } = chunk;
      const start = dataStart(chunk, i, length);
      if (start < 0) return 0;
      const walk = this.#walk;
      walk.collecting = this.#pattern.isLearning;
      const end = walk.walk(chunk, start, length, false);
      if (end < 0 || end - i > room || walk.errorStart >= 0) return 0;
      next = blankLineEnd(chunk, end);
      if (next === 0) return 0;
      this.#pattern.learn(chunk, i, next);
    }
    this.#note(chunk);
    this.#relayEdited(chunk, i, next);
    return next;
  }

  protected override readEvent(): boolean {
    if (this.#isDone()) {
      this.#finish();
      return false;
    }
    const walk = this.#walk;
    const { payload, start, end, count, offsets } = this.lines;
    const next = walk.walk(payload, start, end, count > 1);
    if (next < 0 || skipBlank(payload, next, end) !== end) {
      this.fail('an event that is not a JSON object');
      return false;
    }
    if (walk.errorStart >= 0) {
      this.fail(`an error in the stream: ${quoted(payload, walk.errorStart, walk.errorEnd)}`);
      return false;
    }
    const insertAt = this.events === 0 && !walk.hasModel ? start + 1 : -1;
    this.#note(payload);
    if (count > 1) this.#relayLines(insertAt);
    else {
      let from = offsets[0] as number;
      if (insertAt >= 0) {
        this.relay(payload, from, insertAt);
        this.#insertModel();
        from = insertAt;
      }
      this.#relayEdited(payload, from, offsets[3] as number);
    }
    return true;
  }

  /** A stream whose answer is finished is whole without [DONE], which is added; [DONE] is enough without its line ends. */
  protected override onClose(isCut: boolean): void {
    const { lines } = this;
    const isEmpty = lines.count === 0;
    if (!isEmpty) lines.join();
    if (isEmpty ? !isCut && this.finished : this.#isDone()) this.#finish();
    else if (isCut || !isEmpty) this.fail('closed inside an event');
    else this.fail('closed without [DONE] and without a finish_reason');
  }

  #isDone(): boolean {
    const { payload, start, end, count } = this.lines;
    if (count !== 1 || !startsWith(payload, start, end, DONE)) return false;
    return skipBlank(payload, start + DONE.length, end) === end;
  }

  #finish(): void {
    this.relay(DONE_EVENT, 0, DONE_EVENT.length);
    this.state = 'done';
  }

  /** Notes what the event in the walk tells. */
  #note(b: Buffer): void {
    const walk = this.#walk;
    this.events++;
    if (walk.generated > 0) {
      this.generatedBytes += walk.generated;
      this.textEvents++;
      if (this.generatedBytes > this.sample.due) {
        this.sample.add(b, walk.textStart, walk.textEnd, this.generatedBytes);
      }
    }
    if (walk.finished) this.finished = true;
    if (walk.usageStart >= 0) this.#usage = b.toString('latin1', walk.usageStart, walk.usageEnd);
  }

  /** Relays [from, to) with the walk's edits. */
  #relayEdited(b: Buffer, from: number, to: number): void {
    const { edits, editCount } = this.#walk;
    for (let k = 0; k < editCount; k += 3) {
      this.relay(b, from, edits[k] as number);
      this.#relayInstead(edits[k + 2] as number);
      from = edits[k + 1] as number;
    }
    this.relay(b, from, to);
  }

  /** Relays several data lines with the walk's edits, which are in the joined payload. Line ends inside a removed span stay. */
  #relayLines(insertAt: number): void {
    const { edits, editCount } = this.#walk;
    const { buffer, offsets } = this.lines;
    let joinedStart = 0;
    for (let k = 0; k < offsets.length; k += 4) {
      const shift = (offsets[k + 1] as number) - joinedStart;
      const joinedEnd = (offsets[k + 2] as number) - shift;
      let from = offsets[k] as number;
      if (insertAt >= joinedStart && insertAt <= joinedEnd) {
        this.relay(buffer, from, insertAt + shift);
        this.#insertModel();
        from = insertAt + shift;
      }
      for (let e = 0; e < editCount; e += 3) {
        const start = edits[e] as number;
        const end = edits[e + 1] as number;
        if (start > joinedEnd || end < joinedStart) continue;
        this.relay(buffer, from, Math.max(start, joinedStart) + shift);
        if (start >= joinedStart) this.#relayInstead(edits[e + 2] as number);
        from = Math.min(end, joinedEnd) + shift;
      }
      this.relay(buffer, from, offsets[k + 3] as number);
      joinedStart = joinedEnd + 1;
    }
  }

  /** Relays what takes the place of an edit's bytes. */
  #relayInstead(kind: number): void {
    if (kind === REMOVE) return;
    const quotes = kind === REPLACE ? 0 : 1;
    this.relay(this.#slug, quotes, this.#slug.length - quotes);
  }

  #insertModel(): void {
    this.relay(MODEL_KEY, 0, MODEL_KEY.length);
    this.relay(this.#slug, 0, this.#slug.length);
    if (this.#walk.kept > 0) this.relay(COMMA, 0, 1);
  }
}
