import type { ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { GatewayError } from '../domain/errors.ts';
import type { BookingWaiter } from '../domain/ports.ts';
import type { Admission, Outcome, Tokens } from '../domain/usage.ts';
import { scanAnswer } from '../json/answer.ts';
import { type FrameSink, StreamScanner } from '../sse/scanner.ts';
import type { AnswerHead, Lane, UpstreamHandler } from '../upstream/connection.ts';
import { brokenAnswer, connectionFailure, deadlineFailure, statusFailure } from '../upstream/failure.ts';
import type { CallMeter } from './call-meter.ts';
import type { Deadline, Watch } from './deadlines.ts';
import { isEventStream, KeptBody } from './kept-body.ts';
import { modelNames } from './model-names.ts';
import type { Reply } from './reply.ts';
import { Outflow } from './stream-writer.ts';

/** How much of an answer that is no stream is kept, for its reason or its usage. */
const MAX_REFUSAL_BYTES = 1024 * 1024;
/** After the client left or the stream was done: how long and how much is still read for the usage. */
const READ_ON_MS = 3000;
const READ_ON_BYTES = 256 * 1024;

/**
 * One streamed answer: upstream chunks in, patched events out (spec section 4.2,
 * "Streaming"). The scanner calls `bytes` with what may leave; all that one read of the
 * upstream's socket yields gathers and leaves in one write. A slow client pauses the
 * upstream; a client that left is noticed, and the upstream is read on for a bounded while
 * to learn what it charged.
 */
export class StreamRelay implements UpstreamHandler, FrameSink, BookingWaiter {
  readonly #reply: Reply;
  readonly #res: ServerResponse;
  readonly #admission: Admission;
  readonly #meter: CallMeter;
  readonly #scanner: StreamScanner;
  #lane: Lane | null = null;
  #refusal: KeptBody | null = null;
  #status = 0;
  #retryAfter: string | undefined;
  readonly #out: Outflow;
  #clientGone = false;
  #settled = false;
  #surplus = 0;
  #deadline: NodeJS.Timeout | null = null;
  readonly #watch: Watch;

  constructor(reply: Reply, admission: Admission, meter: CallMeter) {
    this.#reply = reply;
    this.#res = reply.res;
    this.#admission = admission;
    this.#meter = meter;
    this.#out = new Outflow(reply, meter.slabs, () => this.#onDrain());
    this.#scanner = new StreamScanner(modelNames(admission.model).slug, this, meter.maxEventBytes);
    reply.watcher = this;
    this.#watch = meter.watch(this.#res, (deadline) => this.#onDeadline(deadline));
    meter.metrics.openStreams++;
  }

  onConnected(lane: Lane): boolean {
    this.#watch.sent();
    if (this.#settled) return false; // it took too long
    if (this.#clientGone) {
      this.#settled = true; // nothing was sent, nothing ran
      this.#meter.drop();
      return false;
    }
    this.#lane = lane;
    return true;
  }

  onHead(head: AnswerHead): void {
    this.#status = head.status;
    this.#watch.answered();
    if (head.status === 200 && isEventStream(head)) return;
    this.#retryAfter = head.retryAfter;
    this.#refusal = new KeptBody(MAX_REFUSAL_BYTES);
  }

  onData(bytes: Buffer, last: boolean): void {
    this.#watch.active = true;
    if (this.#refusal !== null) return this.#refusal.push(bytes, last);
    if (this.#settled || this.#clientGone) this.#surplus += bytes.length;
    if (this.#settled) {
      if (this.#surplus > READ_ON_BYTES) this.#lane?.abort(this); // more after the end of the stream
      return;
    }
    this.#scanner.push(bytes);
    if (this.#scanner.state !== 'open') return this.#finish(last);
    if (this.#surplus > READ_ON_BYTES) return this.#leave();
    if (!this.#clientGone && !this.#out.flush()) this.#pause();
  }

  onEnd(): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    if (this.#settled) return;
    if (this.#refusal !== null) return this.#refuse();
    this.#scanner.end();
    this.#finish(true);
  }

  onError(error: Error): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    if (this.#settled) return;
    this.#meter.upstreamFailed(error.message);
    this.#fail(connectionFailure(this.#lane !== null));
  }

  #onDeadline(deadline: Deadline): void {
    if (this.#settled) return;
    this.#meter.upstreamFailed(`too slow: ${deadline}`);
    this.#fail(deadlineFailure(deadline));
  }

  /** Bytes that may leave, called by the scanner. */
  bytes(buffer: Buffer, start: number, end: number): void {
    if (!this.#clientGone && !this.#out.add(buffer, start, end)) this.#pause();
  }

  #pause(): void {
    this.#watch.paused = true;
    this.#lane?.pause(this);
  }

  #onDrain(): void {
    if (!this.#watch.paused) return;
    this.#watch.paused = false;
    this.#lane?.resume(this);
  }

  /** The scanner has seen the end: whole, or broken. The record is booked before the last bytes leave. */
  #finish(last: boolean): void {
    if (this.#scanner.state !== 'done') {
      this.#meter.upstreamFailed(`stream broken: ${this.#scanner.reason}`);
      return this.#fail(brokenAnswer());
    }
    if (!last) this.#readOn(); // the connection is used again if the answer ends by itself
    this.#settle(this.#clientGone ? 'client_aborted' : 'completed', this);
  }

  /** The record is safe: now the last bytes may leave. */
  onBooked(): void {
    if (!this.#clientGone) this.#out.end();
  }

  #fail(error: GatewayError, usage: Tokens | null = this.#scanner.usage()): void {
    this.#settle('upstream_failed', null, usage);
    this.#lane?.abort(this);
    if (this.#clientGone) return;
    // whole events that came before the failure, if only just, are the client's
    if (!this.#res.headersSent && this.#out.isEmpty) return this.#reply.error(error);
    const event = Buffer.from(`data: ${error.body}\n\n`);
    this.#out.add(event, 0, event.length);
    this.#out.end();
  }

  #refuse(): void {
    const body = (this.#refusal as KeptBody).bytes;
    this.#meter.upstreamFailed(`status ${this.#status}: ${body.toString('utf8', 0, 2000)}`);
    const { model } = this.#admission;
    if (this.#status !== 200) {
      return this.#fail(statusFailure(this.#status, body, this.#retryAfter, model, this.#meter.secrets));
    }
    // a whole JSON answer where a stream was asked for: no use to the client, but it ran
    this.#fail(brokenAnswer(), scanAnswer(body, modelNames(model).slug)?.usage ?? null);
  }

  #settle(outcome: Outcome, waiter: BookingWaiter | null, usage = this.#scanner.usage()): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#reply.endedAt = performance.now();
    this.#watch.settled();
    // a stream that broke after its client had left was left early all the same: what ran is charged
    if (this.#clientGone && this.#scanner.events > 0) outcome = 'client_aborted';
    this.#meter.settle(outcome, usage, this.#scanner, waiter);
  }

  onClientClose(): void {
    this.#watch.close();
    this.#meter.metrics.openStreams--;
    if (this.#settled || this.#res.writableFinished) return;
    this.#clientGone = true;
    this.#out.drop();
    if (this.#lane === null) return; // onConnected gives up
    this.#lane.resume(this);
    this.#readOn();
  }

  #readOn(): void {
    this.#deadline ??= setTimeout(() => this.#leave(), READ_ON_MS).unref();
  }

  /** Enough was read on. */
  #leave(): void {
    this.#settle('client_aborted', null);
    this.#lane?.abort(this);
  }
}
