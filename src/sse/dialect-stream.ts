import { isUtf8 } from 'node:buffer';
import { decodeString } from '../json/bytes.ts';
import type { Hidden } from '../json/hidden.ts';
import type { MemberTable } from '../json/member-table.ts';
import { ADD_CHOICE, ObjectWalk, REMOVE, REPLACE } from '../json/object-walk.ts';
import { TextSample } from '../json/text-sample.ts';
import { toldTier } from '../json/tier.ts';
import type { ToldUsage } from '../json/usage.ts';
import { EventPattern } from './event-pattern.ts';
import { blankLineEnd, isError, quoted, skipBlank } from './fields.ts';
import { EventScanner, type SpanSink } from './scanner.ts';
import { StreamUsage } from './stream-usage.ts';

/** What a model generates besides text: the name of a tool that it calls, sound, images, thoughts that nobody can read. */
const BEGINNING =
  /"(?:name|data|signature|encrypted_content|partial_image_b64|b64_json)"\s*:\s*"[^"]/;
const NOTHING = Buffer.alloc(0);

/** What a stream needs to know of its call. */
export interface StreamOptions {
  /** The slug as a JSON string, quotes included. */
  readonly slug: Buffer;
  readonly sink: SpanSink;
  /** A larger event breaks the stream. */
  readonly maxEventBytes: number;
  /** What no string but generated text may contain. */
  readonly hidden: Hidden | null;
}

/**
 * What the dialects of event streams share. Events whose data is a JSON object are relayed byte for byte, except that
 * the slug takes the place of the model and what clients must not see is removed. An error breaks the stream.
 */
export abstract class DialectStream extends EventScanner {
  /** Number of data events relayed. */
  events = 0;
  /** Number of events with generated text. */
  textEvents = 0;
  /** Bytes of generated text, as written in JSON. */
  generatedBytes = 0;
  /** Parts of the generated text, to estimate its tokens if the usage is missing. */
  readonly sample = new TextSample();
  /** Whether an event without text had something else that is generated. Events behind the first text are not looked at. */
  #begun = false;
  /** The id that the answer's events give it; empty: none did. */
  id = '';
  /** The service tier that the events told last; undefined: they tell none. */
  tier: string | undefined;
  protected readonly slug: Buffer;
  /** The choice that an event with the usage gets where it has none. */
  protected emptyChoice: Buffer = NOTHING;
  protected readonly walk: ObjectWalk;
  protected readonly usages: StreamUsage;
  readonly #pattern: EventPattern;

  constructor({ slug, sink, maxEventBytes, hidden }: StreamOptions, table: MemberTable) {
    super(sink, maxEventBytes);
    this.slug = slug;
    this.usages = new StreamUsage(table.usage);
    this.walk = new ObjectWalk(table, hidden);
    this.#pattern = new EventPattern(this.walk);
  }

  /** Whether the model generated anything, as far as the events show it: not by those that only announce the answer. */
  get hasBegun(): boolean {
    return this.textEvents > 0 || this.#begun;
  }

  /** The usage that the upstream told of the whole call; null if it did not, or cannot be read. */
  abstract usage(): ToldUsage | null;

  /** Where the payload begins, if the event whose first line begins at i has the usual form; otherwise -1. */
  protected abstract payloadOf(chunk: Buffer, i: number): number;

  /** Whether relaying the event in the walk needs nothing but its edits. */
  protected abstract isPlain(b: Buffer): boolean;

  /** Whether events like the one in the walk may follow. */
  protected abstract isRepeated(b: Buffer): boolean;

  /** Notes what the dialect needs of the event in the walk. */
  protected abstract noteEvent(b: Buffer): void;

  protected override readWhole(chunk: Buffer, i: number, room: number): number {
    let next = this.#pattern.match(chunk, i);
    const isMatched = next !== 0 && next - i <= room;
    if (!isMatched) {
      const { length } = chunk;
      const start = this.payloadOf(chunk, i);
      if (start < 0) return 0;
      const { walk } = this;
      walk.collecting = this.#pattern.isLearning;
      const end = walk.walk(chunk, start, length, false);
      if (end < 0 || end - i > room || this.#mayBeError() || !this.isPlain(chunk)) return 0;
      next = blankLineEnd(chunk, end);
      if (next === 0) return 0;
      if (this.isRepeated(chunk)) this.#pattern.learn(chunk, i, next);
    }
    if (!this.isKnownClean && !(isMatched && this.#pattern.isAscii(chunk))) {
      if (this.isSuspect && !isUtf8(chunk.subarray(i, next))) return 0;
    }
    this.note(chunk, i, next);
    this.#relayEdited(chunk, i, next);
    return next;
  }

  /** Reads the payload of the event in `lines`. @returns false if that broke the stream */
  protected readPayload(): boolean {
    const { walk } = this;
    const { payload, start, end, count } = this.lines;
    const next = walk.walk(payload, start, end, count > 1);
    if (next < 0 || skipBlank(payload, next, end) !== end) {
      this.failBy('an event that is not a JSON object', payload, start, end); // perhaps an array with an error
    } else if (this.isSuspect && !isUtf8(payload.subarray(start, end))) {
      this.fail('an event that is not UTF-8');
    } else if (walk.errorStart >= 0) {
      this.failBy(
        `an error in the stream: ${quoted(payload, walk.errorStart, walk.errorEnd)}`,
        payload,
        start,
        end,
      );
    } else if (this.#mayBeError() && isError(payload, start, end)) {
      this.failBy(`an error in the stream: ${quoted(payload, start, end)}`, payload, start, end);
    }
    return this.state === 'open';
  }

  /** Whether the event in the walk has an error, or lacks what those of its dialect have: choices, or a type. */
  #mayBeError(): boolean {
    const { errorStart, hasResult, typeStart } = this.walk;
    return errorStart >= 0 || !(hasResult || typeStart >= 0);
  }

  /** Notes what the event in the walk, [from, to), tells. */
  protected note(b: Buffer, from: number, to: number): void {
    const { walk } = this;
    this.events++;
    if (walk.generated > 0) {
      this.generatedBytes += walk.generated;
      this.textEvents++;
      if (this.generatedBytes > this.sample.due) {
        this.sample.add(b, walk.textStart, walk.textEnd, this.generatedBytes);
      }
    } else if (this.textEvents === 0 && !this.#begun) {
      this.#begun = walk.nested === null && BEGINNING.test(b.toString('latin1', from, to)); // what is nested repeats the request
    }
    const withTier = walk.nested === null || walk.nested.tierStart < 0 ? walk : walk.nested;
    if (withTier.tierStart >= 0) this.#noteTier(toldTier(withTier, b));
    this.noteEvent(b);
  }

  /** An event of a pattern that was learned tells nothing: with another tier, the pattern no longer counts. */
  #noteTier(tier: string | undefined): void {
    if (tier === undefined || tier === this.tier) return;
    this.tier = tier;
    this.#pattern.forget();
  }

  /** Relays the event in `lines`. @param insertAt where the payload gets a model; -1: nowhere */
  protected relayEvent(insertAt: number): void {
    const { payload, count, offsets } = this.lines;
    if (count > 1) return this.#relayLines(insertAt);
    let from = offsets[0] as number;
    if (insertAt >= 0) {
      this.relay(payload, from, insertAt);
      this.relayModel();
      from = insertAt;
    }
    this.#relayEdited(payload, from, offsets[3] as number);
  }

  /** Relays the model that an event lacks. */
  protected relayModel(): void {}

  /** The text of the string content [from, to) with the walk's edits. */
  protected edited(b: Buffer, from: number, to: number): string {
    const { edits, editCount } = this.walk;
    let text = '';
    for (let k = 0; k < editCount; k += 3) {
      const start = edits[k] as number;
      if (start < from || start >= to) continue;
      text += decodeString(b, from, start);
      if (edits[k + 2] !== REMOVE) text += JSON.parse(this.slug.toString());
      from = edits[k + 1] as number;
    }
    return text + decodeString(b, from, to);
  }

  /** Relays [from, to) with the walk's edits. */
  #relayEdited(b: Buffer, from: number, to: number): void {
    const { edits, editCount } = this.walk;
    for (let k = 0; k < editCount; k += 3) {
      this.relay(b, from, edits[k] as number);
      this.#relayInstead(edits[k + 2] as number);
      from = edits[k + 1] as number;
    }
    this.relay(b, from, to);
  }

  /** Relays several data lines with the walk's edits, which are in the joined payload. Line ends inside a removed span stay. */
  #relayLines(insertAt: number): void {
    const { edits, editCount } = this.walk;
    const { buffer, offsets } = this.lines;
    let joinedStart = 0;
    for (let k = 0; k < offsets.length; k += 4) {
      const shift = (offsets[k + 1] as number) - joinedStart;
      const joinedEnd = (offsets[k + 2] as number) - shift;
      let from = offsets[k] as number;
      if (insertAt >= joinedStart && insertAt <= joinedEnd) {
        this.relay(buffer, from, insertAt + shift);
        this.relayModel();
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
    if (kind === ADD_CHOICE) return this.relay(this.emptyChoice, 0, this.emptyChoice.length);
    const quotes = kind === REPLACE ? 0 : 1;
    this.relay(this.slug, quotes, this.slug.length - quotes);
  }
}
