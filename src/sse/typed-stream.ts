import { CR, decodeString, LF, LONG_STRING } from '../json/bytes.ts';
import type { MemberTable } from '../json/member-table.ts';
import { promptUsage, type ToldUsage } from '../json/usage.ts';
import { DialectStream, type StreamOptions } from './dialect-stream.ts';
import { dataStart, eventNameEnd, FAILURE, nameStart, quoted, startsWith } from './fields.ts';

const DELTA = Buffer.from('delta');
const DONE = Buffer.from('[DONE]');

/** What the types of events mean in a dialect. */
export interface EventTypes {
  /** The last event of a whole stream. */
  readonly last: ReadonlySet<string>;
  /** Breaks the stream. */
  readonly failed: ReadonlySet<string>;
  /** After this event the usage is that of the whole call. */
  readonly usage: ReadonlySet<string>;
  /** The types that the dialect has, those to come included: events of others are dropped. */
  readonly known: RegExp;
  /** What keeps a silent stream alive, where it is no comment. */
  readonly keepalive?: Buffer;
}

/**
 * The event streams of responses and of messages. Each event has a type, in its data and nearly
 * always in an `event` line before it:
 *
 *   event: response.output_text.delta⏎data: {"type":"response.output_text.delta","delta":" Hello"}⏎⏎
 *
 * A stream is whole once it has brought the last event of its dialect; a [DONE] behind it is dropped. An `event`
 * line that names another type than the data is dropped: it is none of the format. So is an event of a type that the
 * dialect does not have, or without one: providers put headers and limits of what is behind into events of their own.
 */
export class TypedStream extends DialectStream {
  readonly #types: EventTypes;
  #isUsageWhole = false;
  /** Where the `event` line of the event in the walk begins and ends; -1: it has none. */
  #nameLineStart = -1;
  #nameLineEnd = -1;

  constructor(options: StreamOptions, table: MemberTable, types: EventTypes) {
    super(options, table);
    this.#types = types;
    this.keepsNames = true;
  }

  /** Until the usage is whole, its completion tokens are not those of the call. */
  override usage(): ToldUsage | null {
    const counts = this.usages.told;
    return counts === null || this.#isUsageWhole ? counts : promptUsage(counts);
  }

  protected override get keepaliveEvent(): Buffer {
    return this.#types.keepalive ?? super.keepaliveEvent;
  }

  protected override payloadOf(chunk: Buffer, i: number): number {
    const { length } = chunk;
    const line = eventNameEnd(chunk, i, length);
    if (line >= length) return -1;
    this.#nameLineStart = line > i ? i : -1;
    this.#nameLineEnd = line;
    return dataStart(chunk, line, length);
  }

  /** The last event of a stream is never plain: `readEvent` writes its blank line itself. */
  protected override isPlain(b: Buffer): boolean {
    const { last } = this.#types;
    const type = this.#typeOf(b);
    return (
      this.#isNamedByType(b) && !last.has(type) && this.#isKnown(type) && !this.#isFailure(type)
    );
  }

  protected override isRepeated(b: Buffer): boolean {
    const { typeStart, typeEnd, nested } = this.walk;
    if (typeStart < 0 || nested !== null) return false;
    return startsWith(b, Math.max(typeStart, typeEnd - DELTA.length), typeEnd, DELTA);
  }

  protected override noteEvent(b: Buffer): void {
    const { walk } = this;
    const { nested } = walk;
    if (this.id === '' && nested !== null && nested.idStart >= 0)
      this.id = this.edited(b, nested.idStart, nested.idEnd);
    if (nested !== null && nested.usageStart >= 0)
      this.#addUsage(b, nested.usageStart, nested.usageEnd);
    if (walk.usageStart >= 0) this.#addUsage(b, walk.usageStart, walk.usageEnd);
  }

  protected override readEvent(): boolean {
    const { payload, start, end } = this.lines;
    if (startsWith(payload, start, end, DONE)) this.fail('[DONE] before the last event');
    else this.readPayload();
    if (this.state !== 'open') return false;
    const { last, failed } = this.#types;
    const type = this.#typeOf(payload);
    if (this.#isFailure(type) || failed.has(this.name) || FAILURE.test(this.name)) {
      this.noteEvent(payload);
      this.failBy(
        `an event of type ${type || this.name}: ${quoted(payload, start, end)}`,
        payload,
        start,
        end,
      );
      return false;
    }
    if (!this.#isKnown(type)) {
      this.noteEvent(payload);
      return false;
    }
    this.note(payload, start, end);
    if (this.name === type) this.relayName();
    this.relayEvent(-1);
    if (!last.has(type)) return true;
    this.#relayBlankLine();
    this.state = 'done';
    return false;
  }

  protected override onClose(isCut: boolean): void {
    this.fail(
      isCut || this.lines.count > 0 ? 'closed inside an event' : 'closed without the last event',
    );
  }

  /** Ends the last event as its data line ends: the second half of a CRLF would come too late. */
  #relayBlankLine(): void {
    const { buffer, offsets } = this.lines;
    this.relay(buffer, offsets.at(-2) as number, offsets.at(-1) as number);
  }

  /** The type of the event in the walk; '' where it has none, or was matched: such events are deltas. */
  #typeOf(b: Buffer): string {
    const { typeStart, typeEnd } = this.walk;
    if (typeStart < 0 || typeEnd - typeStart > LONG_STRING) return '';
    return decodeString(b, typeStart, typeEnd);
  }

  /** An object with an error is a failure too, and so is a type such as "server_error", which no dialect has. */
  #isFailure(type: string): boolean {
    const { nested } = this.walk;
    return (
      this.#types.failed.has(type) ||
      FAILURE.test(type) ||
      (nested !== null && nested.errorStart >= 0)
    );
  }

  /** Whether the dialect has the type of the event in the walk; one from which something is removed is none of it. */
  #isKnown(type: string): boolean {
    const { edits, editCount, typeStart, typeEnd } = this.walk;
    for (let k = 0; k < editCount; k += 3) {
      if ((edits[k] as number) >= typeStart && (edits[k + 1] as number) <= typeEnd) return false;
    }
    return this.#types.known.test(type);
  }

  /** Whether the event in the walk has no `event` line, or one that names the type of its data. */
  #isNamedByType(b: Buffer): boolean {
    if (this.#nameLineStart < 0) return true;
    const { typeStart, typeEnd } = this.walk;
    const length = typeEnd - typeStart;
    const name = nameStart(b, this.#nameLineStart, this.#nameLineEnd);
    const behind = b[name + length];
    if (typeStart < 0 || (behind !== LF && behind !== CR)) return false;
    for (let k = 0; k < length; k++) if (b[name + k] !== b[typeStart + k]) return false;
    return true;
  }

  /** A completion of 0 tokens beside text is none. */
  #addUsage(b: Buffer, start: number, end: number): void {
    const completion = this.usages.add(b, start, end, this.walk.pattern);
    if (completion === null || (completion === 0 && this.textEvents > 0)) return;
    if (this.#types.usage.has(this.#typeOf(b))) this.#isUsageWhole = true;
  }
}
