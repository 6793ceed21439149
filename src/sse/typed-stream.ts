import type { MemberTable } from '../json/member-table.ts';
import { readUsageMembers, type ToldUsage, usageMembers } from '../json/usage.ts';
import { DialectStream, type StreamOptions } from './dialect-stream.ts';
import { dataStart, eventNameEnd, quoted, startsWith } from './fields.ts';

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
}

/**
 * The event streams of responses and of messages. Each event has a type, in its data and nearly
 * always in an `event` line before it:
 *
 *   event: response.output_text.delta⏎data: {"type":"response.output_text.delta","delta":" Hello"}⏎⏎
 *
 * There is no [DONE]: a stream is whole once it has brought the last event of its dialect.
 */
export class TypedStream extends DialectStream {
  readonly #table: MemberTable;
  readonly #types: EventTypes;
  /** The members of the usage so far: later events replace those of earlier ones. */
  #usage: Readonly<Record<string, unknown>> = {};
  #isUsageWhole = false;

  constructor(options: StreamOptions, table: MemberTable, types: EventTypes) {
    super(options, table);
    this.#table = table;
    this.#types = types;
    this.keepsNames = true;
  }

  /** Until the usage is whole, its completion tokens are not those of the call. */
  override usage(): ToldUsage | null {
    const counts = readUsageMembers(this.#usage, this.#table.usage);
    if (counts === null || this.#isUsageWhole) return counts;
    return counts.prompt === null ? null : { prompt: counts.prompt, completion: null };
  }

  protected override readWhole(chunk: Buffer, i: number, room: number): number {
    const next = super.readWhole(chunk, i, room);
    if (next > 0 && this.#types.last.has(this.#typeOf(chunk))) this.state = 'done';
    return next;
  }

  protected override payloadOf(chunk: Buffer, i: number): number {
    const { length } = chunk;
    const line = eventNameEnd(chunk, i, length);
    return line < length ? dataStart(chunk, line, length) : -1;
  }

  protected override isPlain(b: Buffer): boolean {
    return !this.#types.failed.has(this.#typeOf(b));
  }

  protected override isRepeated(b: Buffer): boolean {
    const { typeStart, typeEnd } = this.walk;
    return typeStart >= 0 && startsWith(b, Math.max(typeStart, typeEnd - DELTA.length), typeEnd, DELTA);
  }

  protected override noteEvent(b: Buffer): void {
    const { walk } = this;
    this.#addUsage(b, walk.nested?.usageStart ?? -1, walk.nested?.usageEnd ?? -1);
    this.#addUsage(b, walk.usageStart, walk.usageEnd);
    if (walk.typeStart >= 0 && this.#types.usage.has(this.#typeOf(b))) this.#isUsageWhole = true;
  }

  protected override readEvent(): boolean {
    const { payload, start, end } = this.lines;
    if (startsWith(payload, start, end, DONE)) return false; // some routers end every stream so
    if (!this.readPayload()) return false;
    this.note(payload);
    const type = this.#typeOf(payload);
    if (this.#types.failed.has(type)) {
      this.fail(`an event of type ${type}: ${quoted(payload, start, end)}`);
      return false;
    }
    this.relayName();
    this.relayEvent(-1);
    if (this.#types.last.has(type)) this.state = 'done';
    return true;
  }

  protected override onClose(isCut: boolean): void {
    this.fail(isCut || this.lines.count > 0 ? 'closed inside an event' : 'closed without the last event');
  }

  /** The type of the event in the walk; '' where it has none, or was matched: such events are deltas. */
  #typeOf(b: Buffer): string {
    const { typeStart, typeEnd } = this.walk;
    return typeStart < 0 ? '' : b.toString('latin1', typeStart, typeEnd);
  }

  #addUsage(b: Buffer, start: number, end: number): void {
    if (start >= 0) this.#usage = { ...this.#usage, ...usageMembers(b.toString('latin1', start, end)) };
  }
}
