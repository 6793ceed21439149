import { performance } from 'node:perf_hooks';
import type { GatewayError } from '../domain/errors.ts';
import { type Generated, NOTHING_SEEN } from '../domain/estimate.ts';
import type { BookingWaiter } from '../domain/ports.ts';
import type { Admission } from '../domain/usage.ts';
import { type AnswerScan, scanAnswer } from '../json/answer.ts';
import { TextSample } from '../json/text-sample.ts';
import { type AnswerHead, type Lane, Stopped, type UpstreamHandler } from '../upstream/connection.ts';
import { brokenAnswer, connectionFailure, deadlineFailure, statusFailure } from '../upstream/failure.ts';
import type { CallMeter } from './call-meter.ts';
import type { Deadline, Watch } from './deadlines.ts';
import { isJson, KeptBody } from './kept-body.ts';
import { modelNames } from './model-names.ts';
import type { Reply } from './reply.ts';

const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
/**
 * Makes the client's body of the upstream's, as bytes or as latin1 text; null when it is not
 * the answer that was asked for.
 */
export type Render = (body: Buffer, scan: AnswerScan) => Buffer | string | null;

/**
 * One answer that is not streamed: kept whole, metered, rendered, sent in one write.
 *
 * Where the client left, the answer is awaited all the same, within the deadlines of every
 * call: until it is whole nothing of it is seen, and an estimate could only guess what was
 * generated, while waiting costs an idle connection. What never comes is booked by its prompt.
 */
export class JsonRelay implements UpstreamHandler, BookingWaiter {
  readonly #reply: Reply;
  readonly #admission: Admission;
  readonly #meter: CallMeter;
  readonly #render: Render;
  readonly #body = new KeptBody(MAX_ANSWER_BYTES);
  #lane: Lane | null = null;
  #status = 0;
  #json = false;
  #retryAfter: string | undefined;
  #rendered: Buffer | string | null = null;
  #clientGone = false;
  #settled = false;
  readonly #watch: Watch;

  constructor(reply: Reply, admission: Admission, meter: CallMeter, render: Render) {
    this.#reply = reply;
    this.#admission = admission;
    this.#meter = meter;
    this.#render = render;
    reply.watcher = this;
    this.#watch = meter.watch(reply.res, (deadline) => this.#onDeadline(deadline));
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
    this.#json = isJson(head);
    this.#retryAfter = head.retryAfter;
  }

  onData(bytes: Buffer, last: boolean): void {
    this.#watch.active = true;
    this.#body.push(bytes, last);
    if (!this.#body.overflown) return;
    this.#lane?.abort(this);
    this.onError(new Error('the answer is larger than the gateway keeps'));
  }

  onEnd(): void {
    if (this.#settled) return;
    this.#reply.endedAt = performance.now();
    const body = this.#body.bytes;
    if (this.#status !== 200) {
      this.#meter.upstreamFailed(`status ${this.#status}: ${body.toString('utf8', 0, 2000)}`);
      return this.#fail(
        statusFailure(this.#status, body, this.#retryAfter, this.#admission.model, this.#meter.secrets),
        null,
      );
    }
    const scan = this.#json ? scanAnswer(body, modelNames(this.#admission.model).slug) : null;
    const rendered = scan === null || scan.error ? null : this.#renderOrNull(body, scan);
    if (scan === null || rendered === null) {
      this.#meter.upstreamFailed('an answer of 200 that is not what was asked for');
      return this.#fail(brokenAnswer(), scan);
    }
    this.#end();
    this.#rendered = rendered;
    const outcome = this.#clientGone ? 'client_aborted' : 'completed';
    this.#meter.settle(outcome, scan.usage, new Whole(body, scan), this);
  }

  /** It is JSON, but an endpoint that looks into it may find something else than it asked for. */
  #renderOrNull(body: Buffer, scan: AnswerScan): Buffer | string | null {
    try {
      return this.#render(body, scan);
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof TypeError) return null;
      throw error;
    }
  }

  /** The record is safe: now the answer may leave. */
  onBooked(): void {
    this.#reply.json(200, this.#rendered as Buffer | string);
  }

  onError(error: Error): void {
    if (this.#settled) return;
    if (this.#clientGone && error instanceof Stopped) return this.#leave(); // that is no failure of the upstream
    this.#meter.upstreamFailed(error.message);
    this.#fail(connectionFailure(this.#lane !== null), null);
  }

  #onDeadline(deadline: Deadline): void {
    if (this.#settled) return;
    this.#meter.upstreamFailed(`too slow: ${deadline}`);
    if (this.#clientGone) return this.#leave();
    this.#fail(deadlineFailure(deadline), null);
    this.#lane?.abort(this);
  }

  #fail(error: GatewayError, scan: AnswerScan | null): void {
    this.#end();
    this.#meter.settle('upstream_failed', scan?.usage ?? null, NOTHING_SEEN, null);
    this.#reply.error(error);
  }

  onClientClose(): void {
    if (this.#settled || this.#reply.res.writableFinished) return this.#watch.close();
    this.#clientGone = true;
    if (this.#lane === null)
      this.#watch.close(); // onConnected gives up
    else if (!this.#watch.abandon()) this.#leave();
  }

  /** Enough was waited for. */
  #leave(): void {
    this.#end();
    this.#meter.settle('client_aborted', null, NOTHING_SEEN, null);
    this.#lane?.abort(this);
  }

  #end(): void {
    this.#settled = true;
    this.#watch.settled();
    if (this.#clientGone) this.#watch.close();
  }
}

/** The text of an answer that came whole. */
class Whole implements Generated {
  readonly textEvents = 0;
  readonly #body: Buffer;
  readonly #scan: AnswerScan;

  constructor(body: Buffer, scan: AnswerScan) {
    this.#body = body;
    this.#scan = scan;
  }

  get generatedBytes(): number {
    return this.#scan.generatedBytes;
  }

  /** Made when it is asked for, which is seldom: most upstreams tell their usage. */
  get sample(): TextSample {
    const { textStart, textEnd } = this.#scan;
    const sample = new TextSample();
    sample.add(this.#body, textStart, textEnd, textEnd - textStart);
    return sample;
  }
}
