import type { MemberTable } from '../json/member-table.ts';
import { promptUsage, type ToldUsage } from '../json/usage.ts';
import { DialectStream, type StreamOptions } from './dialect-stream.ts';
import { dataStart, quoted, skipBlank, startsWith } from './fields.ts';

const DONE = Buffer.from('[DONE]');
const DONE_EVENT = Buffer.from('data: [DONE]\n\n');
const MODEL_KEY = Buffer.from('"model":');
const COMMA = Buffer.from(',');
const CHUNKS: readonly unknown[] = ['chat.completion.chunk', 'text_completion'];
const EMPTY_DELTA = Buffer.from('{"index":0,"delta":{},"finish_reason":null}');
export const EMPTY_TEXT = Buffer.from('{"index":0,"text":"","logprobs":null,"finish_reason":null}');

/**
 * The event stream of a chat completion (spec section 4.2, "Streaming"), or of a text completion. If the first event has no
 * model, it gets one. `[DONE]` behind a finish_reason, or behind a usage that counts all text, leaves as "data: [DONE]\n\n"
 * and ends the stream; without either the stream is broken. An event that is no chunk is dropped.
 */
export class ChatStream extends DialectStream {
  /** Whether a choice had a finish_reason, and no text followed, which would be that of another choice. */
  finished = false;
  /** Whether any choice had a finish_reason. */
  #hasReason = false;
  /** How many events had text when the completion was told last. */
  #textEventsTold = 0;
  /** The same where it was told behind the text, by an event without any; -1: it was not. */
  #textEventsCounted = -1;

  /** @param wantsUsage whether the client asked for the usage; otherwise the event that has it gets the empty choice */
  constructor(
    options: StreamOptions,
    table: MemberTable,
    wantsUsage: boolean,
    emptyChoice = EMPTY_DELTA,
  ) {
    super(options, table);
    this.walk.addsChoice = !wantsUsage;
    this.emptyChoice = emptyChoice;
  }

  override usage(): ToldUsage | null {
    const counts = this.usages.told;
    if (counts === null || this.textEvents === this.#textEventsTold) return counts;
    // it broke off before its last usage: this one counts less than was generated
    if (this.state !== 'done') return promptUsage(counts);
    return this.#textEventsTold === 0 ? { ...counts, completion: null } : counts; // told before the text
  }

  protected override readWhole(chunk: Buffer, i: number, room: number): number {
    if (this.events === 0) return 0; // the first event may need a model
    return super.readWhole(chunk, i, room);
  }

  protected override payloadOf(chunk: Buffer, i: number): number {
    return dataStart(chunk, i, chunk.length);
  }

  /** What has no choices may be no chunk: `readEvent` takes a closer look. */
  protected override isPlain(): boolean {
    return this.walk.hasResult;
  }

  /** An event with a finish_reason is no pattern: a match would not notice the reason. */
  protected override isRepeated(): boolean {
    return !this.walk.finished && this.walk.innerUsageStart < 0;
  }

  protected override noteEvent(b: Buffer): void {
    const { walk } = this;
    if (walk.finished) this.finished = this.#hasReason = true;
    else if (walk.generated > 0) this.finished = false;
    this.#noteUsage(b);
  }

  #noteUsage(b: Buffer): void {
    const { walk } = this;
    if (walk.innerUsageStart >= 0) this.#addUsage(b, walk.innerUsageStart, walk.innerUsageEnd);
    if (walk.usageStart >= 0) this.#addUsage(b, walk.usageStart, walk.usageEnd);
  }

  #addUsage(b: Buffer, start: number, end: number): void {
    if (!((this.usages.add(b, start, end, this.walk.pattern) ?? 0) > 0)) return;
    this.#textEventsTold = this.textEvents;
    if (this.walk.generated === 0) this.#textEventsCounted = this.textEvents;
  }

  protected override readEvent(): boolean {
    const { payload, start, end } = this.lines;
    if (this.name !== '') {
      // others are dropped
      this.failBy(`an error event: ${quoted(payload, start, end)}`, payload, start, end);
      return false;
    }
    if (this.#isDone()) {
      this.#finish();
      return false;
    }
    if (!this.readPayload()) return false;
    if (!this.walk.hasResult && !this.#isChunk(payload, start, end)) {
      this.#noteUsage(payload);
      return false;
    }
    this.note(payload, start, end);
    this.relayEvent(this.events === 1 && !this.walk.hasModel ? start + 1 : -1);
    return true;
  }

  /** A stream with a finish_reason is whole without [DONE], which is then added. [DONE] counts without its line ends. */
  protected override onClose(isCut: boolean): void {
    const { lines } = this;
    const isEmpty = lines.count === 0;
    if (!isEmpty) lines.join();
    if (isEmpty ? !isCut && this.finished : this.#isDone()) this.#finish();
    else if (isCut || !isEmpty) this.fail('closed inside an event');
    else this.fail('closed without [DONE] and without a finish_reason');
  }

  /** Whether an event without choices is one of the format, which has no types: it names itself, a model or a usage. */
  #isChunk(b: Buffer, start: number, end: number): boolean {
    const event = JSON.parse(b.toString('utf8', start, end)) as Readonly<Record<string, unknown>>;
    if (CHUNKS.includes(event.object)) return true;
    return (
      event.type === undefined &&
      ['choices', 'model', 'usage'].some((name) => Object.hasOwn(event, name))
    );
  }

  #isDone(): boolean {
    const { payload, start, end, count } = this.lines;
    if (count !== 1 || !startsWith(payload, start, end, DONE)) return false;
    return skipBlank(payload, start + DONE.length, end) === end;
  }

  #finish(): void {
    if (!this.#hasReason && this.#textEventsCounted !== this.textEvents)
      return this.fail('[DONE] without a finish_reason and without a usage behind all text');
    this.relay(DONE_EVENT, 0, DONE_EVENT.length);
    this.state = 'done';
  }

  protected override relayModel(): void {
    this.relay(MODEL_KEY, 0, MODEL_KEY.length);
    this.relay(this.slug, 0, this.slug.length);
    if (this.walk.kept > 0) this.relay(COMMA, 0, 1);
  }
}
