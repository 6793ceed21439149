import type { ServerResponse } from 'node:http';
import { scanAnswer } from '../bytes/answer.ts';
import { type FrameSink, StreamScanner } from '../bytes/sse.ts';
import type { GatewayError } from '../domain/errors.ts';
import type { BookingWaiter } from '../domain/ports.ts';
import type { Admission, Outcome, Tokens } from '../domain/usage.ts';
import { brokenAnswer, connectionFailure, deadlineFailure, statusFailure } from '../upstream/failure.ts';
import type { UpstreamController, UpstreamHandler } from '../upstream/pool.ts';
import type { Account } from './account.ts';
import type { Deadline, Watch } from './deadline.ts';
import { quoted } from './judge.ts';
import type { Reply } from './reply.ts';
import { isEventStream, KeptBody, type ResponseHeaders, retryAfterOf } from './upstream-answer.ts';

/** How much of an answer that is no stream is kept, for its reason or its usage. */
const MAX_REFUSAL_BYTES = 1024 * 1024;
/** After the client left or the stream was done: how long and how much is still read for the usage. */
const READ_ON_MS = 3000;
const READ_ON_BYTES = 256 * 1024;

/**
 * One streamed answer: upstream chunks in, patched events out (spec section 4.2,
 * "Streaming"). The scanner calls `bytes` with what may leave; all that one chunk yields
 * gathers in a slab and leaves in one write. A slow client pauses the upstream; a client
 * that left is noticed, and the upstream is read on for a bounded while to learn what it charged.
 *
 * The HTTP chunk is framed in the slab itself, with Node's own framing switched off: one
 * buffer and one write instead of four and a writev.
 *
 *   slab: …sent | 000012c CR LF | data: {…}⏎⏎ … | CR LF | free…
 *                ^ from         ^ from + HEAD   ^ to
 */
export class StreamRelay implements UpstreamHandler, FrameSink, BookingWaiter {
  readonly #reply: Reply;
  readonly #res: ServerResponse;
  readonly #admission: Admission;
  readonly #account: Account;
  readonly #scanner: StreamScanner;
  #controller: UpstreamController | null = null;
  #refusal: KeptBody | null = null;
  #status = 0;
  #retryAfter: string | undefined;
  #slab: Buffer = EMPTY;
  #from = 0;
  #to = HEAD;
  /** The client reads HTTP/1.1: chunks are framed. */
  #framed = true;
  #clientGone = false;
  #settled = false;
  #surplus = 0;
  #deadline: NodeJS.Timeout | null = null;
  readonly #watch: Watch;

  constructor(reply: Reply, admission: Admission, account: Account) {
    this.#reply = reply;
    this.#res = reply.res;
    this.#admission = admission;
    this.#account = account;
    this.#scanner = new StreamScanner(quoted(admission.model.slug), this, account.maxEventBytes);
    reply.watcher = this;
    this.#watch = account.watch(this.#res, (deadline) => this.#onDeadline(deadline));
    this.#res.on('drain', () => {
      this.#watch.paused = false;
      this.#controller?.resume();
    });
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller;
    this.#watch.sent();
    if (this.#settled) return controller.abort(new Error('the connection came too late'));
    if (this.#clientGone) {
      this.#settled = true; // nothing was sent, nothing ran
      this.#account.drop();
      controller.abort(new Error('the client left before the request was sent'));
    }
  }

  onResponseStart(_controller: UpstreamController, status: number, headers: ResponseHeaders): void {
    if (status < 200) return;
    this.#status = status;
    this.#watch.answered();
    if (status === 200 && isEventStream(headers)) return;
    this.#retryAfter = retryAfterOf(headers);
    this.#refusal = new KeptBody(MAX_REFUSAL_BYTES);
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.#watch.active = true;
    if (this.#refusal !== null) return this.#refusal.push(chunk);
    if (this.#settled || this.#clientGone) this.#surplus += chunk.length;
    if (this.#settled) {
      if (this.#surplus > READ_ON_BYTES) controller.abort(new Error('more after the end of the stream'));
      return;
    }
    this.#scanner.push(chunk);
    if (this.#scanner.state === 'open') {
      this.#flush(controller);
      if (this.#surplus > READ_ON_BYTES) this.#leave(controller);
    } else {
      this.#finish();
    }
  }

  onResponseEnd(): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    if (this.#settled) return;
    if (this.#refusal !== null) return this.#refuse();
    this.#scanner.end();
    this.#finish();
  }

  onResponseError(_controller: UpstreamController | null, error: Error): void {
    if (this.#deadline !== null) clearTimeout(this.#deadline);
    if (this.#settled) return;
    this.#account.upstreamFailed(error.message);
    this.#fail(connectionFailure(this.#controller !== null));
  }

  #onDeadline(deadline: Deadline): void {
    if (this.#settled) return;
    this.#account.upstreamFailed(`too slow: ${deadline}`);
    this.#fail(deadlineFailure(deadline));
  }

  /** Bytes that may leave, called by the scanner. Each byte of the slab is used once. */
  bytes(buffer: Buffer, start: number, end: number): void {
    const length = end - start;
    if (this.#to + length + TAIL > this.#slab.length) this.#grow(length);
    buffer.copy(this.#slab, this.#to, start, end);
    this.#to += length;
  }

  #grow(length: number): void {
    const waiting = this.#slab.subarray(this.#from + HEAD, this.#to);
    // below 4 KiB Node cuts it from a shared pool: the quickest way to a few events' room
    this.#slab = Buffer.allocUnsafe(Math.max(SLAB_BYTES, (HEAD + waiting.length + length + TAIL) * 2));
    waiting.copy(this.#slab, HEAD);
    this.#from = 0;
    this.#to = HEAD + waiting.length;
  }

  /** What gathered since the last write, framed; null when nothing did. */
  #gathered(last: boolean): Buffer | null {
    const slab = this.#slab;
    const length = this.#to - this.#from - HEAD;
    if (length <= 0) return last && this.#framed ? LAST_CHUNK : null;
    if (!this.#framed) {
      const bytes = slab.subarray(this.#from + HEAD, this.#to);
      this.#from = this.#to - HEAD;
      return bytes;
    }
    for (let digit = this.#from + HEAD - 3, rest = length; digit >= this.#from; digit--, rest >>>= 4) {
      slab[digit] = HEX.charCodeAt(rest & 15);
    }
    slab[this.#from + HEAD - 2] = slab[this.#to] = CR;
    slab[this.#from + HEAD - 1] = slab[this.#to + 1] = LF;
    let end = this.#to + 2;
    if (last) end += LAST_CHUNK.copy(slab, end);
    const bytes = slab.subarray(this.#from, end);
    this.#from = end;
    this.#to = end + HEAD;
    return bytes;
  }

  #flush(controller: UpstreamController): void {
    if (this.#clientGone) {
      this.#to = this.#from + HEAD; // read on for the usage alone
      return;
    }
    if (this.#to - this.#from <= HEAD) return;
    if (!this.#res.headersSent) this.#begin();
    const bytes = this.#gathered(false);
    if (bytes !== null && !this.#res.write(bytes)) {
      this.#watch.paused = true;
      controller.pause();
    }
  }

  /** Sends the head. */
  #begin(): void {
    this.#framed = this.#reply.stream();
  }

  /** The scanner has seen the end: whole, or broken. The record is booked before the last bytes leave. */
  #finish(): void {
    if (this.#scanner.state !== 'done') {
      this.#account.upstreamFailed(`stream broken: ${this.#scanner.reason}`);
      return this.#fail(brokenAnswer());
    }
    this.#readOn(); // the upstream may close by itself; its connection is then used again
    this.#settle(this.#clientGone ? 'client_aborted' : 'completed', this);
  }

  /** The record is safe: now the last bytes may leave. */
  onBooked(): void {
    if (this.#clientGone) return;
    if (!this.#res.headersSent) this.#begin();
    this.#res.end(this.#gathered(true));
  }

  #fail(error: GatewayError, usage: Tokens | null = this.#scanner.usage()): void {
    this.#settle('upstream_failed', null, usage);
    this.#controller?.abort(error);
    if (this.#clientGone) return;
    if (!this.#res.headersSent) {
      if (this.#to - this.#from <= HEAD) return this.#reply.error(error);
      this.#begin(); // whole events came before the failure, if only just: they are the client's
    }
    const event = Buffer.from(`data: ${error.body}\n\n`);
    this.bytes(event, 0, event.length);
    this.#res.end(this.#gathered(true));
  }

  #refuse(): void {
    const body = (this.#refusal as KeptBody).bytes;
    this.#account.upstreamFailed(`status ${this.#status}: ${body.toString('utf8', 0, 2000)}`);
    const { model } = this.#admission;
    if (this.#status !== 200) {
      return this.#fail(statusFailure(this.#status, body, this.#retryAfter, model, this.#account.secrets));
    }
    // a whole JSON answer where a stream was asked for: no use to the client, but it ran
    this.#fail(brokenAnswer(), scanAnswer(body, model.slug)?.usage ?? null);
  }

  #settle(outcome: Outcome, waiter: BookingWaiter | null, usage = this.#scanner.usage()): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#watch.settled();
    const { events, generatedBytes } = this.#scanner;
    // a stream that broke after its client had left was left early all the same: what ran is charged
    if (this.#clientGone && events > 0) outcome = 'client_aborted';
    this.#account.settle(outcome, usage, events, generatedBytes, waiter);
  }

  onClientClose(): void {
    this.#watch.close();
    if (this.#settled || this.#res.writableFinished) return;
    this.#clientGone = true;
    this.#controller?.resume();
    if (this.#controller !== null) this.#readOn(); // else onRequestStart aborts
  }

  #readOn(): void {
    this.#deadline ??= setTimeout(() => this.#leave(this.#controller as UpstreamController), READ_ON_MS).unref();
  }

  /** Enough was read on. */
  #leave(controller: UpstreamController): void {
    this.#settle('client_aborted', null);
    controller.abort(new Error('the client left'));
  }
}

const EMPTY = Buffer.alloc(0);
/** Room for a chunk's head (seven hex digits, CR LF: up to 256 MiB) and for all that may follow its data. */
const HEAD = 9;
const TAIL = 7;
const SLAB_BYTES = 4000;
const HEX = '0123456789abcdef';
const CR = 0x0d;
const LF = 0x0a;
const LAST_CHUNK = Buffer.from('0\r\n\r\n');
