import { performance } from 'node:perf_hooks';
import type { GatewayError } from '../../domain/errors.ts';
import type { BookingListener } from '../../domain/ports.ts';
import type { Outcome } from '../../domain/usage.ts';
import type { ResponseStream } from '../../http/exchange.ts';
import type { ToldUsage } from '../../json/usage.ts';
import type { DialectStream, StreamOptions } from '../../sse/dialect-stream.ts';
import type { SpanSink } from '../../sse/scanner.ts';
import {
  brokenAnswer,
  brokenStream,
  type Deadline,
  deadlineFailure,
  eventTooLarge,
} from '../../upstream/failure.ts';
import type { AnswerHead } from '../../upstream/upstream.ts';
import { addPacket } from '../request/fair-shares.ts';
import type { KeepaliveSource, KeptStream } from '../request/keepalive.ts';
import type { Reply } from '../request/reply.ts';
import { AnswerBody, isEventStream, MAX_FAILURE_BYTES } from './answer-body.ts';
import type { CallMeter } from './call-meter.ts';
import { hasGenerated, Relay } from './relay.ts';

/** How long an upstream may take to end its answer after the end of the stream. */
const END_MS = 3000;
/** How many bytes are still read in so long, after the client left or the stream ended. */
const READ_ON_BYTES = 256 * 1024;

/** A usage of which all is estimated. */
const UNTOLD: ToldUsage = { prompt: null, completion: null, details: null };

/** Makes the scanner of a stream in one dialect. */
export type OpenStream = (options: StreamOptions) => DialectStream;

/**
 * Relays one streamed answer: upstream chunks in, edited events out (spec section 4.2, "Streaming"). What one
 * read of the upstream's socket yields is sent in one write; a slow client pauses the upstream. When a client
 * leaves, the upstream is read on for a bounded while to learn what it charged.
 */
export class StreamRelay extends Relay implements SpanSink, KeepaliveSource {
  readonly #scanner: DialectStream;
  #out: ResponseStream;
  /** The same where it is kept alive; else null. */
  #kept: KeptStream | null = null;
  /** An answer that is not an event stream. */
  #whole: AnswerBody | null = null;
  /** Bytes read after the client left or the stream ended. */
  #surplus = 0;
  #readOnTimer: NodeJS.Timeout | null = null;

  /** @param open makes the reader of the stream's dialect */
  constructor(reply: Reply, meter: CallMeter, open: OpenStream) {
    super(reply, meter);
    this.#out = reply.stream(() => this.guarded(() => this.#onDrain()));
    const { slug, hidden } = meter.names;
    this.#scanner = open({ slug, sink: this, maxEventBytes: meter.maxEventBytes, hidden });
    meter.metrics.openStreams++;
  }

  override onHead(head: AnswerHead): void {
    super.onHead(head);
    const { keepalive } = this.meter;
    if (head.status !== 200 || !isEventStream(head))
      this.#whole = new AnswerBody(MAX_FAILURE_BYTES);
    else if (keepalive !== null && !this.clientGone && !this.settled) {
      this.#kept = keepalive.keep(this.#out, this.reply, this);
      this.#out = this.#kept;
    }
  }

  keepalive(): Buffer | null {
    return this.settled ? null : this.#scanner.keepalive();
  }

  onData(bytes: Buffer, last: boolean): void {
    this.watch.active = true;
    addPacket(this.meter.load, bytes.length);
    if (this.#whole !== null) {
      this.#whole.push(bytes, last);
      return this.#whole.overflown ? this.onEnd() : undefined;
    }
    if (this.settled || this.clientGone) this.#surplus += bytes.length;
    if (this.settled) {
      if (this.#surplus > READ_ON_BYTES) this.call?.abort(this); // the upstream goes on after the end of the stream
      return;
    }
    this.#scanner.push(bytes);
    if (this.#scanner.state !== 'open') return this.#finish(last);
    if (this.#surplus > READ_ON_BYTES && this.#surplus > this.#mostSurplus) return this.#leave();
    if (!this.clientGone && !this.#out.flush()) this.#pause();
  }

  onEnd(): void {
    this.#stopTimer();
    if (this.settled) return;
    if (this.#whole !== null) return this.fail(this.statusError(this.#whole.bytes)); // an error, or JSON in place of events
    this.#scanner.end();
    this.#finish(true);
  }

  onError(error: Error): void {
    this.#stopTimer();
    if (this.settled) return;
    this.fail(this.connectionError(error));
  }

  onDeadline(deadline: Deadline): void {
    // charged like a client that leaves: else one that reads slowly enough would pay for nothing it read
    if (deadline === 'reading') this.#settle('client_aborted', null);
    else if (deadline === 'stop') this.giveUp();
    else this.meter.upstreamFailed(`too slow: ${deadline}`);
    this.fail(deadlineFailure(deadline, this.call !== null), deadline === 'total');
  }

  /** Takes bytes that may be sent; called by the scanner. */
  bytes(buffer: Buffer, start: number, end: number): void {
    if (!this.clientGone && !this.#out.add(buffer, start, end)) this.#pause();
  }

  /** How many bytes are read after the client left. */
  get #mostSurplus(): number {
    return (READ_ON_BYTES * this.meter.readOnMs.streamed) / END_MS;
  }

  #pause(): void {
    this.watch.paused = true;
    this.call?.pause(this);
  }

  #onDrain(): void {
    this.#kept?.touch();
    if (!this.watch.paused) return;
    this.watch.paused = false;
    this.call?.resume(this);
  }

  /** The scanner has seen the end: whole, or broken. The record is booked before the last bytes are sent. */
  #finish(last: boolean): void {
    if (this.#scanner.state !== 'done')
      return this.fail(this.#brokenError(), this.#scanner.isTooLarge);
    if (!last) this.#readOn(END_MS); // an answer that ends by itself leaves its connection usable
    this.#settle(this.clientGone ? 'client_aborted' : 'completed', this);
  }

  #brokenError(): GatewayError {
    const { reason, told, isTooLarge } = this.#scanner;
    if (told !== null) return this.toldError(told, this.#ran, `stream broken: ${reason}`);
    this.meter.upstreamFailed(`stream broken: ${reason}`);
    if (isTooLarge) return eventTooLarge();
    return brokenAnswer();
  }

  /** Whether the model generated something. */
  get #ran(): boolean {
    return this.#scanner.hasBegun || hasGenerated(this.#scanner.usage());
  }

  /** The record is safe: now the last bytes may be sent. */
  onBooked(): void {
    if (!this.clientGone) this.#out.end();
  }

  /**
   * What the client sees fail costs nothing (spec sections 2.8 and 8, rule 3), unless it got generated text before, and
   * the upstream had told a usage or a limit of our own ended the call: a caller could reach that on purpose.
   * @param limited whether it was a limit of our own
   */
  protected fail(error: GatewayError, limited = false): void {
    const usage =
      this.#scanner.textEvents > 0 ? (this.#scanner.usage() ?? (limited ? UNTOLD : null)) : null;
    this.#settle('upstream_failed', null, usage);
    this.call?.abort(this);
    if (this.clientGone) return;
    const { reply } = this;
    const { events, id } = this.#scanner;
    const isByEvent = this.said !== '' && this.#whole === null && reply.errors.byEvent;
    // whole events that came before the failure still go to the client
    if (!reply.res.headersSent && this.#out.isEmpty && !isByEvent) return reply.error(error);
    const isFree = usage === null && !limited && events > 0;
    if (isFree && error.name === 'upstream_error') error = brokenStream(this.said !== '');
    reply.failure = error;
    const { requestId, at, model } = this.meter.admission;
    const event = Buffer.from(
      reply.errors.event(error, { requestId, at, events, model: model.slug, id }),
    );
    this.#out.add(event, 0, event.length);
    this.#out.end();
  }

  #settle(
    outcome: Outcome,
    listener: BookingListener | null,
    usage: ToldUsage | null = this.#scanner.usage(),
  ): void {
    if (this.settled) return;
    this.settled = true;
    this.reply.endedAt = performance.now();
    this.watch.settled();
    if (outcome === 'upstream_failed' && this.clientGone && this.#ran) {
      // the client left before the stream broke: what ran is charged
      outcome = 'client_aborted';
      usage ??= this.#scanner.usage();
    }
    this.meter.toldTier = this.#scanner.tier;
    this.meter.settle(outcome, usage, this.#scanner, listener);
  }

  onClientClose(): void {
    this.call?.leave(this);
    this.watch.close();
    this.#kept?.leave();
    this.meter.metrics.openStreams--;
    if (this.settled || this.reply.res.writableFinished) return;
    this.clientGone = true;
    this.#out.drop();
    if (this.call === null) return; // onConnected gives up
    const { streamed } = this.meter.readOnMs;
    if (streamed === 0) return this.guarded(() => this.#leave());
    this.call.resume(this);
    this.#readOn(streamed);
  }

  #readOn(ms: number): void {
    this.#readOnTimer ??= setTimeout(() => this.guarded(() => this.#leave()), ms).unref();
  }

  /** Stops reading for the usage. */
  #leave(): void {
    this.#settle('client_aborted', null);
    this.call?.abort(this);
  }

  #stopTimer(): void {
    if (this.#readOnTimer !== null) clearTimeout(this.#readOnTimer);
  }
}
